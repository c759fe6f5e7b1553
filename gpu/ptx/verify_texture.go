package ptx

// object resolves and checks [a], a texture or surface.
func (v *verifier) object(i *Instr, o *Operand, n int) bool {
	if o.Kind != OperandAddr || o.Name == "" || o.Value != 0 {
		return v.mismatch(i, o, n, "must be a texture or surface in brackets")
	}
	return v.handle(i, o, n)
}

// handle resolves the name of a texture or surface: a register with its handle, or a
// variable or parameter.
func (v *verifier) handle(i *Instr, o *Operand, n int) bool {
	o.Reg, o.Ref = NoReg, nil
	l, ok := v.find(o.Name)
	if ok && l.v == nil {
		if l.vec > 0 || !compatible(B64, v.f.Regs[l.reg].Type, false) || v.f.Regs[l.reg].Type.Float() {
			return v.mismatch(i, o, n, "'%s' is no handle of 64 bits", Clip(o.Name))
		}
		o.Reg = l.reg
		return true
	}
	d, ok := v.variable(o, l, ok)
	if !ok {
		return false
	}
	want := TexRef
	if i.Op == OpSuld || i.Op == OpSust || i.Op == OpSuq || i.Op == OpSured {
		want = SurfRef
	}
	if d.Type != want {
		return v.mismatch(i, o, n, "'%s' is .%s, expected .%s", Clip(o.Name), d.Type, want)
	}
	o.Ref = d
	return true
}

// texel checks [a, {c}], a texture or surface with coordinates. Where three coordinates
// are needed, the manual asks for a fourth, which does not count; tex may have four in any
// case, as old compilers wrote it.
func (v *verifier) texel(i *Instr, o *Operand, n int) bool {
	if o.Kind != OperandTexel || o.Value != 0 {
		return v.mismatch(i, o, n, "must be a texture or surface with coordinates in brackets")
	}
	if !v.handle(i, o, n) {
		return false
	}
	if len(o.Elems) == 1 && o.Elems[0].Kind != OperandSink { // perhaps a register of vector type
		if !v.resolve(i, &o.Elems[0], n) {
			return false
		}
	}
	g, list := i.Mods.Geometry, o.Coordinates()
	if want := g.Coordinates(); len(list) != want && (len(list) != 4 || want != 3 && i.Op != OpTex) {
		return v.mismatch(i, o, n, "has %d coordinates, expected %d", len(list), want)
	}
	t := S32
	if i.Op == OpTex || i.Op == OpTld4 {
		t = i.Mods.Types[1]
	}
	spec := argSpec{}
	for e := range list {
		x, is := &list[e], t
		if e == 0 && g.Layered() {
			is = U32
		}
		if x.Kind == OperandSink {
			return v.mismatch(i, x, n, "cannot be _")
		}
		if !v.resolve(i, x, n) || !v.scalar(i, &spec, x, n, is, false) {
			return false
		}
	}
	return true
}

// gradient checks how each of the coordinates changes: a vector as those of the texel
// without a layer. Where there are three the manual asks for a fourth, which does not count.
func (v *verifier) gradient(i *Instr, o *Operand, n int, t Type) bool {
	if !v.resolve(i, o, n) {
		return false
	}
	list, spec := []Operand{*o}, argSpec{}
	if o.Kind == OperandVector {
		list = o.Elems
	}
	if want := i.Mods.Geometry.Axes(); len(list) != want && (want != 3 || len(list) != 4) {
		return v.mismatch(i, o, n, "has %d numbers, expected %d", len(list), want)
	}
	for e := range list {
		if x := &list[e]; x.Kind == OperandSink {
			return v.mismatch(i, x, n, "cannot be _")
		} else if !v.scalar(i, &spec, x, n, t, false) {
			return false
		}
	}
	return true
}

// Offset is the operand of tex or tld4 that moves its coordinates by texels, nil without one: the vector
// behind the level of detail.
func (i *Instr) Offset() *Operand {
	n := 2
	if i.Mods.Has(Level) {
		n = 3
	}
	if i.Mods.Has(Gradient) || len(i.Args) <= n {
		return nil
	}
	return &i.Args[n]
}
