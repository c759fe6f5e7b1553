package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

var videoKinds = map[ptx.Op]ir.VideoKind{
	ptx.OpVadd: ir.VideoAdd, ptx.OpVsub: ir.VideoSub, ptx.OpVabsdiff: ir.VideoDiff, ptx.OpVmin: ir.VideoMin, ptx.OpVmax: ir.VideoMax,
	ptx.OpVshl: ir.VideoLeft, ptx.OpVshr: ir.VideoRight, ptx.OpVset: ir.VideoSet, ptx.OpVmad: ir.VideoMad,
	ptx.OpVadd2: ir.VideoAdd, ptx.OpVsub2: ir.VideoSub, ptx.OpVabsdiff2: ir.VideoDiff, ptx.OpVmin2: ir.VideoMin, ptx.OpVmax2: ir.VideoMax,
	ptx.OpVavrg2: ir.VideoAverage, ptx.OpVset2: ir.VideoSet,
	ptx.OpVadd4: ir.VideoAdd, ptx.OpVsub4: ir.VideoSub, ptx.OpVabsdiff4: ir.VideoDiff, ptx.OpVmin4: ir.VideoMin, ptx.OpVmax4: ir.VideoMax,
	ptx.OpVavrg4: ir.VideoAverage, ptx.OpVset4: ir.VideoSet,
}

var videoSeconds = map[ptx.Atomic]ir.VideoSecond{ptx.AtomicAdd: ir.VideoSum, ptx.AtomicMin: ir.VideoLeast, ptx.AtomicMax: ir.VideoMost}

// comparisons are the results for less, equal and greater.
var comparisons = map[ptx.Cmp][3]bool{
	ptx.CmpEQ: {false, true, false}, ptx.CmpNE: {true, false, true}, ptx.CmpLT: {true, false, false},
	ptx.CmpLE: {true, true, false}, ptx.CmpGT: {false, false, true}, ptx.CmpGE: {false, true, true},
}

// video decodes a video instruction.
func (b *builder) video(i *ptx.Instr) {
	m, d := &i.Mods, &i.Args[0]
	op := &ir.VideoOp{
		Kind: videoKinds[i.Op], Lanes: i.Op.Lanes(), Saturate: m.Has(ptx.Sat), Second: videoSeconds[m.Atomic],
		Bits: 32, Holds: comparisons[m.Cmp], Wrap: m.Mode == ptx.ModeWrap, PlusOne: m.Has(ptx.PlusOne),
		Minus: i.Args[1].Minus != i.Args[2].Minus,
	}
	types := m.Types[:3]
	if op.Kind == ir.VideoSet { // minima and maxima of its result and c have the sign of a
		types = []ptx.Type{m.Types[0], m.Types[0], m.Types[1]}
	}
	op.Signed = types[0].Signed()
	op.A, op.B = videoParts(i, &i.Args[1], types[1].Signed(), 0), videoParts(i, &i.Args[2], types[2].Signed(), 1)
	switch {
	case op.Lanes > 1:
		op.Mask = videoMask(d.Sel, op.Lanes)
	case d.Sel != 0:
		p := videoPart(d.Sel)
		op.Shift, op.Bits = p.Shift, p.Bits
	}
	if m.Has(ptx.Shift7) {
		op.Scale = 7
	} else if m.Has(ptx.Shift15) {
		op.Scale = 15
	}
	in := ir.Inst{Kind: ir.KLane32, Fn: lane.Video, A: b.src32(&i.Args[1], ptx.U32), B: b.src32(&i.Args[2], ptx.U32), X: &ir.Extra{Video: op}, Other: -1}
	if len(i.Args) > 3 {
		in.C, op.MinusC = b.src32(&i.Args[3], ptx.U32), i.Args[3].Minus
	} else {
		in.C = b.imm32(0)
	}
	op.SignedProduct = types[1].Signed() || types[2].Signed() || op.Minus || op.MinusC
	in.D = b.dst(d, ir.In32)
	b.emit(in)
}

// videoPart is the byte or half that a selector of one part names.
func videoPart(s ptx.Selector) ir.VideoPart {
	bits := 8
	if s.Half() {
		bits = 16
	}
	return ir.VideoPart{Shift: uint8(bits * s.At(0)), Bits: uint8(bits)}
}

// videoParts are what an operand, the first or the second, has for each lane.
func videoParts(i *ptx.Instr, o *ptx.Operand, signed bool, second int) (list [4]ir.VideoPart) {
	lanes := i.Op.Lanes()
	if lanes == 1 {
		p := ir.VideoPart{Bits: 32}
		if o.Sel != 0 {
			p = videoPart(o.Sel)
		}
		p.Second, p.Signed = second != 0, signed
		return [4]ir.VideoPart{p}
	}
	bits := 32 / lanes
	for n := range lanes {
		part := second*lanes + n
		if o.Sel != 0 {
			part = o.Sel.At(n)
		}
		list[n] = ir.VideoPart{Second: part >= lanes, Signed: signed, Shift: uint8(part % lanes * bits), Bits: uint8(bits)}
	}
	return list
}

// videoMask is the lanes of a result that a selector names, all if it is none.
func videoMask(s ptx.Selector, lanes int) (mask uint8) {
	if s == 0 {
		return 1<<lanes - 1
	}
	for n := range s.Len() {
		mask |= 1 << s.At(n)
	}
	return mask
}

// packIntegers decodes cvt.pack.
func (b *builder) packIntegers(i *ptx.Instr) {
	to := i.Mods.Type()
	imm := uint64(to.ElementBits())
	if to.Signed() || to == ptx.S4 || to == ptx.S2 {
		imm |= 1 << 8
	}
	in := ir.Inst{Kind: ir.KLane32, Fn: lane.PackIntegers, A: b.src32(&i.Args[1], ptx.S32), B: b.src32(&i.Args[2], ptx.S32), Imm: imm, Other: -1}
	if len(i.Args) > 3 {
		in.C = b.src32(&i.Args[3], ptx.B32)
	} else {
		in.C = b.imm32(0)
	}
	in.D = b.dst(&i.Args[0], ir.In32)
	b.emit(in)
}
