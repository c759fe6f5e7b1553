package file

import (
	"errors"
	"fmt"
	"syscall"

	"pvdrm/backend/translate"
	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/internal/sample"
)

// module is a loaded module and the ids of its functions.
type module struct {
	gpu.Module
	functions []uint32
	charged   quota.Amounts
}

// module finds a module that is loaded. One that is being compiled has an error of its own,
// so that a frontend that does not wait for it learns what is wrong.
func (f *File) module(id uint32) (*module, error) {
	if l := f.compiling; l != nil && l.module == id {
		return nil, fmt.Errorf("module %d is being compiled; wait for the answer to its last part: %w", id, syscall.EBUSY)
	}
	return f.modules.Get(id)
}

// maxModuleName bounds the name that a module has in messages, in bytes.
const maxModuleName = 1024

// moduleName returns the name of a module in messages.
func moduleName(name string) string {
	if name == "" {
		return "module"
	}
	return sample.Printable(name, maxModuleName)
}

// NextModule returns an id that no module has.
func (f *File) NextModule() (uint32, error) { return f.modules.Next() }

// NextFunction returns an id that no function has.
func (f *File) NextFunction() (uint32, error) { return f.functions.Next() }

// Unload frees a module and the ids of its functions.
func (f *File) Unload(id uint32) error {
	mod, err := f.module(id)
	if err != nil {
		return err
	}
	_, err = f.modules.Take(id)
	for _, fn := range mod.functions {
		_, gone := f.functions.Take(fn)
		err = errors.Join(err, gone)
	}
	f.account.Discharge(quota.Functions, uint64(len(mod.functions)))
	err = errors.Join(err, mod.Close())
	f.account.DischargeEach(mod.charged)
	return err
}

// Function finds a kernel and gives it an id.
func (f *File) Function(moduleID, id uint32, name string) (attr drm.FunctionAttributes, err error) {
	mod, err := f.module(moduleID)
	if err != nil {
		return attr, err
	}
	if err := f.functions.Vacant(id); err != nil {
		return attr, err
	}
	fn, err := mod.Function(name)
	if err != nil {
		return attr, err
	}
	a := fn.Attributes()
	if len(a.Params) > drm.MaxParams {
		return attr, fmt.Errorf("kernel %s has %d parameters: %w", a.Name, len(a.Params), syscall.E2BIG)
	}
	if err := f.account.Charge(quota.Functions, 1); err != nil {
		return attr, err
	}
	if err := f.functions.Put(id, fn); err != nil {
		f.account.Discharge(quota.Functions, 1)
		return attr, err
	}
	mod.functions = append(mod.functions, id)
	return translate.Attributes(a), nil
}

// Global finds a variable.
func (f *File) Global(moduleID uint32, name string) (addr, size uint64, err error) {
	mod, err := f.module(moduleID)
	if err != nil {
		return 0, 0, err
	}
	return mod.Global(name)
}
