package progmem

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// slow is the file by way of which out and in copy: the kernel's read and write reach all that the
// program itself reaches, and process_vm_readv does not reach pages that a driver has mapped.
var slow struct {
	sync.Mutex
	file *os.File // nil before the first use
}

// through calls do with the file.
func through(do func(fd uintptr) error) error {
	slow.Lock()
	defer slow.Unlock()
	if slow.file == nil {
		fd, err := unix.MemfdCreate("pvdrm-copy", unix.MFD_CLOEXEC)
		if err != nil {
			return errors.Join(unix.EFAULT, os.NewSyscallError("memfd_create", err))
		}
		slow.file = os.NewFile(uintptr(fd), "pvdrm-copy")
	}
	return do(slow.file.Fd())
}

// program makes the kernel move n bytes between the file and an address of the program.
func program(call, fd uintptr, addr uint64, n int) error {
	done, _, no := unix.Syscall6(call, fd, uintptr(addr), uintptr(n), 0, 0, 0)
	if no != 0 {
		return no
	}
	if int(done) != n {
		return unix.EFAULT
	}
	return nil
}

// out reads len(p) bytes at addr, of one page.
func out(p []byte, addr uint64) error {
	return through(func(fd uintptr) error {
		if err := program(unix.SYS_PWRITE64, fd, addr, len(p)); err != nil {
			return err
		}
		_, err := unix.Pread(int(fd), p, 0)
		return err
	})
}

// in writes p to addr, in one page.
func in(p []byte, addr uint64) error {
	return through(func(fd uintptr) error {
		if _, err := unix.Pwrite(int(fd), p, 0); err != nil {
			return err
		}
		return program(unix.SYS_PREAD64, fd, addr, len(p))
	})
}
