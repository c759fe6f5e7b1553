package simt

import (
	"time"

	"pvdrm/gpu/ptx"
)

// special32 and special64 are the special registers (section 10).
var special32, special64 = specials()

func specials() (narrow, wide map[ptx.Special]laneFunc) {
	nano := func() uint64 { return uint64(time.Since(epoch)) }
	narrow = map[ptx.Special]laneFunc{
		ptx.LaneID:     specialLane(func(i uint) uint32 { return uint32(i) }),
		ptx.LaneMaskEQ: specialLane(func(i uint) uint32 { return 1 << i }),
		ptx.LaneMaskLT: specialLane(func(i uint) uint32 { return 1<<i - 1 }),
		ptx.LaneMaskLE: specialLane(func(i uint) uint32 { return 2<<i - 1 }),
		ptx.LaneMaskGE: specialLane(func(i uint) uint32 { return -(1 << i) }),
		ptx.LaneMaskGT: specialLane(func(i uint) uint32 { return -(2 << i) }),

		ptx.WarpID:  specialWarp(func(w *warp) uint32 { return uint32(w.index) }),
		ptx.NWarpID: specialWarp(func(w *warp) uint32 { return uint32(len(w.block.warps)) }),
		ptx.SMID:    specialWarp(func(w *warp) uint32 { return uint32(w.worker.id) }),
		ptx.NSMID:   specialWarp(func(w *warp) uint32 { return uint32(w.worker.run.workers) }),

		ptx.Clock:         specialWarp(func(*warp) uint32 { return uint32(nano()) }),
		ptx.ClockHi:       specialWarp(func(*warp) uint32 { return uint32(nano() >> 32) }),
		ptx.GlobalTimerLo: specialWarp(func(*warp) uint32 { return uint32(nano()) }),
		ptx.GlobalTimerHi: specialWarp(func(*warp) uint32 { return uint32(nano() >> 32) }),

		ptx.TotalSmemSize:   specialBlock(func(b *block) uint32 { return uint32(len(b.shared)) }),
		ptx.AggrSmemSize:    specialBlock(func(b *block) uint32 { return uint32(len(b.shared)) }),
		ptx.DynamicSmemSize: specialBlock(func(b *block) uint32 { return b.launch.SharedBytes }),
	}
	for i := range 3 {
		s := ptx.Special(i)
		narrow[ptx.TidX+s] = specialTid(i)
		narrow[ptx.NTidX+s] = specialBlock(func(b *block) uint32 { return b.dims[i] })
		narrow[ptx.CTAIDX+s] = specialBlock(func(b *block) uint32 { return b.id[i] })
		narrow[ptx.NCTAIDX+s] = specialBlock(func(b *block) uint32 { return b.launch.Grid[i] })
	}
	zero := specialWarp(func(*warp) uint32 { return 0 })
	one := specialWarp(func(*warp) uint32 { return 1 })
	// Each block is a cluster of its own.
	for s := range ptx.Special(3) {
		narrow[ptx.ClusterIDX+s], narrow[ptx.NClusterIDX+s] = narrow[ptx.CTAIDX+s], narrow[ptx.NCTAIDX+s]
		narrow[ptx.ClusterCTAIDX+s], narrow[ptx.ClusterNCTAIDX+s] = zero, one
	}
	narrow[ptx.ClusterCTARank], narrow[ptx.ClusterNCTARank] = zero, one
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
	wide = map[ptx.Special]laneFunc{
		ptx.Clock64:     specialWide(func(*warp) uint64 { return nano() }),
		ptx.GlobalTimer: specialWide(func(*warp) uint64 { return nano() }),
		ptx.GridID:      specialWide(func(w *warp) uint64 { return w.worker.run.id }),
	}
	wide[ptx.CurrentGraphExec] = specialWide(func(*warp) uint64 { return 0 })
	for i := range ptx.Special(8) {
		wide[ptx.PM0x64+i] = specialWide(func(*warp) uint64 { return 0 })
	}
	return narrow, wide
}

// epoch is when the clocks of the engine started; they count nanoseconds.
var epoch = time.Now()

// specialOp is the opcode of a special register, and its operand.
func specialOp(s ptx.Special) (opcode, uint64) {
	switch {
	case s >= ptx.TidX && s < ptx.TidX+3:
		return opTid, uint64(s - ptx.TidX)
	case s >= ptx.NTidX && s < ptx.NTidX+3:
		return opBlock, uint64(wordNTid + s - ptx.NTidX)
	case s >= ptx.CTAIDX && s < ptx.CTAIDX+3:
		return opBlock, uint64(wordCTAID + s - ptx.CTAIDX)
	case s >= ptx.NCTAIDX && s < ptx.NCTAIDX+3:
		return opBlock, uint64(wordNCTAID + s - ptx.NCTAIDX)
	}
	return opNone, 0
}

// special is a register with the value of a special register.
func (b *builder) special(o *ptx.Operand) uint32 {
	if fn := special64[o.Special]; fn != nil {
		d := b.temp64()
		b.emit(inst{kind: kLane64, fn: fn, d: d, other: -1})
		return d
	}
	fn := special32[o.Special]
	if fn == nil {
		b.c.fail(o.Pos, "special register %s is not supported", o.Special)
		return 0
	}
	d := b.temp32()
	in := inst{kind: kLane32, fn: fn, d: d, other: -1}
	in.op, in.imm = specialOp(o.Special)
	b.emit(in)
	return d
}
