package nvidia

import (
	gocontext "context"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/rewrite"
)

// Where the driver cannot stop a kernel, and where Config.Divide asks for it, a launch that others wait
// for is cut into parts, between which the engine goes to others. A part is a launch of the kernel's
// twin (package rewrite): a range of blocks, whole waves of what the GPU runs at a time, as many as are
// expected to take partTime. The first part of a kernel that never ran is one wave. The driver learns of
// each part as of a command of its own; for the batch, its waiters and the counters all parts are one
// command. While its guest is alone only a kernel is cut that is expected to take longer than aloneTime:
// others may come at any time, and then wait for a part.

// How long a part is to take. To begin one costs some microseconds, and its last wave leaves
// multiprocessors idle.
const (
	partTime  = 2 * time.Millisecond
	aloneTime = 10 * time.Millisecond
)

// divides reports whether kernels of the context may be divided.
func (c *context) divides() bool {
	return c.dev.config.Gate != nil && (c.dev.config.Divide || c.worker.unstoppable != nil)
}

// divided adds to a module twins of its kernels, by the kernel's name. A module that this package cannot
// read, or that is too large for that, is left as it is: its kernels run whole.
func divided(ctx gocontext.Context, file string, source []byte) (changed []byte, twins map[string]string) {
	e := ptx.NewEffort(ctx, gpu.ModuleMemory(uint64(len(source))))
	m, err := ptx.LoadWithin(e, file, source)
	if err != nil {
		return source, nil
	}
	r, err := split(e, m, source)
	if err != nil || !r.Added() {
		return source, nil
	}
	twins = map[string]string{}
	for _, k := range r.Kernels {
		if k.Twin != "" {
			twins[k.Name] = k.Twin
		}
	}
	return r.Source, twins
}

// split is rewrite.Split, with an error where the effort ends.
func split(e *ptx.Effort, m *ptx.Module, source []byte) (r *rewrite.Result, err error) {
	defer e.Catch(&err)
	return rewrite.Split(e, m, source)
}

// portion is what a work launches of a grid.
type portion struct {
	from, blocks uint64 // the range; from is 0 and blocks the grid where it is all
	more         bool   // the command goes on with another portion
}

// blocksOf is how many blocks a launch has.
func blocksOf(l *gpu.Launch) uint64 {
	return uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
}

// next decides what of a launch, from a block on, is launched next.
func (c *channel) next(f *function, l *gpu.Launch, from uint64) portion {
	all := blocksOf(l)
	rest := portion{from: from, blocks: all - from}
	if f.twin == 0 {
		return rest
	}
	most := partTime
	if c.ctx.dev.aloneOn(&c.ctx.dev.compute, c.ctx) {
		most = aloneTime
	}
	wave := f.wave(&c.ctx.dev.props, l)
	n := wave
	if pace := f.pace.Load(); pace > 0 {
		n = max(uint64(most)*paceScale/uint64(pace)/wave, 1) * wave
	}
	if n = min(n, rewrite.MaxRange); n < rest.blocks {
		rest.blocks, rest.more = n, true
	}
	return rest
}

// aloneOn reports whether no one else wants an engine.
func (d *device) aloneOn(e *engine, user *context) bool {
	return e.gate.Alone(e.kind) && !e.contended(user)
}

// paceScale is by how much function.pace counts finer than in ns.
const paceScale = 1 << 10

// learn notes how long blocks of a kernel took together.
func (f *function) learn(took time.Duration, blocks uint64) {
	const most = 1 << 40 // ns; a longer time is as good as this
	f.pace.Store(max(1, int64(uint64(min(took, most))*paceScale/max(blocks, 1))))
}

// expects is how long blocks of a kernel are expected to take.
func (f *function) expects(blocks uint64) time.Duration {
	pace := uint64(f.pace.Load())
	if pace == 0 {
		return unknown
	}
	if blocks > uint64(unknown)/pace {
		return unknown - 1
	}
	return max(1, time.Duration(blocks*pace/paceScale))
}

// wave is how many blocks of a launch run at the same time, about: what limits them is how many threads,
// registers and bytes of .shared a multiprocessor has.
func (f *function) wave(p *gpu.Properties, l *gpu.Launch) uint64 {
	threads := int(l.Block[0]) * int(l.Block[1]) * int(l.Block[2])
	fits := func(has, each int) int {
		if has <= 0 || each <= 0 {
			return max(p.MaxBlocksSM, 1)
		}
		return has / each
	}
	warps := (threads + 31) / 32 * 32
	each := min(max(p.MaxBlocksSM, 1), fits(p.MaxThreadsSM, warps), fits(p.RegsPerBlock, warps*f.twinRegs), fits(p.SharedPerBlock, f.attrs.SharedBytes+int(l.SharedBytes)))
	return uint64(max(each, 1)) * uint64(max(p.Multiprocs, 1))
}
