package host

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// file is a regular file. The kernel has the rights that the process has.
type file struct{ *os.File }

// open opens a file. Others than regular ones are refused, since a read of them may never end.
func (c *call) open() (int64, error) {
	path := string(c.memory.text(c.at, c.cfg.PathMax)[:c.Text])
	if err := c.handles.reserve(); err != nil {
		return 0, err
	}
	f, err := openRegular(path, int(c.Flags))
	return c.handles.add(f, err)
}

func openRegular(path string, flags int) (*file, error) {
	for i := range len(path) {
		if path[i] == 0 {
			return nil, syscall.EINVAL
		}
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o666)
	if err != nil {
		return nil, err
	}
	f := &file{os.NewFile(uintptr(fd), path)}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = syscall.EISDIR
	case !info.Mode().IsRegular():
		err = syscall.EINVAL
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (c *call) closeFile() (int64, error) { return remove[*file](&c.handles, c.Handle) }

func (c *call) stat() (int64, error) {
	f, err := handle[*file](&c.handles, c.Handle)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (c *call) truncate() (int64, error) {
	f, err := handle[*file](&c.handles, c.Handle)
	if err != nil {
		return 0, err
	}
	return 0, f.Truncate(int64(c.Offset))
}

// read reads into granted memory in place, and into device memory piece by piece.
func (c *call) read() (int64, error) {
	f, err := handle[*file](&c.handles, c.Handle)
	if err != nil {
		return 0, err
	}
	if buf := c.direct(c.Address, c.Size); buf != nil {
		n, err := f.ReadAt(buf, int64(c.Offset))
		return c.moved(n, err, true)
	}
	return c.pieces(func(b *bounce, done, n uint64) (int, error) {
		got, err := f.ReadAt(b.bytes[:n], int64(c.Offset+done))
		if got == 0 {
			return 0, err
		}
		if err := b.toDevice(c.Address+done, uint64(got)); err != nil {
			return 0, err
		}
		return got, ended(err)
	})
}

// write writes from granted memory in place, and from device memory piece by piece.
func (c *call) write() (int64, error) {
	f, err := handle[*file](&c.handles, c.Handle)
	if err != nil {
		return 0, err
	}
	if buf := c.direct(c.Address, c.Size); buf != nil {
		n, err := f.WriteAt(buf, int64(c.Offset))
		return c.moved(n, err, true)
	}
	return c.pieces(func(b *bounce, done, n uint64) (int, error) {
		if err := b.fromDevice(c.Address+done, n); err != nil {
			return 0, err
		}
		return f.WriteAt(b.bytes[:n], int64(c.Offset+done))
	})
}

// ended drops the end of a file, which a short count tells.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// pieces moves c.Size bytes through bounce buffers. It ends at a piece that is short.
func (c *call) pieces(move func(b *bounce, done, n uint64) (int, error)) (int64, error) {
	done := uint64(0)
	for done < c.Size {
		b, err := c.bounces.take(c.cfg.Context)
		if err != nil {
			return 0, err
		}
		n := min(c.Size-done, bounceBytes)
		got, err := move(b, done, n)
		c.bounces.give(b)
		done += uint64(got)
		if err != nil || uint64(got) < n {
			return c.moved(int(done), err, false)
		}
	}
	return c.moved(int(done), nil, false)
}

// moved is the result of moving bytes: how many, or an error if there are none.
func (c *call) moved(n int, err error, direct bool) (int64, error) {
	c.count(func(s *Stats) {
		if direct {
			s.Direct += uint64(n)
		} else {
			s.Bounced += uint64(n)
		}
	})
	if n > 0 || errors.Is(err, io.EOF) {
		return int64(n), nil
	}
	return 0, err
}
