package hostmem

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Span is a piece of a region.
type Span struct {
	Region *Region
	Off    uint64 // bytes into the region
	Len    uint64 // bytes
}

// Bytes returns the memory of the span.
func (s Span) Bytes() []byte { return s.Region.mem[s.Off:][:s.Len:s.Len] }

// FileOffset returns where in the region's memfd the span starts, in bytes.
func (s Span) FileOffset() uint64 { return s.Region.off + s.Off }

// MapContiguous maps spans once more, one behind the other, at an address of the
// kernel's choice. Offsets in the file and lengths must be multiples of the page
// size. The second mapping needs no reference to the regions: it holds the file.
// Each span costs one of the process's mappings (vm.max_map_count).
func MapContiguous(spans []Span) ([]byte, error) {
	var size uint64
	page := uint64(os.Getpagesize())
	for _, s := range spans {
		if s.FileOffset()%page != 0 || s.Len%page != 0 {
			return nil, fmt.Errorf("guest memory at offset %#x, %#x bytes: not whole pages", s.FileOffset(), s.Len)
		}
		size += s.Len
	}
	if size == 0 {
		return nil, fmt.Errorf("guest memory: nothing to map")
	}
	// Reserve the range first: nothing else can be in it when MAP_FIXED replaces it.
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserving %d bytes of addresses: %w", size, os.NewSyscallError("mmap", err))
	}
	at := uintptr(0)
	for _, s := range spans {
		// at+s.Len <= size, so the address stays inside the reservation.
		_, err := unix.MmapPtr(s.Region.fd, int64(s.FileOffset()), unsafe.Add(base, at), uintptr(s.Len),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
		if err != nil {
			_ = unix.MunmapPtr(base, uintptr(size)) // our own reservation; cannot fail
			return nil, fmt.Errorf("mapping guest memory side by side (%d runs): %w", len(spans), os.NewSyscallError("mmap", err))
		}
		at += uintptr(s.Len)
	}
	// base is a mapping of size bytes that no Go allocation owns.
	return unsafe.Slice((*byte)(base), size), nil
}

// UnmapContiguous undoes MapContiguous.
func UnmapContiguous(mem []byte) {
	// mem is what MapContiguous returned; unmapping our own mapping cannot fail.
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}
