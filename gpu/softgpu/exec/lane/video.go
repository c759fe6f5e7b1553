package lane

import (
	"cmp"
	"math"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Video is the lane function of video instructions. An H100 has none of them: NVIDIA's compiler
// makes 64-bit arithmetic of those on one value, which is what is computed here, also where it is
// not what the PTX manual says (docs/ptx.md).
func Video(w *ir.Warp, in *ir.Inst) {
	op := in.X.Video
	a, b, c, d := &w.R32[in.A], &w.R32[in.B], &w.R32[in.C], &w.R32[in.D]
	compute := videoOne
	if op.Kind == ir.VideoMad {
		compute = videoMad
	} else if op.Lanes > 1 {
		compute = videoLanes
	}
	for lane := range d {
		d[lane] = compute(op, a[lane], b[lane], c[lane])
	}
}

// videoPart is the value of a part of a or b.
func videoPart(p ir.VideoPart, a, b uint32) int64 {
	x := a
	if p.Second {
		x = b
	}
	v := int64(x) >> p.Shift << (64 - p.Bits)
	if p.Signed {
		return v >> (64 - p.Bits)
	}
	return int64(uint64(v) >> (64 - p.Bits))
}

// videoValue is the primary operation, with all its bits.
func videoValue(op *ir.VideoOp, x, y int64) int64 {
	switch op.Kind {
	case ir.VideoAdd:
		return x + y
	case ir.VideoSub:
		return x - y
	case ir.VideoDiff:
		return absolute(x - y)
	case ir.VideoMin:
		return min(x, y)
	case ir.VideoMax:
		return max(x, y)
	case ir.VideoAverage:
		sum := x + y
		if sum >= 0 {
			sum++
		}
		return sum >> 1
	case ir.VideoSet:
		if op.Holds[1+cmp.Compare(x, y)] {
			return 1
		}
		return 0
	}
	if op.Wrap {
		y &= 31
	}
	y = min(y, 32)
	if op.Kind == ir.VideoLeft {
		return x << y
	}
	return x >> y
}

func absolute(x int64) int64 { return max(x, -x) }

// videoOne computes one value.
func videoOne(op *ir.VideoOp, a, b, c uint32) uint32 {
	t := videoValue(op, videoPart(op.A[0], a, b), videoPart(op.B[0], a, b))
	switch {
	case op.Kind >= ir.VideoLeft:
		if op.Saturate {
			t = int64(int32(videoWord(op.Signed, t<<30>>30)))
		}
	case op.Saturate && op.Bits < 32: // as unsigned numbers, so that negative ones become the largest
		most := uint64(1)<<op.Bits - 1
		if op.Signed {
			most >>= 1
		}
		t = int64(min(uint64(t), most))
	case op.Saturate && op.Signed:
		t = int64(int32(videoWord(true, t)))
	case op.Saturate: // what is too large wraps around
		t = max(t, 0)
	}
	if op.Kind <= ir.VideoSub {
		t = int64(int32(t))
	}
	less, greater := uint64(t) < uint64(c), uint64(t) > uint64(c)
	if op.Signed {
		less, greater = t < int64(int32(c)), t > int64(int32(c))
	}
	switch {
	case op.Second == ir.VideoSum:
		return uint32(t) + c
	case op.Second == ir.VideoLeast && !less || op.Second == ir.VideoMost && !greater:
		return c
	case op.Second == ir.VideoMerge && op.Bits < 32:
		field := (uint32(1)<<op.Bits - 1) << op.Shift
		if op.Shift != 16 || op.Bits != 16 { // the upper half gets that of the result
			t <<= op.Shift
		}
		return c&^field | uint32(t)&field
	}
	return uint32(t)
}

// videoWord clamps to 32 bits.
func videoWord(signed bool, t int64) uint32 {
	if signed {
		return uint32(min(max(t, math.MinInt32), math.MaxInt32))
	}
	return uint32(min(max(t, 0), math.MaxUint32))
}

// videoLanes computes two or four values at once.
func videoLanes(op *ir.VideoOp, a, b, c uint32) uint32 {
	bits := 32 / op.Lanes
	least, most := int64(0), int64(1)<<bits-1
	if op.Signed {
		most >>= 1
		least = ^most
	}
	d := c
	for n := range op.Lanes {
		if op.Mask>>n&1 == 0 {
			continue
		}
		t := videoValue(op, videoPart(op.A[n], a, b), videoPart(op.B[n], a, b))
		if op.Saturate {
			t = min(max(t, least), most)
		}
		if op.Second == ir.VideoSum {
			d += uint32(t)
			continue
		}
		field := (uint32(1)<<bits - 1) << (n * bits)
		d = d&^field | uint32(t)<<(n*bits)&field
	}
	return d
}

// videoMad is vmad. Words count as signed ones, whatever their type.
func videoMad(op *ir.VideoOp, a, b, c uint32) uint32 {
	x, y := int32(videoPart(op.A[0], a, b)), int32(videoPart(op.B[0], a, b))
	t, sum := int64(x)*int64(y), int64(int32(c))
	switch {
	case op.Minus:
		t = sum - t
	case op.MinusC:
		t += int64(int32(^c)) + 1
	default:
		t += sum
	}
	if op.PlusOne {
		t++
	}
	if op.SignedProduct {
		t >>= op.Scale
	} else {
		t = int64(uint64(t) >> op.Scale)
	}
	if op.Saturate {
		return videoWord(op.SignedProduct, t)
	}
	return uint32(t)
}

// PackIntegers is cvt.pack: a and b, clamped to so many bits, in front of the lower bits of c.
func PackIntegers(w *ir.Warp, in *ir.Inst) {
	a, b, c, d := &w.R32[in.A], &w.R32[in.B], &w.R32[in.C], &w.R32[in.D]
	bits := in.Imm & 0xff
	least, most := int32(0), int32(1)<<bits-1
	if in.Imm>>8 != 0 {
		most >>= 1
		least = ^most
	}
	field := uint32(1)<<bits - 1
	for lane := range d {
		high, low := min(max(int32(a[lane]), least), most), min(max(int32(b[lane]), least), most)
		d[lane] = c[lane]<<(2*bits) | uint32(high)&field<<bits | uint32(low)&field
	}
}
