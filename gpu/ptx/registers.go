package ptx

// EachRegister calls visit with the registers that the instruction reads, the one of its guard
// first, and then with those that it writes, by their indexes in Func.Regs. A register may come
// several times. It returns false for an instruction that the table knows by name only: such a one
// may read and write any. Preconditions: Verify has accepted the module.
func (i *Instr) EachRegister(visit func(reg int32, write bool)) (known bool) {
	if i.Op == OpRaw {
		return false
	}
	if i.Guard.Name != "" {
		visit(i.Guard.Reg, false)
	}
	for _, write := range [2]bool{false, true} {
		if i.Call != nil {
			i.Call.eachRegister(write, visit)
			continue
		}
		i.eachArg(func(a *argSpec, o *Operand) {
			reads, writes := !a.written(), a.written()
			reads = reads || i.Op == OpWgmma && a.kind == argFragmentDst // it may add to what is there
			if write && writes || !write && reads {
				o.eachRegister(func(reg int32) { visit(reg, write) })
			}
		})
	}
	return true
}

// eachArg calls visit with the operands and what the table says of them.
func (i *Instr) eachArg(visit func(a *argSpec, o *Operand)) {
	optional := len(i.Args) - i.Form.need // so many optional operands are there
	arg := 0
	for k := range i.Form.args {
		a := &i.Form.args[k]
		if a.optional {
			if optional == 0 {
				continue
			}
			optional--
		}
		visit(a, &i.Args[arg])
		arg++
	}
}

// written reports whether an operand is a destination.
func (a *argSpec) written() bool {
	switch a.kind {
	case argDst, argDstPair, argPreds, argMovDst, argFragmentDst:
		return true
	}
	return false
}

// eachRegister visits the registers of a call's results, or of its other operands.
func (c *Call) eachRegister(results bool, visit func(reg int32, write bool)) {
	list := c.Args
	if results {
		list = c.Results
	} else {
		c.Callee.eachRegister(func(reg int32) { visit(reg, false) })
	}
	for k := range list {
		list[k].eachRegister(func(reg int32) { visit(reg, results) })
	}
}

// eachRegister visits the registers of an operand.
func (o *Operand) eachRegister(visit func(reg int32)) {
	for k := range o.Elems {
		o.Elems[k].eachRegister(visit)
	}
	if (o.Kind == OperandReg || o.Kind == OperandAddr || o.Kind == OperandTexel) && o.Reg >= 0 {
		visit(o.Reg)
	}
}
