package nvidia

import (
	gocontext "context"
	"errors"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/fatbin"
	"pvdrm/gpu/ptx"
)

// Machine code is loaded as it is. A guest may run any: a context per guest process isolates it, as it does
// elsewhere. What the driver reads is checked for its bounds only. Nothing declares the kernels and variables of
// such a module, so the worker looks them up by name when they are asked for. The driver copies the image, so a
// context with machine code ends with its worker: nothing is kept to load it again.
//
// PTX that package ptx cannot read, which the driver may know better, is compiled and then loaded likewise.

// loadCode loads machine code.
func (c *context) loadCode(ctx gocontext.Context, file string, code []byte) (*module, error) {
	if err := fatbin.Check(code); err != nil {
		return nil, &gpu.BuildError{Diagnostics: []gpu.Diagnostic{{File: file, Line: 1, Col: 1, Message: err.Error()}}}
	}
	return c.loadLazy(ctx, file, &request{Op: opLoad, Lazy: true, Image: code}, symbolBytes)
}

// loadUnread loads PTX that package ptx cannot read, unless the driver cannot either: then the error is the
// driver's, or that of the parser where the driver has nothing to say.
func (c *context) loadUnread(ctx gocontext.Context, file string, source []byte, unread error) (*module, error) {
	if _, refused := errors.AsType[*gpu.BuildError](unread); !refused {
		return nil, unread // the source needs more than it may take, or ctx has ended
	}
	m := &module{ctx: c, source: source}
	image, err := m.image(ctx)
	if e, refused := errors.AsType[*driverError](err); refused {
		if e.Text == "" && e.Code == resultInvalidPTX {
			return nil, unread
		}
		return nil, buildError(file, err)
	}
	if err != nil {
		return nil, err
	}
	return c.loadLazy(ctx, file, &request{Op: opLoad, Lazy: true, Image: image}, symbolBytes+uint64(len(source)))
}

// loadLazy has the worker load a module whose kernels and variables are looked up later. A load that outlasts ctx
// ends the context, because nothing else stops the driver.
func (c *context) loadLazy(ctx gocontext.Context, file string, q *request, hostBytes uint64) (*module, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	if err := gocontext.Cause(ctx); err != nil {
		return nil, err
	}
	m := &module{ctx: c, id: c.id(), lazy: true, kernels: map[string]*function{}, vars: map[string]varInfo{}, hostBytes: hostBytes}
	c.mixed.Store(true)
	c.transient("it has modules of machine code")
	q.ID = m.id
	stop := gocontext.AfterFunc(ctx, func() {
		c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: fmt.Sprintf("loading machine code: %v", gocontext.Cause(ctx))})
	})
	err := c.do(q, nil, nil)
	if !stop() {
		return nil, errors.Join(gocontext.Cause(ctx), err)
	}
	if err != nil {
		return nil, codeError(file, err)
	}
	c.modules[m] = struct{}{}
	return m, nil
}

// codeError makes a *gpu.BuildError of the driver's refusal of machine code.
func codeError(file string, err error) error {
	e, ok := errors.AsType[*driverError](err)
	if !ok || e.Code != resultNoBinary && e.Code != resultInvalidSource {
		return buildError(file, err)
	}
	return &gpu.BuildError{Diagnostics: []gpu.Diagnostic{{File: file, Line: 1, Col: 1, Message: "the driver refuses the machine code: " + e.Error()}}}
}

// lookUp asks the worker for a kernel or a variable. C.mu is held.
func (m *module) lookUp(q *request) (r reply, err error) {
	if m.closed.Load() {
		return r, fmt.Errorf("module %w", gpu.ErrClosed)
	}
	q.Op, q.ID = opFind, m.id
	if err := m.ctx.do(q, nil, &r); err != nil {
		return r, err
	}
	if len(r.Functions) != len(q.Names) || len(r.Vars) != len(q.Vars) {
		return r, errAnswer
	}
	return r, nil
}

// findKernel finds a kernel of a lazy module.
func (m *module) findKernel(name string) (*function, error) {
	c := m.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := m.kernels[name]; f != nil {
		return f, nil
	}
	r, err := m.lookUp(&request{Names: []string{name}})
	if e, ok := errors.AsType[*driverError](err); ok && e.Code == resultNotFound {
		return nil, fmt.Errorf("%w: the module has no kernel %q", gpu.ErrNotFound, ptx.Clip(name))
	}
	if err != nil {
		return nil, err
	}
	if !r.Functions[0].Laid {
		return nil, fmt.Errorf("%w: the driver does not tell the parameters of kernels; install one for CUDA 12.4 or later", gpu.ErrUnsupported)
	}
	attrs, err := attributes(name, nil, r.Functions[0])
	if err != nil {
		return nil, err
	}
	f := &function{mod: m, attrs: attrs, handle: r.Functions[0].Handle}
	m.kernels[name] = f
	return f, nil
}

// findVariable finds a variable of a lazy module.
func (m *module) findVariable(name string) (varInfo, error) {
	c := m.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := m.vars[name]; ok {
		return v, nil
	}
	r, err := m.lookUp(&request{Vars: []string{name}})
	if err != nil {
		return varInfo{}, err
	}
	v := r.Vars[0]
	if v.Size == 0 || !c.outside(v) {
		return varInfo{}, fmt.Errorf("%w: the module has no variable %q", gpu.ErrNotFound, ptx.Clip(name))
	}
	m.vars[name] = v
	c.space.insert(mapping{va: v.Addr, n: v.Size, write: true})
	return v, nil
}
