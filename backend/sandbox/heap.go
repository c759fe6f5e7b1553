package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// mostHeap bounds Go's heap in a backend whose memory has no limit.
	mostHeap = 1 << 30
	// besideHeap is left of a limit for what is not Go's heap: stacks of threads, tables
	// of the runtime, the C library's heap.
	besideHeap = 64 << 20
	// leastHeap is what a backend cannot begin without.
	leastHeap = 16 << 20
)

// settleHeap has Go's heap take all addresses that it will ever have, as far as the
// limit on memory goes. The kernel does not count memory that is mapped in place of
// other (MAP_FIXED, mm/vma.c: it subtracts what was there, though that did not count),
// so that who may do that has as much as it likes. Go's heap grows so. When it needs to
// grow no more, the filter can forbid that. Addresses are no memory until they are used.
func settleHeap() error {
	size := mostHeap
	for ; ; size -= leastHeap {
		if size < leastHeap {
			return errors.New("the limit on memory leaves none for the heap")
		}
		// The kernel tells what the limit leaves.
		m, err := unix.Mmap(-1, 0, size+besideHeap, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if errors.Is(err, unix.ENOMEM) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for memory: %w", os.NewSyscallError("mmap", err))
		}
		if err := unix.Munmap(m); err != nil {
			return fmt.Errorf("looking for memory: %w", os.NewSyscallError("munmap", err))
		}
		break
	}
	heap := make([]byte, size)
	runtime.KeepAlive(heap)
	runtime.GC() // the heap keeps the addresses
	return nil
}
