package lane

import "pvdrm/gpu/softgpu/exec/ir"

// Special registers.

// TidOf reads %tid in one dimension.
func TidOf(dim int) ir.Func { return func(w *ir.Warp, in *ir.Inst) { w.R32[in.D] = w.Tid[dim] } }

// OfBlock reads a register that all threads of a block share.
func OfBlock(get func(*ir.Block) uint32) ir.Func {
	return func(w *ir.Warp, in *ir.Inst) { Fill(&w.R32[in.D], get(w.Block), ir.AllLanes, ir.AllLanes) }
}

// OfWarp reads a register that all lanes of a warp share.
func OfWarp(get func(*ir.Warp) uint32) ir.Func {
	return func(w *ir.Warp, in *ir.Inst) { Fill(&w.R32[in.D], get(w), ir.AllLanes, ir.AllLanes) }
}

// OfLane reads a register that depends on the lane alone.
func OfLane(get func(lane uint) uint32) ir.Func {
	var row [32]uint32
	for i := range row {
		row[i] = get(uint(i))
	}
	return func(w *ir.Warp, in *ir.Inst) { w.R32[in.D] = row }
}

// WideOfWarp is OfWarp for a register of 64 bits.
func WideOfWarp(get func(*ir.Warp) uint64) ir.Func {
	return func(w *ir.Warp, in *ir.Inst) { Fill(&w.R64[in.D], get(w), ir.AllLanes, ir.AllLanes) }
}
