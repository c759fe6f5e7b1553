package frontend

import (
	"errors"
	"fmt"
	"syscall"

	"pvdrm/drm"
	"pvdrm/hypercall"
)

// module is a loaded module; File.mu guards it.
type module struct {
	functions []uint32
	closed    bool // kept in the table until the backend is told
	told      bool // the backend is, and the ids of its functions can be used again
}

// ModuleLoad is PVDRM_MODULE_LOAD.
func (f *File) ModuleLoad(name string, source []byte) (uint32, error) {
	if err := f.enter(); err != nil {
		return 0, err
	}
	defer f.leave()
	if n := uint64(len(source)); n == 0 || n > drm.MostSource(source) {
		return 0, fmt.Errorf("module source of %d bytes: %w", n, syscall.EINVAL)
	}
	id, err := add(f, f.modules, &module{})
	if err != nil {
		return 0, err
	}
	if err := f.sendModule(id, name[:min(len(name), drm.MaxName)], source); err != nil {
		_, _ = take(f, f.modules, id) // it is ours; err is what to report
		return 0, err
	}
	return id, nil
}

// sendModule sends the source in parts through the bulk area.
func (f *File) sendModule(id uint32, name string, source []byte) error {
	f.loadMu.Lock()
	defer f.loadMu.Unlock()
	bulk := f.link.ring.Bulk()
	for at := 0; at < len(source); {
		n := copy(bulk, source[at:])
		m := hypercall.ModuleLoad{Module: id, Bytes: uint32(n), Offset: uint64(at), Total: uint64(len(source)), Name: name}
		log, err := f.link.do(hypercall.OpModuleLoad, m.Append(nil))
		if err != nil && len(log) > 0 {
			return &drm.ModuleError{Log: string(log), Err: err}
		}
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// ModuleUnload is PVDRM_MODULE_UNLOAD.
func (f *File) ModuleUnload(id uint32) error {
	if err := f.enter(); err != nil {
		return err
	}
	defer f.leave()
	f.mu.Lock()
	mod, err := f.moduleLocked(id)
	if err == nil {
		mod.closed = true
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	err = f.link.post(hypercall.OpModuleUnload, hypercall.ID{ID: id}.Append(nil))
	// Only now: another module or function that had an id of these would be refused.
	f.mu.Lock()
	defer f.mu.Unlock()
	mod.told = true
	for _, fn := range mod.functions {
		_, e := f.funcs.Take(fn)
		err = errors.Join(err, e)
	}
	_, gone := f.modules.Take(id)
	return errors.Join(err, gone)
}

// moduleLocked finds a module that is not being unloaded. Caller holds mu.
func (f *File) moduleLocked(id uint32) (*module, error) {
	mod, err := f.modules.Get(id)
	if err == nil && mod.closed {
		return nil, fmt.Errorf("module %d is unloaded: %w", id, syscall.ENOENT)
	}
	return mod, err
}

// ModuleFunction is PVDRM_MODULE_FUNCTION.
func (f *File) ModuleFunction(module uint32, name string) (uint32, drm.FunctionAttributes, error) {
	if err := f.enter(); err != nil {
		return 0, drm.FunctionAttributes{}, err
	}
	defer f.leave()
	var attr drm.FunctionAttributes
	if len(name) == 0 || len(name) > drm.MaxName {
		return 0, attr, fmt.Errorf("a kernel's name of %d bytes: %w", len(name), syscall.EINVAL)
	}
	f.mu.Lock()
	mod, err := f.moduleLocked(module)
	f.mu.Unlock()
	if err != nil {
		return 0, attr, err
	}
	id, err := add(f, f.funcs, struct{}{})
	if err != nil {
		return 0, attr, err
	}
	b, err := f.link.do(hypercall.OpModuleFunction, hypercall.Symbol{Module: module, Function: id, Name: name}.Append(nil))
	var m hypercall.Function
	if err == nil {
		m, err = hypercall.DecodeFunction(b)
	}
	if err != nil {
		_, _ = take(f, f.funcs, id) // it is ours; err is what to report
		return 0, attr, fmt.Errorf("kernel %q: %w", name, err)
	}
	f.mu.Lock()
	closed := mod.closed // meanwhile, and the function with it
	if mod.told {
		_, err = f.funcs.Take(id)
	} else {
		mod.functions = append(mod.functions, id)
	}
	f.mu.Unlock()
	if closed {
		return 0, attr, errors.Join(fmt.Errorf("kernel %q: module %d is unloaded: %w", name, module, syscall.ENOENT), err)
	}
	return id, drm.FunctionAttributes(m), nil
}

// ModuleGlobal is PVDRM_MODULE_GLOBAL.
func (f *File) ModuleGlobal(module uint32, name string) (addr, size uint64, err error) {
	if err := f.enter(); err != nil {
		return 0, 0, err
	}
	defer f.leave()
	if len(name) == 0 || len(name) > drm.MaxName {
		return 0, 0, fmt.Errorf("a variable's name of %d bytes: %w", len(name), syscall.EINVAL)
	}
	b, err := f.link.do(hypercall.OpModuleGlobal, hypercall.Symbol{Module: module, Name: name}.Append(nil))
	if err != nil {
		return 0, 0, fmt.Errorf("variable %q: %w", name, err)
	}
	m, err := hypercall.DecodeGlobal(b)
	return m.Addr, m.Size, err
}
