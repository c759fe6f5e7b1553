package nvidia

import "errors"

// load loads a module that was compiled.
func (w *worker) load(q *request, r *reply) error {
	if len(q.Image) == 0 {
		return errors.New("no machine code")
	}
	var m uintptr
	if err := w.drv.check("cuModuleLoadData", w.drv.moduleLoadData(&m, &q.Image[0])); err != nil {
		return err
	}
	if err := w.describe(m, q, r); err != nil {
		w.drv.moduleUnload(m) // the first error is the one to tell
		return err
	}
	w.modules[q.ID] = m
	return nil
}

// describe finds the kernels and variables of a module.
func (w *worker) describe(m uintptr, q *request, r *reply) error {
	d := w.drv
	for _, name := range q.Names {
		var f uintptr
		if err := d.check("cuModuleGetFunction "+name, d.moduleGetFunction(&f, m, name)); err != nil {
			return err
		}
		info := functionInfo{Handle: uint64(f)}
		for _, a := range []struct {
			attr int32
			to   *int
		}{{funcMaxThreads, &info.MaxThreads}, {funcShared, &info.Shared}, {funcConst, &info.Const}, {funcLocal, &info.Local}, {funcRegs, &info.Regs}} {
			var v int32
			if err := d.check("cuFuncGetAttribute", d.funcGetAttribute(&v, a.attr, f)); err != nil {
				return err
			}
			*a.to = int(v)
		}
		if err := d.check("cuFuncSetAttribute", d.funcSetAttribute(f, funcMaxDynamicShared, int32(max(0, w.optin-info.Shared)))); err != nil {
			return err
		}
		r.Functions = append(r.Functions, info)
	}
	for _, name := range q.Vars {
		var v varInfo
		if d.moduleGetGlobal(&v.Addr, &v.Size, m, name) != resultOK {
			v = varInfo{} // nothing uses it, and the compiler left it out
		}
		r.Vars = append(r.Vars, v)
	}
	return nil
}
