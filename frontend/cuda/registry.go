package cuda

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// HostPages changes what lies under addresses of the program. Implementations must allow calls from
// any goroutine.
type HostPages interface {
	// Available is nil if Place and Restore can work in this process.
	Available() error
	// Mappings returns all that the program has mapped, in order.
	Mappings() ([]HostMapping, error)
	// Place maps a file at [addr, addr+len(mem)), from an offset on, in the place of private or shared
	// memory, and copies its contents to mem, another mapping of the same part of the file. No write of
	// the program is lost.
	Place(addr uint64, fd int, off uint64, mem []byte) error
	// Restore puts private memory with the same contents in the place of [addr, addr+n).
	Restore(addr, n uint64) error
	// Open opens the file of a mapping, for reading and writing.
	Open(m HostMapping) (fd int, err error)
	// Children sets what a child of fork gets private copies of: the mappings of files, but for those
	// in own.
	Children(files []HostFile, own []HostRange) error
}

// HostFile names a file that is mapped: its device and inode.
type HostFile struct{ Major, Minor, Inode uint64 }

// HostRange is [Start, End) of the program's addresses.
type HostRange struct{ Start, End uint64 }

// HostMapping is one mapping of the program.
type HostMapping struct {
	HostRange
	File   HostFile // zero: none
	Offset uint64   // in the file
	Name   string   // its path, if that is known

	Readable, Writable, Shared bool

	Odd string // why private memory cannot be replaced, if so
}

// registry is the memory of the program that the device reaches by registration. Shared pages take
// the place of the program's own, each piece of them an object that contexts open. Of memory that the
// program shares with others already, the object is its file. It is one for all
// contexts, since registrations may have pages in common.
type registry struct {
	mu    sync.Mutex
	pages HostPages // nil: nothing is replaced
	files map[HostFile]*hostFile
}

// hostFile is shared memory that lies under addresses of the program.
type hostFile struct {
	id     HostFile
	fd     int
	first  uint64 // the offset that a mapping of its beginning has, other than 0 with some drivers
	stays  bool   // nothing can take its place while the program may write to it
	shared bool   // it is the program's own file, which stays where it is
	opened map[*Context]*openedFile
}

// openedFile is the object of a context.
type openedFile struct {
	handle uint32
	mem    []byte // the library's own mapping
	uses   int    // by registrations
}

// hostPiece is a part of a registration that lies in one file.
type hostPiece struct {
	file         *hostFile
	addr, n, off uint64 // in the program; in the file
}

const (
	hostPage = 4096
	// hostFileBytes bounds the pages that are replaced at once, for which writers wait.
	hostFileBytes = 64 << 20
)

// SetHostPages enables RegisterHost. It is to be called before a context is made.
func (d *Driver) SetHostPages(p HostPages) { d.registry.pages = p }

// RegistersHost is nil if memory of the program can be registered for kernels.
func (d *Driver) RegistersHost() error {
	if d.registry.pages == nil {
		return errorf("cuMemHostRegister", ErrNotSupported, "this program has pages that cannot be replaced")
	}
	return d.registry.pages.Available()
}

// RegistersHost is the device's answer to whether memory of the program can be registered for kernels: 1 or 0.
func (dev *Device) RegistersHost() int {
	if dev.driver.RegistersHost() != nil {
		return 0
	}
	return 1
}

// pieces returns what makes up [start, end), after it has replaced what is the program's own. Where it
// fails, it returns what it has. R.mu is held.
func (r *registry) pieces(c *Context, start, end, stack uint64) (all []hostPiece, err error) {
	maps, err := r.pages.Mappings()
	if err != nil {
		return nil, err
	}
	var own []HostRange
	at, replaces := start, r.pages.Available()
	for _, m := range maps {
		if m.End <= at || m.Start >= end {
			continue
		}
		if m.Start > at {
			break
		}
		to := min(m.End, end)
		switch {
		case m.Shared:
			file, err := r.fileAt(m)
			if err != nil {
				return nil, fmt.Errorf("0x%x is in memory that is shared already: %w", at, err)
			}
			all = append(all, hostPiece{file: file, addr: at, n: to - at, off: m.Offset - file.first + at - m.Start})
		case replaces != nil:
			return nil, replaces
		case m.Odd != "":
			return nil, fmt.Errorf("0x%x is in %s", at, m.Odd)
		case stack >= m.Start && stack < m.End:
			return nil, fmt.Errorf("0x%x is in a stack", at)
		default:
			own = append(own, HostRange{at, to})
		}
		at = to
	}
	if at < end {
		return nil, fmt.Errorf("nothing is mapped at 0x%x", at)
	}
	for i, p := range all {
		o, err := p.file.open(c)
		if err != nil {
			return all[:i], err
		}
		if size := uint64(len(o.mem)); p.off > size || p.n > size-p.off {
			return all[:i+1], fmt.Errorf("0x%x is at %d of a file that had %d bytes when it was registered first", p.addr, p.off, size)
		}
	}
	for _, o := range own {
		for at := o.Start; at < o.End; at += hostFileBytes {
			p, err := r.replace(c, at, min(o.End-at, hostFileBytes))
			if err != nil {
				return all, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// fileAt returns the file of a shared mapping. R.mu is held.
func (r *registry) fileAt(m HostMapping) (*hostFile, error) {
	if f := r.files[m.File]; f != nil {
		return f, nil
	}
	fd, err := r.pages.Open(m)
	if err != nil {
		return nil, err
	}
	f := &hostFile{id: m.File, fd: fd, shared: true, opened: map[*Context]*openedFile{}}
	r.add(f)
	return f, nil
}

func (r *registry) add(f *hostFile) {
	if r.files == nil {
		r.files = map[HostFile]*hostFile{}
	}
	r.files[f.id] = f
}

// open returns the object of a context, with one more use. Registry.mu is held.
func (f *hostFile) open(c *Context) (*openedFile, error) {
	o := f.opened[c]
	if o == nil {
		handle, err := c.file.(lender).PrimeImport(f.fd)
		if err != nil {
			return nil, err
		}
		if o, err = f.opens(c, handle); err != nil {
			return nil, errors.Join(err, c.file.GemClose(handle))
		}
	}
	o.uses++
	return o, nil
}

func (f *hostFile) opens(c *Context, handle uint32) (*openedFile, error) {
	mem, err := c.file.GemMap(handle)
	if err != nil {
		return nil, err
	}
	o := &openedFile{handle: handle, mem: mem}
	f.opened[c] = o
	return o, nil
}

// replace puts a new object in the place of private memory. R.mu is held.
func (r *registry) replace(c *Context, addr, n uint64) (p hostPiece, err error) {
	handle, err := c.file.GemNew(n, drm.DomainSystem, drm.GemDirty)
	if err != nil {
		return p, err
	}
	fd, err := c.file.(lender).PrimeExport(handle)
	if err != nil {
		return p, errors.Join(err, c.file.GemClose(handle))
	}
	f := &hostFile{fd: fd, opened: map[*Context]*openedFile{}}
	f.id, err = fileOf(fd)
	var o *openedFile
	if err == nil {
		o, err = f.opens(c, handle)
	}
	if err != nil {
		return p, errors.Join(err, unix.Close(fd), c.file.GemClose(handle))
	}
	// Where it is sealed it is a memfd, whose mappings can hold writers off.
	_, unsealed := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	f.stays = unsealed != nil
	r.add(f)
	o.uses++
	p = hostPiece{file: f, addr: addr, n: n}
	// Children first: one that is made from now on must not share the pages.
	if err = r.children(); err == nil {
		err = r.pages.Place(addr, fd, 0, o.mem[:n])
	}
	if err == nil && f.stays {
		err = r.begins(f, addr)
	}
	if err != nil {
		return p, errors.Join(err, r.close(c, p))
	}
	return p, nil
}

// begins finds the offset that the beginning of a file has, which is mapped at addr. R.mu is held.
func (r *registry) begins(f *hostFile, addr uint64) error {
	maps, err := r.pages.Mappings()
	for _, m := range maps {
		if m.File == f.id && m.Start <= addr && addr < m.End {
			f.first = m.Offset + addr - m.Start
			return nil
		}
	}
	return errors.Join(fmt.Errorf("0x%x was unmapped meanwhile", addr), err)
}

// fileOf names the file of a descriptor.
func fileOf(fd int) (HostFile, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return HostFile{}, err
	}
	return HostFile{Major: uint64(unix.Major(st.Dev)), Minor: uint64(unix.Minor(st.Dev)), Inode: st.Ino}, nil
}

// children tells what children of fork copy. R.mu is held.
func (r *registry) children() error {
	var files []HostFile
	var own []HostRange
	for id, f := range r.files {
		if f.shared { // with children, too
			continue
		}
		files = append(files, id)
		for _, o := range f.opened {
			at := hostAddress(o.mem)
			own = append(own, HostRange{at, at + uint64(len(o.mem))})
		}
	}
	return r.pages.Children(files, own)
}

// close ends a use of a file by a context. The last one of all gives the program pages of its own
// again, where that is possible; else the shared ones stay for as long as the program has them mapped.
// R.mu is held.
func (r *registry) close(c *Context, p hostPiece) (err error) {
	f := p.file
	if o := f.opened[c]; o != nil {
		if o.uses--; o.uses == 0 {
			err = c.unlessLost("cuMemHostUnregister", c.file.GemClose(o.handle))
			delete(f.opened, c)
		}
	}
	if len(f.opened) > 0 {
		return err
	}
	left, rerr := r.restore(f)
	if !left {
		delete(r.files, f.id)
		rerr = errors.Join(rerr, unix.Close(f.fd))
	}
	return errors.Join(err, rerr, r.children())
}

// restore replaces what the program has mapped of a file, and reports whether something is left of it.
// R.mu is held.
func (r *registry) restore(f *hostFile) (left bool, err error) {
	if f.shared {
		return false, nil
	}
	maps, err := r.pages.Mappings()
	if err != nil {
		return true, err
	}
	for _, m := range maps {
		if !m.Shared || m.File != f.id {
			continue
		}
		if f.stays {
			return true, nil
		}
		for at := m.Start; at < m.End; at += hostFileBytes {
			if err := r.pages.Restore(at, min(m.End-at, hostFileBytes)); err != nil {
				return true, fmt.Errorf("0x%x stays in shared pages: %w", at, err)
			}
		}
	}
	return false, nil
}

// prune forgets pages that stayed, and which the program has unmapped since. R.mu is held.
func (r *registry) prune() (err error) {
	for id, f := range r.files {
		if len(f.opened) > 0 {
			continue
		}
		left, lerr := r.restore(f)
		if err = errors.Join(err, lerr); !left {
			delete(r.files, id)
			err = errors.Join(err, unix.Close(f.fd))
		}
	}
	return err
}
