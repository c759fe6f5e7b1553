package ref

import (
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// quad is a value of 128 bits, the lower half first.
type quad [2]uint64

// getQuad is the value of an operand of 128 bits.
func (t *thread) getQuad(o *ptx.Operand) (x quad) {
	switch {
	case o.Kind == ptx.OperandReg:
		return quad{t.regs[o.Reg], t.upper[o.Reg]}
	case o.Kind == ptx.OperandImm:
		return quad{o.Imm(ptx.B64), 0}
	case o.Kind == ptx.OperandVector:
		part := bitsType(128 / len(o.Elems))
		for n := range o.Elems {
			at := n * part.Bits()
			x[at/64] |= t.get(&o.Elems[n], part) << (at % 64)
		}
		return x
	}
	t.fail(gpu.LostInstruction, "operand that is no value of 128 bits") // Verify lets none through
	return x
}

// setQuad gives a register, or the elements of a vector, a value of 128 bits.
func (t *thread) setQuad(o *ptx.Operand, x quad) {
	switch o.Kind {
	case ptx.OperandReg:
		if t.upper == nil {
			t.upper = map[int32]uint64{}
		}
		t.regs[o.Reg], t.upper[o.Reg] = x[0], x[1]
	case ptx.OperandVector:
		part := bitsType(128 / len(o.Elems))
		for n := range o.Elems {
			at := n * part.Bits()
			t.set(&o.Elems[n], x[at/64]>>(at%64), part)
		}
	}
}

// quad runs mov, ld, st and atom of 128 bits (9.7.8 and 9.7.12).
func (t *thread) quad(i *ptx.Instr) {
	const size = 16
	memory := func(n int, write bool) []byte {
		s, addr := t.address(i, &i.Args[n])
		return t.bytes(s, addr, size, write)
	}
	load := func(m []byte) quad { return quad{read(m[:8]), read(m[8:])} }
	store := func(m []byte, x quad) {
		write(m[:8], x[0])
		write(m[8:], x[1])
	}
	switch i.Op {
	case ptx.OpMov:
		t.setQuad(&i.Args[0], t.getQuad(&i.Args[1]))
	case ptx.OpLd, ptx.OpLdu:
		t.setQuad(&i.Args[0], load(memory(1, false)))
	case ptx.OpSt:
		store(memory(0, true), t.getQuad(&i.Args[1]))
	case ptx.OpAtom:
		m := memory(1, true)
		old, b := load(m), t.getQuad(&i.Args[2])
		switch {
		case i.Mods.Atomic == ptx.AtomicExch:
			store(m, b)
		case old == b:
			store(m, t.getQuad(&i.Args[3]))
		}
		t.setQuad(&i.Args[0], old)
	}
}
