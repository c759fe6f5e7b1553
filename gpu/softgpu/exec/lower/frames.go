package lower

import (
	"pvdrm/gpu/ptx"
)

// Compilers keep what a function has in .local at addresses that they put together from registers: the variable's, as a generic
// one, and sums. Loads and stores by registers whose value is known so are of places in the frame (frameAccess), and need
// neither the registers nor a look at where their address lies.

// inFrame is an address of a variable in .local, plus bytes.
type inFrame struct {
	v       *ptx.Var
	add     uint64
	generic bool // it is a generic address
}

// framing follows the registers of a function whose values are such addresses.
type framing struct {
	b      *builder
	writes []uint8           // of each register, up to 2
	always map[int32]inFrame // of registers that are written once, before the first label or branch
	here   map[int32]inFrame // and of those written since the last label
	found  map[*ptx.Operand]inFrame
}

// frames finds the accesses, by the operands, that are of places in the frame.
func (b *builder) frames() map[*ptx.Operand]inFrame {
	some := false
	for _, v := range b.f.Locals {
		some = some || v.Space == ptx.SpaceLocal
	}
	if !some {
		return nil
	}
	f := &framing{b: b, writes: make([]uint8, len(b.f.Regs)), always: map[int32]inFrame{}, here: map[int32]inFrame{}, found: map[*ptx.Operand]inFrame{}}
	b.spend(len(b.f.Regs))
	for _, s := range b.f.Body {
		if i, ok := s.(*ptx.Instr); ok {
			eachWrite(i, func(reg int32) { f.writes[reg] = min(f.writes[reg]+1, 2) })
		}
	}
	first := true
	for _, s := range b.f.Body {
		b.c.effort.Steps(2)
		switch s := s.(type) {
		case *ptx.Label:
			first = false
			clear(f.here)
		case *ptx.Instr:
			f.access(s)
			f.instr(s, first)
			first = first && !endsFusing(s)
		}
	}
	return f.found
}

// access finds out whether a load or store is of a place in the frame.
func (f *framing) access(i *ptx.Instr) {
	var o, data *ptx.Operand
	switch i.Op {
	case ptx.OpLd:
		o, data = &i.Args[1], &i.Args[0]
	case ptx.OpSt:
		o, data = &i.Args[0], &i.Args[1]
	default:
		return
	}
	generic := i.Mods.Space == ptx.SpaceGeneric
	if i.Mods.Has(ptx.Async) || o.Kind != ptx.OperandAddr || o.Reg < 0 || !generic && i.Mods.Space != ptx.SpaceLocal {
		return
	}
	x, ok := f.of(o.Reg)
	if !ok || x.generic != generic {
		return
	}
	x.add += o.Value
	size, bytes := uint64(i.Mods.Type().Size()*len(vector(data))), x.v.Size()
	if x.add > bytes || size > bytes-x.add || x.add%size != 0 || x.v.Alignment() < size {
		return // a fault, or of another variable
	}
	f.b.spend(mapBytes)
	f.found[o] = x
}

// mapBytes is what an entry of a map takes, about.
const mapBytes = 128

// of is what is known of a register.
func (f *framing) of(reg int32) (inFrame, bool) {
	if x, ok := f.always[reg]; ok {
		return x, true
	}
	x, ok := f.here[reg]
	return x, ok
}

// instr follows one instruction.
func (f *framing) instr(i *ptx.Instr, first bool) {
	if len(i.Args) < 2 || i.Args[0].Kind != ptx.OperandReg || i.Guard.Name != "" || f.writes[i.Args[0].Reg] != 1 {
		return
	}
	x, ok := f.result(i)
	if !ok {
		return
	}
	f.b.spend(mapBytes)
	if reg := i.Args[0].Reg; first {
		f.always[reg] = x
	} else {
		f.here[reg] = x
	}
}

// result is the value of an instruction.
func (f *framing) result(i *ptx.Instr) (x inFrame, ok bool) {
	if i.Mods.Type().Size() != 8 || f.b.f.Regs[i.Args[0].Reg].Type.Size() != 8 {
		return x, false
	}
	if x, ok = f.operand(&i.Args[1]); !ok {
		return x, false
	}
	switch i.Op {
	case ptx.OpMov:
		return x, true
	case ptx.OpCvta:
		to := i.Mods.Has(ptx.To)
		ok = i.Mods.Space == ptx.SpaceLocal && x.generic == to
		x.generic = !to
		return x, ok
	}
	if len(i.Args) != 3 || i.Args[2].Kind != ptx.OperandImm {
		return x, false
	}
	n := i.Args[2].Imm(i.Mods.Type())
	switch i.Op {
	case ptx.OpAdd:
		x.add += n
		return x, true
	case ptx.OpOr: // an addition, in the bits that alignment leaves
		align := min(uint64(x.v.Alignment()), 16)
		ok = n < align && x.add%align&n == 0
		x.add += n
		return x, ok
	}
	return x, false
}

// operand is the value of an operand.
func (f *framing) operand(o *ptx.Operand) (x inFrame, ok bool) {
	switch o.Kind {
	case ptx.OperandReg:
		if o.Comp != 0 {
			return x, false
		}
		return f.of(o.Reg)
	case ptx.OperandSymbol:
		if v, ok := o.Ref.(*ptx.Var); ok && v.Space == ptx.SpaceLocal {
			return inFrame{v: v, add: o.Value}, true
		}
	}
	return x, false
}
