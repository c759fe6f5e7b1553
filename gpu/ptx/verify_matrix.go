package ptx

// fragmentByName are the matrices that the operands of the table's rows name.
var fragmentByName = map[string]Fragment{"a": FragmentA, "b": FragmentB, "c": FragmentC, "d": FragmentD}

// fragment checks the registers that hold a thread's part of a matrix.
func (v *verifier) fragment(i *Instr, a *argSpec, o *Operand, n int, dst bool) bool {
	f := fragmentByName[a.name]
	if i.Op == OpWmma && i.Mods.Mode != ModeMMA {
		f = i.Mods.Fragment
	}
	t, count := i.Registers(f)
	spec := argSpec{}
	if !v.resolve(i, o, n) {
		return false
	}
	if i.Op == OpWgmma && f == FragmentA && o.Kind == OperandReg {
		return v.register(i, &spec, o, n, B64, dst) // a descriptor
	}
	if o.Kind != OperandVector {
		if count != 1 {
			return v.mismatch(i, o, n, "must be a vector of %d registers", count)
		}
		return v.register(i, &spec, o, n, t, dst)
	}
	if len(o.Elems) != count {
		return v.mismatch(i, o, n, "has %d registers, expected %d", len(o.Elems), count)
	}
	for e := range o.Elems {
		if !v.register(i, &spec, &o.Elems[e], n, t, dst) {
			return false
		}
	}
	return true
}

// sparse checks what mma.sp has beside its matrices.
func (v *verifier) sparse(i *Instr) {
	if e, n := &i.Args[4], i.Selectors(); e.Kind != OperandReg {
		v.mismatch(i, e, 4, "must be a register")
	} else if i.Args[5].Value >= n {
		v.mismatch(i, &i.Args[5], 5, "must be from 0 to %d", n-1)
	}
}

// register checks an operand that must be a register.
func (v *verifier) register(i *Instr, a *argSpec, o *Operand, n int, t Type, dst bool) bool {
	if o.Kind != OperandReg {
		return v.mismatch(i, o, n, "must be a register")
	}
	return v.scalar(i, a, o, n, t, dst)
}
