package lane

import (
	"encoding/binary"

	"pvdrm/gpu/softgpu/exec/ir"
)

// What describes a launch by a kernel: a header in the generic address space with the address of
// the kernel, grid, block and shared memory, and the parameters behind it.
const (
	headerGrid   = 8
	headerBlock  = 20
	headerShared = 32
	headerBytes  = 64
)

// streamTail is the value of a stream that stands for tail launches (cudaStreamTailLaunch).
const streamTail = 3

// ParameterBytesLanes gives each active lane the bytes of parameters of the kernel at address a:
// all ones where there is none.
func ParameterBytesLanes(w *ir.Warp, in *ir.Inst) {
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		w.R32[in.D][lane] = ^uint32(0)
		if fn := w.Block.Prog.KernelAt(w.R64[in.A][lane]); fn != nil {
			w.R32[in.D][lane] = uint32(fn.ParamBytes)
		}
	}
}

// KernelAttributeLanes gives each active lane attribute b of the kernel at address a: all ones where there
// is no such kernel or attribute.
func KernelAttributeLanes(w *ir.Warp, in *ir.Inst) {
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		w.R32[in.D][lane] = w.Block.Prog.KernelAttribute(w.R64[in.A][lane], w.R32[in.B][lane])
	}
}

// LaunchLanes launches a kernel for each active lane: a is the address of the header, b the stream,
// d the error.
func LaunchLanes(w *ir.Warp, in *ir.Inst) {
	w.Budget -= SpinCost
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		w.R32[in.D][lane] = launchLane(w, lane, w.R64[in.A][lane], w.R64[in.B][lane])
	}
}

func launchLane(w *ir.Warp, lane int, at, stream uint64) uint32 {
	if w.Worker.Launcher == nil {
		return ir.ErrNoLaunchesHere
	}
	fn := w.Block.Prog.KernelAt(loadLane(w, ir.SpaceGeneric, lane, at, 8, 8))
	if fn == nil {
		return ir.ErrNotAKernel
	}
	word := func(offset uint64) uint32 { return uint32(loadLane(w, ir.SpaceGeneric, lane, at+offset, 4, 4)) }
	c := &ir.Child{Kernel: fn, Shared: word(headerShared), Tail: stream == streamTail, By: w.Block.Number(),
		Params: make([]byte, 0, fn.ParamBytes+8)}
	for i := range uint64(3) {
		c.Grid[i], c.Block[i] = word(headerGrid+4*i), word(headerBlock+4*i)
	}
	for len(c.Params) < fn.ParamBytes {
		x := loadLane(w, ir.SpaceGeneric, lane, at+headerBytes+uint64(len(c.Params)), 8, 8)
		c.Params = binary.LittleEndian.AppendUint64(c.Params, x)
	}
	w.Budget -= len(c.Params) / 8 / readsPerHead
	c.Params = c.Params[:fn.ParamBytes]
	return w.Worker.Launcher.Launch(c)
}

// LastErrorLanes gives each active lane the error of its thread. If b is not 0, a takes its place.
func LastErrorLanes(w *ir.Warp, in *ir.Inst) {
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		w.R32[in.D][lane] = 0
		if l := w.Worker.Launcher; l != nil {
			d := w.Block.Dims
			thread := w.Tid[0][lane] + d[0]*(w.Tid[1][lane]+d[1]*w.Tid[2][lane])
			w.R32[in.D][lane] = l.LastError(w.Block.Number(), thread, w.R32[in.A][lane], w.R32[in.B][lane] != 0)
		}
	}
}
