package virgl

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// shot is the memory through which pixels come back from the worker. One at a time.
type shot struct {
	id   uint32
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
	if err := p.roomForShot(n); err != nil {
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

// roomForShot sees to it that both sides have n bytes.
func (p *pump) roomForShot(n uint64) error {
	if uint64(len(p.shot.mem)) >= n {
		return nil
	}
	if p.shot.mem != nil {
		q := request{op: opForget}
		q.words[0] = p.shot.id
		if err := p.send(&q, nil, -1, func(error) {}); err != nil {
			return err
		}
		p.shot.close()
	}
	fd, err := unix.MemfdCreate("pvdrm-pixels", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	defer func() { _ = unix.Close(fd) }() // the mappings keep it
	if err := unix.Ftruncate(fd, int64(n)); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	mem, err := unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	p.lastID++
	p.shot.id, p.shot.mem = p.lastID, mem
	return p.mapMemory(p.shot.id, fd, n)
}

func (s *shot) close() {
	if s.mem != nil {
		_ = unix.Munmap(s.mem) // our own mapping; cannot fail
	}
	*s = shot{}
}
