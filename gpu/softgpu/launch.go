package softgpu

import (
	"errors"
	"fmt"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/softgpu/exec"
)

// launch runs a kernel on the compute engine.
func (c *channel) launch(l *gpu.Launch) error {
	f, err := c.checkLaunch(l)
	if err != nil {
		return err
	}
	k := &c.task
	k.set(c, f, l)
	defer k.end()
	if c.from != nil {
		if err := k.resume(c.from); err != nil {
			c.from = nil
			return err
		}
		k.save(c.from)
	}
	if err := k.keep(l); err != nil {
		return err
	}
	e := &c.ctx.dev.compute
	for keep := c.takeTurn(); ; {
		at := between
		if c.from != nil {
			at = launching
		}
		if !keep || !e.pass(c, at) {
			if err := c.enter(e, at); err != nil {
				return err
			}
		}
		switch {
		case at == between:
			c.ctx.dev.launches.Add(1)
		case c.from == nil: // it was revoked
			k.again(f, l)
		}
		k.launch.From, c.from = c.from, nil
		used, err := k.runTree()
		k.used += used
		if stopped, ok := errors.AsType[*exec.Preempted](err); ok {
			c.from = stopped.State
			k.save(c.from)
			c.ctx.dev.preemptions.Add(1)
			keep = e.gate != nil && e.saved.full() && c.ctx.hold.mode.Load() == running
			e.release(use{took: used + c.ctx.dev.compiled(), again: true, keep: keep})
			if !keep {
				k.patient() // those who waited get the engine now
			}
			continue
		}
		e.release(use{took: used + c.ctx.dev.compiled(), whole: k.used, commands: 1})
		if fault, ok := errors.AsType[*gpu.LostError](err); ok {
			return c.fault(fault)
		}
		return err
	}
}

// task is a launch that runs in one piece or, when the context is preempted, in several.
type task struct {
	channel *channel
	module  *module
	kernel  *exec.Kernel
	launch  exec.Launch
	limit   time.Duration // what may still be used, if the device has a limit for it
	used    time.Duration
	signal  uint64        // address of gpu.Launch.Signal, or 0
	spent   time.Duration // modelled, of the kernels that have ended
	saved   int           // bytes of the state that it went on from, or is to go on from
	before  []kept        // what the launch is about to change, in case it is revoked
}

func (k *task) set(c *channel, f *function, l *gpu.Launch) {
	d := c.ctx.dev
	k.channel, k.module, k.kernel, k.signal = c, f.mod, f.kernel, l.Signal
	k.patient()
	if !d.config.LimitWaiting {
		k.limit = max(d.config.LaunchLimit, 0)
	}
	k.launch = exec.Launch{Grid: l.Grid, Block: l.Block, SharedBytes: l.SharedBytes, Params: l.Params, Limits: d.limits,
		Workers: &d.workers, Print: c.print, Heap: c.ctx.allocator(), Cluster: l.Cluster, Cooperative: l.Cooperative, Tally: d.tally}
	if f.kernel.Launches() {
		k.launch.Tree = exec.NewTree(&d.waiting)
	}
	if d.config.ModelTime {
		k.launch.Model = exec.NewModel(d.config.SMs, uint64(k.limit)) // a cycle is a nanosecond
	}
}

// end forgets the launch: what it refers to is not to be kept.
func (k *task) end() {
	if k.launch.Tree != nil {
		k.launch.Tree.Release()
	}
	k.save(nil)
	k.drop()
	*k = task{}
}

// patient begins the time for which others may wait for the launch.
func (k *task) patient() {
	if config := &k.channel.ctx.dev.config; config.LimitWaiting {
		k.channel.patience.Store(int64(config.LaunchLimit))
	}
}

// resume takes up the launches by kernels where a state has them.
func (k *task) resume(s *exec.State) error {
	if t := s.Tree(); t != nil {
		if !t.Charge(&k.channel.ctx.dev.waiting) {
			return fmt.Errorf("%w: more launches of kernels wait than the device has memory for", gpu.ErrInvalid)
		}
		k.launch.Tree = t
	}
	if p := s.Child(); p != nil {
		return k.follow(p)
	}
	return nil
}

// follow makes a launch by a kernel the one that runs next.
func (k *task) follow(p *exec.Pending) error {
	kernel, ok := k.module.prog.Kernel(p.Kernel)
	if !ok {
		return fmt.Errorf("%w: launch of the kernel %q, which its module does not have", gpu.ErrInvalid, p.Kernel)
	}
	k.kernel = kernel
	k.launch.Grid, k.launch.Block, k.launch.SharedBytes, k.launch.Params = p.Grid, p.Block, p.Shared, p.Params
	k.launch.From, k.launch.Cooperative, k.launch.Cluster = p.From, p.Cooperative, p.Cluster
	if k.launch.Model != nil {
		k.follows(p)
	}
	return nil
}

// follows makes the model of the kernel that runs next: each counts one kernel.
func (k *task) follows(p *exec.Pending) {
	m := exec.NewModel(k.channel.ctx.dev.config.SMs, 0)
	if p.From != nil { // else it begins with 0 cycles
		m.SetCounts(p.From.Counts())
	}
	if k.limit > 0 {
		m.Limit = uint64(max(k.limit-k.spent, 1)) + m.Cycles()
	}
	k.launch.Model = m
}

// runTree is run, followed by what the kernel has launched. Launches may be shorter than the time
// after which a kernel looks whether it is to give way, so each but the first of a turn looks before
// it begins.
func (k *task) runTree() (used time.Duration, err error) {
	for later := false; ; later = true {
		took, err := k.run(later && k.channel.ctx.dev.compute.yields())
		used += took
		if stopped, ok := errors.AsType[*exec.Preempted](err); ok && stopped.State.Awaits() {
			k.launch.Tree.Suspend(stopped.State)
		} else if err != nil || k.launch.Tree == nil {
			return used, err
		}
		p := k.launch.Tree.Next()
		if p == nil {
			return used, nil
		}
		if err := k.follow(p); err != nil {
			return used, err
		}
		k.channel.ctx.dev.launches.Add(1)
	}
}

// run runs the launch until it ends or is preempted, and returns the time that it took. With yield
// it is preempted at its beginning.
func (k *task) run(yield bool) (used time.Duration, err error) {
	c, d := k.channel, k.channel.ctx.dev
	k.begins()
	defer k.stops()
	control := &exec.Control{Yield: d.compute.yield, Divide: d.config.Divide, Whole: c.inline}
	if k.signal != 0 {
		control.Yield = c.yieldsOr
	}
	if err := c.ctx.enter(control); err != nil {
		return 0, err
	}
	defer c.ctx.leave(control)
	defer func() { d.asleep.Add(int64(control.Slept()) / int64(d.config.SMs)) }()
	if yield || c.ctx.hold.mode.Load() != running { // since before the context knew of this control
		control.Preempt()
	}
	if d.config.LimitWaiting && d.config.LaunchLimit > 0 {
		c.watch(control, c.lookEvery())
		defer c.unwatch()
	}
	if k.signal != 0 {
		c.signals(k.signal, k.used)
		defer c.signal.ends()
	}
	if m := k.launch.Model; m != nil {
		before := m.Cycles()
		err = exec.Run(k.kernel, k.launch, current{c}, control, c.processors())
		used = time.Duration(m.Cycles() - before)
		k.spent += used
		return used, err
	}
	start := time.Now() // before the limit begins, so that a kernel that reaches it has run for that long
	if d.config.LaunchLimit > 0 && !d.config.LimitWaiting {
		control.Deadline = start.Add(k.limit)
		c.watch(control, k.limit) // for kernels that meet barriers
		defer c.unwatch()
	}
	err = exec.Run(k.kernel, k.launch, current{c}, control, c.processors())
	used = time.Since(start)
	k.limit -= used
	return used, err
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
	if f.mod.closed.Load() {
		return nil, check.BadLaunch(f.attrs, "its module is closed")
	}
	if err := check.Launch(&c.ctx.dev.props, f.attrs, l); err != nil {
		return nil, err
	}
	return f, c.checkSignal(f, l)
}
