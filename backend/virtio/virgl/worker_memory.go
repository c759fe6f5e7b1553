package virgl

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memory is what a worker has mapped: parts of the guest's RAM, and lists of
// pieces of them, which the library reads.
type memory struct {
	regions  map[uint32][]byte
	backings map[uint32]iovList // by resource
}

// iovList is a list of struct iovec outside of Go's memory: the library keeps a
// pointer to it.
type iovList struct {
	mem []byte
	n   int
}

func newMemory() memory {
	return memory{regions: map[uint32][]byte{}, backings: map[uint32]iovList{}}
}

// mapRegion maps size bytes of a file, from its start, and closes it.
func (m *memory) mapRegion(id uint32, size uint64, fd int) error {
	defer func() { _ = unix.Close(fd) }() // the mapping keeps the file
	if m.regions[id] != nil {
		return fmt.Errorf("%w: region %d twice", errFrame, id)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	// Files of huge pages are mapped in multiples of them.
	page := max(uint64(st.Blksize), uint64(os.Getpagesize()))
	if size == 0 || st.Size < 0 || size > uint64(st.Size) || page&(page-1) != 0 {
		return fmt.Errorf("%w: region of %d bytes of a file of %d", errFrame, size, st.Size)
	}
	mem, err := unix.Mmap(fd, 0, int((size+page-1)&^(page-1)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	m.regions[id] = mem
	return nil
}

// forget unmaps a region, which nothing uses any more.
func (m *memory) forget(id uint32) error {
	mem := m.regions[id]
	if mem == nil {
		return fmt.Errorf("%w: no region %d", errFrame, id)
	}
	delete(m.regions, id)
	return os.NewSyscallError("munmap", unix.Munmap(mem))
}

// at is a piece of a region.
func (m *memory) at(s span) ([]byte, error) {
	mem := m.regions[s.region]
	if s.off > uint64(len(mem)) || s.length > uint64(len(mem))-s.off {
		return nil, fmt.Errorf("%w: %d bytes at %#x of region %d, which has %d", errFrame, s.length, s.off, s.region, len(mem))
	}
	return mem[s.off:][:s.length], nil
}

// list makes a list of pieces.
func (m *memory) list(spans []span) (iovList, error) {
	mem, err := unix.Mmap(-1, 0, len(spans)*iovecBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return iovList{}, os.NewSyscallError("mmap", err)
	}
	l := iovList{mem, len(spans)}
	entries := iovecs(mem)
	for i, s := range spans {
		b, err := m.at(s)
		if err != nil {
			l.free()
			return iovList{}, err
		}
		entries[i].base, entries[i].len = addressOf(b), uintptr(len(b))
	}
	return l, nil
}

// address is where the list lies.
func (l iovList) address() uintptr { return addressOf(l.mem) }

func (l iovList) free() {
	_ = unix.Munmap(l.mem) // our own mapping; cannot fail
}
