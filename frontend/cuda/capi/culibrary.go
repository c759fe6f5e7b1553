package capi

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"pvdrm/frontend/cuda"
)

// library is a CUlibrary: an image that is loaded into a context when it is
// first used there.
type library struct {
	ptx    []byte
	handle uint64

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

// Values of CUlibraryOption.
const (
	libraryUniversalTable = 0 // functions of the program for kernels
	libraryPreserved      = 1 // saves a copy of the image
	libraryOptionCount    = 2

	maxLibraryOptions = 16
)

// libraryOptions checks the options of a library: those of the compiler from argument 2 on, then
// its own.
func (c *call) libraryOptions(file bool) (*jit, error) {
	j, err := c.jitOptions(c.u32(4), c.u64(2), c.u64(3))
	if err != nil {
		return nil, err
	}
	n := c.u32(7)
	if n == 0 {
		return j, nil
	}
	if n > maxLibraryOptions {
		return nil, c.fail(cuda.ErrInvalidValue, "%d options of the library", n)
	}
	b, err := c.read(c.u64(5), 4*int(n))
	if err != nil {
		return nil, err
	}
	for ; len(b) > 0; b = b[4:] {
		switch o := le32(b); {
		case o >= libraryOptionCount || o == libraryPreserved && file:
			return nil, c.fail(cuda.ErrInvalidValue, "the option %d of a library", o)
		case o == libraryUniversalTable:
			return nil, c.fail(cuda.ErrNotSupported, "functions of the program for kernels")
		}
	}
	return j, nil
}

func libraryLoadData(c *call) error {
	return c.loadLibrary(false, func(dev *cuda.Device) ([]byte, error) {
		return readImage(c.lib.cfg.Memory, c.u64(1), takenBy(dev))
	})
}

// leastCapable finds the device whose code the others run, too.
func (c *call) leastCapable() *cuda.Device {
	return slices.MinFunc(c.devices(), func(a, b *cuda.Device) int { return cmp.Compare(capability(a), capability(b)) })
}

func libraryLoadFromFile(c *call) error {
	return c.loadLibrary(true, func(dev *cuda.Device) ([]byte, error) {
		path, err := c.text(1)
		if err != nil {
			return nil, err
		}
		return c.readFile(path, dev)
	})
}

// loadLibrary makes a library of an image, which is compiled when a context uses it first. The
// compiler's logs are empty until then.
func (c *call) loadLibrary(file bool, image func(*cuda.Device) ([]byte, error)) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	j, err := c.libraryOptions(file)
	if err != nil {
		return err
	}
	ptx, err := image(c.leastCapable())
	if err := errors.Join(err, j.done(0, err)); err != nil {
		return err
	}
	l := &library{ptx: j.limited(ptx), loaded: map[*context]*module{}, kernels: map[string]*kernel{}}
	l.handle = c.lib.handles.add(l)
	return to.set(l.handle)
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
	var like *cuda.Module // managed variables are the same on all devices
	for other, m := range l.loaded {
		if c.lib.driver.Load().DeviceCount() > 1 && !other.isEnded() && m.ManagedLives() {
			like = m.Module
		}
	}
	m, _, err := c.loadLike(x, "library", l.ptx, like)
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
			err = errors.Join(err, m.Unload(), c.dropModule(m))
		}
	}
	for _, k := range l.kernels {
		c.lib.handles.remove(k.handle)
	}
	c.lib.handles.remove(c.u64(0))
	return err
}

func libraryGetKernel(c *call) error {
	to, l, err := c.outAndLibrary()
	if err != nil {
		return err
	}
	name, err := c.text(2)
	if err != nil {
		return err
	}
	if err := c.libraryHas(l, name); err != nil {
		return err
	}
	return to.set(c.kernelOf(l, name))
}

// kernelOf is the handle of a kernel of a library.
func (c *call) kernelOf(l *library, name string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kernels[name]
	if k == nil {
		k = &kernel{lib: l, name: name}
		k.handle = c.lib.handles.add(k)
		l.kernels[name] = k
	}
	return k.handle
}

// libraryHas checks that a library has a kernel. A thread without a context may ask, too: errors of
// the compiler then come when the kernel is first used in a context.
func (c *call) libraryHas(l *library, name string) error {
	if len(c.thread.stack) == 0 {
		if names, err := kernelNames(l.ptx); err != nil {
			return err
		} else if !slices.Contains(names, name) {
			return c.fail(cuda.ErrNotFound, "the library has no kernel %s", name)
		}
		return nil
	}
	m, err := c.libraryModule(l)
	if err != nil {
		return err
	}
	_, err = m.Function(name)
	return err
}

func (c *call) kernelFunction(k *kernel) (*function, error) {
	m, err := c.libraryModule(k.lib)
	if err != nil {
		return nil, err
	}
	return c.functionOf(m, k.name)
}

func kernelGetFunction(c *call) error {
	to, f, err := c.outAndFunction(0, 8, 1)
	if err != nil {
		return err
	}
	return to.set(f.handle)
}

func libraryGetModule(c *call) error {
	to, l, err := c.outAndLibrary()
	if err != nil {
		return err
	}
	m, err := c.libraryModule(l)
	if err != nil {
		return err
	}
	return to.set(m.handle)
}

func libraryGetManaged(c *call) error {
	return c.getGlobal(c.libraryOfVariable, func(m *module, name string) (cuda.DevicePtr, uint64, error) { return m.Managed(name) })
}

func libraryGetGlobal(c *call) error { return c.getGlobal(c.libraryOfVariable, globalOf) }

// libraryOfVariable is the library of argument 2 in the current context.
func (c *call) libraryOfVariable() (*module, error) {
	l, err := c.library(2)
	if err != nil {
		return nil, err
	}
	return c.libraryModule(l)
}
