package lower

import (
	"slices"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// builder decodes one function into flat operations. Until they are laid out
// (layout.go), targets are labels: indexes of builder.labels.
type builder struct {
	c  *compiler
	f  *ptx.Func
	fn *ir.Function

	ops    []ir.Inst
	lines  []int32 // source line of each operation
	stmts  []int32 // statement of each operation
	line   int32
	labels []int32 // operation at which a label stands; -1: not yet

	regs     []register // by index in ptx.Func.Regs
	const32  map[uint32]uint32
	shared   map[sharedConst]uint32 // addresses in .shared
	const64  map[uint64]uint32
	data     map[uint64]uint32 // registers with addresses in the data segment
	free32   []uint32          // temporaries that are not in use
	free64   []uint32
	freePr   []uint32
	busy32   []uint32 // temporaries of this instruction
	busy64   []uint32
	busyPr   []uint32
	carry    uint32           // predicate register of the carry flag, or NoReg
	offsets  map[*ptx.Var]int // .local and .param variables, in the frame's local memory
	params   map[*ptx.Var]int // of a kernel, in its parameter block
	mentions []mention
	adds     map[int]fused // what contract found: additions that take in products
	gone     map[int]bool  // and statements that are not needed
	bases    map[*ptx.Operand]rebased
	framed   map[*ptx.Operand]inFrame
	hoisted  map[int][]int   // by barrier: the statements that are decoded before it
	early    map[int]bool    // all of those
	stmt     int32           // statement that is decoded
	spend    func(int)       // counts memory that is needed until the function is decoded
	results  []int32         // registers of the source that hold results of the function
	upper    map[int32]int32 // upper halves of registers of 128 bits, see halve
}

// register is where a register of the source lives.
type register struct {
	kind  ir.RegKind
	index uint32
	typ   ptx.Type
}

// mention records that an operation reads or writes a register of the source.
type mention struct {
	op    int32
	stmt  int32
	reg   int32
	write bool
	some  bool // it writes the lanes that a guard lets run
}

// lower decodes a function. It does so twice if there are many registers: the
// first time shows where each of them is alive, so that those that are not
// alive together can share a place. Frames stay small that way.
func (c *compiler) lower(f *ptx.Func, fn *ir.Function) {
	transient := 0
	defer func() { c.effort.Free(transient) }()
	spend := func(bytes int) { // until the function is decoded
		c.effort.Memory(bytes)
		transient += bytes
	}
	before := *fn
	spend(len(f.Body)*4 + len(f.Regs)*(registerBytes+8))
	f, upper := c.halve(f)
	b := c.newBuilder(f, fn)
	b.spend, b.upper = spend, upper
	b.adds, b.gone = b.contract()
	b.bases, b.gone = b.rebase(b.gone)
	b.framed = b.frames()
	b.hoisted, b.early = b.hoist()
	b.decode(nil)
	if len(c.diags) > 0 {
		return
	}
	list, order := b.graph()
	live := b.liveness(list, order)
	if len(f.Regs) > fewRegisters && live != nil {
		places := b.allocate(list, order, live)
		*fn = before
		b.reset()
		b.decode(places)
		list, order = b.graph()
	}
	b.zeroUnwritten(live)
	b.findOnce()
	b.layout(list, order)
}

// fewRegisters is how many are not worth sharing.
const fewRegisters = 64

// roomFor is how many operations so many statements make, as a rule.
func roomFor(statements int) int { return statements + statements/4 + 16 }

// newBuilder makes a builder for a function, from the buffers of the last one.
func (c *compiler) newBuilder(f *ptx.Func, fn *ir.Function) *builder {
	n := roomFor(len(f.Body))
	b := &builder{c: c, f: f, fn: fn, labels: make([]int32, len(f.Body)), regs: make([]register, len(f.Regs))}
	if old := c.last; old != nil { // whose operations are in the program by now
		b.ops, b.lines, b.stmts, b.mentions = old.ops[:0], old.lines[:0], old.stmts[:0], old.mentions[:0]
	}
	b.ops, b.mentions = ptx.Enlarge(c.effort, b.ops, ir.InstBytes+8, n), ptx.Enlarge(c.effort, b.mentions, mentionBytes, 3*n)
	b.lines, b.stmts = slices.Grow(b.lines, n), slices.Grow(b.stmts, n)
	c.last = b
	b.reset()
	return b
}

// reset makes b ready to decode its function, again. What contract found stays.
func (b *builder) reset() {
	*b = builder{
		c: b.c, f: b.f, fn: b.fn, spend: b.spend, upper: b.upper, adds: b.adds, gone: b.gone, bases: b.bases, framed: b.framed, hoisted: b.hoisted, early: b.early, carry: ir.NoReg,
		const32: map[uint32]uint32{}, const64: map[uint64]uint32{}, shared: map[sharedConst]uint32{}, data: map[uint64]uint32{},
		offsets: map[*ptx.Var]int{}, params: map[*ptx.Var]int{},
		ops: b.ops[:0], lines: b.lines[:0], stmts: b.stmts[:0], mentions: b.mentions[:0],
		labels: b.labels[:len(b.f.Body)], regs: b.regs,
	}
	for i := range b.labels {
		b.labels[i] = -1
	}
}

// decode turns the body into operations. Places are the registers of the
// source by index, or nil for one of its own for each.
func (b *builder) decode(places []uint32) {
	c, f := b.c, b.f
	for i, r := range f.Regs {
		if r.Type.Size() > 8 {
			c.fail(f.Pos, "register '%s' of type .%s is not supported", r.Name, r.Type)
			return
		}
		if places == nil {
			b.regs[i] = b.newRegister(r.Type)
			continue
		}
		k := kindOf(r.Type)
		b.regs[i] = register{kind: k, index: places[i], typ: r.Type}
		switch n := int(places[i]) + 1; k {
		case ir.InPred:
			b.fn.Preds = max(b.fn.Preds, n)
		case ir.In64:
			b.fn.Regs64 = max(b.fn.Regs64, n)
		default:
			b.fn.Regs32 = max(b.fn.Regs32, n)
		}
	}
	b.declare()
	for i, s := range f.Body {
		c.effort.Steps(8)
		switch s := s.(type) {
		case *ptx.Label:
			b.labels[i] = int32(len(b.ops))
		case *ptx.Instr:
			b.statement(i, s)
		}
		if len(c.diags) >= maxDiagnostics {
			return
		}
	}
	b.line, b.stmt = f.End.Line, int32(len(f.Body))
	b.leave(ir.KRet)
}

// fail refuses the instruction.
func (b *builder) fail(i *ptx.Instr, why string) {
	if why != "" {
		why = ": " + why
	}
	b.c.fail(i.Pos, "instruction '%s' is not supported%s", i.Name(), why)
}

// emit adds an operation and returns it; the pointer is valid until the next one.
func (b *builder) emit(in ir.Inst) *ir.Inst {
	b.ops = ptx.Append(b.c.effort, b.ops, ir.InstBytes+8, in) // with the lists below
	if in.X != nil {
		b.c.effort.Memory(in.X.Bytes())
	}
	b.lines = append(b.lines, b.line)
	b.stmts = append(b.stmts, b.stmt)
	return &b.ops[len(b.ops)-1]
}

// newLabel makes a label that no statement stands for.
func (b *builder) newLabel() int32 {
	b.spend(4 * ir.ListFactor)
	b.labels = append(b.labels, -1)
	return int32(len(b.labels) - 1)
}

// place puts a label before the next operation.
func (b *builder) place(label int32) { b.labels[label] = int32(len(b.ops)) }

func (b *builder) newRegister(t ptx.Type) register {
	k := kindOf(t)
	r := register{kind: k, typ: t}
	switch k {
	case ir.InPred:
		r.index = b.newPred()
	case ir.In64:
		r.index = b.new64()
	default:
		r.index = b.new32()
	}
	return r
}

func (b *builder) new32() uint32 {
	b.fn.Regs32++
	return uint32(b.fn.Regs32 - 1)
}

func (b *builder) new64() uint32 {
	b.fn.Regs64++
	return uint32(b.fn.Regs64 - 1)
}

func (b *builder) newPred() uint32 {
	b.fn.Preds++
	return uint32(b.fn.Preds - 1)
}

// temp32, temp64 and tempPred are registers for this instruction only.
func (b *builder) temp32() uint32 { return take(&b.free32, &b.busy32, b.new32) }

func (b *builder) temp64() uint32 { return take(&b.free64, &b.busy64, b.new64) }

func (b *builder) tempPred() uint32 {
	return take(&b.freePr, &b.busyPr, b.newPred)
}

func take(free, busy *[]uint32, fresh func() uint32) uint32 {
	var r uint32
	if n := len(*free); n > 0 {
		r = (*free)[n-1]
		*free = (*free)[:n-1]
	} else {
		r = fresh()
	}
	*busy = append(*busy, r)
	return r
}

func (b *builder) releaseTemps() {
	b.free32 = append(b.free32, b.busy32...)
	b.free64 = append(b.free64, b.busy64...)
	b.freePr = append(b.freePr, b.busyPr...)
	b.busy32, b.busy64, b.busyPr = b.busy32[:0], b.busy64[:0], b.busyPr[:0]
}

// kept returns the register that known has for a constant. A new one comes from fresh, and add
// lists it; list and entry are the bytes that this costs in the list and in known.
func kept[K comparable](b *builder, known map[K]uint32, x K, list, entry int, fresh func() uint32, add func(r uint32)) uint32 {
	r, ok := known[x]
	if !ok {
		r = fresh()
		b.c.effort.Memory(ir.ListFactor * list)
		b.spend(ir.MapFactor * entry)
		known[x] = r
		add(r)
	}
	return r
}

// imm32 and imm64 are registers that hold a constant.
func (b *builder) imm32(x uint32) uint32 {
	return kept(b, b.const32, x, 8, 8, b.new32, func(r uint32) {
		b.fn.Const32 = append(b.fn.Const32, ir.Const32{Reg: r, Value: x})
	})
}

func (b *builder) imm64(x uint64) uint32 {
	return kept(b, b.const64, x, 16, 16, b.new64, func(r uint32) {
		b.fn.Const64 = append(b.fn.Const64, ir.Const64{Reg: r, Value: x})
	})
}

// dataAddr is a register that holds the address of an offset in the data segment.
func (b *builder) dataAddr(offset uint64) uint32 {
	return kept(b, b.data, offset, 24, 16, b.new64, func(r uint32) {
		b.fn.Relocs = append(b.fn.Relocs, len(b.fn.Const64))
		b.fn.Const64 = append(b.fn.Const64, ir.Const64{Reg: r, Value: offset})
	})
}

// lane emits the operation of a table row.
func (b *builder) lane(key string, d uint32, args ...uint32) *ir.Inst {
	row, ok := table.Lanes[key]
	if !ok {
		panic("exec: no lane operation " + key) // a key written in this package
	}
	return b.emitRow(row, d, args)
}

func (b *builder) emitRow(row table.Lane, d uint32, args []uint32) *ir.Inst {
	in := ir.Inst{Fn: row.Fn, Op: row.Op, Kind: ir.KLane32, D: d, Other: -1}
	if row.Form[0] == 'q' || row.Form[0] == 'g' {
		in.Kind = ir.KLane64
	}
	for n, r := range args {
		switch n {
		case 0:
			in.A = r
		case 1:
			in.B = r
		case 2:
			in.C = r
		case 3:
			in.E = r
		}
	}
	return b.emit(in)
}

// use and define note mentions of a register of the source.
func (b *builder) use(reg int32) { b.mention(reg, false) }

func (b *builder) define(reg int32) { b.mention(reg, true) }

func (b *builder) mention(reg int32, write bool) {
	b.mentions = ptx.Append(b.c.effort, b.mentions, mentionBytes, mention{op: int32(len(b.ops)), stmt: b.stmt, reg: reg, write: write})
}

// src32 is a 32-bit register with the value of an operand of type t, at most
// 32 bits wide.
func (b *builder) src32(o *ptx.Operand, t ptx.Type) uint32 {
	switch o.Kind {
	case ptx.OperandReg:
		r := b.regs[o.Reg]
		b.use(o.Reg)
		if r.kind == ir.In64 {
			d := b.temp32()
			b.lane("cvt.u32.u64", d, r.index)
			return d
		}
		return r.index
	case ptx.OperandImm:
		return b.imm32(uint32(o.Imm(t)))
	case ptx.OperandSpecial:
		if o.Special.Type() == ptx.U64 {
			d := b.temp32()
			b.lane("cvt.u32.u64", d, b.special(o))
			return d
		}
		return b.special(o)
	}
	d := b.temp32()
	b.lane("cvt.u32.u64", d, b.src64(o, ptx.U64))
	return d
}

// src64 is a 64-bit register with the value of an operand of type t.
func (b *builder) src64(o *ptx.Operand, t ptx.Type) uint32 {
	switch o.Kind {
	case ptx.OperandReg:
		r := b.regs[o.Reg]
		b.use(o.Reg)
		if r.kind == ir.In32 {
			return b.widen(r.index, ptx.U32)
		}
		return r.index
	case ptx.OperandImm:
		return b.imm64(o.Imm(t))
	case ptx.OperandSpecial:
		if o.Special.Type() == ptx.U32 {
			return b.widen(b.special(o), ptx.U32)
		}
		return b.special(o)
	}
	return b.addressOf(o)
}

// widen extends a 32-bit register that holds a value of type t to 64 bits.
func (b *builder) widen(r uint32, t ptx.Type) uint32 {
	d := b.temp64()
	b.lane(wideKey(t), d, r)
	return d
}

// wideKey is the conversion from t to 64 bits.
func wideKey(t ptx.Type) string {
	switch t {
	case ptx.S8:
		return "cvt.s64.s8"
	case ptx.S16:
		return "cvt.s64.s16"
	case ptx.S32:
		return "cvt.s64.s32"
	case ptx.U8, ptx.B8:
		return "cvt.u64.u8"
	}
	if t.Size() == 2 {
		return "cvt.u64.u16"
	}
	return "cvt.u64.u32"
}

// srcPred is the predicate register of an operand, and whether it is negated.
func (b *builder) srcPred(o *ptx.Operand) (uint32, bool) {
	if o.Kind == ptx.OperandReg {
		b.use(o.Reg)
		return b.regs[o.Reg].index, o.Neg
	}
	d := b.tempPred()
	if o.Kind == ptx.OperandImm {
		b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.PredImm, Op: ir.OpPredImm, D: d, Imm: o.Imm(ptx.Pred), Other: -1})
	} else { // the only special register that is a predicate
		b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.ExplicitCluster, D: d, Other: -1})
	}
	return d, o.Neg
}

// plainPred is srcPred without negation.
func (b *builder) plainPred(o *ptx.Operand) uint32 {
	p, neg := b.srcPred(o)
	if !neg {
		return p
	}
	d := b.tempPred()
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.PredNot, Op: ir.OpPredNot, D: d, A: p, Other: -1})
	return d
}

// dst is the register of a result: a register of the source of that kind, or
// else a temporary. Call finish after the operation has been emitted.
func (b *builder) dst(o *ptx.Operand, k ir.RegKind) uint32 {
	if o.Kind == ptx.OperandReg && b.regs[o.Reg].kind == k {
		b.define(o.Reg)
		return b.regs[o.Reg].index
	}
	switch k {
	case ir.In64:
		return b.temp64()
	case ir.InPred:
		return b.tempPred()
	}
	return b.temp32()
}

// finish moves a result of type t from register r to where the source wants
// it, if that is a wider register than t.
func (b *builder) finish(o *ptx.Operand, r uint32, t ptx.Type) {
	if o.Kind != ptx.OperandReg {
		return
	}
	to := b.regs[o.Reg]
	switch {
	case to.kind == ir.In64 && kindOf(t) == ir.In32:
		b.define(o.Reg)
		b.lane(wideKey(t), to.index, r)
	case to.kind == ir.In32 && kindOf(t) == ir.In64:
		b.define(o.Reg)
		b.lane("cvt.u32.u64", to.index, r)
	case to.kind == ir.In32 && to.typ.Size() > t.Size() && t.Signed():
		key := "cvt.s32.s8"
		if t == ptx.S16 {
			key = "cvt.s32.s16"
		} else if to.typ.Size() == 2 {
			key = "cvt.s16.s8"
		}
		b.define(o.Reg)
		b.lane(key, to.index, r)
	}
}

// pair splits d|p; the parts may be missing.
func pair(o *ptx.Operand) (d, p *ptx.Operand) {
	if o.Kind == ptx.OperandPair {
		return &o.Elems[0], &o.Elems[1]
	}
	return o, &sink
}

var sink = ptx.Operand{Kind: ptx.OperandSink, Reg: ptx.NoReg}

// dstPred is the predicate register of a result, or NoReg for a sink.
func (b *builder) dstPred(o *ptx.Operand) uint32 {
	if o.Kind == ptx.OperandSink {
		return ir.NoReg
	}
	return b.dst(o, ir.InPred)
}
