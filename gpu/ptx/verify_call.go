package ptx

// call resolves and checks a call (section 9.7.11).
func (v *verifier) call(i *Instr) {
	c := i.Call
	if c == nil {
		v.fail(i.Pos, "call without operands")
		return
	}
	results, params, ok := v.signature(i, c)
	if !ok {
		return
	}
	if len(c.Results) != len(results) || len(c.Args) != len(params) {
		v.fail(i.Pos, "call of '%s' has %d results and %d arguments, expected %d and %d", Clip(c.Callee.Name),
			len(c.Results), len(c.Args), len(results), len(params))
		return
	}
	for k := range results {
		if !v.actual(i, &c.Results[k], results[k], true) {
			return
		}
	}
	for k := range params {
		if !v.actual(i, &c.Args[k], params[k], false) {
			return
		}
	}
}

// signature resolves the callee and returns its parameters.
func (v *verifier) signature(i *Instr, c *Call) (results, params []*Var, ok bool) {
	o := &c.Callee
	switch o.Kind {
	case OperandName, OperandReg, OperandSymbol:
	default:
		return nil, nil, v.fail(i.Pos, "call needs the name of a function or a register")
	}
	if o.Value != 0 || o.Neg || o.Comp != 0 {
		return nil, nil, v.fail(o.Pos, "call needs the name of a function or a register")
	}
	l, local := v.find(o.Name)
	if !local {
		f, ok := v.module(o.Name).(*Func)
		switch {
		case !ok:
			return nil, nil, v.fail(o.Pos, "unknown function '%s'%s", Clip(o.Name), suggest(o.Name))
		case f.Entry:
			return nil, nil, v.fail(o.Pos, "kernel '%s' cannot be called", Clip(o.Name))
		case c.Via.Kind != OperandNone:
			return nil, nil, v.fail(c.Via.Pos, "direct call of '%s' needs no prototype", Clip(o.Name))
		}
		o.Kind, o.Ref, o.Reg = OperandSymbol, f, NoReg
		return f.Results, f.Params, true
	}
	if l.v != nil || l.vec > 0 || v.f.Regs[l.reg].Type.Bits() != v.m.AddressSize || v.f.Regs[l.reg].Type.Float() {
		return nil, nil, v.fail(o.Pos, "'%s' cannot hold the address of a function", Clip(o.Name))
	}
	o.Kind, o.Reg, o.Ref = OperandReg, l.reg, nil
	via := &c.Via
	if via.Kind != OperandName && via.Kind != OperandLabel {
		return nil, nil, v.fail(o.Pos, "indirect call needs a .callprototype or .calltargets")
	}
	switch d := v.list(via.Name).(type) {
	case *Prototype:
		via.Kind, via.Ref = OperandLabel, d
		return d.Results, d.Params, true
	case *Targets:
		if f, ok := v.firstTarget(d); ok {
			via.Kind, via.Ref = OperandLabel, d
			return f.Results, f.Params, true
		}
	}
	return nil, nil, v.fail(via.Pos, "unknown prototype or list of call targets '%s'", Clip(via.Name))
}

func (v *verifier) firstTarget(t *Targets) (*Func, bool) {
	if !t.Call || len(t.Labels) == 0 {
		return nil, false
	}
	f, ok := v.module(t.Labels[0].Name).(*Func)
	return f, ok && !f.Entry
}

// actual checks an argument or result against the parameter p.
func (v *verifier) actual(i *Instr, o *Operand, p *Var, dst bool) bool {
	if o.Kind == OperandSink && dst {
		return true
	}
	if o.Neg {
		return v.fail(o.Pos, "argument cannot be negated")
	}
	if !v.resolve(i, o, 0) {
		return false
	}
	d, isVar := o.Ref.(*Var)
	if o.Kind == OperandSymbol && isVar && d.Space == SpaceParam && o.Value == 0 {
		if p.Space != SpaceParam || d.Size() != p.Size() || !compatible(p.Type, d.Type, false) {
			return v.fail(o.Pos, "argument '%s' is %d bytes of .%s, expected %d of .%s", Clip(o.Name),
				d.Size(), d.Type, p.Size(), p.Type)
		}
		return true
	}
	ok := false
	switch o.Kind {
	case OperandReg:
		ok = compatible(p.Type, v.f.Regs[o.Reg].Type, false)
	case OperandImm:
		ok = !dst && immFits(o.ImmKind, p.Type)
	}
	if !ok || p.Array || p.Vec > 0 {
		return v.fail(o.Pos, "argument mismatch for '%s', expected .%s", Clip(p.Name), p.Type)
	}
	return true
}
