package softgpu

import "pvdrm/gpu"

// A kernel of a few blocks leaves processors idle, on which kernels of other devices may run at the same time where
// the gate lets them (gpu.Parter). The device tells the gate how many it uses at most: that follows from the launch,
// and no worker runs beyond it.

// recentParts is of how many launches the device asks for the most processors that one of them used: a program that
// launches small and large kernels in turn would exchange what it has for each of them. One that has been preempted
// takes long, and asks for its own.
const recentParts = 4

// parts are the processors that the last launches of a device used. The channel that has the turn of the compute
// engine changes them.
type parts struct {
	last [recentParts]int
	at   int
}

// note adds a launch, and returns for how many processors to ask.
func (p *parts) note(n int) int {
	p.last[p.at%recentParts] = n
	p.at++
	for _, other := range p.last {
		n = max(n, other)
	}
	return n
}

// width returns how many processors a launch keeps busy at most; 0 if it may be all, whatever the device has.
func (k *task) width() int {
	d := k.channel.ctx.dev
	if d.config.Gate == nil || d.config.ModelTime || k.launch.Tree != nil {
		return 0
	}
	return int(min(k.kernel.Clusters(k.launch.Grid, k.launch.Cluster), uint64(d.config.SMs)))
}

// enterGate asks for the engine at the gate, for a channel whose turn it is.
func (e *engine) enterGate(c *channel) <-chan struct{} {
	n := 0
	if e.kind == gpu.EngineCompute && c.task.channel != nil {
		n = c.task.width()
	}
	switch {
	case n == 0:
		return e.gate.Enter(e.kind, false)
	case c.from == nil:
		n = e.parts.note(n)
	}
	least := 1
	if c.task.launch.Cooperative { // all clusters run at the same time
		least = n
	}
	return gpu.EnterPart(e.gate, e.kind, n, least)
}
