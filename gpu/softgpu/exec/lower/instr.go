package lower

import (
	"strings"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// instr decodes one instruction: what the lane table knows goes there, all
// else to the function of its family. Add is the product that an addition takes
// in, or nil.
func (b *builder) instr(i *ptx.Instr, add *fused) {
	skip := int32(-1)
	guard := uint32(0)
	start, mentions := len(b.ops), len(b.mentions)
	if i.Guard.Name != "" && i.Op != ptx.OpBra {
		b.use(i.Guard.Reg)
		guard = b.regs[i.Guard.Reg].index + 1
		if stands(i) {
			// Control flow cannot be predicated lane by lane: branch around it.
			skip, guard = b.newLabel(), 0
			over := b.newLabel()
			b.emit(ir.Inst{Kind: ir.KBranch, A: b.regs[i.Guard.Reg].index, Neg: !i.Guard.Neg, Target: skip, Other: over})
			b.place(over)
		}
	}
	switch f := families[i.Op]; {
	case add != nil:
		b.fma(i, add)
	case b.quad(i):
	case f != nil:
		f(b, i)
	default:
		b.table(i)
	}
	if skip >= 0 {
		b.place(skip)
	}
	if guard != 0 {
		for k := start; k < len(b.ops); k++ {
			b.ops[k].Guard, b.ops[k].GuardNeg = guard, i.Guard.Neg
		}
		// Lanes that the guard leaves out keep what they had.
		for k := mentions; k < len(b.mentions); k++ {
			b.mentions[k].some, b.mentions[k].write = b.mentions[k].write, false
		}
	}
}

// stands reports whether an instruction is control flow for a whole fragment.
func stands(i *ptx.Instr) bool {
	switch i.Op {
	case ptx.OpBrx, ptx.OpCall, ptx.OpRet, ptx.OpExit, ptx.OpTrap, ptx.OpBrkpt, ptx.OpBar, ptx.OpBarrier, ptx.OpNanosleep:
		return true
	}
	return i.Mods.Has(ptx.Sync)
}

// families are the instructions that are not plain rows of the lane table.
var families map[ptx.Op]func(*builder, *ptx.Instr)

func init() {
	families = map[ptx.Op]func(*builder, *ptx.Instr){
		ptx.OpMov: (*builder).mov, ptx.OpCvt: (*builder).cvt, ptx.OpCvta: (*builder).cvta,
		ptx.OpSetp: (*builder).setp, ptx.OpSet: (*builder).set, ptx.OpTestp: (*builder).testp,
		ptx.OpSelp: (*builder).selp, ptx.OpSlct: (*builder).slct,
		ptx.OpAddc: (*builder).carries, ptx.OpSubc: (*builder).carries, ptx.OpMadc: (*builder).carries,

		ptx.OpLd: (*builder).ld, ptx.OpLdu: (*builder).ld, ptx.OpSt: (*builder).st,
		ptx.OpAtom: (*builder).atom, ptx.OpRed: (*builder).atom, ptx.OpIsspacep: (*builder).isspacep,
		ptx.OpPrefetch: (*builder).prefetch, ptx.OpPrefetchu: (*builder).none, ptx.OpApplypriority: (*builder).none,
		ptx.OpDiscard: (*builder).none, ptx.OpPmevent: (*builder).none,
		ptx.OpMembar: (*builder).fence, ptx.OpFence: (*builder).fence,

		ptx.OpBra: (*builder).bra, ptx.OpBrx: (*builder).brx, ptx.OpCall: (*builder).call,
		ptx.OpRet: (*builder).end, ptx.OpExit: (*builder).end, ptx.OpTrap: (*builder).trap, ptx.OpBrkpt: (*builder).trap,
		ptx.OpBar: (*builder).bar, ptx.OpBarrier: (*builder).bar, ptx.OpNanosleep: (*builder).nanosleep,
		ptx.OpShfl: (*builder).shfl, ptx.OpVote: (*builder).vote, ptx.OpMatch: (*builder).match,
		ptx.OpActivemask: (*builder).activemask, ptx.OpRedux: (*builder).redux, ptx.OpElect: (*builder).elect,
		ptx.OpLop3: (*builder).lop3, ptx.OpWgmma: (*builder).wgmma,
		ptx.OpTex: (*builder).texture, ptx.OpTld4: (*builder).texture, ptx.OpTxq: (*builder).texQuery,
		ptx.OpSuld: (*builder).surface, ptx.OpSust: (*builder).surface, ptx.OpSured: (*builder).surface, ptx.OpSuq: (*builder).texQuery,
		ptx.OpMbarrier:  (*builder).mbarrier,
		ptx.OpTensormap: (*builder).tensormap,
		ptx.OpMapa:      (*builder).mapa, ptx.OpGetctarank: (*builder).getctarank,
		ptx.OpCp: (*builder).cp, ptx.OpCreatepolicy: (*builder).createpolicy,
		ptx.OpGriddepcontrol: (*builder).none, ptx.OpSetmaxnreg: (*builder).none,
		ptx.OpMma: (*builder).mma, ptx.OpWmma: (*builder).wmma, ptx.OpMovmatrix: (*builder).movmatrix,
		ptx.OpLdmatrix: (*builder).ldmatrix, ptx.OpStmatrix: (*builder).ldmatrix,
		ptx.OpAlloca: (*builder).alloca, ptx.OpStacksave: (*builder).stacksave, ptx.OpStackrestore: (*builder).stackrestore,
	}
	for op := range videoKinds {
		families[op] = (*builder).video
	}
}

// laneKey is the name of an instruction in the lane table.
func laneKey(i *ptx.Instr) string {
	var k strings.Builder
	m := &i.Mods
	op := i.Op
	if op == ptx.OpMad && m.Type().Float() {
		op = ptx.OpFma
	}
	k.WriteString(op.String())
	part := func(s string) {
		k.WriteByte('.')
		k.WriteString(s)
	}
	if m.Mode != ptx.ModeNone {
		part(m.Mode.String())
	}
	if m.Round != ptx.RoundNone && (m.Round != ptx.RN || op == ptx.OpCvt) {
		part(m.Round.String())
	}
	for _, f := range keyFlags {
		if m.Has(f.flag) {
			part(f.name)
		}
	}
	for _, t := range m.Types {
		if t != ptx.TypeNone {
			part(t.String())
		}
	}
	return k.String()
}

// keyFlags are the flags that are part of a name in the lane table, in order.
var keyFlags = []struct {
	flag ptx.Flags
	name string
}{
	{flag: ptx.Approx, name: "approx"}, {flag: ptx.Full, name: "full"}, {flag: ptx.FTZ, name: "ftz"}, {flag: ptx.Sat, name: "sat"}, {flag: ptx.Relu, name: "relu"}, {flag: ptx.NaN, name: "NaN"},
	{flag: ptx.XorSign, name: "xorsign"}, {flag: ptx.Abs, name: "abs"}, {flag: ptx.ShiftAmt, name: "shiftamt"}, {flag: ptx.Wrap, name: "wrap"}, {flag: ptx.Clamp, name: "clamp"},
	{flag: ptx.SatFinite, name: "satfinite"}, {flag: ptx.OOB, name: "oob"},
}

// table decodes an instruction that is a row of the lane table.
func (b *builder) table(i *ptx.Instr) {
	if i.Mods.Has(ptx.CC) {
		b.carries(i)
		return
	}
	switch i.Mods.Type() {
	case ptx.Pred:
		b.predLogic(i)
		return
	case ptx.F32x2:
		b.singles(i)
		return
	}
	row, ok := table.Lanes[laneKey(i)]
	if !ok {
		b.fail(i, "")
		return
	}
	b.row(i, row, &i.Args[0], i.Args[1:])
}

// singles decodes an instruction on two f32 at once.
func (b *builder) singles(i *ptx.Instr) {
	one := *i
	one.Mods.Types[0] = ptx.F32
	row, ok := table.Lanes[laneKey(&one)]
	if !ok {
		b.fail(i, "")
		return
	}
	var args [3]uint32
	for n := range i.Args[1:] {
		args[n] = b.src64(&i.Args[1+n], ptx.F32x2)
	}
	var halves [2]uint32
	for half := range halves {
		var regs [3]uint32
		for n := range i.Args[1:] {
			regs[n] = b.temp32()
			b.lane("field.b64", regs[n], args[n]).Imm = uint64(32*half) | 0xffffffff<<32
		}
		halves[half] = b.temp32()
		b.emitRow(row, halves[half], regs[:len(i.Args)-1])
	}
	b.lane("pack.b64", b.dst(&i.Args[0], ir.In64), halves[0], halves[1])
}

// lop3 is any logic function of three operands; the long form also combines
// "the result is not zero" with a predicate.
func (b *builder) lop3(i *ptx.Instr) {
	d, p := pair(&i.Args[0])
	in := b.row(i, table.Lanes["lop3.b32"], d, i.Args[1:4])
	in.Imm = i.Args[4].Value
	if i.Mods.Bool == ptx.BoolNone {
		return
	}
	ne := table.Compares["ne.b32"]
	cmp := ir.Inst{Kind: ir.KCompare, Cmp: ne.Fn, Op: ne.Op, A: in.D, B: b.imm32(0), E: ir.NoReg, Other: -1}
	b.combined(i, &cmp, i.Args[3:]) // its third is the predicate
	if cmp.D = b.dstPred(p); cmp.D == ir.NoReg {
		cmp.D = b.tempPred()
	}
	b.emit(cmp)
}

// row emits a table row with the operands of an instruction.
func (b *builder) row(i *ptx.Instr, row table.Lane, dst *ptx.Operand, args []ptx.Operand) *ir.Inst {
	form := row.Form[2:]
	regs := make([]uint32, len(form), 4)
	for n := range regs {
		t := operandType(i, form[n], n)
		switch form[n] {
		case 'q', 'g':
			regs[n] = b.src64(&args[n], t)
		case 'p':
			regs[n] = b.plainPred(&args[n])
		default:
			regs[n] = b.src32(&args[n], t)
		}
	}
	k := ir.In32
	if row.Form[0] == 'q' || row.Form[0] == 'g' {
		k = ir.In64
	}
	return b.emitRow(row, b.dst(dst, k), regs)
}

// operandType is the type of operand n, by which its constant is read.
func operandType(i *ptx.Instr, letter byte, n int) ptx.Type {
	t := i.Mods.Types[0]
	if i.Op == ptx.OpCvt && i.Mods.Types[1] != ptx.TypeNone {
		t = i.Mods.Types[1]
	}
	wide := letter == 'q' || letter == 'g'
	switch {
	case i.Mods.Mode == ptx.ModeWide && n == 2:
		if wide {
			return ptx.U64
		}
		return ptx.U32
	case wide && t.Size() != 8:
		return ptx.U64
	case !wide && t.Size() > 4:
		return ptx.U32
	case !wide && t.Size() < 4 && (i.Op == ptx.OpShl || i.Op == ptx.OpShr) && n == 1:
		return ptx.U32
	}
	return t
}

// predLogic decodes and, or, xor and not of predicates.
func (b *builder) predLogic(i *ptx.Instr) {
	in := ir.Inst{Kind: ir.KMasked, Other: -1}
	switch i.Op {
	case ptx.OpAnd:
		in.Fn, in.Op = lane.PredAnd, ir.OpPredAnd
	case ptx.OpOr:
		in.Fn, in.Op = lane.PredOr, ir.OpPredOr
	case ptx.OpXor:
		in.Fn, in.Op = lane.PredXor, ir.OpPredXor
	case ptx.OpNot:
		in.Fn, in.Op = lane.PredNot, ir.OpPredNot
	default:
		b.fail(i, "")
		return
	}
	in.A = b.plainPred(&i.Args[1])
	if len(i.Args) > 2 {
		in.B = b.plainPred(&i.Args[2])
	}
	in.D = b.dst(&i.Args[0], ir.InPred)
	b.emit(in)
}

// mov decodes a move, the address of a variable, and packing and unpacking.
func (b *builder) mov(i *ptx.Instr) {
	d, a := &i.Args[0], &i.Args[1]
	t := i.Mods.Type()
	switch {
	case i.Mods.Vec > 0:
		b.movVector(d.Elems, a.Elems, t)
	case d.Kind == ptx.OperandVector:
		b.unpack(i, d.Elems, a, t)
	case a.Kind == ptx.OperandVector:
		b.pack(i, d, a.Elems, t)
	case t == ptx.Pred:
		in := ir.Inst{Kind: ir.KMasked, Fn: lane.PredMov, Op: ir.OpPredMov, A: b.plainPred(a), Other: -1}
		in.D = b.dst(d, ir.InPred)
		b.emit(in)
	default:
		b.movTo(d, b.movFrom(a, t), t)
	}
}

// movFrom is a register with the value of an operand of type t, which has up to
// 8 bytes.
func (b *builder) movFrom(a *ptx.Operand, t ptx.Type) uint32 {
	if t.Size() == 8 {
		return b.src64(a, t)
	}
	return b.src32(a, t)
}

// movTo moves such a register to an operand.
func (b *builder) movTo(d *ptx.Operand, r uint32, t ptx.Type) {
	b.lane("mov."+width(t), b.dst(d, kindOf(t)), r)
}

// movVector moves the elements of a vector. All are read before any is written,
// since a register may stand on both sides.
func (b *builder) movVector(d, a []ptx.Operand, t ptx.Type) {
	var regs [4]uint32
	for n := range a {
		regs[n] = b.dst(&sink, kindOf(t))
		b.lane("mov."+width(t), regs[n], b.movFrom(&a[n], t))
	}
	for n := range d {
		b.movTo(&d[n], regs[n], t)
	}
}

// pack joins the elements of a vector.
func (b *builder) pack(i *ptx.Instr, d *ptx.Operand, elems []ptx.Operand, t ptx.Type) {
	part := map[int]ptx.Type{1: ptx.B8, 2: ptx.B16, 4: ptx.B32}[t.Size()/len(elems)]
	key := "pack." + t.String()
	if len(elems) == 4 {
		key = "pack4." + t.String()
	}
	row, ok := table.Lanes[key]
	if !ok || part == ptx.TypeNone {
		b.fail(i, "vector of this shape")
		return
	}
	regs := make([]uint32, len(elems))
	for n := range elems {
		regs[n] = b.src32(&elems[n], part)
	}
	b.emitRow(row, b.dst(d, kindOf(t)), regs)
}

// unpack parts a register into elements.
func (b *builder) unpack(i *ptx.Instr, elems []ptx.Operand, a *ptx.Operand, t ptx.Type) {
	width := t.Bits() / len(elems)
	if width > 32 {
		b.fail(i, "vector of this shape")
		return
	}
	key, src := "field.b32", uint32(0)
	if t.Size() == 8 {
		key, src = "field.b64", b.src64(a, t)
	} else {
		src = b.src32(a, t)
		// An element may be the source itself.
		tmp := b.temp32()
		b.lane("mov.32", tmp, src)
		src = tmp
	}
	for n := range elems {
		if elems[n].Kind != ptx.OperandReg {
			continue
		}
		in := b.lane(key, b.dst(&elems[n], ir.In32), src)
		in.Imm = uint64(n*width) | uint64(1<<width-1)<<32
	}
}

// cvt decodes conversions, which may widen into a larger register.
func (b *builder) cvt(i *ptx.Instr) {
	m := i.Mods
	if m.Has(ptx.Pack) {
		b.packIntegers(i)
		return
	}
	to, from := m.Types[0], m.Types[1]
	if to.Float() && !from.Float() {
		m.Flags &^= ptx.FTZ // an integer is never subnormal
	}
	if !to.Float() && from.Float() {
		m.Flags &^= ptx.Sat // conversions to integers always clamp
	}
	plain := ptx.Instr{Op: ptx.OpCvt, Mods: m}
	key := laneKey(&plain)
	if to == from && m.Round == ptx.RoundNone && m.Flags == 0 && (to == ptx.F32 || to == ptx.F64) {
		key = "mov." + width(to)
	}
	row, ok := table.Lanes[key]
	if !ok {
		b.fail(i, "")
		return
	}
	r := b.row(i, row, &i.Args[0], i.Args[1:]).D
	b.finish(&i.Args[0], r, to)
}

// width is the part of a key that says how wide a selected value is.
func width(t ptx.Type) string {
	if t.Size() == 8 {
		return "64"
	}
	return "32"
}

func (b *builder) selp(i *ptx.Instr) {
	b.row(i, table.Lanes["selp."+width(i.Mods.Type())], &i.Args[0], i.Args[1:])
}

func (b *builder) slct(i *ptx.Instr) {
	key := "slct."
	if i.Mods.Has(ptx.FTZ) {
		key += "ftz."
	}
	c := i.Mods.Types[1]
	row := table.Lanes[key+width(i.Mods.Type())+"."+c.String()]
	t := i.Mods.Type()
	var regs [3]uint32
	for n := range 2 {
		regs[n] = b.compared(&i.Args[1+n], row.Form[2], t)
	}
	regs[2] = b.src32(&i.Args[3], c)
	b.emitRow(row, b.dst(&i.Args[0], kindOf(t)), regs[:])
}

// carries decodes the instructions that read or write the carry flag.
func (b *builder) carries(i *ptx.Instr) {
	t := i.Mods.Type()
	wide := t.Size() == 8
	if b.carry == ir.NoReg {
		b.carry = b.newPred()
		b.fn.ZeroPr = append(b.fn.ZeroPr, b.carry)
	}
	flags := uint64(0)
	if i.Op == ptx.OpAddc || i.Op == ptx.OpSubc || i.Op == ptx.OpMadc {
		flags |= 1
	}
	if i.Mods.Has(ptx.CC) {
		flags |= 2
	}
	op := ir.OpAddCarry
	if i.Op == ptx.OpSub || i.Op == ptx.OpSubc {
		op = ir.OpSubCarry
	}
	if wide {
		op++
	}
	k := kindOf(t)
	src := func(o *ptx.Operand) uint32 {
		if wide {
			return b.src64(o, t)
		}
		return b.src32(o, t)
	}
	in := ir.Inst{Kind: ir.KMasked, Fn: lane.CarryFuncs[op], Op: op, E: b.carry, Imm: flags, Other: -1}
	if i.Op == ptx.OpMad || i.Op == ptx.OpMadc {
		// The product is made first; the sum makes the carry.
		in.A = b.dst(&sink, k)
		b.lane("mul."+i.Mods.Mode.String()+"."+t.String(), in.A, src(&i.Args[1]), src(&i.Args[2]))
		in.B = src(&i.Args[3])
	} else {
		in.A, in.B = src(&i.Args[1]), src(&i.Args[2])
	}
	in.D = b.dst(&i.Args[0], k)
	b.emit(in)
}
