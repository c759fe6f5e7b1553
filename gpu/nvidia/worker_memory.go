package nvidia

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// vram is device memory in a worker. The driver maps and unmaps whole allocations only, and most memory is mapped as a
// whole: so it is a few large allocations, until a part of it is mapped or unmapped (divide), and an allocation for
// each page from then on.
type vram struct {
	chunks []chunk  // in order
	zeroed []bool   // of each page
	placed []placed // where it is mapped, each a row of whole chunks
}

// chunk is an allocation.
type chunk struct {
	handle uint64
	pages  int
}

// placed is a mapping of pages.
type placed struct {
	va       uint64
	first, n int // pages
	access   int32
}

func (p *placed) size() uint64 { return uint64(p.n) * vramPage }

// chunkPages is how many pages an allocation has at most: each costs some 100 us to make and to free, because the
// keeper looks at both.
var chunkPages = 32 // tests change it

// scratchBytes is the room for two chunks.
func scratchBytes() uint64 { return 2 * uint64(chunkPages) * vramPage }

// deviceAccess says that the worker's GPU may access memory, and how.
func (w *worker) deviceAccess(access int32) *accessDesc {
	return &accessDesc{locationKind: locationDevice, location: w.device, access: access}
}

// allocate makes a memory. Pages that are cleared already have contents, which stay. Single asks for an allocation for
// each page, as a keeper that keeps them needs it.
func (w *worker) allocate(q *request) error {
	most := chunkPages
	if q.Single {
		most = 1
	}
	n, location := int(q.Size/vramPage), w.device
	if q.Peer > 0 {
		if q.Peer > len(w.peers) || w.peers[q.Peer-1] < 0 {
			return fmt.Errorf("no GPU %d that this one reaches", q.Peer)
		}
		location = w.peers[q.Peer-1]
	}
	chunks, err := w.makeChunks(n, most, location)
	if err != nil {
		return err
	}
	m := &vram{chunks: chunks, zeroed: make([]bool, n)}
	copy(m.zeroed, q.Cleared)
	w.memories[q.ID] = m
	return nil
}

// makeChunks allocates n pages of a GPU.
func (w *worker) makeChunks(n, most int, device int32) (chunks []chunk, err error) {
	prop := &allocationProp{kind: allocationPinned, locationKind: locationDevice, location: device}
	for n > 0 {
		p := chunk{pages: min(n, most)}
		if err := w.drv.check("cuMemCreate", w.drv.memCreate(&p.handle, uint64(p.pages)*vramPage, prop, 0)); err != nil {
			w.free(chunks)
			return nil, err
		}
		chunks, n = append(chunks, p), n-p.pages
	}
	return chunks, nil
}

// free gives handles back; memory that is mapped goes with its last mapping.
func (w *worker) free(chunks []chunk) {
	for _, p := range chunks {
		w.drv.memRelease(p.handle) // of our own handle
	}
}

func (w *worker) release(id uint64) error {
	if m := w.memories[id]; m != nil {
		w.free(m.chunks)
		delete(w.memories, id)
	}
	return nil
}

// mapVRAM maps pages, and clears those that are mapped for the first time: the
// driver promises nothing about what is in them.
func (w *worker) mapVRAM(q *request) error {
	m := w.memories[q.ID]
	if m == nil {
		return fmt.Errorf("no memory %d", q.ID)
	}
	at := placed{va: q.VA, first: int(q.Off / vramPage), n: int(q.Size / vramPage), access: accessRead}
	if q.Write {
		at.access = accessReadWrite
	}
	if !m.cut(at.first, at.n) {
		if err := w.divide(m); err != nil {
			return err
		}
	}
	if err := w.place(m.chunks, at); err != nil {
		return err
	}
	if err := w.mapped(q, m.zeroed[at.first:at.first+at.n], at.access); err != nil {
		w.drv.memUnmap(at.va, at.size()) // the first error is the one to tell
		return err
	}
	m.placed = append(m.placed, at)
	w.at[at.va] = m
	return nil
}

// place maps the chunks that hold pages, none of which is to be cut.
func (w *worker) place(chunks []chunk, at placed) error {
	page, va := 0, at.va
	for _, p := range chunks {
		if page >= at.first && page < at.first+at.n {
			if err := w.drv.check("cuMemMap", w.drv.memMap(va, uint64(p.pages)*vramPage, 0, p.handle, 0)); err != nil {
				if va > at.va {
					w.drv.memUnmap(at.va, va-at.va) // the first error is the one to tell
				}
				return err
			}
			va += uint64(p.pages) * vramPage
		}
		page += p.pages
	}
	return nil
}

// mapped gives access to pages that are mapped.
func (w *worker) mapped(q *request, zeroed []bool, access int32) error {
	dirty := false
	for _, z := range zeroed {
		dirty = dirty || !z
	}
	if dirty {
		if err := w.access(q.VA, q.Size, accessReadWrite); err != nil {
			return err
		}
		if err := w.clear(q.VA, zeroed); err != nil {
			return err
		}
		if q.Write {
			return nil
		}
	}
	return w.access(q.VA, q.Size, access)
}

func (w *worker) access(va, size uint64, access int32) error {
	return w.drv.check("cuMemSetAccess", w.drv.memSetAccess(va, size, w.deviceAccess(access), 1))
}

// clear zeroes the pages that were not yet.
func (w *worker) clear(va uint64, zeroed []bool) error {
	for i := 0; i < len(zeroed); i++ {
		first := i
		for i < len(zeroed) && !zeroed[i] {
			i++
		}
		if n := uint64(i - first); n > 0 {
			at := va + uint64(first)*vramPage
			if err := w.drv.check("cuMemsetD32Async", w.drv.memsetD32Async(at, 0, n*vramPage/4, w.control)); err != nil {
				return err
			}
		}
	}
	if err := w.drv.check("cuStreamSynchronize", w.drv.streamSynchronize(w.control)); err != nil {
		return err
	}
	for i := range zeroed {
		zeroed[i] = true
	}
	return nil
}

// reserve takes a range of addresses in which nothing may be accessed.
func reserve(va, size uint64) error {
	const mapFixedNoreplace = 0x100000 // MAP_FIXED_NOREPLACE of linux/mman.h
	err := mmapAt(va, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|mapFixedNoreplace, -1, 0)
	if errors.Is(err, unix.EEXIST) {
		return taken(err)
	}
	return err
}

// taken is the error of a window that something else lies in, by chance.
func taken(err error) error {
	return &driverError{Call: "windows", Code: resultTaken, Name: err.Error()}
}

// mmapAt maps at an address of our choice.
func mmapAt(va, size uint64, prot, flags, fd int, off uint64) error {
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(va), uintptr(size), uintptr(prot), uintptr(flags), uintptr(fd), uintptr(off))
	if errno != 0 {
		return fmt.Errorf("mapping %d bytes at %#x: %w", size, va, os.NewSyscallError("mmap", errno))
	}
	if uint64(at) != va {
		return fmt.Errorf("mapping %d bytes at %#x: they came at %#x", size, va, at)
	}
	return nil
}

// hide makes a part of the system window inaccessible again.
func hide(va, size uint64) error {
	return mmapAt(va, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED, -1, 0)
}

// mapSystem maps pieces of files side by side and registers them: the address of
// registered memory is the same for the GPU and for the process.
func (w *worker) mapSystem(q *request, fds []int) error {
	prot, flags := unix.PROT_READ|unix.PROT_WRITE, uint32(registerDeviceMap)
	if !q.Write && w.readOnly {
		prot, flags = unix.PROT_READ, registerDeviceMap|registerReadOnly
	}
	at := q.VA
	for _, r := range q.Runs {
		if r.File < 0 || r.File >= len(fds) {
			return fmt.Errorf("no descriptor %d", r.File)
		}
		if err := mmapAt(at, r.Len, prot, unix.MAP_SHARED|unix.MAP_FIXED, fds[r.File], r.Off); err != nil {
			_ = hide(q.VA, q.Size) // the first error is the one to tell
			return err
		}
		at += r.Len
	}
	if err := w.drv.check("cuMemHostRegister", w.drv.memHostRegister(uintptr(q.VA), q.Size, flags)); err != nil {
		_ = hide(q.VA, q.Size)
		return err
	}
	var device uint64
	err := w.drv.check("cuMemHostGetDevicePointer", w.drv.memHostGetDevicePointer(&device, uintptr(q.VA), 0))
	if err == nil && device != q.VA {
		err = &driverError{Call: "cuMemHostGetDevicePointer", Code: resultUnknown, Name: fmt.Sprintf("memory at %#x is at %#x for the GPU", q.VA, device)}
	}
	if err != nil {
		_ = w.unmapSystem(q.VA, q.Size)
	}
	return err
}

func (w *worker) unmapSystem(va, size uint64) error {
	if err := w.drv.check("cuMemHostUnregister", w.drv.memHostUnregister(uintptr(va))); err != nil {
		return err
	}
	return hide(va, size)
}
