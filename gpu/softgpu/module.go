package softgpu

import (
	"bytes"
	gocontext "context"
	"fmt"
	"sync"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/snapshot"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/hw"
)

// module is a loaded PTX module. It implements gpu.Module.
type module struct {
	ctx    *context
	id     uint64 // order of creation
	file   string
	source []byte
	prog   *exec.Program
	data   *memory // its variables; nil if it has none
	va     uint64  // where they are
	closed atomic.Bool

	hostBytes uint64
	retained  uint64 // of what was reserved: the heap of the context

	looked sync.Once // of effects, as those that follow
	parsed *ptx.Module
	unread error
}

// function is a kernel of a module. It implements gpu.Function.
type function struct {
	mod    *module
	kernel *exec.Kernel
	attrs  *gpu.FunctionAttributes // of the kernel
}

// LoadModule implements gpu.Context.
func (c *context) LoadModule(ctx gocontext.Context, file string, source []byte, reserve gpu.Reserve) (gpu.Module, error) {
	m, err := c.loadModule(ctx, file, source, reserve, nil)
	if err != nil {
		return nil, c.wrap("load module", err)
	}
	return m, nil
}

// loadModule loads a module: as saved in a snapshot, or as new if saved is nil.
func (c *context) loadModule(ctx gocontext.Context, file string, source []byte, reserve gpu.Reserve, saved *snapshot.Module) (*module, error) {
	ctx, cancel := gocontext.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.onEnd(cancel)()
	prog, err := c.dev.program(ctx, file, source)
	if err != nil {
		return nil, err
	}
	if err := gocontext.Cause(ctx); err != nil {
		return nil, err
	}
	size := variableBytes(prog)
	heapSize, err := c.heapOf(prog)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if heapSize != 0 {
		size += heapCharge(heapSize)
	}
	if reserve != nil && size != 0 {
		if err := reserve(size); err != nil {
			return nil, err
		}
		if err := gocontext.Cause(ctx); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	m := &module{ctx: c, id: c.nextID(), file: file, source: bytes.Clone(source), prog: prog}
	if err := m.link(saved); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if heapSize != 0 && c.heap.Load() == nil { // no other module has made one meanwhile
		if err := c.makeHeap(heapSize); err != nil {
			if m.data != nil {
				c.release(m.data)
			}
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		m.retained = heapCharge(heapSize)
	}
	m.hostBytes = moduleBytes + uint64(len(source)) + prog.HostBytes()
	c.modules[m] = struct{}{}
	return m, nil
}

// program returns the program of a source: one that the device has kept, or a new one.
func (d *device) program(ctx gocontext.Context, file string, source []byte) (*exec.Program, error) {
	timed := d.config.ModelTime
	key, keeps := keyOf(file, source, timed)
	if keeps {
		if prog := d.programs.find(key); prog != nil {
			return prog, nil
		}
	}
	prog, err := compile(ptx.NewEffort(ctx, gpu.ModuleMemory(uint64(len(source)))), file, source, d.props, timed)
	if err != nil {
		return nil, err
	}
	if err := checkVariables(prog); err != nil {
		return nil, err
	}
	if !timed {
		prog.ChargeTo(&d.compiling)
	}
	if size, _ := prog.DataBytes(); size != 0 {
		return prog, nil
	}
	if err := prog.LinkTo(modules.Base, func(uint64, []byte) {}); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if keeps {
		d.programs.keep(key, prog)
	}
	return prog, nil
}

// moduleBytes is what a module has beside its program: its place among those of the
// context, and its memory.
const moduleBytes = 1024

// variableBytes is the VRAM that the variables of a program take.
func variableBytes(prog *exec.Program) uint64 {
	size, _ := prog.DataBytes()
	return (size + hw.SmallPage - 1) &^ (hw.SmallPage - 1)
}

// compile turns PTX into a program that respects the limits of the device.
func compile(e *ptx.Effort, file string, source []byte, props gpu.Properties, timed bool) (*exec.Program, error) {
	mod, err := ptx.LoadWithin(e, file, source)
	if err != nil {
		return nil, err
	}
	prog, err := exec.CompileWithin(e, mod, timed)
	if err != nil {
		return nil, err
	}
	capability := 10*props.ComputeMajor + props.ComputeMinor
	bad := append(foreign(mod, capability), newer(mod, capability)...)
	for _, d := range mod.Directives {
		f, ok := d.(*ptx.Func)
		if !ok || !f.Entry {
			continue
		}
		k, ok := prog.Kernel(f.Name)
		if !ok {
			continue // only declared
		}
		a := k.Attributes()
		for _, limit := range []struct {
			what     string
			has, max int
		}{
			{what: "parameters", has: a.ParamBytes, max: props.MaxParamBytes},
			{what: ".shared", has: a.SharedBytes, max: props.SharedPerBlock},
			{what: ".const", has: a.ConstBytes, max: props.ConstBytes},
		} {
			if limit.has > limit.max {
				bad = append(bad, gpu.Diagnostic{File: file, Line: int(f.Pos.Line), Col: int(f.Pos.Col),
					Message: fmt.Sprintf("kernel %s has %d bytes of %s; the device allows %d", f.Name, limit.has, limit.what, limit.max)})
			}
		}
	}
	if bad != nil {
		return nil, &gpu.BuildError{Diagnostics: bad}
	}
	return prog, nil
}

// foreign reports a target of other GPUs alone: sm_90a is for compute capability 9.0, and sm_100f
// for 10.0 and those of its family above (PTX ISA, 11.1.2).
func foreign(mod *ptx.Module, capability int) []gpu.Diagnostic {
	arch, rest := mod.Architecture()
	only := ""
	switch {
	case rest == "a" && arch != capability:
		only = "only"
	case rest == "f" && (arch/10 != capability/10 || arch > capability):
		only = "and its family"
	default:
		return nil
	}
	return []gpu.Diagnostic{{File: mod.File, Line: int(mod.TargetPos.Line), Col: int(mod.TargetPos.Col), Message: fmt.Sprintf(
		"error: .target %s is for compute capability %d.%d %s; the device has %d.%d", ptx.Clip(mod.Target), arch/10, arch%10, only, capability/10, capability%10)}}
}

// newer reports the instructions of a module that GPUs of a compute capability do not have, of
// those that no GPU at hand has: programs ask for the capability before they use them.
func newer(mod *ptx.Module, capability int) (bad []gpu.Diagnostic) {
	for _, d := range mod.Directives {
		f, ok := d.(*ptx.Func)
		if !ok {
			continue
		}
		for _, s := range f.Body {
			if i, ok := s.(*ptx.Instr); ok && i.Form.Derived && i.Form.Arch > capability && len(bad) < ptx.MaxDiagnostics {
				bad = append(bad, gpu.Diagnostic{File: mod.File, Line: int(i.Pos.Line), Col: int(i.Pos.Col), Message: fmt.Sprintf(
					"error: instruction '%s' needs compute capability %d.%d; the device has %d.%d", ptx.Clip(i.Name()), i.Form.Arch/10, i.Form.Arch%10, capability/10, capability%10)})
			}
		}
	}
	return bad
}

// Check reports why a software GPU would refuse a module, without making one: the error that
// LoadModule gives for its source. Memory that other modules may have taken is not looked at.
func Check(ctx gocontext.Context, config Config, file string, source []byte) error {
	_, err := Interpreted(ctx, config, file, source)
	return err
}

// Interpreted is Check, and returns what of each kernel the engine would not compile.
func Interpreted(ctx gocontext.Context, config Config, file string, source []byte) ([]exec.Interpreted, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	prog, err := compile(ptx.NewEffort(ctx, gpu.ModuleMemory(uint64(len(source)))), file, source, config.properties(config.limits()), config.ModelTime)
	if err != nil {
		return nil, err
	}
	return prog.Interpreted(), checkVariables(prog)
}

// checkVariables fails if no context could hold the variables of a program.
func checkVariables(prog *exec.Program) error {
	if size := variableBytes(prog); size > modules.Size {
		return fmt.Errorf("%w: %d bytes of variables; a module may have %d", gpu.ErrNoMemory, size, modules.Size)
	}
	return nil
}

// link gives the module's variables a place in VRAM and in the address space.
// Those of a module that was saved get the place and the contents that they had.
// Preconditions: c.mu is held.
func (m *module) link(saved *snapshot.Module) error {
	_, align := m.prog.DataBytes()
	size := variableBytes(m.prog)
	if saved != nil && saved.Size != size {
		return fmt.Errorf("%w: %d bytes of variables; those of the source take %d", gpu.ErrInvalid, saved.Size, size)
	}
	if size == 0 { // it is linked
		return nil
	}
	c := m.ctx
	va, err := m.choose(saved, size, max(align, hw.SmallPage))
	if err != nil {
		return err
	}
	ext, err := c.dev.vram.alloc(size)
	if err != nil {
		return fmt.Errorf("variables: %w", err)
	}
	data := newVRAMMemory(c, ext)
	if err := c.space.insert(va, data, 0, size, false); err != nil {
		c.release(data)
		return fmt.Errorf("variables: %w", err)
	}
	initialise := data.write
	if saved != nil {
		initialise = func(uint64, []byte) {}
		data.fill(saved.Data)
	}
	if err := m.prog.LinkTo(va, initialise); err != nil {
		c.release(data)
		return err
	}
	c.memories[data] = struct{}{}
	m.data, m.va = data, va
	return nil
}

// choose returns an address for variables of a size.
func (m *module) choose(saved *snapshot.Module, size, align uint64) (va uint64, err error) {
	if saved != nil {
		return saved.VA, check.Map(modules, size, saved.VA, 0, size, gpu.ProtRead)
	}
	va, ok := m.ctx.space.gap(modules, size, align)
	if !ok {
		return 0, fmt.Errorf("%w: no %d bytes of addresses left for variables", gpu.ErrNoMemory, size)
	}
	return va, nil
}

// Function implements gpu.Module.
func (m *module) Function(name string) (gpu.Function, error) {
	if m.closed.Load() {
		return nil, m.ctx.wrap("find kernel", fmt.Errorf("module %w", gpu.ErrClosed))
	}
	k, ok := m.prog.Kernel(name)
	if !ok {
		return nil, m.ctx.wrap("find kernel", fmt.Errorf("%w: the module has no kernel %q", gpu.ErrNotFound, name))
	}
	return &function{mod: m, kernel: k, attrs: k.Fixed()}, nil
}

// Global implements gpu.Module.
func (m *module) Global(name string) (addr, size uint64, err error) {
	if m.closed.Load() {
		return 0, 0, m.ctx.wrap("find variable", fmt.Errorf("module %w", gpu.ErrClosed))
	}
	addr, size, ok := m.prog.Global(name)
	if !ok {
		return 0, 0, m.ctx.wrap("find variable", fmt.Errorf("%w: the module has no variable %q", gpu.ErrNotFound, name))
	}
	return addr, size, nil
}

// Retained implements gpu.Retainer.
func (m *module) Retained() uint64 { return m.retained }

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
	if m.data != nil {
		c.release(m.data)
	}
	return nil
}

// Attributes implements gpu.Function.
func (f *function) Attributes() gpu.FunctionAttributes { return f.kernel.Attributes() }
