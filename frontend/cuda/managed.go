package cuda

import (
	"bytes"
	"errors"
	"fmt"
)

// ManagedVariable is a variable of a module that the program reaches at the address that it has on
// the device: `__managed__` of CUDA C++, .attribute(.managed) of PTX.
type ManagedVariable struct {
	Name        string
	Size, Align uint64 // bytes
	Pragma      string // format of the line of PTX that gives it an address: the address, then the name
}

// LoadManaged is LoadModule for PTX with managed variables. Each lies in managed memory of its own
// for as long as the module is loaded: the device's code uses it there, and the contents that it begins
// with come from where the device would have it otherwise. The variables lie where those of like do, the same
// module in a context of another device, unless that is nil.
func (c *Context) LoadManaged(name string, ptx []byte, variables []ManagedVariable, like *Module) (*Module, error) {
	if len(variables) == 0 {
		return c.LoadModule(name, ptx)
	}
	all := make(managed, len(variables))
	ptx = bytes.TrimRight(bytes.Clone(ptx), "\x00")
	if like != nil {
		ptx, err := all.borrow(like, c, ptx, variables)
		if err != nil {
			return nil, err
		}
		return c.loadModule(name, ptx, all)
	}
	ptx, err := all.allocate(c, ptx, variables)
	if err != nil {
		return nil, errors.Join(err, all.free(c))
	}
	m, err := c.loadModule(name, ptx, all)
	if err != nil {
		return nil, errors.Join(err, all.free(c))
	}
	if err := m.initialise(); err != nil {
		return nil, errors.Join(err, m.Unload())
	}
	return m, nil
}

// managed are what the managed variables of a module lie in, by name. It does not change once
// the module is loaded.
type managed map[string]placedVariable

// placedVariable is a variable within managed memory, which may begin before it for its alignment.
type placedVariable struct {
	mem       *HostMem
	off, size uint64
	borrowed  bool // from the module of another context
}

func (p placedVariable) addr() DevicePtr { return p.mem.DevicePtr() + DevicePtr(p.off) }

// allocate makes the memory of variables, and returns the PTX with the addresses.
func (all managed) allocate(c *Context, ptx []byte, variables []ManagedVariable) ([]byte, error) {
	for _, v := range variables {
		room := uint64(0)
		if u := c.memory.unified; u != nil && v.Align > u.align {
			room = v.Align
		}
		h, err := c.MemAllocManaged(v.Size + room)
		if err != nil {
			return nil, fmt.Errorf("managed variable %q: %w", v.Name, err)
		}
		h.module = true
		p := placedVariable{mem: h, size: v.Size}
		if room != 0 {
			p.off = (v.Align - uint64(h.DevicePtr())%v.Align) % v.Align
		}
		all[v.Name] = p
		ptx = fmt.Appendf(ptx, v.Pragma, uint64(p.addr()), v.Name)
	}
	return ptx, nil
}

// borrow takes the memory of another module's variables, and returns the PTX with the addresses.
func (all managed) borrow(from *Module, c *Context, ptx []byte, variables []ManagedVariable) ([]byte, error) {
	for _, v := range variables {
		p, ok := from.managed[v.Name]
		if !ok || p.size != v.Size || !p.mem.ReachedBy(c) {
			return nil, errorf("cuModuleLoadData", ErrNotSupported, "managed variable %q lies where the device %d does not reach it", v.Name, c.dev.ordinal)
		}
		p.borrowed = true
		all[v.Name] = p
		ptx = fmt.Appendf(ptx, v.Pragma, uint64(p.addr()), v.Name)
	}
	return ptx, nil
}

// ManagedLives reports whether the module has managed variables whose memory is there: that of another
// context may have ended.
func (m *Module) ManagedLives() bool {
	for _, p := range m.managed {
		if p.mem.Bytes() == nil {
			return false
		}
	}
	return len(m.managed) > 0
}

// release frees the memory. Preconditions: no work uses it, and the caller has entered the context.
func (all managed) release(call string) (err error) {
	for _, p := range all {
		if !p.borrowed {
			err = errors.Join(err, p.mem.release(call))
		}
	}
	return err
}

// free frees the memory of a module that is not loaded.
func (all managed) free(c *Context) error {
	const call = "cuModuleLoadData"
	if err := c.enter(call); err != nil {
		return nil // it went with the context
	}
	defer c.life.RUnlock()
	return all.release(call)
}

// initialise copies what the managed variables begin with.
func (m *Module) initialise() error {
	const call = "cuModuleLoadData"
	c := m.c
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	for name, p := range m.managed {
		c.modMu.Lock()
		from, err := m.place(call, name)
		c.modMu.Unlock()
		if err != nil {
			return err
		}
		if from.size < p.size {
			return errorf(call, ErrUnknown, "managed variable %q: the driver has %d of its %d bytes", name, from.size, p.size)
		}
		if err := c.copyAndWait(call, p.addr(), from.addr, p.size); err != nil {
			return err
		}
	}
	return nil
}

// Managed finds a managed variable: its address, in the program too, and its size in bytes. It is
// ErrNotFound when there is none of that name.
func (m *Module) Managed(name string) (DevicePtr, uint64, error) {
	if _, ok := m.managed[name]; !ok {
		return 0, 0, errorf("cuLibraryGetManaged", ErrNotFound, "the module has no managed variable %q", name)
	}
	return m.Global(name)
}
