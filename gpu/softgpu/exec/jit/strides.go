//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Registers whose lanes follow one another. Where a block's rows are whole warps (Rows), each lane's %tid.x is that of the
// lane before and 1. Sums with what is the same in all lanes, and products by a power of two, keep such a stride, so that
// native code computes the first part of the result alone. Other parts come from it by one addition, where an
// operation wants them. An access by such an address needs no look at the lanes: the first one has the place of all.
//
// All this holds for numbers that wrap around. Where 32 bits become 64 it holds unless one lane wraps around and
// another does not: native code looks at that, and leaves the operation to the interpreter then.

// strideKinds is how many strides there are: 1, 2, 4 and so on.
const strideKinds = 7

// shape is how the lanes of a register follow one another.
type shape struct {
	stride uint8 // each is the one before and 1<<(stride-1); 0: this is not known
	sure   bool  // wherever native code is entered; else it has looked at that
	small  bool  // it is %tid.x
}

// operand is what a rule knows of an operand.
type operand struct {
	shape
	same  bool   // all lanes have the same
	fixed bool   // and it is x
	x     uint64 //
}

// follow is how the lanes of the result of an operation follow one another.
type follow uint8

const (
	followNot     follow = iota
	followMove           // as those of the operand
	followSum            // by the sum of two strides
	followDiff           // as those of the first
	followProduct        // by a stride times a number
	followShift          // by a stride moved to the left
	followMad            // followProduct and followSum
)

// strideRule is a rule of an operation.
type strideRule struct {
	follow follow
	signed bool // as 32 bits become 64
	widens bool // they do
}

var strideRules = makeStrideRules()

// makeStrideRules are rules by opcode, less that of the first row.
func makeStrideRules() []strideRule {
	list := make([]strideRule, len(rowOps))
	for key, rule := range map[string]strideRule{
		"mov.32": {follow: followMove}, "mov.64": {follow: followMove}, "cvt.u32.u32": {follow: followMove}, "cvt.u64.u64": {follow: followMove},
		"add.u32": {follow: followSum}, "add.u64": {follow: followSum}, "sub.u32": {follow: followDiff}, "sub.u64": {follow: followDiff},
		"mul.lo.u32": {follow: followProduct}, "mul.lo.u64": {follow: followProduct}, "shl.b32": {follow: followShift}, "shl.b64": {follow: followShift},
		"mad.lo.u32": {follow: followMad}, "mad.lo.u64": {follow: followMad},
		"mul.wide.u32": {follow: followProduct, widens: true}, "mul.wide.s32": {follow: followProduct, widens: true, signed: true},
		"mad.wide.u32": {follow: followMad, widens: true}, "mad.wide.s32": {follow: followMad, widens: true, signed: true},
		"cvt.u64.u32": {follow: followMove, widens: true}, "cvt.u64.s32": {follow: followMove, widens: true, signed: true},
		"cvt.s64.s32": {follow: followMove, widens: true, signed: true}, "cvt.s64.u32": {follow: followMove, widens: true},
	} {
		list[opcodeOf(key)-ir.OpRow] = rule
	}
	return list
}

func sumOf(a, b operand) operand {
	switch {
	case a.same && b.same:
		return operand{same: true}
	case a.same:
		return operand{shape: shape{stride: b.stride, sure: b.sure}}
	case b.same:
		return operand{shape: shape{stride: a.stride, sure: a.sure}}
	case a.stride != 0 && a.stride == b.stride && a.stride < strideKinds:
		return operand{shape: shape{stride: a.stride + 1, sure: a.sure && b.sure}}
	}
	return operand{}
}

func shiftOf(a operand, by uint64) operand {
	if a.stride == 0 || by > strideKinds || uint64(a.stride)+by > strideKinds {
		return operand{}
	}
	return operand{shape: shape{stride: a.stride + uint8(by), sure: a.sure}}
}

func productOf(a, b operand) operand {
	switch {
	case a.same && b.same:
		return operand{same: true}
	case b.fixed && bits.OnesCount64(b.x) == 1:
		return shiftOf(a, uint64(bits.TrailingZeros64(b.x)))
	case a.fixed && bits.OnesCount64(a.x) == 1:
		return shiftOf(b, uint64(bits.TrailingZeros64(a.x)))
	}
	return operand{}
}

// result is what is known of the result of an operation; wide is the operand that must not wrap around, or -1.
func (r strideRule) result(o [3]operand) (res operand, wide int) {
	wide = -1
	if r.widens && r.follow != followNot {
		for n := range 2 {
			if o[n].stride != 0 {
				wide = n
			}
		}
	}
	switch r.follow {
	case followMove:
		res = o[0]
	case followSum:
		res = sumOf(o[0], o[1])
	case followDiff:
		if o[1].same {
			res = sumOf(o[0], o[1])
		}
	case followProduct:
		res = productOf(o[0], o[1])
	case followShift:
		if res.same = o[0].same && o[1].same; !res.same && o[1].fixed {
			res = shiftOf(o[0], o[1].x)
		}
	case followMad:
		res = sumOf(productOf(o[0], o[1]), o[2])
	}
	res.fixed = false
	return res, wide
}

// ruleOf is the rule of an operation, if it has one.
func ruleOf(in *ir.Inst) strideRule {
	if in.Op < ir.OpRow || in.Guard != 0 || in.Kind != ir.KLane32 && in.Kind != ir.KLane64 {
		return strideRule{}
	}
	return strideRules[in.Op-ir.OpRow]
}

// operandsOf has what a function knows of the operands of an operation with a rule.
func operandsOf(in *ir.Inst, know func(file ir.RegKind, reg uint32) operand) (o [3]operand) {
	form := rowOps[in.Op-ir.OpRow].form[2:]
	for n, letter := range form[:min(len(form), len(o))] {
		o[n] = know(fileOf(byte(letter)), [4]uint32{in.A, in.B, in.C, in.E}[n])
	}
	return o
}

// known32 and known64 are the constants of a function that are the same in all blocks.
func (e *emitter) findConstants() {
	e.known32, e.known64 = map[uint32]uint32{}, map[uint32]uint64{}
	for _, c := range e.fn.Const32 {
		e.known32[c.Reg] = c.Value
	}
	for _, c := range e.fn.Const64 {
		e.known64[c.Reg] = c.Value
	}
	for _, i := range e.fn.Shared32 {
		delete(e.known32, e.fn.Const32[i].Reg)
	}
	for _, list := range [][]int{e.fn.Shared64, e.fn.Relocs} {
		for _, i := range list {
			delete(e.known64, e.fn.Const64[i].Reg)
		}
	}
}

// number is what is known of a register that is a constant.
func (e *emitter) numberIn(file ir.RegKind, reg uint32) operand {
	o := operand{same: e.constant(file, reg)}
	if !o.same {
		return o
	}
	if file == ir.In64 {
		o.x, o.fixed = e.known64[reg], hasKey(e.known64, reg)
	} else {
		o.x, o.fixed = uint64(e.known32[reg]), hasKey(e.known32, reg)
	}
	return o
}

func hasKey[V any](m map[uint32]V, k uint32) bool {
	_, ok := m[k]
	return ok
}

// operandAt is what is known of a register where code is being made.
func (e *emitter) operandAt(file ir.RegKind, reg uint32) operand {
	if file == ir.InPred {
		return operand{}
	}
	o, v := e.numberIn(file, reg), e.at(file, reg)
	switch {
	case o.same:
	case firstPart(v) != noZ:
		o.same, o.shape = v.uniform, v.shape
	default:
		o.same = e.isSame(file, reg)
		o.shape = e.claims.find(file, reg).shape
	}
	return o
}

// strideOf is how the lanes of the result of an operation follow one another, and which operand must not wrap around
// for that, or -1, with how its lanes follow one another. No stride: all parts are to be computed.
func (e *emitter) strideOf(in *ir.Inst) (s shape, wide int, of shape) {
	rule := ruleOf(in)
	if rule.follow == followNot || e.mode != allOfThem {
		return shape{}, -1, shape{}
	}
	o := operandsOf(in, e.operandAt)
	res, wide := rule.result(o)
	if res.stride == 0 {
		return shape{}, -1, shape{}
	}
	if wide >= 0 && !o[wide].small {
		if res.sure = false; e.stays {
			return shape{}, -1, shape{}
		}
		return res.shape, wide, o[wide].shape
	}
	return res.shape, -1, shape{}
}

// leaveIfWraps leaves at out unless no lane of a register of 32 bits, whose first part is z, wraps around after the first. The
// register may not have its shape any more, where vectors were short.
func (e *emitter) leaveIfWraps(z x86.Z, of shape, signed bool, out x86.Label) {
	e.a.ToGP(&x86.TOGPD, x86.RAX, z)
	e.a.RI(x86.ADD, false, x86.RAX, 31<<(of.stride-1))
	if signed {
		e.a.JumpIf(x86.Overflow, out)
	} else {
		e.a.JumpIf(x86.Below, out)
	}
}

// first is use for what needs the first part alone of a register whose lanes follow one another.
func (e *emitter) first(file ir.RegKind, reg uint32, _ bool) *value {
	v := e.at(file, reg)
	s := e.claims.find(file, reg).shape
	if firstPart(v) != noZ {
		s = v.shape
	}
	if s.stride == 0 || v.uniform {
		return e.use(file, reg, false)
	}
	e.clock++
	if v.z[0] == noZ {
		v.shape = s
		v.z[0] = e.take(file, reg, 0)
		e.a.VM(&x86.LOADD, v.z[0], 0, home(file, reg, 0), x86.Arg{})
	}
	e.owners[v.z[0]].pin, e.owners[v.z[0]].used = true, e.clock
	return v
}

// defineStride is define for a result whose lanes follow one another.
func (e *emitter) defineStride(file ir.RegKind, reg uint32, s shape) (z [4]x86.Z) {
	v := e.at(file, reg)
	if v.uniform {
		e.owners[v.z[0]] = owner{pin: true} // the old value may be a source
		*v = inMemoryOnly
	}
	for p := 1; p < parts(file); p++ {
		if v.z[p] != noZ {
			e.owners[v.z[p]] = owner{}
			v.z[p] = noZ
		}
	}
	z = inMemoryOnly.z
	if z[0] = v.z[0]; z[0] == noZ {
		z[0] = e.take(file, reg, 0)
	} else {
		e.clock++
		e.owners[z[0]].pin, e.owners[z[0]].used = true, e.clock
	}
	*v = value{z: z, shape: s, dirty: 1<<parts(file) - 1}
	return z
}

// partOf is what part p of a register is more than the first, in all lanes.
func partOf(file ir.RegKind, p int, stride uint8) (x86.Mem, *x86.Op) {
	if file == ir.In64 {
		return constant(offParts64 + int32(stride-1)*32 + int32(p)*8), &x86.PADDQ
	}
	return constant(offParts32 + int32(stride-1)*8 + int32(p)*4), &x86.PADDD
}

// derive makes part p of a register of its first part.
func (e *emitter) derive(file ir.RegKind, d, first x86.Z, p int, stride uint8) {
	more, add := partOf(file, p, stride)
	e.a.VB(add, d, first, more, x86.Arg{})
}

// storeStride writes a register to memory. It needs no other vector than the first part's, which an exit that the
// operation has made may still read.
func (e *emitter) storeStride(file ir.RegKind, reg uint32, v *value) {
	if v.dirty == 0 {
		return
	}
	z, last := v.z[0], parts(file)-1
	more, add := partOf(file, 1, v.stride)
	for p := range parts(file) {
		if p > 0 {
			e.a.VB(add, z, z, more, x86.Arg{})
		}
		if v.dirty>>p&1 != 0 {
			e.store(file, reg, p, z, false)
		}
	}
	more, _ = partOf(file, last, v.stride)
	sub := &x86.PSUBD
	if file == ir.In64 {
		sub = &x86.PSUBQ
	}
	e.a.VB(sub, z, z, more, x86.Arg{})
	v.dirty = 0
}

// verify goes to out unless a register in memory, whose first part is in a vector, has the shape that code behind an
// entry takes it to have.
func (e *emitter) verify(s *saved, out x86.Label) {
	a, z := &e.a, s.z[0]
	cmp, add, same, step := &x86.PCMPD, &x86.PADDD, &x86.BROADCASTD, constant(offStep32+int32(s.stride-1)*64)
	if s.kind == ir.In64 {
		cmp, add, same, step = &x86.PCMPQ, &x86.PADDQ, &x86.BROADCASTQ, constant(offStep64+int32(s.stride-1)*128)
	}
	a.V(same, t0, 0, z, x86.Arg{})
	a.VM(add, t0, t0, step, x86.Arg{})
	for p := range parts(s.kind) {
		if p > 0 {
			e.derive(s.kind, t0, z, p, s.stride)
		}
		a.VM(&x86.LOADD, t1, 0, home(s.kind, s.index, p), x86.Arg{})
		a.VK(cmp, k7, t0, t1, x86.Arg{Imm: intNotEqual})
		a.KK(&x86.KORTESTD, k7, 0, k7)
		a.JumpIf(x86.NotEqual, out)
	}
}

// threadPlace loads %tid where a warp's lanes are in one row of the block. It reports false where they may not be.
func (e *emitter) threadPlace(in *ir.Inst) bool {
	if !e.inRows || e.mode != allOfThem {
		return false
	}
	a, at := &e.a, x86.Mem{Base: x86.RAX, Disp: int32(in.Imm) * 128}
	a.RM(x86.MOV, true, x86.RAX, frameAt(offTID))
	if in.Imm == 0 {
		z := e.defineStride(ir.In32, in.D, shape{stride: 1, sure: true, small: true})
		a.VM(&x86.LOADD, z[0], 0, at, x86.Arg{})
		return true
	}
	z := e.define(ir.In32, in.D, true)
	a.VM(&x86.BROADCASTD, z[0], 0, at, x86.Arg{})
	return true
}
