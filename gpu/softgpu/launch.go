package softgpu

import (
	"errors"
	"fmt"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/simt"
)

// launch runs a kernel on the compute engine.
func (c *channel) launch(l *gpu.Launch) error {
	f, err := c.checkLaunch(l)
	if err != nil {
		return err
	}
	e := &c.ctx.dev.compute
	if !e.acquire(c) {
		return c.halted()
	}
	used, err := c.runKernel(f, l)
	e.release(used)
	if fault, ok := errors.AsType[*gpu.LostError](err); ok {
		return c.fault(fault)
	}
	return err
}

// runKernel runs a kernel and returns the time that it took.
func (c *channel) runKernel(f *function, l *gpu.Launch) (used time.Duration, err error) {
	d := c.ctx.dev
	control := new(simt.Control)
	if err := c.ctx.enter(control); err != nil {
		return 0, err
	}
	defer c.ctx.leave(control)
	launch := simt.Launch{Grid: l.Grid, Block: l.Block, SharedBytes: l.SharedBytes, Params: l.Params, Limits: d.limits,
		Crew: &d.crew, Print: c.ctx.output.print}
	limit := max(d.config.LaunchLimit, 0)
	d.launches.Add(1)
	if d.config.ModelTime {
		launch.Model = simt.NewModel(d.config.SMs, uint64(limit)) // a cycle is a nanosecond
		err = simt.Run(f.kernel, launch, c.view(), control, d.config.SMs)
		return time.Duration(launch.Model.Cycles()), err
	}
	start := time.Now() // before the limit begins, so that who reaches it has taken that long
	if limit > 0 {
		control.Deadline = start.Add(limit)
		timer := time.AfterFunc(limit, func() { control.Stop(gpu.LostTimeout) }) // for kernels that meet barriers
		defer timer.Stop()
	}
	err = simt.Run(f.kernel, launch, c.view(), control, d.config.SMs)
	return time.Since(start), err
}

// checkLaunch validates a launch against the device and the kernel.
func (c *channel) checkLaunch(l *gpu.Launch) (*function, error) {
	if l == nil {
		return nil, fmt.Errorf("%w: nil launch", gpu.ErrInvalid)
	}
	f, ok := l.Func.(*function)
	if !ok || f == nil || f.mod.ctx != c.ctx {
		return nil, fmt.Errorf("%w: launch of a function that is not of this context", gpu.ErrInvalid)
	}
	fail := func(format string, args ...any) (*function, error) {
		return nil, fmt.Errorf("%w: launch of %s: %s", gpu.ErrInvalid, f.attrs.Name, fmt.Sprintf(format, args...))
	}
	if f.mod.closed.Load() {
		return fail("its module is closed")
	}
	p := &c.ctx.dev.props
	threads := uint64(1)
	for i := range 3 {
		if l.Grid[i] == 0 || uint64(l.Grid[i]) > uint64(p.MaxGridDim[i]) {
			return fail("grid %v; the device allows 1 to %v", l.Grid, p.MaxGridDim)
		}
		if l.Block[i] == 0 || uint64(l.Block[i]) > uint64(p.MaxBlockDim[i]) {
			return fail("block %v; the device allows 1 to %v", l.Block, p.MaxBlockDim)
		}
		threads *= uint64(l.Block[i])
	}
	if allowed := min(p.MaxThreads, f.attrs.MaxThreads); threads > uint64(allowed) {
		return fail("%d threads in a block; the kernel allows %d", threads, allowed)
	}
	if shared := uint64(f.attrs.SharedBytes) + uint64(l.SharedBytes); shared > uint64(p.SharedPerBlock) {
		return fail("%d bytes of .shared; the device has %d", shared, p.SharedPerBlock)
	}
	if len(l.Params) != f.attrs.ParamBytes {
		return fail("%d bytes of parameters; the kernel takes %d", len(l.Params), f.attrs.ParamBytes)
	}
	return f, nil
}
