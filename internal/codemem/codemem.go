// Package codemem makes memory that holds machine code. It is never writable and
// executable at once.
//
// All code of a process lies in one range of addresses, which is reserved once and
// never given back. So a filter can allow executable memory there alone
// (backend/sandbox): then it has no second mapping by which anybody could write it,
// since nothing else can be mapped in its place.
//
// A mutex guards the list of free pages. It is held during system calls.
package codemem

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// The addresses of code. Behind them lies a guard of the same size, so that no range
// of up to Bytes that begins among them reaches other memory. Neither the Go runtime
// nor the kernel puts anything near: Go's heap lies below 1<<46, programs that can be
// loaded anywhere above 0x555555554000, libraries and stacks above those.
const (
	Start = 0x5000_0000_0000
	Bytes = 1 << 30
	Guard = Bytes
)

// span is a range of bytes from Start on, of whole pages.
type span struct{ at, size int }

var space struct {
	mu   sync.Mutex
	all  []byte // from Start on; nil until it is reserved
	err  error  // why it cannot be
	free []span // in order, none next to another
}

// Reserve takes the addresses, if they are not taken yet. They have no memory until
// Map needs it. A confined process must have called it before; Map calls it too.
func Reserve() error {
	space.mu.Lock()
	defer space.mu.Unlock()
	return reserve()
}

func reserve() error {
	if space.all != nil || space.err != nil {
		return space.err
	}
	if space.all, space.err = reserveAt(Start, Bytes+Guard); space.err != nil {
		space.err = fmt.Errorf("reserving addresses for native code: %w", space.err)
		return space.err
	}
	space.free = []span{{at: 0, size: Bytes}}
	return nil
}

// Map copies code to memory of its own, which can be read and executed until
// Unmap. The error says that the host does not allow it.
func Map(code []byte) ([]byte, error) {
	if len(code) == 0 {
		return nil, errors.New("no native code")
	}
	space.mu.Lock()
	defer space.mu.Unlock()
	if err := reserve(); err != nil {
		return nil, err
	}
	at, err := take(pages(len(code)))
	if err != nil {
		return nil, err
	}
	m := space.all[at : at+len(code) : at+pages(len(code))]
	if err := unix.Mprotect(m, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		put(at, cap(m))
		return nil, fmt.Errorf("%d bytes for native code: %w", len(code), err)
	}
	copy(m, code)
	if err := unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("making %d bytes executable: %w", len(code), err), drop(at, cap(m)))
	}
	return m, nil
}

// Unmap frees what Map returned.
func Unmap(m []byte) error {
	space.mu.Lock()
	defer space.mu.Unlock()
	return drop(offset(m), pages(len(m)))
}

// pages rounds a size up to whole pages.
func pages(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// take finds free pages. space.mu is held.
func take(size int) (at int, err error) {
	i := slices.IndexFunc(space.free, func(s span) bool { return s.size >= size })
	if i < 0 {
		return 0, fmt.Errorf("%d bytes for native code: %d of them are in use", size, Bytes)
	}
	s := &space.free[i]
	at = s.at
	s.at, s.size = s.at+size, s.size-size
	if s.size == 0 {
		space.free = slices.Delete(space.free, i, i+1)
	}
	return at, nil
}

// drop gives back memory, and its addresses if that succeeds. space.mu is held.
func drop(at, size int) error {
	m := space.all[at : at+size]
	if err := unix.Mprotect(m, unix.PROT_NONE); err != nil {
		return fmt.Errorf("freeing native code: %w", err)
	}
	if err := unix.Madvise(m, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("freeing native code: %w", err)
	}
	put(at, size)
	return nil
}

// put makes pages free, and one span with their neighbours. space.mu is held.
func put(at, size int) {
	i, _ := slices.BinarySearchFunc(space.free, at, func(s span, at int) int { return s.at - at })
	if i < len(space.free) && space.free[i].at == at+size {
		size += space.free[i].size
		space.free = slices.Delete(space.free, i, i+1)
	}
	if i > 0 && space.free[i-1].at+space.free[i-1].size == at {
		space.free[i-1].size += size
		return
	}
	space.free = slices.Insert(space.free, i, span{at: at, size: size})
}
