package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// module is a loaded PTX module. It implements gpu.Module.
type module struct {
	ctx     *context
	id      uint64
	kernels map[string]*function
	vars    map[string]varInfo
	load    request // that loaded it, with its source
	closed  atomic.Bool
}

// function is a kernel of a module. It implements gpu.Function.
type function struct {
	mod    *module
	handle uint64 // under context.gen
	attrs  gpu.FunctionAttributes
	cost   atomic.Int64 // ns that it took the last time; 0 before
}

// LoadModule implements gpu.Context.
func (c *context) LoadModule(file string, source []byte) (gpu.Module, error) {
	m, err := c.loadModule(file, source)
	if err != nil {
		return nil, c.wrap("load module", err)
	}
	return m, nil
}

// loadModule checks the source as every device does, so that the same sources
// are taken everywhere and diagnostics have positions; what is left for the
// driver to refuse is what it lacks itself.
func (c *context) loadModule(file string, source []byte) (*module, error) {
	parsed, err := ptx.Load(file, source)
	if err != nil {
		return nil, err
	}
	q := &request{Op: opLoad, Image: source}
	var kernels []*ptx.Func
	var data uint64
	for _, d := range parsed.Directives {
		switch d := d.(type) {
		case *ptx.Func:
			if d.Entry && d.Defined {
				kernels = append(kernels, d)
				q.Names = append(q.Names, d.Name)
			}
		case *ptx.Var:
			if d.Space == ptx.SpaceGlobal || d.Space == ptx.SpaceConst {
				q.Vars = append(q.Vars, d.Name)
				data += d.Size()
			}
		}
	}
	if data > c.dev.props.VRAMBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes of variables", gpu.ErrNoMemory, file, data)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	m := &module{ctx: c, id: c.id(), kernels: map[string]*function{}, vars: map[string]varInfo{}}
	q.ID = m.id
	m.load = *q
	image, k := c.dev.cache.get(source)
	if image != nil {
		q.Image, q.Built = image, true
	}
	var r reply
	if err := c.do(q, nil, &r); err != nil {
		return nil, buildError(file, err)
	}
	if len(r.Functions) != len(q.Names) || len(r.Vars) != len(q.Vars) {
		return nil, errors.New("the CUDA worker gave a wrong answer")
	}
	if image == nil {
		c.dev.cache.put(k, r.Image)
	}
	for i, f := range kernels {
		m.kernels[f.Name] = &function{mod: m, handle: r.Functions[i].Handle, attrs: attributes(f, r.Functions[i])}
	}
	for i, name := range q.Vars {
		if v := r.Vars[i]; v.Size != 0 && c.outside(v) {
			m.vars[name] = v
			c.space.insert(mapping{va: v.Addr, n: v.Size, write: true})
		}
	}
	c.modules[m] = struct{}{}
	return m, nil
}

// outside reports whether a variable lies where the driver puts variables: in
// neither window, and on nothing else.
func (c *context) outside(v varInfo) bool {
	p := &c.dev.props
	for _, w := range []gpu.Window{p.VRAM, p.System} {
		if v.Addr < w.Base+w.Size && v.Addr+v.Size > w.Base {
			return false
		}
	}
	return v.Addr+v.Size > v.Addr && c.space.free(v.Addr, v.Size)
}

// buildError makes a fault of the source out of what the driver's compiler says.
func buildError(file string, err error) error {
	e, ok := errors.AsType[*driverError](err)
	if !ok || e.Code != resultInvalidPTX && e.Code != resultInvalidImage {
		return err
	}
	text := e.Text
	if text == "" {
		text = e.Error()
	}
	return &gpu.BuildError{Diagnostics: []gpu.Diagnostic{{File: file, Line: 1, Col: 1, Message: "the driver's compiler refuses it: " + text}}}
}

// attributes puts together what the source and the driver say of a kernel.
func attributes(f *ptx.Func, info functionInfo) gpu.FunctionAttributes {
	a := gpu.FunctionAttributes{Name: f.Name, SharedBytes: info.Shared, LocalBytes: info.Local,
		ConstBytes: info.Const, Regs: info.Regs, MaxThreads: info.MaxThreads}
	offset := 0
	for _, v := range f.Params {
		align := int(v.Alignment())
		offset = (offset + align - 1) / align * align
		a.Params = append(a.Params, gpu.Param{Offset: offset, Size: int(v.Size())})
		offset += int(v.Size())
	}
	a.ParamBytes = offset
	return a
}

// Function implements gpu.Module.
func (m *module) Function(name string) (gpu.Function, error) {
	if m.closed.Load() {
		return nil, m.ctx.wrap("find kernel", fmt.Errorf("module %w", gpu.ErrClosed))
	}
	f, ok := m.kernels[name]
	if !ok {
		return nil, m.ctx.wrap("find kernel", fmt.Errorf("%w: the module has no kernel %q", gpu.ErrNotFound, name))
	}
	return f, nil
}

// Attributes implements gpu.Function.
func (f *function) Attributes() gpu.FunctionAttributes {
	a := f.attrs
	a.Params = append([]gpu.Param(nil), a.Params...)
	return a
}

// Global implements gpu.Module.
func (m *module) Global(name string) (addr, size uint64, err error) {
	if m.closed.Load() {
		return 0, 0, m.ctx.wrap("find variable", fmt.Errorf("module %w", gpu.ErrClosed))
	}
	v, ok := m.vars[name]
	if !ok {
		return 0, 0, m.ctx.wrap("find variable", fmt.Errorf("%w: the module has no variable %q", gpu.ErrNotFound, name))
	}
	return v.Addr, v.Size, nil
}

// Close implements gpu.Module.
func (m *module) Close() error {
	c := m.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.closed.Swap(true) {
		return nil
	}
	delete(c.modules, m)
	for _, v := range m.vars {
		c.space.remove(v.Addr, v.Size)
	}
	if c.Err() != nil {
		return nil // it went with the worker
	}
	if err := c.do(&request{Op: opUnload, ID: m.id}, nil, nil); err != nil {
		return c.wrap("unload module", err)
	}
	return nil
}
