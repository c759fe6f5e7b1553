package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// DynamicShared is the address of the dynamic .shared memory.
func DynamicShared(w *ir.Warp, in *ir.Inst) {
	Fill(&w.R32[in.D], w.Block.Fn.DynShared+uint32(w.Block.Own()), ir.AllLanes, ir.AllLanes)
}

// LocalAddress is the address of imm bytes into the frame's local memory.
func LocalAddress(w *ir.Warp, in *ir.Inst) {
	Fill(&w.R64[in.D], 4*uint64(w.Frame.Base)+in.Imm, ir.AllLanes, ir.AllLanes)
}

// LoadParam reads c bytes at imm of the kernel's parameters.
func LoadParam(w *ir.Warp, in *ir.Inst) {
	p := w.Block.Params
	if uint64(len(p)) < in.Imm+uint64(in.C) {
		w.FailAddress(w.First(), gpu.LostAddress, in.Imm, false, ir.SpaceNames[ir.SpaceParam])
	}
	x := loadBytes(p[in.Imm:], uint64(in.C))
	if in.C == 8 {
		Fill(&w.R64[in.D], x, ir.AllLanes, ir.AllLanes)
	} else {
		Fill(&w.R32[in.D], uint32(x), ir.AllLanes, ir.AllLanes)
	}
}

// LoadFrame and StoreFrame move the words from row imm of the frame on.
func LoadFrame(w *ir.Warp, in *ir.Inst) {
	row := w.Frame.Base + int(in.Imm)
	if in.C == 4 {
		w.R32[in.D] = w.Local[row]
		return
	}
	d, lo, hi := &w.R64[in.D], &w.Local[row], &w.Local[row+1]
	for i := range d {
		d[i] = uint64(lo[i]) | uint64(hi[i])<<32
	}
}

func StoreFrame(w *ir.Warp, in *ir.Inst) {
	row := w.Frame.Base + int(in.Imm)
	if in.C == 4 {
		CopyLanes(&w.Local[row], &w.R32[in.D], w.Mask, w.Live)
		return
	}
	s, lo, hi := &w.R64[in.D], &w.Local[row], &w.Local[row+1]
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		lo[i], hi[i] = uint32(s[i]), uint32(s[i]>>32)
	}
}
