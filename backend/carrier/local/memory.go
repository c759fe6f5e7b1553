package local

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"pvdrm/backend/file"
	"pvdrm/backend/session"
	"pvdrm/gem/quota"
	"pvdrm/internal/hostmem"
)

// ErrNotGrantable says that a descriptor is of nothing that a client may grant.
var ErrNotGrantable = errors.New("no writable memfd or file of tmpfs")

// ErrUnsealed says that memory is of a file that may shrink.
var ErrUnsealed = errors.New("not a memfd that is sealed (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL)")

// Seals of granted memory: its size stays as it is, and no later seal can forbid the backend to
// map or write it.
const (
	wantSeals   = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	refuseSeals = unix.F_SEAL_WRITE | unix.F_SEAL_FUTURE_WRITE
)

// memory is granted memory: a memfd that a client made, or a file of tmpfs that processes of the
// guest share. There is one for each, however many clients and sessions use it. A file that is not
// sealed may be cut at any time: only the device touches its pages then, for which to find them gone
// is a fault of the context that wanted them.
//
// It is charged to the guest's quota quota.Granted before it is mapped, until no client and no
// session uses it any more. Its size pays for objects of as many bytes in it: see Pay.
type memory struct {
	region   *hostmem.Region
	server   *Server
	key      inode
	unsealed bool

	// Guarded by Server.mu.
	users int // clients that have it
	refs  int // clients and sessions that use it

	mu      sync.Mutex
	objects uint64 // bytes of all objects in it
}

// inode names a file, which several may hold a descriptor of, at a size in bytes: one that has grown
// is other memory.
type inode struct{ dev, ino, size uint64 }

// examine checks that fd may be granted, and reports whether its file may shrink. A descriptor may be
// of anything: the seals come first, because only files of tmpfs and huge pages have such, and on those
// of some other file systems fstat waits for as long as a process of the client's likes.
func examine(fd int) (key inode, unsealed bool, err error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return key, false, fmt.Errorf("%w: %w: %w", unix.EINVAL, ErrNotGrantable, err)
	}
	if seals&refuseSeals != 0 {
		return key, false, fmt.Errorf("seals %#x: %w: %w", seals, ErrNotGrantable, unix.EINVAL)
	}
	unsealed = seals&wantSeals != wantSeals
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return key, false, fmt.Errorf("granted memory: %w", os.NewSyscallError("fstatfs", err))
	}
	// To touch a huge page that the host does not have would end this process.
	if fs.Type != unix.TMPFS_MAGIC {
		return key, false, fmt.Errorf("file system %#x: %w: %w", fs.Type, ErrNotGrantable, unix.EINVAL)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return key, false, fmt.Errorf("granted memory: %w", os.NewSyscallError("fstat", err))
	}
	size := uint64(st.Size)
	if unsealed { // its last page is mapped as a whole, as it is for the program
		size = (size + hostmem.PageSize - 1) &^ (hostmem.PageSize - 1)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size <= 0 || size%hostmem.PageSize != 0 {
		return key, false, fmt.Errorf("%d bytes of granted memory, want whole pages of a file: %w", st.Size, unix.EINVAL)
	}
	return inode{dev: uint64(st.Dev), ino: st.Ino, size: size}, unsealed, nil
}

// grant returns the memory that fd is a descriptor of, for one more client. Having a descriptor
// is the right to use it: so processes of one guest share memory.
func (s *Server) grant(fd int) (*memory, error) {
	key, unsealed, err := examine(fd)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.memory[key]
	if m == nil {
		if m, err = s.newMemory(fd, key, unsealed); err != nil {
			return nil, err
		}
		s.memory[key] = m
		if s.cfg.Attach == nil && !unsealed { // sessions copy to and from all of it
			s.populator.add(m)
		}
	}
	m.users++
	m.refs++
	return m, nil
}

// newMemory charges and then maps memory that is new to this process. Precondition: s.mu is held.
func (s *Server) newMemory(fd int, key inode, unsealed bool) (*memory, error) {
	size := key.size
	if len(s.memory) >= s.maxMemories {
		return nil, fmt.Errorf("clients have granted %d pieces of memory, which is as many as there are descriptors for (see ulimit -n): %w", s.maxMemories, unix.ENOSPC)
	}
	if size > s.cfg.MaxMemory-s.granted {
		return nil, fmt.Errorf("clients have %d bytes of granted memory and one wants %d more: %w", s.granted, size, unix.ENOSPC)
	}
	if err := s.group.Take(quota.Granted, size); err != nil {
		return nil, err
	}
	region, err := mapOwn(fd, size, unsealed)
	if err != nil {
		s.group.Give(quota.Granted, size)
		return nil, err
	}
	s.granted += size
	return &memory{region: region, server: s, key: key, unsealed: unsealed}, nil
}

// mapOwn maps a descriptor that stays the caller's.
func mapOwn(fd int, size uint64, unsealed bool) (*hostmem.Region, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("granted memory: %w", err)
	}
	if unsealed {
		return hostmem.MapUnsealed(own, size)
	}
	return hostmem.Map(own, 0, size)
}

// drop ends one client's use of memory.
func (m *memory) drop() {
	m.server.mu.Lock()
	m.users--
	last := m.users == 0
	m.server.mu.Unlock()
	if last {
		m.server.populator.remove(m)
	}
	m.release()
}

// acquire takes a reference. The caller must have one, or be a client's session.
func (m *memory) acquire() {
	m.server.mu.Lock()
	m.refs++
	m.server.mu.Unlock()
}

// release gives a reference back. With the last one the memory is unmapped, and only then no
// longer charged.
func (m *memory) release() {
	s := m.server
	s.mu.Lock()
	m.refs--
	left := m.refs
	if left == 0 {
		delete(s.memory, m.key)
	}
	s.mu.Unlock()
	switch {
	case left < 0:
		panic("local: memory released too often")
	case left == 0:
		size := m.Size()
		m.region.Release() // may free gigabytes, and no other must wait for that
		s.mu.Lock()
		s.granted -= size
		s.mu.Unlock()
		s.group.Give(quota.Granted, size)
	}
}

// inUse reports whether a client has the memory.
func (m *memory) inUse() bool {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	return m.users > 0
}

// Size is part of session.Grant.
func (m *memory) Size() uint64 { return uint64(len(m.region.Bytes())) }

// Acquire is part of session.Grant. A guest of GPUvm, whose card this process looks at, gets sealed
// memory only.
func (m *memory) Acquire() ([][]byte, func(), error) {
	if m.unsealed && m.server.cfg.Attach != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnsealed, unix.EINVAL)
	}
	m.acquire()
	return [][]byte{m.region.Bytes()}, m.release, nil
}

// MapContiguous is part of session.Grant: the memory is contiguous as it is. This process touches it
// itself, and so it must be sealed.
func (m *memory) MapContiguous() ([]byte, func(), error) {
	if m.unsealed {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnsealed, unix.EINVAL)
	}
	m.acquire()
	return m.region.Bytes(), m.release, nil
}

// Pay is part of file.Payer. A guest that makes objects of all pages once, in whatever pieces, has
// paid for them already: what the guest may have is not halved. Objects beyond that, in which
// pages appear a second time, cost what they do elsewhere, because the device needs tables for
// them too.
func (m *memory) Pay(n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > m.Size() {
		return fmt.Errorf("object of %d bytes in granted memory of %d: %w", n, m.Size(), unix.EINVAL)
	}
	if more := m.unpaid(m.objects+n) - m.unpaid(m.objects); more > 0 {
		if err := m.server.group.Take(quota.Granted, more); err != nil {
			return err
		}
	}
	m.objects += n
	return nil
}

// Refund is part of file.Payer.
func (m *memory) Refund(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.group.Give(quota.Granted, m.unpaid(m.objects)-m.unpaid(m.objects-n))
	m.objects -= n
}

// unpaid is how much of so many bytes of objects the size of the memory does not pay for.
func (m *memory) unpaid(objects uint64) uint64 {
	return max(objects, m.Size()) - m.Size()
}

var (
	_ session.Grant = (*memory)(nil)
	_ file.Payer    = (*memory)(nil)
)
