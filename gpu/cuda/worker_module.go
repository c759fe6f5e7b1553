package cuda

import (
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// load loads a module, compiling it unless that was done before.
func (w *worker) load(q *request, r *reply) error {
	image := q.Image
	if !q.Built {
		var err error
		if image, err = w.compile(image); err != nil {
			return err
		}
		r.Image = image
	}
	var m uintptr
	if err := w.drv.check("cuModuleLoadData", w.drv.moduleLoadData(&m, &image[0])); err != nil {
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

// compile turns PTX into what the GPU runs.
func (w *worker) compile(source []byte) (image []byte, err error) {
	const logBytes = 8 << 10
	d := w.drv
	log, err := unix.Mmap(-1, 0, logBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(log) }() // our own mapping; cannot fail
	options := []int32{jitErrorLog, jitErrorLogBytes}
	values := []uintptr{uintptr(addressOf(log)), logBytes}
	var state uintptr
	var pin runtime.Pinner // the driver reads them until the link ends
	defer pin.Unpin()
	pin.Pin(&options[0])
	pin.Pin(&values[0])
	if err := d.check("cuLinkCreate", d.linkCreate(uint32(len(options)), &options[0], &values[0], &state)); err != nil {
		return nil, err
	}
	defer d.linkDestroy(state)
	source = append(source, 0) // the driver wants a C string
	err = d.check("cuLinkAddData", d.linkAddData(state, inputPTX, &source[0], uint64(len(source)), "module", 0, nil, nil))
	var cubin uintptr
	var size uint64
	if err == nil {
		err = d.check("cuLinkComplete", d.linkComplete(state, &cubin, &size))
	}
	if err != nil {
		e := err.(*driverError) // check makes no other
		e.Text = strings.TrimSpace(unix.ByteSliceToString(log))
		return nil, e
	}
	return append([]byte(nil), bytesAt(uint64(cubin), size)...), nil
}
