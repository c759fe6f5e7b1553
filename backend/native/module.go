package native

import (
	"fmt"
	"syscall"

	"pvdrm/backend/file"
	"pvdrm/drm"
)

// ModuleLoad implements drm.File.
func (f *File) ModuleLoad(name string, source []byte) (uint32, error) {
	n := uint64(len(source))
	if n == 0 || n > drm.MostSource(source) {
		return 0, fmt.Errorf("module source of %d bytes: %w", n, syscall.EINVAL)
	}
	f.loads.Lock()
	defer f.loads.Unlock()
	if err := f.lock(); err != nil {
		return 0, err
	}
	id, err := f.file.NextModule()
	var l *file.Load
	if err == nil {
		l, err = f.file.LoadPart(id, name, 0, n, source)
	}
	if err != nil {
		f.mu.Unlock()
		return 0, moduleError(err)
	}
	f.aside.Add(1)
	defer f.aside.Done()
	f.mu.Unlock()
	l.Compile(f.living)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.file.EndLoad(l); err != nil {
		return 0, moduleError(err)
	}
	return id, nil
}

// moduleError returns the error of a module with its log, if it has one.
func moduleError(err error) error {
	if log := file.Log(err); log != nil {
		return &drm.ModuleError{Log: string(log), Err: errnoOf(err)}
	}
	return errnoOf(err)
}

// ModuleUnload implements drm.File.
func (f *File) ModuleUnload(id uint32) error {
	if err := f.lock(); err != nil {
		return err
	}
	defer f.mu.Unlock()
	return errnoOf(f.file.Unload(id))
}

// ModuleFunction implements drm.File.
func (f *File) ModuleFunction(module uint32, name string) (uint32, drm.FunctionAttributes, error) {
	var attr drm.FunctionAttributes
	if err := checkName("kernel", name); err != nil {
		return 0, attr, err
	}
	if err := f.lock(); err != nil {
		return 0, attr, err
	}
	defer f.mu.Unlock()
	id, err := f.file.NextFunction()
	if err != nil {
		return 0, attr, err
	}
	attr, err = f.file.Function(module, id, name)
	if err != nil {
		return 0, attr, fmt.Errorf("kernel %q: %w", name, errnoOf(err))
	}
	return id, attr, nil
}

// ModuleGlobal implements drm.File.
func (f *File) ModuleGlobal(module uint32, name string) (addr, size uint64, err error) {
	if err := checkName("variable", name); err != nil {
		return 0, 0, err
	}
	if err := f.lock(); err != nil {
		return 0, 0, err
	}
	defer f.mu.Unlock()
	addr, size, err = f.file.Global(module, name)
	if err != nil {
		return 0, 0, fmt.Errorf("variable %q: %w", name, errnoOf(err))
	}
	return addr, size, nil
}

// checkName is EINVAL for a name that is none or too long.
func checkName(kind, name string) error {
	if len(name) == 0 || len(name) > drm.MaxName {
		return fmt.Errorf("a %s's name of %d bytes: %w", kind, len(name), syscall.EINVAL)
	}
	return nil
}
