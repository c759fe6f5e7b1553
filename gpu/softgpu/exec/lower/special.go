package lower

import (
	"time"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// special32 and special64 are the special registers (section 10).
var special32, special64 = specials()

func specials() (narrow, wide map[ptx.Special]ir.Func) {
	nano := func() uint64 { return uint64(time.Since(epoch)) }
	global := func() uint64 { return uint64(epoch.UnixNano()) + nano() }
	narrow = map[ptx.Special]ir.Func{
		ptx.LaneID:     lane.OfLane(func(i uint) uint32 { return uint32(i) }),
		ptx.LaneMaskEQ: lane.OfLane(func(i uint) uint32 { return 1 << i }),
		ptx.LaneMaskLT: lane.OfLane(func(i uint) uint32 { return 1<<i - 1 }),
		ptx.LaneMaskLE: lane.OfLane(func(i uint) uint32 { return 2<<i - 1 }),
		ptx.LaneMaskGE: lane.OfLane(func(i uint) uint32 { return -(1 << i) }),
		ptx.LaneMaskGT: lane.OfLane(func(i uint) uint32 { return -(2 << i) }),

		ptx.WarpID:  lane.OfWarp(func(w *ir.Warp) uint32 { return uint32(w.Index) }),
		ptx.NWarpID: lane.OfWarp(func(w *ir.Warp) uint32 { return uint32(w.Block.WarpCount) }),
		ptx.SMID:    lane.OfWarp(func(w *ir.Warp) uint32 { return uint32(w.Worker.ID) }),
		ptx.NSMID:   lane.OfWarp(func(w *ir.Warp) uint32 { return uint32(w.Worker.Workers) }),

		ptx.Clock:         lane.OfWarp(func(*ir.Warp) uint32 { return uint32(nano()) }),
		ptx.ClockHi:       lane.OfWarp(func(*ir.Warp) uint32 { return uint32(nano() >> 32) }),
		ptx.GlobalTimerLo: lane.OfWarp(func(*ir.Warp) uint32 { return uint32(global()) }),
		ptx.GlobalTimerHi: lane.OfWarp(func(*ir.Warp) uint32 { return uint32(global() >> 32) }),

		ptx.TotalSmemSize:   lane.OfBlock(func(b *ir.Block) uint32 { return uint32(len(b.Shared)) }),
		ptx.AggrSmemSize:    lane.OfBlock(func(b *ir.Block) uint32 { return uint32(len(b.Shared)) }),
		ptx.DynamicSmemSize: lane.OfBlock(func(b *ir.Block) uint32 { return b.Dynamic }),
	}
	for i := range 3 {
		s := ptx.Special(i)
		narrow[ptx.TidX+s] = lane.TidOf(i)
		narrow[ptx.NTidX+s] = lane.OfBlock(func(b *ir.Block) uint32 { return b.Dims[i] })
		narrow[ptx.CTAIDX+s] = lane.OfBlock(func(b *ir.Block) uint32 { return b.ID[i] })
		narrow[ptx.NCTAIDX+s] = lane.OfBlock(func(b *ir.Block) uint32 { return b.Grid[i] })
	}
	zero := lane.OfWarp(func(*ir.Warp) uint32 { return 0 })
	for i := range 3 {
		s := ptx.Special(i)
		narrow[ptx.ClusterIDX+s] = lane.OfBlock(func(b *ir.Block) uint32 { return b.ID[i] / b.Place.Dims[i] })
		narrow[ptx.NClusterIDX+s] = lane.OfBlock(func(b *ir.Block) uint32 { return b.Grid[i] / b.Place.Dims[i] })
		narrow[ptx.ClusterCTAIDX+s] = lane.OfBlock(func(b *ir.Block) uint32 { return b.ID[i] % b.Place.Dims[i] })
		narrow[ptx.ClusterNCTAIDX+s] = lane.OfBlock(func(b *ir.Block) uint32 { return b.Place.Dims[i] })
	}
	narrow[ptx.ClusterCTARank] = lane.OfBlock(func(b *ir.Block) uint32 { return b.Place.Rank })
	narrow[ptx.ClusterNCTARank] = lane.OfBlock(func(b *ir.Block) uint32 { return uint32(len(b.Place.Peers)) })
	// No shared memory is reserved.
	for s := ptx.ReservedSmemBegin; s <= ptx.ReservedSmem1; s++ {
		narrow[s] = zero
	}
	for i := range ptx.Special(8) {
		narrow[ptx.PM0+i] = zero
	}
	for i := range ptx.Special(32) {
		narrow[ptx.EnvReg0+i] = zero
	}
	// Package run says what they are for.
	narrow[ptx.EnvReg0+1] = lane.OfBlock(func(b *ir.Block) uint32 { return uint32(b.Workspace >> 32) })
	narrow[ptx.EnvReg0+2] = lane.OfBlock(func(b *ir.Block) uint32 { return uint32(b.Workspace) })
	wide = map[ptx.Special]ir.Func{
		ptx.Clock64:     lane.WideOfWarp(func(*ir.Warp) uint64 { return nano() }),
		ptx.GlobalTimer: lane.WideOfWarp(func(*ir.Warp) uint64 { return global() }),
		ptx.GridID:      lane.WideOfWarp(func(w *ir.Warp) uint64 { return w.Worker.Launch }),
	}
	wide[ptx.CurrentGraphExec] = lane.WideOfWarp(func(*ir.Warp) uint64 { return 0 })
	for i := range ptx.Special(8) {
		wide[ptx.PM0x64+i] = lane.WideOfWarp(func(*ir.Warp) uint64 { return 0 })
	}
	return narrow, wide
}

// epoch is when the clocks of the engine started; they count nanoseconds. %globaltimer counts those
// since 1970, as on an NVIDIA GPU: it is one clock for all processes that share the GPU.
var epoch = time.Now()

// specialOp is the opcode of a special register, and its operand.
func specialOp(s ptx.Special) (ir.Opcode, uint64) {
	switch {
	case s >= ptx.TidX && s < ptx.TidX+3:
		return ir.OpTid, uint64(s - ptx.TidX)
	case s >= ptx.NTidX && s < ptx.NTidX+3:
		return ir.OpBlock, uint64(ir.WordNTid + s - ptx.NTidX)
	case s >= ptx.CTAIDX && s < ptx.CTAIDX+3:
		return ir.OpBlock, uint64(ir.WordCTAID + s - ptx.CTAIDX)
	case s >= ptx.NCTAIDX && s < ptx.NCTAIDX+3:
		return ir.OpBlock, uint64(ir.WordNCTAID + s - ptx.NCTAIDX)
	}
	if n, ok := laneSpecials[s]; ok {
		return ir.OpOfLane, n
	}
	if n, ok := warpSpecials[s]; ok {
		return ir.OpOfWarp, n
	}
	return ir.OpNone, 0
}

// laneSpecials and warpSpecials are special registers of lanes, and of warps, that native code has.
var (
	laneSpecials = map[ptx.Special]uint64{
		ptx.LaneID: ir.LaneID, ptx.LaneMaskEQ: ir.LaneMaskEQ, ptx.LaneMaskLT: ir.LaneMaskLT, ptx.LaneMaskLE: ir.LaneMaskLE,
		ptx.LaneMaskGE: ir.LaneMaskGE, ptx.LaneMaskGT: ir.LaneMaskGT,
	}
	warpSpecials = map[ptx.Special]uint64{ptx.WarpID: ir.WarpID, ptx.NWarpID: ir.WarpCount, ptx.SMID: ir.WarpWorker, ptx.NSMID: ir.WarpWorkers}
)

// special is a register with the value of a special register.
func (b *builder) special(o *ptx.Operand) uint32 {
	if fn := special64[o.Special]; fn != nil {
		d := b.temp64()
		b.emit(ir.Inst{Kind: ir.KLane64, Fn: fn, D: d, Other: -1})
		return d
	}
	fn := special32[o.Special]
	if fn == nil {
		b.c.fail(o.Pos, "special register %s is not supported", o.Special)
		return 0
	}
	d := b.temp32()
	in := ir.Inst{Kind: ir.KLane32, Fn: fn, D: d, Other: -1}
	in.Op, in.Imm = specialOp(o.Special)
	b.emit(in)
	return d
}
