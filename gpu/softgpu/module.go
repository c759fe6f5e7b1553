package softgpu

import (
	"fmt"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/simt"
)

// module is a loaded PTX module. It implements gpu.Module.
type module struct {
	ctx    *context
	prog   *simt.Program
	data   *memory // its variables; nil if it has none
	closed atomic.Bool
}

// function is a kernel of a module. It implements gpu.Function.
type function struct {
	mod    *module
	kernel *simt.Kernel
	attrs  gpu.FunctionAttributes
}

// LoadModule implements gpu.Context.
func (c *context) LoadModule(file string, source []byte) (gpu.Module, error) {
	m, err := c.loadModule(file, source)
	if err != nil {
		return nil, c.wrap("load module", err)
	}
	return m, nil
}

func (c *context) loadModule(file string, source []byte) (*module, error) {
	prog, err := compile(file, source, c.dev.props, c.dev.config.ModelTime)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	m := &module{ctx: c, prog: prog}
	if err := m.link(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.modules[m] = struct{}{}
	return m, nil
}

// compile turns PTX into a program that respects the limits of the device.
func compile(file string, source []byte, props gpu.Properties, timed bool) (*simt.Program, error) {
	mod, err := ptx.Load(file, source)
	if err != nil {
		return nil, err
	}
	decode := simt.Compile
	if timed {
		decode = simt.CompileTimed
	}
	prog, err := decode(mod)
	if err != nil {
		return nil, err
	}
	var bad []gpu.Diagnostic
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
			{"parameters", a.ParamBytes, props.MaxParamBytes},
			{".shared", a.SharedBytes, props.SharedPerBlock},
			{".const", a.ConstBytes, props.ConstBytes},
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

// link gives the module's variables a place in VRAM and in the address space.
// Preconditions: c.mu is held.
func (m *module) link() error {
	size, align := m.prog.DataBytes()
	if size == 0 {
		_, err := m.prog.Link(modules.Base)
		return err
	}
	c := m.ctx
	align = max(align, smallPage)
	if size > modules.Size || align > modules.Size {
		return fmt.Errorf("%w: %d bytes of variables, aligned to %d; a module may have %d", gpu.ErrNoMemory, size, align, modules.Size)
	}
	size = (size + smallPage - 1) &^ (smallPage - 1)
	va, ok := c.space.gap(modules, size, align)
	if !ok {
		return fmt.Errorf("%w: no %d bytes of addresses left for variables", gpu.ErrNoMemory, size)
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
	image, err := m.prog.Link(va)
	if err != nil {
		c.release(data)
		return err
	}
	data.write(image)
	c.memories[data] = struct{}{}
	m.data = data
	return nil
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
	return &function{mod: m, kernel: k, attrs: k.Attributes()}, nil
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
