package native

import (
	"fmt"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// module is a loaded module. File.mu guards functions.
type module struct {
	gpu.Module
	source    uint64   // bytes
	functions []uint32 // ids of its functions
}

// ModuleLoad implements drm.File.
func (f *File) ModuleLoad(name string, source []byte) (uint32, error) {
	n := uint64(len(source))
	if n == 0 || n > hypercall.MaxSource {
		return 0, fmt.Errorf("module source of %d bytes: %w", n, syscall.EINVAL)
	}
	f.mu.Lock()
	sources := f.sources
	f.mu.Unlock()
	if sources+n > hypercall.MaxSource {
		return 0, fmt.Errorf("modules of %d bytes are loaded, %d more are too many: %w", sources, n, syscall.ENOSPC)
	}
	if name == "" {
		name = "module"
	}
	m, err := f.ctx.LoadModule(name[:min(len(name), hypercall.MaxName)], source)
	if err != nil {
		return 0, &drm.ModuleError{Log: err.Error(), Err: errnoOf(err)}
	}
	id, err := add(f, f.modules, &module{Module: m, source: n})
	if err != nil {
		_ = m.Close() // err is what to report
		return 0, err
	}
	f.mu.Lock()
	f.sources += n
	f.mu.Unlock()
	return id, nil
}

// ModuleUnload implements drm.File.
func (f *File) ModuleUnload(id uint32) error {
	m, err := take(f, f.modules, id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	for _, fn := range m.functions {
		_, _ = f.functions.Take(fn) // only this takes functions, and each once
	}
	f.sources -= m.source
	f.mu.Unlock()
	return errnoOf(m.Close())
}

// ModuleFunction implements drm.File.
func (f *File) ModuleFunction(id uint32, name string) (uint32, drm.FunctionAttributes, error) {
	var attr drm.FunctionAttributes
	m, err := f.symbol(id, "kernel", name)
	if err != nil {
		return 0, attr, err
	}
	fn, err := m.Function(name)
	if err != nil {
		return 0, attr, fmt.Errorf("kernel %q: %w", name, errnoOf(err))
	}
	a := fn.Attributes()
	if len(a.Params) > hypercall.MaxParams {
		return 0, attr, fmt.Errorf("kernel %q has %d parameters: %w", name, len(a.Params), syscall.E2BIG)
	}
	attr = drm.FunctionAttributes{
		ParamBytes: uint32(a.ParamBytes), SharedBytes: uint32(a.SharedBytes), LocalBytes: uint32(a.LocalBytes),
		ConstBytes: uint32(a.ConstBytes), Regs: uint32(a.Regs), MaxThreads: uint32(a.MaxThreads),
	}
	for _, p := range a.Params {
		attr.Params = append(attr.Params, drm.FunctionParam{Offset: uint32(p.Offset), Size: uint32(p.Size)})
	}
	function, err := add(f, f.functions, fn)
	if err != nil {
		return 0, attr, err
	}
	f.mu.Lock()
	m.functions = append(m.functions, function)
	f.mu.Unlock()
	return function, attr, nil
}

// ModuleGlobal implements drm.File.
func (f *File) ModuleGlobal(id uint32, name string) (addr, size uint64, err error) {
	m, err := f.symbol(id, "variable", name)
	if err != nil {
		return 0, 0, err
	}
	addr, size, err = m.Global(name)
	if err != nil {
		return 0, 0, fmt.Errorf("variable %q: %w", name, errnoOf(err))
	}
	return addr, size, nil
}

// symbol finds the module in which a name is to be looked up.
func (f *File) symbol(id uint32, what, name string) (*module, error) {
	if len(name) == 0 || len(name) > hypercall.MaxName {
		return nil, fmt.Errorf("a %s's name of %d bytes: %w", what, len(name), syscall.EINVAL)
	}
	return find(f, f.modules, id)
}
