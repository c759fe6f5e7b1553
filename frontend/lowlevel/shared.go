package lowlevel

import (
	"runtime"
	"sync"
	"time"
)

// Shared is a Context of a driver that several goroutines use, each with a Shared of its own: the
// driver serves one of them at a time, but for waits for kernels.
type Shared struct {
	mu *sync.Mutex // of the driver
	c  *Context
}

// NewShared is NewContext for Drivers that several goroutines use. All their contexts are Shared.
func (d *Driver) NewShared() (*Shared, error) {
	d.sharing.Lock()
	defer d.sharing.Unlock()
	c, err := d.NewContext()
	if err != nil {
		return nil, err
	}
	return &Shared{mu: &d.sharing, c: c}, nil
}

// locked calls f while no other goroutine uses the driver.
func (s *Shared) locked(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// Load is as of Context.
func (s *Shared) Load(name string, ptx []byte) error {
	return s.locked(func() error { return s.c.Load(name, ptx) })
}

// Alloc is as of Context.
func (s *Shared) Alloc(n uint64) (address uint64, err error) {
	err = s.locked(func() (err error) { address, err = s.c.Alloc(n); return err })
	return address, err
}

// AllocHost is as of Context.
func (s *Shared) AllocHost(n uint64) (mem []byte, err error) {
	err = s.locked(func() (err error) { mem, err = s.c.AllocHost(n); return err })
	return mem, err
}

// Write is as of Context.
func (s *Shared) Write(dst uint64, src []byte, pinned bool) error {
	return s.locked(func() error { return s.c.Write(dst, src, pinned) })
}

// Read is as of Context.
func (s *Shared) Read(dst []byte, src uint64, pinned bool) error {
	return s.locked(func() error { return s.c.Read(dst, src, pinned) })
}

// Fill is as of Context.
func (s *Shared) Fill(dst uint64, word uint32, n uint64) error {
	return s.locked(func() error { return s.c.Fill(dst, word, n) })
}

// Launch is as of Context.
func (s *Shared) Launch(kernel string, grid, block [2]uint32, params []byte) error {
	return s.locked(func() error { return s.c.Launch(kernel, grid, block, params) })
}

// Sync is as of Context. Others use the driver meanwhile, until this one has waited for long: then it
// asks the card.
func (s *Shared) Sync() error {
	for began := time.Now(); s.c.passed() < s.c.last; {
		if err := s.c.halted(); err != nil {
			return err
		}
		switch waited := time.Since(began); {
		case waited > longWait:
			return s.locked(s.c.Sync)
		case waited > firstPause:
			time.Sleep(firstPause)
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// Close is as of Context.
func (s *Shared) Close() error { return s.locked(s.c.Close) }
