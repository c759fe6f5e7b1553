package nvidia

import (
	"errors"

	"pvdrm/gpu"
)

// maxFuncParams bounds the parameters of a kernel that a worker tells.
const maxFuncParams = 4096

// load loads a module: what was compiled, or the program's machine code. The driver copies it.
func (w *worker) load(q *request, r *reply) error {
	defer q.forget()
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

// find finds kernels and variables of a module.
func (w *worker) find(q *request, r *reply) error {
	m := w.modules[q.ID]
	if m == 0 {
		return errors.New("no such module")
	}
	return w.describe(m, q, r)
}

// describe finds the kernels and variables of a module.
func (w *worker) describe(m uintptr, q *request, r *reply) error {
	d := w.drv
	for _, name := range q.Names {
		var f uintptr
		if err := d.check("cuModuleGetFunction "+name, d.moduleGetFunction(&f, m, name)); err != nil {
			return err
		}
		info, err := w.function(f)
		if err != nil {
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

// function describes a kernel, and lets it have all the shared memory and the clusters that a launch may ask for.
func (w *worker) function(f uintptr) (info functionInfo, err error) {
	d := w.drv
	info.Handle = uint64(f)
	var needs int
	for _, a := range []struct {
		attr  int32
		to    *int
		newer bool // some drivers do not know it
	}{
		{attr: funcMaxThreads, to: &info.MaxThreads}, {attr: funcShared, to: &info.Shared}, {attr: funcConst, to: &info.Const},
		{attr: funcLocal, to: &info.Local}, {attr: funcRegs, to: &info.Regs},
		{attr: funcPTX, to: &info.PTXVersion}, {attr: funcBinary, to: &info.Binary},
		{attr: funcNeedsCluster, to: &needs, newer: true}, {attr: funcClusterX, to: &info.Cluster[0], newer: true},
		{attr: funcClusterX + 1, to: &info.Cluster[1], newer: true}, {attr: funcClusterX + 2, to: &info.Cluster[2], newer: true},
	} {
		var v int32
		code := d.funcGetAttribute(&v, a.attr, f)
		if a.newer && code == resultInvalidValue {
			continue
		}
		if err := d.check("cuFuncGetAttribute", code); err != nil {
			return info, err
		}
		*a.to = int(v)
	}
	info.NeedsCluster = needs != 0
	if d.funcGetParamInfo != nil {
		info.Params, info.Laid = w.params(f)
	}
	if w.clusters {
		if err := d.check("cuFuncSetAttribute", d.funcSetAttribute(f, funcNotPortable, 1)); err != nil {
			return info, err
		}
	}
	return info, d.check("cuFuncSetAttribute", d.funcSetAttribute(f, funcMaxDynamicShared, int32(max(0, w.optin-info.Shared))))
}

// params lists the parameters of a kernel; false where the driver does not tell them.
func (w *worker) params(f uintptr) (all []gpu.Param, told bool) {
	for i := range uint64(maxFuncParams) {
		var off, size uint64
		switch w.drv.funcGetParamInfo(f, i, &off, &size) {
		case resultOK:
			all = append(all, gpu.Param{Offset: int(off), Size: int(size)})
		case resultInvalidValue: // there is no such parameter
			return all, true
		default:
			return nil, false
		}
	}
	return all, true
}
