package points

import (
	gocontext "context"
	"fmt"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/rewrite"
)

// module is a module with twins of its kernels.
type module struct {
	gpu.Module
	ctx      *context
	closed   atomic.Bool
	kernels  map[string]*kernel
	twins    map[string]bool // their names
	retained uint64          // that the context keeps: the area
}

// kernel is what is known of a kernel that has a twin.
type kernel struct {
	is    rewrite.Suspended
	brief atomic.Bool // it took no longer than Config.Short the last time
	known atomic.Bool // it has run
	long  atomic.Bool // it took longer than Config.Lone
}

// function is a kernel with its twin.
type function struct {
	gpu.Function
	*kernel
	twin   gpu.Function
	params int // bytes
}

// LoadModule implements gpu.Context. A module of which the device's compiler refuses the twins is loaded as
// it is.
func (c *context) LoadModule(ctx gocontext.Context, name string, source []byte, reserve gpu.Reserve) (gpu.Module, error) {
	changed, list := c.rewritten(ctx, name, source)
	if list == nil {
		m, err := c.Context.LoadModule(ctx, name, source, reserve)
		return m, c.names.named(err)
	}
	var reserved uint64 // by a load that failed: it counts for the next one
	var refused error
	once := func(bytes uint64) error {
		if bytes > reserved && reserve != nil {
			refused = reserve(bytes - reserved)
			reserved = bytes
		}
		return refused
	}
	inner, err := c.Context.LoadModule(ctx, name, changed, once)
	if err != nil {
		if refused != nil || gocontext.Cause(ctx) != nil || c.Err() != nil {
			return nil, c.names.named(err)
		}
		return c.Context.LoadModule(ctx, name, source, once)
	}
	m := &module{Module: inner, ctx: c, kernels: map[string]*kernel{}, twins: map[string]bool{}}
	for _, k := range list {
		if c.suits(&k) {
			m.kernels[k.Name], m.twins[k.Twin] = &kernel{is: k}, true
		}
	}
	c.names.add(m)
	m.retained = c.prepare(reserve)
	return m, nil
}

// rewritten returns a source with twins, and what became of its kernels; nil where none has a twin.
func (c *context) rewritten(ctx gocontext.Context, name string, source []byte) (changed []byte, list []rewrite.Suspended) {
	if gpu.IsImage(source) {
		return nil, nil // machine code
	}
	e := ptx.NewEffort(ctx, gpu.ModuleMemory(uint64(len(source))))
	m, err := ptx.LoadWithin(e, name, source)
	if err != nil {
		return nil, nil // the device says why, or knows more instructions
	}
	changed, list, err = suspend(e, m, source, c.dev.config.Options)
	if err != nil {
		return nil, nil
	}
	for i := range list {
		if c.suits(&list[i]) {
			return changed, list
		}
	}
	return nil, nil
}

// suits reports whether a kernel is to run in pieces.
func (c *context) suits(k *rewrite.Suspended) bool {
	return k.Twin != "" && k.Points > 0
}

// suspend is rewrite.Suspend, with an error where the effort ends.
func suspend(e *ptx.Effort, m *ptx.Module, source []byte, o rewrite.SuspendOptions) (changed []byte, list []rewrite.Suspended, err error) {
	defer e.Catch(&err)
	return rewrite.Suspend(e, m, source, o)
}

// Function implements gpu.Module.
func (m *module) Function(name string) (gpu.Function, error) {
	if m.twins[name] {
		return nil, fmt.Errorf("%w: the module has no kernel %q", gpu.ErrNotFound, name)
	}
	f, err := m.Module.Function(name)
	k := m.kernels[name]
	if err != nil || k == nil {
		return f, err
	}
	twin, err := m.Module.Function(k.is.Twin)
	if err != nil {
		return nil, err
	}
	return &function{Function: f, kernel: k, twin: twin, params: f.Attributes().ParamBytes}, nil
}

// Close implements gpu.Module.
func (m *module) Close() error {
	err := m.Module.Close()
	if !m.closed.Swap(true) {
		m.ctx.mu.Lock()
		m.ctx.leave()
		m.ctx.mu.Unlock()
	}
	return err
}

// Retained implements gpu.Retainer.
func (m *module) Retained() uint64 {
	if r, ok := m.Module.(gpu.Retainer); ok {
		return r.Retained() + m.retained
	}
	return m.retained
}

// state returns how much of the area a launch takes, and how much of that each block has; 0 where it runs as
// it is.
func (f *function) state(l *gpu.Launch, most uint64) (bytes, stride uint64) {
	if l.Cooperative || l.Cluster != [3]uint32{} || l.Signal != 0 || len(l.Params) != f.params || f.brief.Load() {
		return 0, 0
	}
	threads, ok := product(uint64(l.Block[0]), uint64(l.Block[1]), uint64(l.Block[2]))
	if !ok || threads > maxThreads {
		return 0, 0
	}
	stride = f.is.Stride(uint32(threads), l.SharedBytes)
	bytes, ok = product(uint64(l.Grid[0]), uint64(l.Grid[1]), uint64(l.Grid[2]), stride)
	if !ok || bytes > most {
		return 0, 0
	}
	return bytes, stride
}

// hasRoom reports whether a block of the twin, which may have a word more in .shared, fits.
func (f *function) hasRoom(l *gpu.Launch, p *gpu.Properties) bool {
	return uint64(f.twin.Attributes().SharedBytes)+uint64(l.SharedBytes) <= uint64(p.SharedPerBlock)
}

// maxThreads is more than a block of any device has.
const maxThreads = 1 << 16

// learn notes what a launch took.
func (k *kernel) learn(took time.Duration, c *Config) {
	k.brief.Store(took <= c.Short)
	k.known.Store(true)
	k.long.Store(took > c.Lone)
}

// ends reports whether a kernel may be expected to end within Config.Lone: it did so the last time, or has no loops.
func (k *kernel) ends() bool {
	return !k.long.Load() && (k.known.Load() || k.is.Loops == 0)
}
