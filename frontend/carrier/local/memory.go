package local

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// Alloc is part of carrier.Carrier. The program makes the memory, so that the backend needs no
// means to make any, and the memory counts as the program's.
func (c *Carrier) Alloc(size uint64) (*carrier.Pages, error) {
	fd, err := newMemfd(size)
	if err != nil {
		return nil, fmt.Errorf("making %d bytes to grant: %w", size, err)
	}
	defer func() { _ = unix.Close(fd) }() // the mapping and the backend keep the memory
	p, err := c.grant(fd)
	if err != nil {
		return nil, fmt.Errorf("granting %d bytes: %w", size, err)
	}
	return p, nil
}

// newMemfd makes zeroed memory whose size is sealed: the backend demands that, since it maps it.
func newMemfd(size uint64) (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil && size > limit.Cur {
		// Ftruncate would end the program with SIGXFSZ.
		return -1, fmt.Errorf("files may have %d bytes (see ulimit -f): %w", limit.Cur, unix.EFBIG)
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("pvdrm-grant", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate("pvdrm-grant", flags)
	}
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		err = os.NewSyscallError("ftruncate", err)
	} else if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		err = fmt.Errorf("sealing: %w", err)
	}
	if err != nil {
		_ = unix.Close(fd) // err is what to report
		return -1, err
	}
	return fd, nil
}

// Import is part of carrier.Carrier.
func (c *Carrier) Import(fd int) (*carrier.Pages, error) {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil { // sending it would look like a backend that is gone
		return nil, fmt.Errorf("importing descriptor %d: %w", fd, err)
	}
	p, err := c.grant(fd)
	if err != nil {
		return nil, fmt.Errorf("importing granted memory: %w", err)
	}
	return p, nil
}

// grant gives the backend a memfd, and maps it.
func (c *Carrier) grant(fd int) (*carrier.Pages, error) {
	answer, _, fds, err := c.request(hypercall.LocalMessage{Op: hypercall.LocalGrant}, nil, fd)
	closeAll(fds)
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, int(answer.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = c.free(answer.ID) // err is what to report
		return nil, fmt.Errorf("mapping: %w", os.NewSyscallError("mmap", err))
	}
	return &carrier.Pages{ID: answer.ID, Mem: mem}, nil
}

// Free is part of carrier.Carrier.
func (c *Carrier) Free(p *carrier.Pages) error {
	if err := unix.Munmap(p.Mem); err != nil {
		return fmt.Errorf("unmapping granted memory: %w", err)
	}
	return c.free(p.ID)
}

func (c *Carrier) free(id uint32) error {
	_, _, fds, err := c.request(hypercall.LocalMessage{Op: hypercall.LocalFree, ID: id}, nil)
	closeAll(fds)
	return err
}

// Export is part of carrier.Carrier. The descriptor names the same memfd.
func (c *Carrier) Export(p *carrier.Pages) (int, error) {
	_, _, fds, err := c.request(hypercall.LocalMessage{Op: hypercall.LocalExport, ID: p.ID}, nil)
	if err != nil {
		return -1, err
	}
	if len(fds) != 1 {
		closeAll(fds)
		return -1, fmt.Errorf("exporting: %d descriptors, want 1: %w", len(fds), unix.EPROTO)
	}
	return fds[0], nil
}
