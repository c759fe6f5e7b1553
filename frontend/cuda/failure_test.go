package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/cudatest"
)

// useEverything does a bit of all that a program does with a context, and ends
// at the first error. It gives back what it took, but for what fails.
func useEverything(c *Context, size int) (err error) {
	try := func(e error) {
		if err == nil {
			err = e
		}
	}
	undo := func(f func() error) {
		// Also after an error: what was made is freed.
		if e := f(); err == nil {
			err = e
		}
	}
	p, e := c.MemAlloc(uint64(size))
	if e != nil {
		return e
	}
	defer undo(func() error { return c.MemFree(p) })
	h, e := c.MemAllocHost(uint64(size))
	if e != nil {
		return e
	}
	defer undo(h.Free)
	managed, e := c.MemAllocManaged(uint64(size))
	if e != nil {
		return e
	}
	defer undo(managed.Free)
	m, e := c.LoadModule("a.ptx", []byte("kernel add\nglobal v"))
	if e != nil {
		return e
	}
	defer undo(m.Unload)
	f, e := m.Function("add")
	if e != nil {
		return e
	}
	v, n, e := m.Global("v")
	if e != nil {
		return e
	}
	try(c.MemsetD32(v, 5, n/4))
	s, e := c.NewStream()
	if e != nil {
		return e
	}
	defer undo(s.Destroy)
	ev, e := c.NewEvent()
	if e != nil {
		return e
	}
	defer undo(ev.Destroy)

	want := noise(size, 1)
	try(c.MemcpyHtoD(p, want))
	try(f.Launch(one(s), p, 1, 1))
	try(ev.Record(s))
	try(ev.Record(nil))
	try(f.Launch(one(nil), p, 1, -1))
	try(s.WaitEvent(ev))
	try(c.MemcpyDtoHAsync(h, 0, p, uint64(size), s))
	try(s.Synchronize())
	got := make([]byte, size)
	try(c.MemcpyDtoH(got, p))
	if err == nil && (!bytes.Equal(want, got) || !bytes.Equal(want, h.Bytes())) {
		return errors.New("the data is wrong")
	}
	_, _, e = c.MemGetInfo()
	try(e)
	try(c.Synchronize())
	return err
}

// useALittle uses no memory that Destroy takes away under the caller.
func useALittle(c *Context) error {
	p, err := c.MemAlloc(100_000)
	if err != nil {
		return err
	}
	h, err := c.MemAllocHost(1000)
	if err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	b := make([]byte, 100_000)
	for _, f := range []func() error{
		func() error { return c.MemcpyHtoD(p, b) },
		func() error { return c.MemcpyHtoDAsync(p, h, 0, 1000, s) },
		func() error { return c.MemcpyDtoH(b, p) },
		s.Synchronize, s.Destroy, h.Free,
		func() error { return c.MemFree(p) },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// Each call to the driver fails once, in each of several ways. The context goes
// on, or is lost; in either case nothing is left when it is destroyed.
func TestEveryCallFailsOnce(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM, syscall.EIO, syscall.ENODEV} {
			t.Run(fmt.Sprintf("%v lazy %v", errno, lazy), func(t *testing.T) {
				for n := 1; ; n++ {
					g := cudatest.NewGPU(t)
					g.KernelAdd()
					g.Lazy = lazy
					c, err := newDevice(t, g).CreateContext()
					require.NoError(t, err)
					g.FailNext(n, "", errno)
					err = useEverything(c, 300_000)
					if g.Failed == "" {
						g.FailNext(0, "", nil)
						require.NoError(t, err)
						require.NoError(t, c.Destroy())
						require.Greater(t, n, 25, "calls were counted")
						return
					}
					fatal := errno == syscall.EIO || errno == syscall.ENODEV
					if err == nil { // a smaller staging ring did it
						require.Contains(t, []string{"GemNew", "GemMap", "VMBind"}, g.Failed)
						require.False(t, fatal)
					} else {
						require.ErrorIs(t, err, errno, "%s", g.Failed)
						var r Result
						require.ErrorAs(t, err, &r)
					}
					err = useEverything(c, 1000)
					if fatal {
						require.Error(t, err)
					} else {
						require.NoError(t, err, "after %s failed", g.Failed)
					}
					require.NoError(t, c.Destroy())
					require.Empty(t, g.Violations, "after %s failed", g.Failed)
				}
			})
		}
	}
}

// Many goroutines on one context, and one that destroys it under them.
func TestConcurrentUse(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Channels = 64
	g.KernelAdd()
	c := newContext(t, g)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				if err := useEverything(c, 1000+100_000*(i%2)+j); err != nil {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for range 8 {
		wg.Go(func() {
			for {
				if err := useALittle(c); err != nil {
					if !errors.Is(err, ErrContextIsDestroyed) {
						t.Errorf("%v", err)
					}
					return
				}
			}
		})
	}
	wg.Go(func() {
		if err := c.Destroy(); err != nil {
			t.Errorf("%v", err)
		}
	})
	wg.Wait()
}
