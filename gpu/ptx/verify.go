package ptx

import (
	"fmt"

	"pvdrm/gpu"
)

// Verify resolves the names of a module and checks it: declarations, types,
// kinds and numbers of operands, labels, state spaces, vector widths, calls.
// It may be called again after a change. The error is a *gpu.BuildError with at
// most MaxDiagnostics complaints; a module that Verify refused is not to be used.
//
// It does not check which instructions the .version and .target allow, which of
// them a device runs, whether the device has the shared memory, registers and
// threads, nor the text of raw instructions.
func Verify(m *Module) error { return verify(nil, m) }

func verify(e *Effort, m *Module) error {
	v := &verifier{m: m, effort: e, symbols: map[string]*symbol{}, table: theTable()}
	v.declareAll()
	for i, d := range m.Directives {
		if v.stop {
			break
		}
		v.at = i
		e.Step()
		switch d := d.(type) {
		case *Var:
			v.moduleVar(d)
		case *Func:
			v.function(d)
		}
	}
	return v.err()
}

// symbol is a name at module scope.
type symbol struct {
	decl  Decl // the definition, if there is one
	first int  // index of the directive that declares it first
}

type verifier struct {
	m       *Module
	table   *table
	effort  *Effort
	diags   []gpu.Diagnostic
	stop    bool
	symbols map[string]*symbol
	at      int // index of the directive that is checked

	privates []*Var // .reg and .local variables at module scope
	owner    *Func  // the function that uses them

	f      *Func
	base   *scope   // of f: privates
	scopes []*scope // of f, in order of their braces; the first is the body
	cur    *scope
}

func (v *verifier) err() error {
	if len(v.diags) == 0 {
		return nil
	}
	return &gpu.BuildError{Diagnostics: v.diags}
}

// fail records a complaint and returns false.
func (v *verifier) fail(at Pos, format string, args ...any) bool {
	if v.stop {
		return false
	}
	v.diags = append(v.diags, gpu.Diagnostic{File: v.m.File, Line: int(at.Line), Col: int(at.Col),
		Message: "error: " + fmt.Sprintf(format, args...)})
	v.stop = len(v.diags) >= MaxDiagnostics
	return false
}

// declareAll enters all names at module scope, so that a declaration leads to
// its definition wherever that stands.
func (v *verifier) declareAll() {
	for i, d := range v.m.Directives {
		v.effort.Memory(symbolBytes)
		switch d := d.(type) {
		case *Var:
			v.declareVar(i, d)
		case *Func:
			v.declareFunc(i, d)
		case *Alias:
			v.declareAlias(i, d)
		}
	}
	for _, d := range v.m.Directives {
		if f, ok := d.(*Func); ok {
			f.Def = nil
			if s := v.symbols[f.Name]; s != nil {
				if def, ok := s.decl.(*Func); ok && def.Defined {
					f.Def = def
				}
			}
		}
	}
}

func (v *verifier) declareVar(i int, d *Var) {
	s := v.symbols[d.Name]
	if s == nil {
		v.symbols[d.Name] = &symbol{d, i}
		return
	}
	old, ok := s.decl.(*Var)
	switch {
	case !ok || old.Linkage != LinkExtern && d.Linkage != LinkExtern:
		v.fail(d.Pos, "duplicate definition of '%s', first at line %d", Clip(d.Name), s.decl.Position().Line)
	case old.Space != d.Space || old.Type != d.Type || old.Vec != d.Vec:
		v.fail(d.Pos, "'%s' was declared differently at line %d", Clip(d.Name), old.Pos.Line)
	case old.Linkage != d.Linkage && (old.Linkage == LinkNone || d.Linkage == LinkNone):
		v.fail(d.Pos, "extern variable '%s' needs a .visible or .weak definition", Clip(d.Name))
	case old.Linkage == LinkExtern:
		s.decl = d
	}
}

func (v *verifier) declareFunc(i int, f *Func) {
	s := v.symbols[f.Name]
	if s == nil {
		v.symbols[f.Name] = &symbol{f, i}
		return
	}
	old, ok := s.decl.(*Func)
	switch {
	case !ok || old.Defined && f.Defined:
		v.fail(f.Pos, "duplicate definition of '%s', first at line %d", Clip(f.Name), s.decl.Position().Line)
	case old.Entry != f.Entry || !sameShapes(old.Params, f.Params) || !sameShapes(old.Results, f.Results):
		v.fail(f.Pos, "'%s' was declared differently at line %d", Clip(f.Name), old.Pos.Line)
	case f.Defined:
		s.decl = f
	}
}

func (v *verifier) declareAlias(i int, a *Alias) {
	target := v.symbols[a.Target]
	if target == nil {
		v.fail(a.Pos, "unknown function '%s'", Clip(a.Target))
		return
	}
	f, ok := target.decl.(*Func)
	if !ok || !f.Defined || f.Entry {
		v.fail(a.Pos, "'%s' is not a function defined before", Clip(a.Target))
		return
	}
	if s := v.symbols[a.Name]; s != nil {
		old, ok := s.decl.(*Func)
		if !ok || old.Defined || !sameShapes(old.Params, f.Params) || !sameShapes(old.Results, f.Results) {
			v.fail(a.Pos, "'%s' cannot be an alias of '%s'", Clip(a.Name), Clip(a.Target))
			return
		}
		s.decl = f
		return
	}
	v.symbols[a.Name] = &symbol{f, i}
}

// sameShapes reports whether two lists of parameters take the same arguments.
func sameShapes(a, b []*Var) bool {
	if len(a) != len(b) {
		return false
	}
	for i, x := range a {
		y := b[i]
		if x.Space != y.Space || x.Size() != y.Size() || !compatible(x.Type, y.Type, false) {
			return false
		}
	}
	return true
}

// module looks a name up at module scope, as seen from the directive that is checked.
func (v *verifier) module(name string) Decl {
	if s := v.symbols[name]; s != nil && s.first <= v.at {
		return s.decl
	}
	return nil
}

// moduleVar checks a variable at module scope.
func (v *verifier) moduleVar(d *Var) {
	switch d.Space {
	case SpaceGlobal, SpaceConst, SpaceShared:
	case SpaceReg, SpaceLocal:
		if before(v.m.Version, 3, 0) && d.Linkage == LinkNone {
			v.privateVar(d)
			return
		}
		fallthrough
	default:
		v.fail(d.Pos, ".%s variable '%s' is not allowed outside functions", d.Space, Clip(d.Name))
		return
	}
	if !v.shape(d) {
		return
	}
	open := d.Array && d.Dims[0] == 0
	switch {
	case open && d.Linkage != LinkExtern && d.Init == nil:
		v.fail(d.Pos, "size of array '%s' is missing", Clip(d.Name))
	case d.Init != nil && d.Linkage == LinkExtern:
		v.fail(d.Pos, "extern variable '%s' cannot have an initialiser", Clip(d.Name))
	case d.Init != nil && d.Space == SpaceShared:
		v.fail(d.Pos, "shared variable '%s' cannot have an initialiser", Clip(d.Name))
	case d.Init != nil:
		v.initialiser(d)
	}
}

// shape checks type, alignment and size of any variable or parameter.
func (v *verifier) shape(d *Var) bool {
	if d.Type >= numTypes || d.Space >= numSpaces {
		return v.fail(d.Pos, "'%s' has no type or state space that exists", Clip(d.Name))
	}
	switch d.Type {
	case TypeNone, BF16, BF16x2, TF32, E4M3x2, E5M2x2, U16x2, S16x2, S4, U4, B1, E4M3, E5M2:
		return v.fail(d.Pos, "type .%s cannot be declared", d.Type)
	case TexRef, SamplerRef, SurfRef:
		if d.Space != SpaceGlobal && d.Space != SpaceParam {
			return v.fail(d.Pos, "type .%s is only allowed in .global and .param", d.Type)
		}
	case Pred:
		if d.Space != SpaceReg {
			return v.fail(d.Pos, "predicate '%s' must be a register", Clip(d.Name))
		}
	}
	switch d.Vec {
	case 0, 2, 4, 8:
	default:
		return v.fail(d.Pos, "vector of %d elements", d.Vec)
	}
	if d.Vec > 0 && (d.ElemSize() > 16 || d.Type == Pred) {
		return v.fail(d.Pos, "vector '%s' is wider than 16 bytes", Clip(d.Name))
	}
	if d.Align&(d.Align-1) != 0 {
		return v.fail(d.Pos, "alignment %d is not a power of two", d.Align)
	}
	if d.Array != (len(d.Dims) > 0) || len(d.Dims) > MaxDims {
		return v.fail(d.Pos, "array '%s' has %d dimensions", Clip(d.Name), len(d.Dims))
	}
	if _, ok := d.size(); !ok {
		return v.fail(d.Pos, "'%s' is larger than %d bytes", Clip(d.Name), uint64(MaxVarBytes))
	}
	for i, n := range d.Dims {
		if n == 0 && i > 0 {
			return v.fail(d.Pos, "dimension of '%s' is 0", Clip(d.Name))
		}
	}
	if d.Space == SpaceReg {
		if d.Array || d.Align != 0 || d.Init != nil || d.Range > 0 && d.Vec > 0 {
			return v.fail(d.Pos, "register '%s' cannot be an array or have an alignment or initialiser", Clip(d.Name))
		}
		return true
	}
	if d.Range != 0 {
		return v.fail(d.Pos, "only registers can be declared as a range")
	}
	return true
}

// initialiser checks values against the type of the variable.
func (v *verifier) initialiser(d *Var) {
	if why := d.checkShape(d.Init, d.Dims); why != "" {
		v.fail(d.Pos, "initialiser of '%s': %s", Clip(d.Name), why)
		return
	}
	ok := true
	d.EachInit(func(_ uint64, n *Init) {
		v.effort.Step()
		if ok {
			ok = v.initValue(d, n)
		}
	})
}

func (v *verifier) initValue(d *Var, n *Init) bool {
	switch n.Kind {
	case InitF32, InitF64:
		if d.Type != F32 && d.Type != F64 && (d.Type != B32 || n.Kind != InitF32) && (d.Type != B64 || n.Kind != InitF64) {
			return v.fail(d.Pos, "initialiser of '%s': fraction for type .%s", Clip(d.Name), d.Type)
		}
	case InitInt:
		if d.Type.Float() {
			return v.fail(d.Pos, "initialiser of '%s': integer for type .%s", Clip(d.Name), d.Type)
		}
	case InitAddr:
		e := n.Ext
		e.Ref = v.module(e.Name)
		switch e.Ref.(type) {
		case *Var, *Func:
		default:
			return v.fail(e.Pos, "unknown symbol '%s'", Clip(e.Name))
		}
		if d.Type.Float() || e.Mask == 0 && d.Type.Bits() < 32 {
			return v.fail(e.Pos, "address of '%s' does not fit in type .%s", Clip(e.Name), d.Type)
		}
	}
	return true
}
