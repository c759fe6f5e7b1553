package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sort"

	"golang.org/x/sys/unix"
)

const (
	// mostHeap bounds Go's heap in a backend whose memory has no limit.
	mostHeap = 1 << 30
	// besideHeap is left of a limit for what is not Go's heap: stacks of threads, tables
	// of the runtime, the C library's heap.
	besideHeap = 64 << 20
	// leastHeap is what a backend cannot begin without, and the step in which the heap's size is sought.
	leastHeap = 16 << 20
)

// settleHeap has Go's heap take all addresses that it will ever have, as far as the
// limit on memory goes. The kernel does not count memory that is mapped in place of
// other (MAP_FIXED, mm/vma.c: it subtracts what was there, though that did not count),
// so that who may do that has as much as it likes. Go's heap grows so. When it needs to
// grow no more, the filter can forbid that. Addresses are no memory until they are used.
func settleHeap() error {
	most, err := wantedHeap()
	if err != nil {
		return err
	}
	var failed error
	steps := sort.Search(most/leastHeap, func(steps int) bool {
		fits, err := fitsLimit((steps+1)*leastHeap + besideHeap)
		failed = errors.Join(failed, err)
		return !fits
	})
	switch {
	case failed != nil:
		return failed
	case steps == 0:
		return errors.New("the limit on memory leaves none for the heap")
	}
	heap := make([]byte, steps*leastHeap)
	runtime.KeepAlive(heap)
	runtime.GC() // the heap keeps the addresses
	return nil
}

// wantedHeap returns how many bytes the heap may have at most: what the limit on memory is, of which
// others have a part.
func wantedHeap() (int, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &r); err != nil {
		return 0, fmt.Errorf("looking for the limit on memory: %w", os.NewSyscallError("getrlimit", err))
	}
	if r.Cur > math.MaxInt {
		return mostHeap, nil
	}
	return int(r.Cur), nil
}

// fitsLimit asks the kernel whether the limit on memory leaves so many bytes.
func fitsLimit(size int) (bool, error) {
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if errors.Is(err, unix.ENOMEM) {
		return false, nil
	}
	if err == nil {
		err = unix.Munmap(m)
	}
	if err != nil {
		return false, fmt.Errorf("looking for memory: %w", err)
	}
	return true, nil
}
