package link

import (
	"pvdrm/gpu/ptx"
)

// symbol is a name that units share.
type symbol struct {
	name  string
	shape ptx.Decl // what it was declared as first: *ptx.Var or *ptx.Func
	from  *unit    // that did so

	// The definition: a *ptx.Var, *ptx.Func or *ptx.Alias, nil where no unit has one yet.
	def      ptx.Directive
	defUnit  *unit
	strength strength

	align  uint32 // the largest of all declarations
	common uint64 // bytes of the largest .common definition

	mentioned bool // the result declares it already
}

// strength orders definitions: the strongest is taken.
type strength int

const (
	undefined strength = iota
	common
	weak
	strong
)

// strengths are those of definitions. One whose other declarations only have a linkage is .extern.
var strengths = map[ptx.Linkage]strength{ptx.LinkVisible: strong, ptx.LinkExtern: strong, ptx.LinkWeak: weak, ptx.LinkCommon: common}

// share finds the names of a unit that other units see: those with a linkage, kernels, and
// functions that the unit declares only.
func (u *unit) share() {
	u.globals = map[string]ptx.Linkage{}
	declared := map[string]bool{}
	for _, d := range u.m.Directives {
		switch d := d.(type) {
		case *ptx.Var:
			u.see(d.Name, d.Linkage, d.Linkage != ptx.LinkExtern)
		case *ptx.Func:
			u.see(d.Name, d.Linkage, d.Defined)
			if d.Entry && d.Linkage == ptx.LinkNone {
				u.see(d.Name, ptx.LinkVisible, d.Defined)
			}
			declared[d.Name] = declared[d.Name] || d.Defined
		case *ptx.Alias:
			declared[d.Name] = true
		}
	}
	for name, defined := range declared {
		if !defined {
			u.see(name, ptx.LinkExtern, false)
		}
	}
}

// see notes the linkage of a name; that of a definition counts.
func (u *unit) see(name string, l ptx.Linkage, definition bool) {
	if now, seen := u.globals[name]; l != ptx.LinkNone && (!seen || definition || now == ptx.LinkExtern) {
		u.globals[name] = l
	}
}

// declare enters what a directive says of a name that other units see.
func (l *Linker) declare(u *unit, d ptx.Directive) error {
	switch d := d.(type) {
	case *ptx.Var:
		linkage, shared := u.globals[d.Name]
		if !shared {
			return nil
		}
		s := l.symbol(u, d.Name, d)
		if err := s.fitsVar(u, d); err != nil || d.Linkage == ptx.LinkExtern {
			return err
		}
		return s.define(u, d, strengths[linkage])
	case *ptx.Func:
		linkage, shared := u.globals[d.Name]
		if !shared {
			return nil
		}
		s := l.symbol(u, d.Name, d)
		if err := s.fitsFunc(u, d); err != nil || !d.Defined {
			return err
		}
		return s.define(u, d, strengths[linkage])
	case *ptx.Alias:
		linkage, shared := u.globals[d.Name]
		if s := l.symbols[d.Name]; shared && s != nil {
			return s.define(u, d, strengths[linkage])
		}
	}
	return nil
}

func (l *Linker) symbol(u *unit, name string, d ptx.Decl) *symbol {
	s := l.symbols[name]
	if s == nil {
		s = &symbol{name: name, shape: d, from: u}
		l.symbols[name] = s
	}
	return s
}

// mismatch is an error about two declarations.
func (s *symbol) mismatch(u *unit, what string) error {
	return fail(Symbols, "%s doesn't match for '%s' in '%s', first specified in '%s'", what, s.name, u.name, s.from.name)
}

// fitsVar compares a variable with what was declared before.
func (s *symbol) fitsVar(u *unit, v *ptx.Var) error {
	old, ok := s.shape.(*ptx.Var)
	if !ok || old.Space != v.Space {
		return s.mismatch(u, "State space")
	}
	s.align = max(s.align, v.Align)
	if v.Linkage == ptx.LinkCommon || old.Linkage == ptx.LinkCommon {
		return s.fitsCommon(u, v)
	}
	if a, b := old.Size(), v.Size(); a != 0 && b != 0 && a != b {
		return s.mismatch(u, "Size")
	}
	if old.Size() == 0 && v.Size() != 0 {
		s.shape, s.from = v, u
	}
	return nil
}

// fitsCommon compares where one of the two is .common: the larger one counts, and a definition
// of another kind or with an initialiser must be the largest.
func (s *symbol) fitsCommon(u *unit, v *ptx.Var) error {
	n := v.Size()
	if v.Linkage == ptx.LinkCommon {
		s.common = max(s.common, n)
	}
	def, _ := s.def.(*ptx.Var)
	fixed := def != nil && (def.Linkage != ptx.LinkCommon || def.Init != nil) && def.Size() < n
	if fixed || v.Linkage != ptx.LinkExtern && (v.Linkage != ptx.LinkCommon || v.Init != nil) && n < s.common {
		return s.mismatch(u, "Size")
	}
	if v.Linkage == ptx.LinkCommon {
		s.shape, s.from = v, u
	}
	return nil
}

// fitsFunc compares a function with what was declared before.
func (s *symbol) fitsFunc(u *unit, f *ptx.Func) error {
	old, ok := s.shape.(*ptx.Func)
	switch {
	case !ok:
		return s.mismatch(u, "State space")
	case !ptx.SameSignature(old, f):
		return s.mismatch(u, "Prototype")
	}
	return nil
}

// define takes a definition if it is stronger than the one that is there.
func (s *symbol) define(u *unit, d ptx.Directive, with strength) error {
	if s.strength == strong && with == strong {
		return fail(Symbols, "Multiple definition of '%s' in '%s', first defined in '%s'", s.name, u.name, s.defUnit.name)
	}
	if with > s.strength || with == common && s.strength == common && better(d, s.def) {
		s.def, s.defUnit, s.strength = d, u, with
	}
	return nil
}

// better reports whether a .common definition is to be taken in place of another one.
func better(d, old ptx.Directive) bool {
	a, isVar := d.(*ptx.Var)
	b, wasVar := old.(*ptx.Var)
	if !isVar || !wasVar {
		return false // a function: the parser takes .common for these, too
	}
	return a.Init != nil && b.Init == nil || a.Size() > b.Size() && b.Init == nil
}

// open reports whether the name needs no definition: it is a function of the device, or the
// shared memory that a launch brings.
func (s *symbol) open() bool {
	switch d := s.shape.(type) {
	case *ptx.Var:
		return d.Space == ptx.SpaceShared && d.Array && d.Dims[0] == 0
	case *ptx.Func:
		for _, name := range Runtime {
			if s.name == name {
				return true
			}
		}
	}
	return false
}
