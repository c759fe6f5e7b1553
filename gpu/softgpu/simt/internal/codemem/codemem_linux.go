// Package codemem makes memory that holds machine code. It is never writable and
// executable at once.
package codemem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Map copies code to memory of its own, which can be read and executed until
// Unmap. The error says that the host does not allow it.
func Map(code []byte) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, len(code), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d bytes for native code: %w", len(code), err)
	}
	copy(m, code)
	if err := unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		unix.Munmap(m)
		return nil, fmt.Errorf("making %d bytes executable: %w", len(code), err)
	}
	return m, nil
}

// Unmap frees what Map returned.
func Unmap(m []byte) error { return unix.Munmap(m) }
