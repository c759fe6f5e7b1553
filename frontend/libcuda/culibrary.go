package libcuda

import (
	"errors"
	"sync"

	"pvdrm/frontend/cuda"
)

// library is a CUlibrary: an image that is loaded into a context when it is
// first used there.
type library struct {
	ptx []byte

	mu      sync.Mutex
	loaded  map[*context]*module
	kernels map[string]*kernel
}

// kernel is a CUkernel: a function of a library in whichever context is current.
type kernel struct {
	lib    *library
	name   string
	handle uint64
}

func libraryLoadData(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	dev, err := c.lib.driver.Load().Device(0)
	if err != nil {
		return err
	}
	ptx, err := readImage(c.lib.cfg.Memory, c.u64(1), capability(dev))
	if err != nil {
		return err
	}
	return to.set(c.lib.handles.add(&library{ptx: ptx, loaded: map[*context]*module{}, kernels: map[string]*kernel{}}))
}

func libraryLoadFromFile(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	path, err := c.text(1)
	if err != nil {
		return err
	}
	dev, err := c.lib.driver.Load().Device(0)
	if err != nil {
		return err
	}
	ptx, err := c.readFile(path, dev)
	if err != nil {
		return err
	}
	return to.set(c.lib.handles.add(&library{ptx: ptx, loaded: map[*context]*module{}, kernels: map[string]*kernel{}}))
}

func (c *call) library(i int) (*library, error) {
	l, ok := find[*library](c.lib, c.u64(i))
	if !ok {
		return nil, c.fail(cuda.ErrInvalidHandle, "0x%x is no library", c.u64(i))
	}
	return l, nil
}

// libraryModule is the library in the current context.
func (c *call) libraryModule(l *library) (*module, error) {
	x, err := c.current()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.loaded[x]; m != nil {
		return m, nil
	}
	m, _, err := c.load(x, "library", l.ptx)
	if err != nil {
		return nil, err
	}
	l.loaded[x] = m
	return m, nil
}

func libraryUnload(c *call) error {
	l, err := c.library(0)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for x, m := range l.loaded {
		if !x.isEnded() {
			err = errors.Join(err, m.Unload())
		}
	}
	for _, k := range l.kernels {
		c.lib.handles.remove(k.handle)
	}
	c.lib.handles.remove(c.u64(0))
	return err
}

func libraryGetKernel(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	l, err := c.library(1)
	if err != nil {
		return err
	}
	name, err := c.text(2)
	if err != nil {
		return err
	}
	m, err := c.libraryModule(l)
	if err != nil {
		return err
	}
	if _, err := m.Function(name); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kernels[name]
	if k == nil {
		k = &kernel{lib: l, name: name}
		k.handle = c.lib.handles.add(k)
		l.kernels[name] = k
	}
	return to.set(k.handle)
}

func (c *call) kernelFunction(k *kernel) (*function, error) {
	m, err := c.libraryModule(k.lib)
	if err != nil {
		return nil, err
	}
	return c.functionOf(m, k.name)
}

func kernelGetFunction(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	f, err := c.function(1)
	if err != nil {
		return err
	}
	return to.set(f.handle)
}

func libraryGetModule(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	l, err := c.library(1)
	if err != nil {
		return err
	}
	m, err := c.libraryModule(l)
	if err != nil {
		return err
	}
	return to.set(c.lib.handles.handleOf(m))
}

// handleOf finds the handle of what was added; it is seldom asked for.
func (h *handles) handleOf(v any) uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for k, have := range h.all {
		if have == v {
			return k
		}
	}
	return 0
}

func libraryGetGlobal(c *call) error {
	addr, err := c.optional(0, 8)
	if err != nil {
		return err
	}
	size, err := c.optional(1, 8)
	if err != nil {
		return err
	}
	l, err := c.library(2)
	if err != nil {
		return err
	}
	name, err := c.text(3)
	if err != nil {
		return err
	}
	m, err := c.libraryModule(l)
	if err != nil {
		return err
	}
	p, n, err := m.Global(name)
	if err != nil {
		return err
	}
	return errors.Join(addr.set(uint64(p)), size.set(n))
}
