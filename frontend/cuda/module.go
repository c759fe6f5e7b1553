package cuda

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"pvdrm/drm"
	"pvdrm/gpu/fatbin"
)

// Module is a CUmodule: loaded PTX or machine code.
type Module struct {
	c  *Context
	id uint32

	unloaded atomic.Bool // set under Context.modMu
	printers *fatbin.Callers

	// Guarded by Context.modMu.
	functions map[string]*Function
	globals   map[string]global
	managed   managed
}

type global struct {
	addr DevicePtr
	size uint64
}

// Function is a CUfunction: a kernel of a module.
type Function struct {
	m    *Module
	name string
	id   uint32
	attr drm.FunctionAttributes

	prints bool // it may, or what it calls
}

// LoadModule is cuModuleLoadData for PTX text, or for machine code where the device takes it; the name is used in messages.
// PTX that is refused is ErrInvalidPTX with a *drm.ModuleError that holds the
// log. Zero bytes at the end, as C programs have them, are dropped.
func (c *Context) LoadModule(name string, ptx []byte) (*Module, error) {
	return c.loadModule(name, ptx, nil)
}

func (c *Context) loadModule(name string, ptx []byte, variables managed) (*Module, error) {
	const call = "cuModuleLoadData"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	code := drm.IsImage(ptx)
	if !code {
		ptx = bytes.TrimRight(ptx, "\x00")
	}
	if len(ptx) == 0 {
		return nil, errorf(call, ErrInvalidValue, "the module %q is empty", name)
	}
	if len(name) >= drm.ModuleNameBytes {
		name = name[len(name)-drm.ModuleNameBytes+1:] // the end of a path tells most
	}
	source := ptx
	if !code {
		source = c.heap.tell(ptx)
	}
	printing := make(chan *fatbin.Callers, 1)
	go func() { printing <- fatbin.CallersOf(ptx, printer) }() // of compressed machine code this takes a while, too
	id, err := c.file.ModuleLoad(name, source)                 // long, so without the lock that launches take
	printers := <-printing
	if err != nil {
		return nil, c.fail(call, err)
	}
	if !code {
		c.heap.fix(ptx)
	}
	c.modMu.Lock()
	defer c.modMu.Unlock()
	m := &Module{c: c, id: id, printers: printers, functions: map[string]*Function{}, globals: map[string]global{}, managed: variables}
	c.modules[m] = struct{}{}
	return m, nil
}

// Unload is cuModuleUnload. It waits for the work of the context first; the
// functions and variables of the module are gone after that.
func (m *Module) Unload() error {
	const call = "cuModuleUnload"
	c := m.c
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if err := c.waitIdle(call); err != nil {
		return err
	}
	c.modMu.Lock()
	defer c.modMu.Unlock()
	if err := m.loaded(call); err != nil {
		return err
	}
	m.unloaded.Store(true)
	delete(c.modules, m)
	c.memory.mu.Lock()
	for _, g := range m.globals {
		c.memory.byAddr.remove(uint64(g.addr))
	}
	c.memory.mu.Unlock()
	if err := c.file.ModuleUnload(m.id); err != nil {
		return c.fail(call, err)
	}
	return m.managed.release(call)
}

// loaded fails if the module is not loaded any more.
func (m *Module) loaded(call string) error {
	if m.unloaded.Load() {
		return errorf(call, ErrInvalidHandle, "the module is unloaded")
	}
	return nil
}

// Function is cuModuleGetFunction. It is ErrNotFound when there is no kernel of
// that name.
func (m *Module) Function(name string) (*Function, error) {
	const call = "cuModuleGetFunction"
	c := m.c
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	c.modMu.Lock()
	defer c.modMu.Unlock()
	if err := m.loaded(call); err != nil {
		return nil, err
	}
	if f := m.functions[name]; f != nil {
		return f, nil
	}
	id, attr, err := c.file.ModuleFunction(m.id, name)
	if err != nil {
		return nil, c.fail(call, fmt.Errorf("kernel %q: %w", name, err))
	}
	if err := checkParams(attr); err != nil {
		return nil, &Error{call, ErrUnknown, fmt.Errorf("kernel %q: %w", name, err)}
	}
	f := &Function{m: m, name: name, id: id, attr: attr, prints: m.printers.May(name)}
	m.functions[name] = f
	return f, nil
}

// checkParams makes sure that arguments can be put where attr says.
func checkParams(attr drm.FunctionAttributes) error {
	if attr.ParamBytes > drm.MaxLaunch {
		return fmt.Errorf("%d bytes of parameters, of which %d are possible", attr.ParamBytes, drm.MaxLaunch)
	}
	for i, p := range attr.Params {
		if p.Offset > attr.ParamBytes || p.Size > attr.ParamBytes-p.Offset {
			return fmt.Errorf("parameter %d, %d bytes at %d, lies outside the %d bytes of parameters", i, p.Size, p.Offset, attr.ParamBytes)
		}
	}
	return nil
}

// Global is cuModuleGetGlobal: the address and the size in bytes of a variable
// in .global or .const. It is ErrNotFound when there is none of that name.
func (m *Module) Global(name string) (DevicePtr, uint64, error) {
	const call = "cuModuleGetGlobal"
	c := m.c
	if err := c.enter(call); err != nil {
		return 0, 0, err
	}
	defer c.life.RUnlock()
	c.modMu.Lock()
	defer c.modMu.Unlock()
	if err := m.loaded(call); err != nil {
		return 0, 0, err
	}
	if p, ok := m.managed[name]; ok {
		return p.addr(), p.size, nil
	}
	if g, ok := m.globals[name]; ok {
		return g.addr, g.size, nil
	}
	g, err := m.place(call, name)
	if err != nil {
		return 0, 0, err
	}
	addr, size := uint64(g.addr), g.size
	m.globals[name] = g
	if size > 0 {
		c.memory.mu.Lock()
		c.memory.note(addr, size, allocation{})
		c.memory.mu.Unlock()
	}
	return g.addr, g.size, nil
}

// place asks the driver where a variable is.
func (m *Module) place(call, name string) (global, error) {
	addr, size, err := m.c.file.ModuleGlobal(m.id, name)
	if err != nil {
		return global{}, m.c.fail(call, fmt.Errorf("variable %q: %w", name, err))
	}
	if size > math.MaxUint64-addr {
		return global{}, errorf(call, ErrUnknown, "variable %q: the driver places %d bytes at 0x%x", name, size, addr)
	}
	return global{DevicePtr(addr), size}, nil
}

// Name is the name of the kernel.
func (f *Function) Name() string { return f.name }

// Attributes is cuFuncGetAttribute for all attributes at once.
func (f *Function) Attributes() drm.FunctionAttributes {
	a := f.attr
	a.Params = slices.Clone(a.Params)
	return a
}

// ParamBytes is the size of all arguments of the kernel.
func (f *Function) ParamBytes() int { return int(f.attr.ParamBytes) }
