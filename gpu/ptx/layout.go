package ptx

import (
	"fmt"
	"math"
	"math/bits"
)

// ElemSize returns the bytes of one element of v, a whole vector if it has a
// vector type.
func (v *Var) ElemSize() uint64 {
	return uint64(v.Type.Size()) * uint64(max(v.Vec, 1))
}

// Size returns the bytes that v takes: 0 for `x[]` without initialiser. It is
// meaningful for variables that Verify accepted.
func (v *Var) Size() uint64 {
	n, _ := v.size()
	return n
}

// size returns the bytes that v takes, and false if they are more than
// MaxVarBytes.
func (v *Var) size() (uint64, bool) {
	n := v.ElemSize()
	for i, d := range v.Dims {
		if i == 0 && d == 0 && v.Init != nil && v.Init.Kind == InitList {
			d = int64(len(v.Init.Ext.List))
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if d < 0 || hi != 0 || lo > MaxVarBytes {
			return 0, false
		}
		n = lo
	}
	return n, true
}

// Alignment returns the alignment of v in bytes: what .align says, but at
// least that of its type.
func (v *Var) Alignment() uint64 {
	return max(uint64(v.Align), v.ElemSize())
}

// EachInit calls visit for every number and address in the initialiser of v,
// with its byte offset in v. Bytes that it does not visit are zero.
func (v *Var) EachInit(visit func(offset uint64, value *Init)) {
	if v.Init != nil {
		v.place(v.Init, v.Dims, 0, visit)
	}
}

func (v *Var) place(n *Init, dims []int64, offset uint64, visit func(uint64, *Init)) {
	if n.Kind != InitList {
		visit(offset, n)
		return
	}
	step := uint64(v.Type.Size())
	if len(dims) > 0 {
		step = v.ElemSize()
		for _, d := range dims[1:] {
			step *= uint64(d)
		}
		dims = dims[1:]
	}
	for i := range n.Ext.List {
		v.place(&n.Ext.List[i], dims, offset+uint64(i)*step, visit)
	}
}

// checkShape returns the fault in the nesting of an initialiser, or "".
func (v *Var) checkShape(n *Init, dims []int64) string {
	if n.Kind != InitList {
		if len(dims) > 0 || v.Vec > 0 {
			return "list in braces expected"
		}
		return ""
	}
	list := n.Ext.List
	if len(dims) > 0 {
		if dims[0] != 0 && int64(len(list)) > dims[0] {
			return fmt.Sprintf("%d values for %d elements", len(list), dims[0])
		}
		for i := range list {
			if why := v.checkShape(&list[i], dims[1:]); why != "" {
				return why
			}
		}
		return ""
	}
	if v.Vec == 0 {
		return "too many braces"
	}
	if len(list) > int(v.Vec) {
		return fmt.Sprintf("%d values for a vector of %d", len(list), v.Vec)
	}
	for i := range list {
		if list[i].Kind == InitList {
			return "too many braces"
		}
	}
	return ""
}

// Imm returns the bits of a number as a value of type t, as the manual's
// section 4.5 converts constants: integers are cut to the width, fractions are
// rounded to nearest even. A predicate is 0 or 1.
func Imm(kind ImmKind, value uint64, t Type) uint64 {
	switch {
	case t == Pred:
		if value != 0 {
			return 1
		}
		return 0
	case kind == ImmF32 && t == F64:
		return math.Float64bits(float64(math.Float32frombits(uint32(value))))
	case kind == ImmF64 && (t == F32 || t == B32):
		return uint64(math.Float32bits(float32(math.Float64frombits(value))))
	}
	if n := t.Bits(); n < 64 {
		value &= 1<<n - 1
	}
	return value
}

// Imm returns the bits of an OperandImm as a value of type t.
func (o *Operand) Imm(t Type) uint64 { return Imm(o.ImmKind, o.Value, t) }

// Imm returns the bits of a number in an initialiser as a value of type t.
func (n *Init) Imm(t Type) uint64 {
	return Imm([...]ImmKind{InitInt: ImmInt, InitF32: ImmF32, InitF64: ImmF64, InitList: 0, InitAddr: 0}[n.Kind], n.Bits, t)
}
