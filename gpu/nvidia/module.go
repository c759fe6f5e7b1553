package nvidia

import (
	gocontext "context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// module is a loaded module. It implements gpu.Module.
type module struct {
	ctx    *context
	id     uint64
	lazy   bool // kernels and variables are found when they are asked for
	source []byte
	load   request // that loaded it, without what was compiled
	closed atomic.Bool

	// Of a lazy module under context.mu; of others they do not change.
	kernels map[string]*function
	vars    map[string]varInfo

	effects map[string]*ptx.Effects // of kernels, with Config.Replays; those that are not known are missing

	hostBytes uint64
}

// symbolBytes is what the backend keeps of a kernel or a variable, its name apart.
const symbolBytes = 1024

// function is a kernel of a module. It implements gpu.Function.
type function struct {
	mod    *module
	handle uint64 // under context.gen
	attrs  gpu.FunctionAttributes
	cost   atomic.Int64 // ns that it took the last time; 0 before
	pace   atomic.Int64 // ns/paceScale that a block took the last time, of those side by side; 0 before

	twin     uint64 // launches parts of its grid; under context.gen; 0 if there is none
	twinName string
	twinRegs int // registers of a thread
}

// LoadModule implements gpu.Context.
func (c *context) LoadModule(ctx gocontext.Context, file string, source []byte, reserve gpu.Reserve) (gpu.Module, error) {
	m, err := c.loadModule(ctx, file, source, reserve)
	if err != nil {
		return nil, c.wrap("load module", err)
	}
	return m, nil
}

// defaultHeap is what kernels of a context can allocate with malloc: the driver's default, which
// workers leave as it is.
const defaultHeap = 8 << 20

// loadModule reads the declarations of the source and leaves its instructions to the
// driver's compiler, which knows those of the GPU.
func (c *context) loadModule(ctx gocontext.Context, file string, source []byte, reserve gpu.Reserve) (*module, error) {
	if gpu.IsImage(source) {
		return c.loadCode(ctx, file, source)
	}
	parsed, err := ptx.LoadDeclarations(ptx.NewEffort(ctx, gpu.ModuleMemory(uint64(len(source)))), file, source)
	if err != nil {
		return c.loadUnread(ctx, file, source, err)
	}
	q := &request{Op: opLoad}
	kernels, data, err := q.declared(parsed)
	if err != nil {
		return nil, err
	}
	whole, twins := source, map[string]string(nil)
	if c.divides() {
		source, twins = divided(ctx, file, source)
	}
	if data > c.dev.props.VRAMBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes of variables", gpu.ErrNoMemory, file, data)
	}
	if err := gocontext.Cause(ctx); err != nil {
		return nil, err
	}
	if reserve != nil && data != 0 {
		if err := reserve(data); err != nil {
			return nil, err
		}
		if err := gocontext.Cause(ctx); err != nil {
			return nil, err
		}
	}
	m := &module{ctx: c, kernels: map[string]*function{}, vars: map[string]varInfo{}, source: source}
	image, err := m.image(ctx)
	if _, refused := errors.AsType[*driverError](err); refused && twins != nil { // the module itself may be sound
		m.source, twins = whole, nil
		image, err = m.image(ctx)
	}
	if err != nil {
		return nil, buildError(file, err)
	}
	for _, f := range kernels {
		if twin := twins[f.Name]; twin != "" {
			q.Names = append(q.Names, twin)
		}
	}
	m.readEffects(ctx, file)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	m.id = c.id()
	q.ID = m.id
	m.hostBytes = 2*uint64(len(m.source)) + symbolBytes*uint64(1+len(q.Names)+len(q.Vars))
	m.load = *q
	q.Image = image
	var r reply
	if err := c.do(q, nil, &r); err != nil {
		return nil, buildError(file, err)
	}
	if len(r.Functions) != len(q.Names) || len(r.Vars) != len(q.Vars) {
		return nil, errAnswer
	}
	for i, f := range kernels {
		attrs, err := attributes(f.Name, declaredParams(f), r.Functions[i])
		if err != nil {
			return nil, err
		}
		m.kernels[f.Name] = &function{mod: m, attrs: attrs, twinName: twins[f.Name]}
	}
	m.found(q.Names, r.Functions)
	for i, name := range q.Vars {
		if v := r.Vars[i]; v.Size != 0 && c.outside(v) {
			m.vars[name] = v
			c.space.insert(mapping{va: v.Addr, n: v.Size, write: true})
		}
	}
	m.enlist(parsed)
	return m, nil
}

// declared adds what a module declares to the request to load it, and returns its kernels and how many
// bytes of variables it has.
func (q *request) declared(m *ptx.Module) (kernels []*ptx.Func, data uint64, err error) {
	for _, d := range m.Directives {
		switch d := d.(type) {
		case *ptx.Func:
			if d.Entry && d.Defined {
				kernels = append(kernels, d)
				q.Names = append(q.Names, d.Name)
			}
		case *ptx.Pragma:
			if n, ok := d.MallocHeap(); ok && n > defaultHeap {
				return nil, 0, fmt.Errorf("%w: a heap of %d bytes for malloc; the worker's context has one of %d", gpu.ErrUnsupported, n, defaultHeap)
			}
			managed := ""
			d.Managed(func(name string, _ uint64) { managed = name })
			if managed != "" {
				return nil, 0, fmt.Errorf("%w: the managed variable %s: the program cannot reach those of the worker", gpu.ErrUnsupported, managed)
			}
		case *ptx.Var:
			if (d.Space == ptx.SpaceGlobal || d.Space == ptx.SpaceConst) && !d.Type.Opaque() {
				q.Vars = append(q.Vars, d.Name)
				data += d.Size()
			}
		}
	}
	return kernels, data, nil
}

// found notes what the driver says of kernels and their twins. C.gen is held for writing, or nothing else
// knows the module yet.
func (m *module) found(names []string, infos []functionInfo) {
	by := map[string]functionInfo{}
	for i, name := range names {
		by[name] = infos[i]
	}
	for name, f := range m.kernels {
		f.handle = by[name].Handle
		if f.twinName != "" {
			f.twin, f.twinRegs = by[f.twinName].Handle, by[f.twinName].Regs
		}
	}
}

// image is the machine code of the module: what was kept of it, or what is compiled now, unless
// ctx or the context ends first.
func (m *module) image(ctx gocontext.Context) ([]byte, error) {
	c := m.ctx
	if err := c.Err(); err != nil {
		return nil, err
	}
	k := sha256.Sum256(m.source)
	if image := c.dev.cache.get(k); image != nil {
		return image, nil
	}
	ctx, cancel := gocontext.WithCancel(ctx)
	defer cancel()
	defer gocontext.AfterFunc(c.life, cancel)()
	image, err := c.dev.compiler.compile(ctx, m.source, imageBytes(len(m.source)))
	if ended := c.Err(); ended != nil {
		return nil, ended
	}
	if err != nil {
		return nil, refusal(err)
	}
	c.dev.cache.put(k, image)
	return image, nil
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

// buildError makes a *gpu.BuildError of a refusal by the driver's compiler, and returns
// any other error as it is.
func buildError(file string, err error) error {
	e, ok := errors.AsType[*driverError](err)
	if !ok || e.Code != resultInvalidPTX && e.Code != resultInvalidImage {
		return err
	}
	b := &gpu.BuildError{}
	for _, m := range complaint.FindAllStringSubmatch(e.Text, ptx.MaxDiagnostics) {
		if line, err := strconv.ParseInt(m[1], 10, 32); err == nil && line > 0 {
			b.Diagnostics = append(b.Diagnostics, gpu.Diagnostic{File: file, Line: int(line), Col: 1, Message: "error: " + m[2]})
		}
	}
	if b.Diagnostics == nil {
		text := e.Text
		if text == "" {
			text = e.Error()
		}
		b.Diagnostics = []gpu.Diagnostic{{File: file, Line: 1, Col: 1, Message: "the driver's compiler refuses it: " + text}}
	}
	return b
}

// complaint matches a line of the compiler's log that names a line of the source, such as
// "ptxas application ptx input, line 6; error   : Unknown symbol 'x'".
var complaint = regexp.MustCompile(`, line (\d+); (?:error|fatal) *: *(.*)`)

// declaredParams lays out the parameters of a kernel as its source declares them.
func declaredParams(f *ptx.Func) (all []gpu.Param) {
	offset := 0
	for _, v := range f.Params {
		align := int(v.Alignment())
		offset = (offset + align - 1) / align * align
		all = append(all, gpu.Param{Offset: offset, Size: int(v.Size())})
		offset += int(v.Size())
	}
	return all
}

// attributes puts together what the source and the driver say of a kernel: the driver knows best where its parameters
// are. It is errAnswer where a worker says what cannot be.
func attributes(name string, declared []gpu.Param, info functionInfo) (gpu.FunctionAttributes, error) {
	a := gpu.FunctionAttributes{Name: name, SharedBytes: info.Shared, LocalBytes: info.Local,
		ConstBytes: info.Const, Regs: info.Regs, MaxThreads: info.MaxThreads, PTXVersion: info.PTXVersion, Binary: info.Binary,
		NeedsCluster: info.NeedsCluster, Params: declared}
	if info.Laid {
		a.Params = info.Params
	}
	for _, n := range []int{info.Shared, info.Local, info.Const, info.Regs, info.MaxThreads, info.PTXVersion, info.Binary, info.Cluster[0], info.Cluster[1], info.Cluster[2]} {
		if n < 0 || n > math.MaxInt32 {
			return a, errAnswer
		}
	}
	for i, n := range info.Cluster {
		a.Cluster[i] = uint32(n)
	}
	if len(a.Params) > maxFuncParams {
		return a, errAnswer
	}
	for _, p := range a.Params {
		if p.Offset < a.ParamBytes || p.Size < 0 || p.Offset > maxParamBytes || p.Size > maxParamBytes-p.Offset {
			return a, fmt.Errorf("%w: kernel %s has %d bytes of parameters at %d; launches carry %d", gpu.ErrUnsupported, ptx.Clip(name), p.Size, p.Offset, maxParamBytes)
		}
		a.ParamBytes = p.Offset + p.Size
	}
	return a, nil
}

// Function implements gpu.Module.
func (m *module) Function(name string) (gpu.Function, error) {
	if m.closed.Load() {
		return nil, m.ctx.wrap("find kernel", fmt.Errorf("module %w", gpu.ErrClosed))
	}
	if m.lazy {
		f, err := m.findKernel(name)
		if err != nil {
			return nil, m.ctx.wrap("find kernel", err)
		}
		return f, nil
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
	if m.lazy {
		v, err := m.findVariable(name)
		return v.Addr, v.Size, m.ctx.wrap("find variable", err)
	}
	v, ok := m.vars[name]
	if !ok {
		return 0, 0, m.ctx.wrap("find variable", fmt.Errorf("%w: the module has no variable %q", gpu.ErrNotFound, name))
	}
	return v.Addr, v.Size, nil
}

// HostBytes implements gpu.Module.
func (m *module) HostBytes() uint64 { return m.hostBytes }

// Close implements gpu.Module.
func (m *module) Close() error {
	c := m.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.closed.Swap(true) {
		return nil
	}
	delete(c.modules, m)
	c.graphs.unload(m)
	for _, v := range m.vars {
		c.graphs.unmap(v.Addr, v.Size)
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
