package hostmem

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Over maps runs of regions once more, one behind the other, in place of the first pages of mem,
// which is private memory of no file. Preconditions: mem begins on a page and is large enough, runs
// consist of pages of regions to which the caller holds references, and nothing uses those pages of
// mem. After an error some may be mapped; Plain undoes it. What is mapped holds the files.
func Over(mem []byte, runs [][]byte) error {
	for _, run := range runs {
		s, err := Locate(run)
		if err != nil {
			return err
		}
		if s.FileOffset()%PageSize != 0 || s.Len%PageSize != 0 || s.Len > uint64(len(mem)) {
			return fmt.Errorf("guest memory at offset %#x, %#x bytes: not whole pages, or too many", s.FileOffset(), s.Len)
		}
		// The range lies in mem, which the caller owns.
		at := unsafe.Pointer(unsafe.SliceData(mem))
		if _, err := unix.MmapPtr(s.Region.fd, int64(s.FileOffset()), at, uintptr(s.Len),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			return fmt.Errorf("mapping guest memory in place of a device's: %w", os.NewSyscallError("mmap", err))
		}
		mem = mem[s.Len:]
	}
	return nil
}

// Plain makes memory private and of no file again, so that it reads as zero. Preconditions: nothing
// uses it. A confined backend may map nothing that is writable in place of other memory, so that
// this takes two steps.
func Plain(mem []byte) error {
	at := unsafe.Pointer(unsafe.SliceData(mem)) // all of the range is the caller's
	_, err := unix.MmapPtr(-1, 0, at, uintptr(len(mem)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err == nil {
		err = unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		return fmt.Errorf("%d bytes of memory: %w", len(mem), err)
	}
	return nil
}
