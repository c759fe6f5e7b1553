package ptx

import (
	"fmt"
	"slices"
)

// groupShapes are the shapes of wgmma with so many rows of b: value v has 8v columns.
func groupShapes(k int) []string {
	names := make([]string, maxGroupColumns/8+1)
	for v := 1; v < len(names); v++ {
		names[v] = fmt.Sprintf("m64n%dk%d", 8*v, k)
	}
	return names
}

// maxGroupColumns is how many columns a wgmma has at most.
const maxGroupColumns = 256

// groupShape is the shape that a field of wgmma sets.
func (f field) groupShape() Shape { return ShapeM64K8 + Shape(f-fieldGroup8) }

// allColumns are the columns of wgmma of floating point, in eights; wholeColumns those of the
// others.
var (
	allColumns   = span[uint8](1, maxGroupColumns/8)
	wholeColumns = slices.DeleteFunc(slices.Clone(allColumns), func(n uint8) bool { return n > 4 && n%2 != 0 })
)

// GroupStep is what a wgmma does.
type GroupStep uint8

// Steps.
const (
	StepNone GroupStep = iota
	StepFence
	StepMultiply
	StepCommit
	StepWait
	numSteps
)

var stepNames = [numSteps]string{"", "fence", "mma_async", "commit_group", "wait_group"}

// groupForms are the instructions of a warpgroup: 9.7.14.
func groupForms() []Form {
	const s = "9.7.14"
	sync, aligned := flag(Sync), flag(Aligned)
	step := func(s GroupStep) slot { return pick(fieldStep, s) }
	list := []Form{
		form(OpWgmma, s, "", step(StepFence), sync, aligned),
		form(OpWgmma, s, "", step(StepCommit), sync, aligned),
		form(OpWgmma, s, "#groups", step(StepWait), sync, aligned),
	}
	add := func(sparse bool, shape slot, args string, slots ...slot) {
		head := []slot{step(StepMultiply), sync, aligned, shape}
		first := "%=d %a b:u64 !scale "
		if sparse {
			first, head = "%=d %a b:u64 e:b32 #selector !scale ", slices.Insert(head, 1, flag(Sparse))
		}
		list = append(list, form(OpWgmma, s, first+args, append(head, slots...)...))
	}
	const factors = "#factorA #factorB"
	sum, sat, byteFloats, bytes := typ(F32, F16), opt(flag(SatFinite)), typ(E4M3, E5M2), typ(S8, U8)
	for _, sparse := range []bool{false, true} {
		shape := func(f field, columns []uint8) slot {
			if sparse { // a has half of its elements, and k is twice as much
				f++
			}
			return pick(f, columns...)
		}
		add(sparse, shape(fieldGroup16, allColumns), factors+" #transA? #transB", sum, typ(F16), typ(F16))
		add(sparse, shape(fieldGroup16, allColumns), factors+" #transA? #transB", typ(F32), typ(BF16), typ(BF16))
		add(sparse, shape(fieldGroup8, allColumns), factors, typ(F32), typ(TF32), typ(TF32))
		add(sparse, shape(fieldGroup32, allColumns), factors, sum, byteFloats, byteFloats)
		add(sparse, shape(fieldGroup32, wholeColumns), "", sat, typ(S32), bytes, bytes)
	}
	add(false, pick(fieldGroup256, wholeColumns...), "", typ(S32), typ(B1), typ(B1), pick(fieldBool, BoolAnd), flag(Popc))
	for n := range list {
		list[n] = list[n].only(90)
	}
	return list
}

// Columns returns the columns of b and d of a wgmma.
func (i *Instr) Columns() int { return 8 * int(i.Mods.Count) }

// Group holds the operands of a wgmma.mma_async by what they are.
type Group struct {
	A, B      *Operand // A is a vector of registers or a descriptor
	Metadata  *Operand // of a sparse a, else nil
	Selector  uint64
	Scale     *Operand // a predicate: d is added to
	NegateA   bool
	NegateB   bool
	TransA    bool
	TransB    bool
	Registers bool // A lies in registers
}

// Group returns the operands of a wgmma.mma_async that Verify has accepted.
func (i *Instr) Group() Group {
	g := Group{A: &i.Args[1], B: &i.Args[2]}
	g.Registers = g.A.Kind == OperandVector
	rest := i.Args[3:]
	if i.Mods.Sparse() {
		g.Metadata, g.Selector, rest = &rest[0], rest[1].Value, rest[2:]
	}
	g.Scale, rest = &rest[0], rest[1:]
	if len(rest) > 0 {
		g.NegateA, g.NegateB, rest = int64(rest[0].Value) < 0, int64(rest[1].Value) < 0, rest[2:]
	}
	if n := len(rest); n > 0 {
		g.TransB, g.TransA = rest[n-1].Value != 0, n > 1 && rest[0].Value != 0
	}
	return g
}

// groupRegisters is Registers of a wgmma.mma_async.
func (i *Instr) groupRegisters(f Fragment) (Type, int) {
	switch t := i.Element(f); {
	case f == FragmentA: // 16 bytes of each thread, of every type
		return B32, 4
	case t == F16:
		return B32, i.Columns() / 4
	default:
		return t, i.Columns() / 2
	}
}

// group checks what a wgmma.mma_async has beside its matrices.
func (v *verifier) group(i *Instr) {
	if i.Mods.Step != StepMultiply {
		return
	}
	if a := &i.Args[1]; len(i.Form.args) != i.Form.need && (a.Kind == OperandVector) == (len(i.Args) == len(i.Form.args)) {
		v.mismatch(i, a, 1, "is transposed by a constant of its own where it is a descriptor, and only there")
		return
	}
	if !i.Mods.Sparse() {
		return
	}
	limit := uint64(1)
	if i.Element(FragmentA).Bits() == 8 {
		limit = 0
	}
	if o := &i.Args[4]; o.Value > limit {
		v.mismatch(i, o, 4, "must be from 0 to %d", limit)
	}
}
