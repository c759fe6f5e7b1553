package virgl

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// shot is the memory through which pixels come back from the worker. One at a time.
type shot struct {
	id   uint32 // of the region in the worker; 0 while it does not have it
	fd   int
	mem  []byte
	busy bool
}

// maxShot bounds what is read at once: the largest display.
const maxShot = 64 << 20

// read has the worker copy pixels.
func (p *pump) read(c *command) error {
	id, w, h := c.words[0], uint64(c.words[3]), uint64(c.words[4])
	res := p.resources[id]
	if res == nil || res.lost {
		return fmt.Errorf("resource %d: %w", id, ErrLost)
	}
	if w == 0 || h == 0 || w > maxShot || h > maxShot || w*h > maxShot/4 {
		return fmt.Errorf("resource %d: reading %dx%d pixels at once, at most %d bytes", id, w, h, maxShot)
	}
	n := 4 * w * h
	if err := p.shareShot(); err != nil {
		return err
	}
	c.words[6] = p.shot.id
	p.shot.busy = true
	err := p.ask(c, func(err error) {
		p.shot.busy = false
		if err != nil {
			c.end(err)
			return
		}
		c.pixels(p.shot.mem[:n], nil)
	})
	if err != nil {
		p.shot.busy = false
	}
	return err
}

// newShot makes the memory, while this process still can: a confined one cannot. Its
// pages are there once they are written to. Seals keep a worker, which maps it too,
// from cutting off what this process reads.
func newShot() (s shot, err error) {
	s.fd, err = unix.MemfdCreate("pvdrm-pixels", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return s, fmt.Errorf("memory for pixels: %w", os.NewSyscallError("memfd_create", err))
	}
	if err = unix.Ftruncate(s.fd, maxShot); err == nil {
		_, err = unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		s.mem, err = unix.Mmap(s.fd, 0, maxShot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = unix.Close(s.fd) // only the first error is worth reporting
		return s, fmt.Errorf("memory for pixels: %w", err)
	}
	return s, nil
}

// shareShot gives the worker the memory, if it does not have it yet.
func (p *pump) shareShot() error {
	if p.shot.id != 0 {
		return nil
	}
	p.lastID++
	p.shot.id = p.lastID
	return p.mapMemory(p.shot.id, p.shot.fd, maxShot)
}

// forget notes that the worker, which has ended, has it no more.
func (s *shot) forget() { s.id, s.busy = 0, false }

func (s *shot) close() {
	_ = unix.Munmap(s.mem) // our own mapping; cannot fail
	_ = unix.Close(s.fd)   // nor can this
}
