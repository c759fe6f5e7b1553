package ptx

import "strings"

// scope is one pair of braces in a body.
type scope struct {
	parent *scope
	names  map[string]local
	ranges map[string]*regRange // by prefix
	labels map[string]int32
	decls  map[string]Decl // *Targets and *Prototype
	// numbered holds, for the declared names that end in a number, what
	// precedes it and the smallest number: a range must not contain them.
	numbered map[string]uint64
}

// local is the meaning of a name in a scope: a register, or a variable.
type local struct {
	reg int32 // first index in Func.Regs, or NoReg
	vec uint8 // elements of a register of vector type, or 0
	v   *Var  // nil for a register
	// input is set for a parameter, which cannot be written.
	input bool
}

// declare enters a register or variable into the present scope.
func (v *verifier) declare(d *Var) bool {
	s := v.cur
	if s.taken(d) {
		return v.fail(d.Pos, "duplicate definition of '%s'", Clip(d.Name))
	}
	v.effort.Memory(localBytes)
	if d.Range > 0 {
		if s.ranges == nil {
			s.ranges = map[string]*regRange{}
		}
		s.ranges[d.Name] = &regRange{v: d}
		return true
	}
	if s.names == nil {
		s.names = map[string]local{}
	}
	splits(d.Name, func(prefix string, n uint64) bool {
		if old, ok := s.numbered[prefix]; !ok || n < old {
			if s.numbered == nil {
				s.numbered = map[string]uint64{}
			}
			v.effort.Memory(numberedBytes)
			s.numbered[prefix] = n
		}
		return false
	})
	if d.Space != SpaceReg {
		s.names[d.Name] = local{reg: NoReg, v: d}
		return true
	}
	s.names[d.Name] = local{reg: int32(len(v.f.Regs)), vec: d.Vec}
	v.effort.Memory(listFactor * regBytes * max(1, int(d.Vec)))
	if d.Vec == 0 {
		v.f.Regs = append(v.f.Regs, Reg{d.Name, d.Type})
	}
	for i := range d.Vec {
		v.f.Regs = append(v.f.Regs, Reg{d.Name + "." + string("xyzwabcd"[i]), d.Type})
	}
	return true
}

// taken reports whether s already declares the name of d, or one of its range.
func (s *scope) taken(d *Var) bool {
	if d.Range > 0 {
		n, ok := s.numbered[d.Name]
		return s.ranges[d.Name] != nil || ok && n < uint64(d.Range)
	}
	_, name := s.names[d.Name]
	_, label := s.labels[d.Name]
	return name || label || s.inRange(d.Name)
}

// splits calls try for each way to read name as a prefix and a number without
// leading zeros, until it returns true.
func splits(name string, try func(prefix string, n uint64) bool) bool {
	n, scale := uint64(0), uint64(1)
	for i := len(name) - 1; i > 0 && len(name)-i <= 10; i-- {
		c := name[i]
		if class[c]&chDigit == 0 {
			return false
		}
		n += uint64(c-'0') * scale
		scale *= 10
		if c == '0' && i != len(name)-1 {
			continue
		}
		if try(name[:i], n) {
			return true
		}
	}
	return false
}

// inRange reports whether a range of s declares name.
func (s *scope) inRange(name string) bool {
	return len(s.ranges) > 0 && splits(name, func(prefix string, n uint64) bool {
		r := s.ranges[prefix]
		return r != nil && n < uint64(r.v.Range)
	})
}

// find looks a name up in the scopes of the function. A register of a range
// gets its index when it is first found.
func (v *verifier) find(name string) (local, bool) {
	prefix, n := trailing(name)
	for s := v.cur; s != nil; s = s.parent {
		l, ok := v.findIn(s, name, prefix, n)
		if ok && s == v.base {
			v.takePrivate(l)
		}
		if ok {
			return l, true
		}
	}
	return local{}, false
}

// variable is what an operand names: one that find has found or, where that has found
// nothing, one at module scope.
func (v *verifier) variable(o *Operand, l local, found bool) (*Var, bool) {
	d, ok := l.v, found
	if !found {
		d, ok = v.module(o.Name).(*Var)
	}
	if !ok {
		return nil, v.fail(o.Pos, "unknown symbol '%s'%s", Clip(o.Name), suggest(o.Name))
	}
	return d, true
}

// findIn looks a name up in one scope. Prefix and n are what trailing says of it.
func (v *verifier) findIn(s *scope, name, prefix string, n uint64) (local, bool) {
	if r := s.ranges[prefix]; r != nil && n < uint64(r.v.Range) {
		return local{reg: v.member(r, name, n)}, true
	}
	if l, ok := s.names[name]; ok {
		return l, true
	}
	// The prefix of a range may itself end in digits.
	l := local{reg: NoReg}
	ok := len(s.ranges) > 0 && splits(name, func(prefix string, n uint64) bool {
		r := s.ranges[prefix]
		if r == nil || n >= uint64(r.v.Range) {
			return false
		}
		l.reg = v.member(r, name, n)
		return true
	})
	return l, ok
}

// regRange is a range of registers, `.reg .b32 %r<100>`. Only those that the
// body mentions have an index.
type regRange struct {
	v *Var
	// dense holds 1 + the index of the first registers, and sparse that of the
	// others. Dense is kept no longer than in proportion to what is used.
	dense  []int32
	sparse map[uint64]int32
	used   int
}

// member returns the index of register n of a range.
func (v *verifier) member(r *regRange, name string, n uint64) int32 {
	if n < uint64(len(r.dense)) && r.dense[n] != 0 {
		return r.dense[n] - 1
	}
	if reg, ok := r.sparse[n]; ok {
		return reg
	}
	v.effort.Memory(memberBytes + listFactor*regBytes)
	reg := int32(len(v.f.Regs))
	v.f.Regs = append(v.f.Regs, Reg{name, r.v.Type})
	r.used++
	if n >= uint64(len(r.dense)) && n < uint64(2*r.used+16) {
		r.dense = append(r.dense, make([]int32, 4*r.used+32-len(r.dense))...)
	}
	if n < uint64(len(r.dense)) {
		r.dense[n] = reg + 1
		return reg
	}
	if r.sparse == nil {
		r.sparse = map[uint64]int32{}
	}
	r.sparse[n] = reg
	return reg
}

// trailing splits name into a prefix and all of the digits at its end. The
// prefix is "" if those are no number that a range can have.
func trailing(name string) (prefix string, n uint64) {
	i := len(name)
	for i > 0 && class[name[i-1]]&chDigit != 0 {
		i--
	}
	digits := name[i:]
	if digits == "" || len(digits) > 10 || digits[0] == '0' && len(digits) > 1 {
		return "", 0
	}
	for _, c := range []byte(digits) {
		n = n*10 + uint64(c-'0')
	}
	return name[:i], n
}

// label looks a label up in the scopes of the function.
func (v *verifier) label(name string) (int32, bool) {
	for s := v.cur; s != nil; s = s.parent {
		if i, ok := s.labels[name]; ok {
			return i, true
		}
	}
	return 0, false
}

// list looks a *Targets or *Prototype up.
func (v *verifier) list(name string) Decl {
	for s := v.cur; s != nil; s = s.parent {
		if d, ok := s.decls[name]; ok {
			return d
		}
	}
	return nil
}

// enter makes a list or prototype known from here on.
func (v *verifier) enter(name string, d Decl) {
	s := v.cur
	_, label := s.labels[name]
	_, taken := s.names[name]
	if label || taken || s.decls[name] != nil {
		v.fail(d.Position(), "duplicate label '%s'", Clip(name))
		return
	}
	if s.decls == nil {
		s.decls = map[string]Decl{}
	}
	v.effort.Memory(mapFactor * (stringBytes + interfaceBytes))
	s.decls[name] = d
}

// suggest adds what may have been meant to a message about an unknown name.
func suggest(name string) string {
	if strings.HasPrefix(name, "%") {
		return "; registers are declared with .reg"
	}
	return ""
}
