package link

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pvdrm/drm"
	"pvdrm/gpu/ptx"
)

// Complete returns the module. One source without a missing symbol comes back as it is.
func (l *Linker) Complete() ([]byte, error) {
	if l.broken {
		return nil, &Error{Kind: Broken, Log: "error   : a source could not be linked\n"}
	}
	if l.done != nil {
		return l.done, nil
	}
	text, err := l.merge()
	missing, more := Missing(err), []string{}
	if slices.Contains(missing, SetConditional) {
		more = append(more, conditionalSource)
	}
	if !l.runtime {
		missing = slices.DeleteFunc(missing, func(name string) bool { return !ofGraphs(name) })
	}
	if unit, ok := runtimeUnit(missing); ok {
		more = append(more, unit)
	}
	for _, unit := range more {
		if err := l.add("the device runtime", []byte(unit)); err != nil {
			return nil, err
		}
	}
	if len(more) > 0 {
		text, err = l.merge()
	}
	l.done = text
	return text, err
}

// merge makes the module of the sources that are there.
func (l *Linker) merge() ([]byte, error) {
	g := &merger{Linker: l, result: l.header()}
	for _, s := range l.symbols {
		s.mentioned = false
	}
	if err := g.rename(); err != nil {
		return nil, err
	}
	for _, u := range l.units {
		for _, d := range u.m.Directives {
			g.take(u, d)
		}
	}
	g.result.Directives = append(g.result.Directives, g.aliases...)
	if g.missing.Len() > 0 {
		return nil, &Error{Kind: Symbols, Log: g.missing.String()}
	}
	if len(l.units) == 1 {
		return l.units[0].source, nil
	}
	var b bytes.Buffer
	if err := ptx.Print(&b, g.result); err != nil {
		return nil, err
	}
	if b.Len() > drm.MaxSource {
		return nil, fail(Unsupported, "the linked module has more than %d bytes", drm.MaxSource)
	}
	return b.Bytes(), nil
}

// merger makes the module.
type merger struct {
	*Linker
	result  *ptx.Module
	aliases []ptx.Directive // of shared symbols: they come last
	missing strings.Builder // lines about symbols that no unit defines
	lines   int
	told    map[string]bool
}

// maxMissing bounds the lines about missing symbols.
const maxMissing = 64

// names collects and replaces the names in the bodies of a unit.
type names struct {
	u      *unit
	used   map[string]bool
	order  []string // used, in order
	ranges map[string]bool
}

func (u *unit) noNames() *names {
	return &names{u: u, used: map[string]bool{}, ranges: map[string]bool{}}
}

// Name implements ptx.Names.
func (n *names) Name(name string) string {
	if !n.used[name] {
		n.used[name] = true
		n.order = append(n.order, name)
	}
	if to, ok := n.u.renamed[name]; ok {
		return to
	}
	return name
}

// Range implements ptx.Names.
func (n *names) Range(prefix string) string {
	n.ranges[prefix] = true
	return prefix
}

// rename gives the symbols of one unit that others have too names of their own.
func (g *merger) rename() error {
	taken := map[string]bool{}
	for name := range g.symbols {
		taken[name] = true
	}
	for i, u := range g.units {
		clear(u.renamed)
		var colliding []string
		for _, name := range u.locals() {
			if taken[name] {
				colliding = append(colliding, name)
			}
			taken[name] = true
		}
		if len(colliding) == 0 {
			continue
		}
		inside := u.names()
		for _, name := range colliding {
			if inRange(inside.ranges, name) {
				return fail(Unsupported, "'%s' in '%s' is both a register and a symbol that another source has", name, u.name)
			}
			// A name that ends so is in no range of registers.
			const longest = 900
			to := fmt.Sprintf("%s$%d$", name[:min(len(name), longest)], i)
			for taken[to] || inside.used[to] {
				to += "_"
			}
			taken[to] = true
			u.renamed[name] = to
		}
	}
	return nil
}

// locals lists the names that only the unit itself sees, each once.
func (u *unit) locals() []string {
	var all []string
	seen := map[string]bool{}
	for _, d := range u.m.Directives {
		name := ""
		switch d := d.(type) {
		case *ptx.Var:
			name = d.Name
		case *ptx.Func:
			name = d.Name
		case *ptx.Alias:
			name = d.Name
		}
		if _, shared := u.globals[name]; name != "" && !shared && !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// names collects the names in the bodies, parameters included.
func (u *unit) names() *names {
	n := u.noNames()
	for _, d := range u.m.Directives {
		if f, ok := d.(*ptx.Func); ok {
			ptx.RewriteBody(nil, f.Text, n)
			for _, p := range append(f.Params[:len(f.Params):len(f.Params)], f.Results...) {
				n.used[p.Name] = true
			}
		}
	}
	return n
}

// inRange reports whether a name may be that of a register of a range.
func inRange(ranges map[string]bool, name string) bool {
	for i := len(name); i > 0 && name[i-1] >= '0' && name[i-1] <= '9'; i-- {
		if ranges[name[:i-1]] {
			return true
		}
	}
	return false
}

// take adds what becomes of a directive to the result.
func (g *merger) take(u *unit, d ptx.Directive) {
	switch d := d.(type) {
	case *ptx.Pragma:
		g.add(d)
	case *ptx.Var:
		if !g.mention(u, d.Name, d) {
			v := *d
			v.Name = u.newName(d.Name)
			v.Init = g.init(u, d.Init)
			g.add(&v)
		}
	case *ptx.Func:
		if !g.mention(u, d.Name, d) {
			g.add(g.function(u, d))
		}
	case *ptx.Alias:
		if !g.mention(u, d.Name, d) {
			g.alias(u, d)
		}
	}
}

// alias adds a shared one at the end, since what it stands for must come before it.
func (g *merger) alias(u *unit, d *ptx.Alias) {
	g.need(u, d.Target)
	a := &ptx.Alias{Name: u.newName(d.Name), Target: u.newName(d.Target)}
	if _, shared := u.globals[d.Name]; shared {
		g.aliases = append(g.aliases, a)
	} else {
		g.add(a)
	}
}

func (g *merger) add(d ptx.Directive) { g.result.Directives = append(g.result.Directives, d) }

func (u *unit) newName(name string) string {
	if to, ok := u.renamed[name]; ok {
		return to
	}
	return name
}

// mention adds a declaration of a shared symbol, if the result has none so far. It returns false
// for what is to be added itself: the definition, and what only the unit sees.
func (g *merger) mention(u *unit, name string, d ptx.Directive) bool {
	if _, shared := u.globals[name]; !shared {
		return false
	}
	s := g.symbols[name]
	now := s.mentioned
	s.mentioned = true
	if s.def == d {
		return false
	}
	if !now {
		g.add(s.declaration())
	}
	return true
}

// declaration is a declaration of the symbol for what comes before the definition.
func (s *symbol) declaration() ptx.Directive {
	if f, ok := s.shape.(*ptx.Func); ok {
		p := *f
		p.Defined, p.Text, p.Pragmas, p.OtherTuning = false, "", nil, nil
		p.MaxNTid, p.ReqNTid, p.MinNCTA, p.MaxNCTA, p.MaxNReg = [3]uint32{}, [3]uint32{}, 0, 0, 0
		p.Linkage = ptx.LinkExtern
		if s.def != nil {
			p.Linkage = linkages[s.strength]
		}
		return &p
	}
	v := *s.shape.(*ptx.Var)
	if def, ok := s.def.(*ptx.Var); ok {
		v = *def
		if v.Array && v.Dims[0] == 0 { // as many as it is initialised with
			v.Dims = append([]int64{int64(v.Size() / max(1, stride(&v)))}, v.Dims[1:]...)
		}
	} else if s.align != 0 {
		v.Align = s.align
	}
	v.Linkage, v.Init = ptx.LinkExtern, nil
	return &v
}

var linkages = [...]ptx.Linkage{strong: ptx.LinkVisible, weak: ptx.LinkWeak, common: ptx.LinkCommon}

// stride is how many bytes the first dimension of an array counts.
func stride(v *ptx.Var) uint64 {
	n := v.ElemSize()
	for _, d := range v.Dims[1:] {
		n *= uint64(d)
	}
	return n
}

// init copies an initialiser, with the names of the result.
func (g *merger) init(u *unit, n *ptx.Init) *ptx.Init {
	if n == nil {
		return nil
	}
	to := *n
	if n.Ext == nil {
		return &to
	}
	ext := *n.Ext
	to.Ext = &ext
	if n.Kind == ptx.InitAddr {
		g.need(u, ext.Name)
		ext.Name = u.newName(ext.Name)
	}
	if len(ext.List) > 0 {
		ext.List = make([]ptx.Init, len(n.Ext.List))
		for i := range ext.List {
			ext.List[i] = *g.init(u, &n.Ext.List[i])
		}
	}
	return &to
}

// function copies a function, with the names of the result.
func (g *merger) function(u *unit, f *ptx.Func) *ptx.Func {
	to := *f
	to.Name = u.newName(f.Name)
	if !f.Defined {
		return &to
	}
	if _, ok := u.globals[f.Name]; ok && to.Linkage == ptx.LinkNone && !f.Entry {
		to.Linkage = linkages[g.symbols[f.Name].strength]
	}
	used := u.noNames()
	to.Text = ptx.RewriteBody(nil, f.Text, used)
	to.Params, to.Results = u.parameters(f.Params), u.parameters(f.Results)
	for _, name := range used.order {
		g.need(u, name)
	}
	return &to
}

// parameters renames the parameters as RewriteBody does where the body uses them.
func (u *unit) parameters(list []*ptx.Var) []*ptx.Var {
	all := make([]*ptx.Var, len(list))
	for i, p := range list {
		v := *p
		v.Name = u.newName(p.Name)
		all[i] = &v
	}
	return all
}

// need notes a symbol that is used and that no unit defines.
func (g *merger) need(u *unit, name string) {
	_, shared := u.globals[name]
	s := g.symbols[name]
	if !shared || s == nil || s.def != nil || s.open() || g.told[name] || g.lines == maxMissing {
		return
	}
	if g.told == nil {
		g.told = map[string]bool{}
	}
	g.told[name] = true
	g.lines++
	fmt.Fprintf(&g.missing, "error   : Undefined reference to '%s' in '%s'\n", name, u.name)
}

// Missing lists the symbols that an error of Complete names as undefined.
func Missing(err error) []string {
	var e *Error
	if !errors.As(err, &e) {
		return nil
	}
	var all []string
	for line := range strings.Lines(e.Log) {
		if _, rest, ok := strings.Cut(line, "Undefined reference to '"); ok {
			name, _, _ := strings.Cut(rest, "'")
			all = append(all, name)
		}
	}
	return all
}
