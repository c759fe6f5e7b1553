package hostmem

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// regions are all regions that are mapped, in the order of their addresses, so
// that the file behind a piece of memory can be found: a device whose work is
// done in another process maps the file there.
var regions regionList

type regionList struct {
	mu   sync.RWMutex
	list []*Region // guarded by mu
}

// start is the address of the first byte, only compared, never turned back into
// a pointer.
func start(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (l *regionList) search(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(l.list, at, func(r *Region, at uintptr) int {
		switch {
		case at < start(r.mem):
			return 1
		case at-start(r.mem) >= uintptr(len(r.mem)):
			return -1
		}
		return 0
	})
}

func (l *regionList) add(r *Region) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := l.search(start(r.mem))
	l.list = slices.Insert(l.list, i, r)
}

func (l *regionList) remove(r *Region) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.list, r); i >= 0 {
		l.list = slices.Delete(l.list, i, i+1)
	}
}

// Locate finds the region that b is a part of. The caller holds a reference to
// that region, as everybody who uses its memory does.
func Locate(b []byte) (Span, error) {
	regions.mu.RLock()
	defer regions.mu.RUnlock()
	i, ok := regions.search(start(b))
	if !ok {
		return Span{}, fmt.Errorf("%d bytes of memory that is no region", len(b))
	}
	r := regions.list[i]
	off := uint64(start(b) - start(r.mem))
	if uint64(len(b)) > uint64(len(r.mem))-off {
		return Span{}, fmt.Errorf("%d bytes of memory reach beyond their region", len(b))
	}
	return Span{Region: r, Off: off, Len: uint64(len(b))}, nil
}

// New makes a region of zeroed memory, size bytes of whole pages. The caller owns
// one reference.
func New(size uint64) (*Region, error) {
	fd, err := unix.MemfdCreate("pvdrm-memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", os.NewSyscallError("memfd_create", err))
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		_ = unix.Close(fd) // only the first error is worth reporting
		return nil, fmt.Errorf("%d bytes of memory: %w", size, os.NewSyscallError("ftruncate", err))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("memory: %w", os.NewSyscallError("fcntl(F_ADD_SEALS)", err))
	}
	return Map(fd, 0, size)
}
