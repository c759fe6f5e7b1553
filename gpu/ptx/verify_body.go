package ptx

func (v *verifier) function(f *Func) {
	v.f = f
	f.Regs, f.Locals = nil, nil
	body := &scope{}
	v.cur, v.scopes = body, []*scope{body}
	if f.Entry && len(f.Results) > 0 {
		v.fail(f.Pos, "kernel '%s' cannot return values", clip(f.Name))
	}
	if f.Linkage == LinkExtern && f.Defined {
		v.fail(f.Pos, "extern function '%s' has a body", clip(f.Name))
	}
	total := uint64(0)
	for n, list := range [][]*Var{f.Results, f.Params} {
		for _, p := range list {
			v.param(f, p, n == 1)
			total += p.Size()
		}
	}
	if total > maxParamBytes {
		v.fail(f.Pos, "parameters of '%s' take %d bytes, more than %d", clip(f.Name), total, maxParamBytes)
	}
	if !f.Defined {
		if len(f.Body) > 0 {
			v.fail(f.Pos, "function '%s' has a body but is not defined", clip(f.Name))
		}
		return
	}
	if v.collect(f) {
		v.statements(f)
	}
}

// maxParamBytes bounds the parameters of a function (section 7.1 allows
// kernels this much from sm_70 on).
const maxParamBytes = 32764

// param checks a parameter and enters its name.
func (v *verifier) param(f *Func, p *Var, input bool) {
	if f.Entry && p.Space != SpaceParam {
		v.fail(p.Pos, "parameter '%s' of a kernel must be in .param", clip(p.Name))
		return
	}
	if !v.shape(p) {
		return
	}
	switch {
	case p.Array && p.Dims[0] == 0:
		v.fail(p.Pos, "parameter '%s' has no size; variable argument lists are not supported", clip(p.Name))
	case p.Ptr != nil && !f.Entry:
		v.fail(p.Pos, ".ptr is only for parameters of kernels")
	case p.Space == SpaceParam && !input && len(f.Results) > 1:
		v.fail(p.Pos, "several results of function '%s' must be in .reg", clip(f.Name))
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
		switch s := s.(type) {
		case *Scope:
			if s.Open {
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
				v.fail(s.Pos, "duplicate label '%s'", clip(s.Name))
				continue
			}
			if cur.labels == nil {
				cur.labels = map[string]int32{}
			}
			cur.labels[s.Name] = int32(i)
		}
	}
	if depth != 0 {
		return v.fail(f.End, "braces of function '%s' do not match", clip(f.Name))
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
	switch {
	case d.Space == SpaceGlobal || d.Space == SpaceConst:
		v.fail(d.Pos, ".%s variable '%s' must be declared outside functions", d.Space, clip(d.Name))
	case d.Init != nil:
		v.fail(d.Pos, ".%s variable '%s' cannot have an initialiser", d.Space, clip(d.Name))
	case d.Array && d.Dims[0] == 0:
		v.fail(d.Pos, "size of array '%s' is missing", clip(d.Name))
	case v.declare(d) && d.Space != SpaceReg:
		v.f.Locals = append(v.f.Locals, d)
	}
}

func (v *verifier) targets(t *Targets) {
	for i := range t.Labels {
		r := &t.Labels[i]
		r.Target, r.Func = -1, nil
		if t.Call {
			f, ok := v.module(r.Name).(*Func)
			if !ok || f.Entry {
				v.fail(r.Pos, "unknown function '%s'", clip(r.Name))
				continue
			}
			r.Func = f
			continue
		}
		var ok bool
		if r.Target, ok = v.label(r.Name); !ok {
			v.fail(r.Pos, "unknown label '%s'", clip(r.Name))
		}
	}
	if len(t.Labels) == 0 {
		v.fail(t.Pos, "list '%s' is empty", clip(t.Name))
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
