// Package progmem reaches the memory of the C program that a library lives in. Pointers of the
// program are numbers here: a wrong one is EFAULT, and never a fault inside of the library.
package progmem

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is the memory of the program. Read and Write move all of p or fail;
// what is not mapped is an error.
type Memory interface {
	Read(p []byte, addr uint64) error
	// ReadParts reads several ranges, few and small, one after the other into p.
	ReadParts(p []byte, parts []Range) error
	Write(addr uint64, p []byte) error
	// Keep returns the address of a copy of b that lives as long as the program.
	Keep(b []byte) uint64
}

// Direct reaches memory that is known to be there as long as the call lasts, such as the stack of the thread that
// makes it, without asking the kernel. A wrong address is a fault of the program's.
type Direct interface {
	ReadDirect(p []byte, addr uint64)
	WriteDirect(addr uint64, p []byte)
}

// Range is memory of the program.
type Range struct {
	Addr  uint64
	Bytes int
}

const (
	pageBytes = 4096
	// maxTransfer bounds one system call; Linux moves less than 2 GiB at a time.
	maxTransfer = 1 << 30
)

// Own is the memory of this process, reached by process_vm_readv and
// process_vm_writev (Linux 3.2), which tell of a fault instead of raising a signal. Pages of a
// driver, which these do not reach, are copied by way of a file.
type Own struct{}

// swapping is write-locked while pages of the program are replaced: a write by process_vm_writev
// would fail then.
var swapping sync.RWMutex

// Swap calls do while nothing of this package reaches the program's memory.
func Swap(do func() error) error {
	swapping.Lock()
	defer swapping.Unlock()
	return do()
}

// Read copies len(p) bytes at addr.
func (Own) Read(p []byte, addr uint64) error { return move(p, addr, unix.ProcessVMReadv, out) }

// ReadParts reads with one system call.
func (o Own) ReadParts(p []byte, parts []Range) error {
	if len(p) == 0 {
		return nil
	}
	err := readParts(p, parts)
	if !errors.Is(err, unix.EFAULT) {
		return err
	}
	for _, part := range parts {
		if err := o.Read(p[:part.Bytes], part.Addr); err != nil {
			return err
		}
		p = p[part.Bytes:]
	}
	return nil
}

func readParts(p []byte, parts []Range) error {
	swapping.RLock()
	defer swapping.RUnlock()
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	remote := make([]unix.RemoteIovec, len(parts))
	for i, r := range parts {
		remote[i] = unix.RemoteIovec{Base: uintptr(r.Addr), Len: r.Bytes}
	}
	n, err := unix.ProcessVMReadv(unix.Getpid(), local, remote, 0)
	if err == nil && n < len(p) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("%d bytes of the program's memory in %d parts: %w", len(p), len(parts), err)
	}
	return nil
}

// Write copies p to addr.
func (Own) Write(addr uint64, p []byte) error { return move(p, addr, unix.ProcessVMWritev, in) }

func move(p []byte, addr uint64, vm func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), slow func([]byte, uint64) error) error {
	swapping.RLock()
	defer swapping.RUnlock()
	for len(p) > 0 {
		n := min(len(p), maxTransfer)
		local := []unix.Iovec{{Base: &p[0]}}
		local[0].SetLen(n)
		remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: n}}
		done, err := vm(unix.Getpid(), local, remote, 0)
		if err == nil && done == 0 {
			err = unix.EFAULT
		}
		if errors.Is(err, unix.EFAULT) {
			n = min(n, int(pageBytes-addr%pageBytes))
			done, err = n, slow(p[:n], addr)
		}
		if err != nil {
			return fmt.Errorf("%d bytes of the program's memory at 0x%x: %w", n, addr, err)
		}
		p, addr = p[done:], addr+uint64(done)
	}
	return nil
}

// ReadString reads up to the first zero byte, which must come within most bytes.
func ReadString(mem Memory, addr uint64, most int) ([]byte, error) {
	var s []byte
	for len(s) <= most {
		// To the end of a page at most: the next one may not be mapped.
		page := make([]byte, pageBytes-addr%pageBytes)
		if err := mem.Read(page, addr); err != nil {
			return nil, err
		}
		if i := bytes.IndexByte(page, 0); i >= 0 {
			return append(s, page[:i]...), nil
		}
		s, addr = append(s, page...), addr+uint64(len(page))
	}
	return nil, fmt.Errorf("no end of the string within %d bytes: %w", most, unix.EFAULT)
}
