package ptx

import (
	"strconv"
	"strings"
)

func (v *verifier) function(f *Func) {
	v.f = f
	f.Regs, f.Locals = nil, nil
	v.effort.Memory(scopeBytes)
	v.base, v.cur = nil, nil
	if len(v.privates) > 0 {
		v.base = v.privateScope()
	}
	body := &scope{parent: v.base}
	v.cur, v.scopes = body, []*scope{body}
	if f.Entry && len(f.Results) > 0 {
		v.fail(f.Pos, "kernel '%s' cannot return values", Clip(f.Name))
	}
	if f.Linkage == LinkExtern && f.Defined {
		v.fail(f.Pos, "extern function '%s' has a body", Clip(f.Name))
	}
	total := uint64(0)
	for n, list := range [][]*Var{f.Results, f.Params} {
		for _, p := range list {
			v.param(f, p, n == 1)
			if a := p.Alignment(); a > 0 {
				total = (total + a - 1) / a * a
			}
			total += p.Size()
		}
	}
	if most := v.m.maxParams(f); total > most {
		v.fail(f.Pos, "parameters of '%s' take %d bytes, more than %d", Clip(f.Name), total, most)
	}
	if !f.Defined {
		if len(f.Body) > 0 {
			v.fail(f.Pos, "function '%s' has a body but is not defined", Clip(f.Name))
		}
		return
	}
	if v.collect(f) {
		v.statements(f)
	}
}

// Bounds of the parameters of a function, in bytes (section 7.1): kernels have as many as functions
// from version 8.1 and sm_70 on.
const (
	maxParamBytes  = 32764
	maxKernelBytes = 4352
)

// maxParams is what the parameters of a function may take, bytes.
func (m *Module) maxParams(f *Func) uint64 {
	_, digits, _ := strings.Cut(m.Target, "_")
	capability, err := strconv.Atoi(strings.TrimRight(digits, "abcdefghijklmnopqrstuvwxyz"))
	if f.Entry && (before(m.Version, 8, 1) || err != nil || capability < 70) {
		return maxKernelBytes
	}
	return maxParamBytes
}

// param checks a parameter and enters its name.
func (v *verifier) param(f *Func, p *Var, input bool) {
	if f.Entry && p.Space != SpaceParam {
		v.fail(p.Pos, "parameter '%s' of a kernel must be in .param", Clip(p.Name))
		return
	}
	if !v.shape(p) {
		return
	}
	switch {
	case p.Array && p.Dims[0] == 0:
		v.fail(p.Pos, "parameter '%s' has no size; variable argument lists are not supported", Clip(p.Name))
	case p.Ptr != nil && !f.Entry:
		v.fail(p.Pos, ".ptr is only for parameters of kernels")
	case p.Space == SpaceParam && !input && len(f.Results) > 1:
		v.fail(p.Pos, "several results of function '%s' must be in .reg", Clip(f.Name))
	case p.Name != "_" || f.Defined:
		if v.declare(p) && p.Space == SpaceParam {
			v.cur.names[p.Name] = local{reg: NoReg, v: p, input: input}
		}
	}
}

// collect finds the scopes and the labels, which may be used before they stand
// in the text.
func (v *verifier) collect(f *Func) bool {
	cur := v.scopes[0]
	depth := 0
	for i, s := range f.Body {
		v.effort.Step()
		switch s := s.(type) {
		case *Scope:
			if s.Open {
				v.effort.Memory(scopeBytes)
				cur = &scope{parent: cur}
				v.scopes = append(v.scopes, cur)
				depth++
			} else {
				cur = cur.parent
				depth--
			}
			if depth < 0 || depth > MaxScopes {
				return v.fail(s.Pos, "braces do not match or are nested too deeply")
			}
		case *Label:
			if _, dup := cur.labels[s.Name]; dup {
				v.fail(s.Pos, "duplicate label '%s'", Clip(s.Name))
				continue
			}
			if cur.labels == nil {
				cur.labels = map[string]int32{}
			}
			v.effort.Memory(labelBytes)
			cur.labels[s.Name] = int32(i)
		}
	}
	if depth != 0 {
		return v.fail(f.End, "braces of function '%s' do not match", Clip(f.Name))
	}
	return true
}

// statements checks the body in order.
func (v *verifier) statements(f *Func) {
	next := 1 // index of the next scope that opens
	for _, s := range f.Body {
		if v.stop {
			return
		}
		v.effort.Steps(4)
		switch s := s.(type) {
		case *Instr:
			v.instr(s)
		case *Var:
			v.bodyVar(s)
		case *Scope:
			if s.Open {
				v.cur = v.scopes[next]
				next++
			} else {
				v.cur = v.cur.parent
			}
		case *Targets:
			v.enter(s.Name, s)
			v.targets(s)
		case *Prototype:
			v.enter(s.Name, s)
			v.prototype(s)
		}
	}
}

func (v *verifier) bodyVar(d *Var) {
	if !v.shape(d) {
		return
	}
	if d.Space == SpaceGlobal || d.Space == SpaceConst {
		v.fail(d.Pos, ".%s variable '%s' must be declared outside functions", d.Space, Clip(d.Name))
		return
	}
	if v.plainVar(d) && v.declare(d) && d.Space != SpaceReg {
		v.effort.Memory(listFactor * 8)
		v.f.Locals = append(v.f.Locals, d)
	}
}

// plainVar checks that a variable of a thread or block has a size and no initialiser.
func (v *verifier) plainVar(d *Var) bool {
	switch {
	case d.Init != nil:
		return v.fail(d.Pos, ".%s variable '%s' cannot have an initialiser", d.Space, Clip(d.Name))
	case d.Array && d.Dims[0] == 0:
		return v.fail(d.Pos, "size of array '%s' is missing", Clip(d.Name))
	}
	return true
}

func (v *verifier) targets(t *Targets) {
	for i := range t.Labels {
		v.effort.Step()
		r := &t.Labels[i]
		r.Target, r.Func = -1, nil
		if t.Call {
			f, ok := v.module(r.Name).(*Func)
			if !ok || f.Entry {
				v.fail(r.Pos, "unknown function '%s'", Clip(r.Name))
				continue
			}
			r.Func = f
			// A call is checked against the first, and reaches any.
			if first := t.Labels[0].Func; first != nil && (!sameShapes(first.Params, f.Params) || !sameShapes(first.Results, f.Results)) {
				v.fail(r.Pos, "function '%s' has other parameters than '%s', which the list begins with", Clip(r.Name), Clip(t.Labels[0].Name))
			}
			v.effort.Steps(len(f.Params) + len(f.Results))
			continue
		}
		var ok bool
		if r.Target, ok = v.label(r.Name); !ok {
			v.fail(r.Pos, "unknown label '%s'", Clip(r.Name))
		}
	}
	if len(t.Labels) == 0 {
		v.fail(t.Pos, "list '%s' is empty", Clip(t.Name))
	}
}

func (v *verifier) prototype(t *Prototype) {
	for _, list := range [][]*Var{t.Results, t.Params} {
		for _, p := range list {
			if v.shape(p) && p.Array && p.Dims[0] == 0 {
				v.fail(p.Pos, "parameter without a size; variable argument lists are not supported")
			}
		}
	}
}
