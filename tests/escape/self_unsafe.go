package escape

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Self are the hands of an attacker who runs a program of its own under the
// confinement of a process. It is used by one goroutine at a time.
type Self struct {
	memory []byte // mapped, so that it has a fixed address
	used   int
}

// NewSelf maps memory for arguments. It comes before the process is confined.
func NewSelf() (*Self, error) {
	m, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory for arguments: %w", err)
	}
	return &Self{memory: m}, nil
}

// base is the address of the memory, which the garbage collector neither owns nor moves.
func (s *Self) base() uintptr { return uintptr(unsafe.Pointer(&s.memory[0])) }

// Call is part of Hands.
func (s *Self) Call(nr uintptr, args ...uintptr) (uintptr, unix.Errno, error) {
	var a [6]uintptr
	copy(a[:], args)
	result, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return result, errno, nil
}

// Put is part of Hands.
func (s *Self) Put(b []byte) (uintptr, error) {
	if s.used+len(b) > len(s.memory) {
		s.used = 0 // the oldest are used no more
	}
	if len(b) > len(s.memory) {
		return 0, fmt.Errorf("%d bytes are too many", len(b))
	}
	at := s.base() + uintptr(s.used)
	copy(s.memory[s.used:], b)
	s.used += (len(b) + 15) &^ 15
	return at, nil
}

// Get is part of Hands.
func (s *Self) Get(addr uintptr, size int) ([]byte, error) {
	at := int(addr - s.base())
	if at < 0 || at+size > len(s.memory) {
		return nil, fmt.Errorf("address 0x%x was not put there", addr)
	}
	return append([]byte(nil), s.memory[at:at+size]...), nil
}
