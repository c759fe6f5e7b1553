// Package hostmem maps the memory of a guest into this process.
//
// A virtual machine monitor hands out the RAM of its guest as ranges of memfds.
// A Region is one such range, mapped; a Table is the set of regions that make up
// a guest's memory at one time, found by guest-physical address or by the
// monitor's own virtual address. Both are counted references: what is in use
// stays mapped although the monitor has replaced the table meanwhile.
//
// Memory of a guest can change at any moment. Read a value once, into memory of
// your own, and check the copy. Memory of Map never faults: it takes only files
// that are sealed against shrinking and large enough. That of MapUnsealed may.
package hostmem

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// PageSize is the size of a guest page, in bytes.
const PageSize = 4096

// ErrNotSealed says that memory could vanish under our feet: touching a page
// beyond the end of a file that was cut kills the process.
var ErrNotSealed = errors.New("guest memory is not a memfd sealed against shrinking " +
	"(give QEMU -object memory-backend-memfd,share=on and leave seal=on)")

// Region is a mapped range of a memfd. It is safe for concurrent use.
type Region struct {
	refs    atomic.Int64
	fd      int
	off     uint64 // of mem[0] in the file
	mem     []byte // the range that was asked for
	mapping []byte // what was mapped: mem and what alignment added
}

// Map maps bytes [off, off+size) of fd, readable and writable, and takes fd over,
// also when it fails. The caller owns one reference.
func Map(fd int, off, size uint64) (*Region, error) {
	// The seal is looked at before the size: afterwards the size can only grow.
	return taken(fd, sealed(fd), off, size)
}

// MapUnsealed is Map for the first bytes of a file that its owner may cut. To touch a page that is
// gone then is SIGBUS: only goroutines that have set debug.SetPanicOnFault may touch the memory.
func MapUnsealed(fd int, size uint64) (*Region, error) { return taken(fd, nil, 0, size) }

// taken maps a file, unless there is an error already. It closes the file where it fails.
func taken(fd int, err error, off, size uint64) (r *Region, _ error) {
	if err == nil {
		r, err = mapFile(fd, off, size)
	}
	if err != nil {
		_ = unix.Close(fd) // only an error of the mapping is worth reporting
		return nil, err
	}
	return r, nil
}

// sealed is nil for files that cannot shrink.
func sealed(fd int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSealed, err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return ErrNotSealed
	}
	return nil
}

func mapFile(fd int, off, size uint64) (*Region, error) {
	const limit = 1 << 46 // bytes; far above any guest, and no sum below overflows
	if size == 0 || size > limit || off > limit {
		return nil, fmt.Errorf("guest memory of %d bytes at offset %#x: out of range", size, off)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("guest memory: %w", os.NewSyscallError("fstat", err))
	}
	if st.Size < 0 || (uint64(st.Size)+PageSize-1)&^(PageSize-1) < off+size {
		return nil, fmt.Errorf("guest memory: bytes %#x to %#x of a memfd that has only %#x", off, off+size, st.Size)
	}

	// Huge pages can be mapped only at multiples of their size, which is the
	// block size that the file reports.
	align := max(uint64(st.Blksize), uint64(os.Getpagesize()))
	if align&(align-1) != 0 {
		return nil, fmt.Errorf("guest memory: block size %d is not a power of two", align)
	}
	start := off &^ (align - 1)
	end := (off + size + align - 1) &^ (align - 1)
	mapping, err := unix.Mmap(fd, int64(start), int(end-start), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("guest memory: %w", os.NewSyscallError("mmap", err))
	}
	r := &Region{fd: fd, off: off, mapping: mapping, mem: mapping[off-start:][:size:size]}
	r.refs.Store(1)
	regions.add(r)
	return r, nil
}

// Bytes returns the memory. The caller must hold a reference while it uses it.
func (r *Region) Bytes() []byte { return r.mem }

// FD returns the memfd. It stays open as long as the caller's reference.
func (r *Region) FD() int { return r.fd }

// Offset returns where in the memfd the region starts, in bytes.
func (r *Region) Offset() uint64 { return r.off }

// Acquire takes one more reference. The caller must already hold one.
func (r *Region) Acquire() { r.refs.Add(1) }

// Release gives a reference back; the last one unmaps the region.
func (r *Region) Release() {
	switch n := r.refs.Add(-1); {
	case n > 0:
	case n == 0:
		regions.remove(r)
		// Neither can fail for a mapping and a descriptor that we made and own.
		_ = unix.Munmap(r.mapping)
		_ = unix.Close(r.fd)
	default:
		panic("hostmem: region released too often")
	}
}
