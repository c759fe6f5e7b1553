package ptx

import (
	"fmt"
	"io"
	"strconv"
)

// Print writes m as PTX that Parse reads back as an equal module: the same
// directives and statements in the same order. Positions, comments, blanks and
// the spelling of numbers are not kept, nor is a .loc outside functions. It fails on an instruction that the
// table cannot express, and with the error of w.
func Print(w io.Writer, m *Module) error {
	p := &printer{w: w, table: theTable()}
	p.header(m)
	for _, d := range m.Directives {
		p.directive(d)
		p.flush(1 << 16)
	}
	p.flush(0)
	return p.err
}

// PrintFunc writes one function as Print does. An instruction that is OpRaw is written as its Raw
// says, and Func.Text before the body.
func PrintFunc(w io.Writer, f *Func) error {
	p := &printer{w: w, table: theTable()}
	p.function(f)
	p.flush(0)
	return p.err
}

// Name returns the name of the instruction with its modifiers, such as "add.rn.f32".
func (i *Instr) Name() string {
	if i.Op == OpRaw {
		for n := range len(i.Raw) {
			if i.Raw[n] == ' ' {
				return i.Raw[:n]
			}
		}
		return i.Raw
	}
	f := i.Form
	if f == nil {
		if f = theTable().find(i.Op, &i.Mods); f == nil {
			return i.Op.String()
		}
	}
	b, _ := f.appendMods([]byte(f.Name), &i.Mods)
	return string(b)
}

// printer collects text in b and keeps the first error.
type printer struct {
	w     io.Writer
	table *table
	b     []byte
	err   error
}

// flush writes the collected text if it is longer than n.
func (p *printer) flush(n int) {
	if len(p.b) > n && p.err == nil {
		_, p.err = p.w.Write(p.b)
	}
	if len(p.b) > n {
		p.b = p.b[:0]
	}
}

func (p *printer) str(parts ...string) {
	for _, s := range parts {
		p.b = append(p.b, s...)
	}
}

func (p *printer) uint(v uint64)             { p.b = strconv.AppendUint(p.b, v, 10) }
func (p *printer) int(v uint64)              { p.b = strconv.AppendInt(p.b, int64(v), 10) }
func (p *printer) printf(f string, a ...any) { p.b = fmt.Appendf(p.b, f, a...) }

func (p *printer) header(m *Module) {
	p.printf(".version %d.%d\n", m.Version[0], m.Version[1])
	sep := ".target "
	if m.Target != "" {
		p.str(sep, m.Target)
		sep = ", "
	}
	for _, o := range m.TargetOpts {
		p.str(sep, o)
		sep = ", "
	}
	p.str("\n")
	if !m.Unsized {
		p.printf(".address_size %d\n", m.AddressSize)
	}
}

var linkageNames = [...]string{"", ".visible ", ".extern ", ".weak ", ".common "}

func (p *printer) directive(d Directive) {
	switch d := d.(type) {
	case *Var:
		p.variable(d)
		p.str(";\n")
	case *Func:
		p.function(d)
	case *Pragma:
		p.pragma(d.Text)
	case *File:
		p.printf(".file %d \"%s\"", d.Index, d.Name)
		if d.HasTime {
			p.printf(", %d, %d", d.Time, d.Bytes)
		}
		p.str("\n")
	case *Alias:
		p.str(".alias ", d.Name, ", ", d.Target, ";\n")
	case *Section:
		p.str(".section ", d.Name, "\n{", d.Text, "}\n")
	}
}

func (p *printer) pragma(text []string) {
	sep := ".pragma "
	for _, s := range text {
		p.str(sep, `"`, s, `"`)
		sep = ", "
	}
	p.str(";\n")
}

// variable writes a declaration without the semicolon.
func (p *printer) variable(v *Var) {
	p.str(linkageNames[v.Linkage], ".", v.Space.String())
	if v.Managed {
		p.str(" .attribute(.managed)")
	}
	if v.Align != 0 {
		p.str(" .align ")
		p.uint(uint64(v.Align))
	}
	if v.Vec != 0 {
		p.str(" .v")
		p.uint(uint64(v.Vec))
	}
	p.str(" .", v.Type.String())
	if v.Ptr != nil {
		p.str(" .ptr")
		if v.Ptr.Space != SpaceGeneric {
			p.str(" .", v.Ptr.Space.String())
		}
		if v.Ptr.Align != 0 {
			p.str(" .align ")
			p.uint(uint64(v.Ptr.Align))
		}
	}
	p.str(" ", v.Name)
	if v.Range != 0 {
		p.str("<")
		p.uint(uint64(v.Range))
		p.str(">")
	}
	for _, d := range v.Dims {
		p.str("[")
		if d != 0 {
			p.uint(uint64(d))
		}
		p.str("]")
	}
	if v.Init != nil {
		p.str(" = ")
		p.init(v.Init)
	}
}

func (p *printer) init(n *Init) {
	p.flush(1 << 16)
	switch n.Kind {
	case InitInt:
		p.int(n.Bits)
	case InitF32:
		p.number(ImmF32, n.Bits)
	case InitF64:
		p.number(ImmF64, n.Bits)
	case InitList:
		p.str("{")
		for i := range n.Ext.List {
			if i > 0 {
				p.str(", ")
			}
			p.init(&n.Ext.List[i])
		}
		p.str("}")
	case InitAddr:
		e := n.Ext
		if e.Mask != 0 {
			p.printf("0x%X(", e.Mask)
		}
		if e.Generic {
			p.str("generic(", e.Name, ")")
		} else {
			p.str(e.Name)
		}
		p.offset(n.Bits)
		if e.Mask != 0 {
			p.str(")")
		}
	}
}

func (p *printer) offset(v uint64) {
	if v != 0 {
		p.str("+")
		p.int(v)
	}
}

func (p *printer) number(k ImmKind, v uint64) {
	switch k {
	case ImmF32:
		p.printf("0f%08X", uint32(v))
	case ImmF64:
		p.printf("0d%016X", v)
	default:
		p.int(v)
	}
}

func (p *printer) params(list []*Var) {
	p.str("(")
	for i, v := range list {
		if i > 0 {
			p.str(",")
		}
		p.str("\n\t")
		p.variable(v)
	}
	p.str("\n)")
}

func (p *printer) function(f *Func) {
	p.str("\n", linkageNames[f.Linkage])
	if f.Entry {
		p.str(".entry ")
	} else {
		p.str(".func ")
		if len(f.Results) > 0 {
			p.params(f.Results)
			p.str(" ")
		}
	}
	p.str(f.Name)
	p.params(f.Params)
	p.str("\n")
	p.dims(".maxntid", f.MaxNTid)
	p.dims(".reqntid", f.ReqNTid)
	for _, t := range []struct {
		name string
		n    uint32
	}{{".minnctapersm", f.MinNCTA}, {".maxnctapersm", f.MaxNCTA}, {".maxnreg", f.MaxNReg}, {".maxclusterrank", f.Cluster.MaxRank}} {
		if t.n != 0 {
			p.printf("%s %d\n", t.name, t.n)
		}
	}
	p.dims(".reqnctapercluster", f.Cluster.Required)
	if f.Cluster.Explicit {
		p.str(".explicitcluster\n")
	}
	if f.NoReturn {
		p.str(".noreturn\n")
	}
	for _, u := range f.OtherTuning {
		p.str(u, "\n")
	}
	if len(f.Pragmas) > 0 {
		p.pragma(f.Pragmas)
	}
	if !f.Defined {
		p.str(";\n")
		return
	}
	p.str("{\n", f.Text)
	for _, s := range f.Body {
		p.stmt(s)
		p.flush(1 << 16)
	}
	p.str("}\n")
}

func (p *printer) dims(name string, d [3]uint32) {
	if d != [3]uint32{} {
		p.printf("%s %d, %d, %d\n", name, d[0], d[1], d[2])
	}
}

func (p *printer) stmt(s Stmt) {
	switch s := s.(type) {
	case *Instr:
		p.str("\t")
		p.instr(s)
		p.str(";\n")
	case *Label:
		p.str(s.Name, ":\n")
	case *Var:
		p.str("\t")
		p.variable(s)
		p.str(";\n")
	case *Scope:
		if s.Open {
			p.str("\t{\n")
		} else {
			p.str("\t}\n")
		}
	case *Targets:
		sep := ": .branchtargets "
		if s.Call {
			sep = ": .calltargets "
		}
		p.str(s.Name)
		for i := range s.Labels {
			p.str(sep, s.Labels[i].Name)
			sep = ", "
		}
		p.str(";\n")
	case *Prototype:
		p.str(s.Name, ": .callprototype ")
		if len(s.Results) > 0 {
			p.params(s.Results)
		}
		p.str(" _ ")
		p.params(s.Params)
		if s.NoReturn {
			p.str(" .noreturn")
		}
		p.str(";\n")
	case *Pragma:
		p.pragma(s.Text)
	case *Loc:
		p.printf("\t.loc %d %d %d", s.File, s.Line, s.Col)
		if s.Inline != "" {
			p.str(", ", s.Inline)
		}
		p.str("\n")
	}
}

func (p *printer) instr(i *Instr) {
	if i.Guard.Name != "" {
		p.str("@")
		if i.Guard.Neg {
			p.str("!")
		}
		p.str(i.Guard.Name, " ")
	}
	if i.Op == OpRaw {
		p.str(i.Raw)
		return
	}
	f := i.Form
	if f == nil || f.Op != i.Op {
		f = p.table.find(i.Op, &i.Mods)
	}
	ok := f != nil
	if ok {
		p.str(f.Name)
		p.b, ok = f.appendMods(p.b, &i.Mods)
	}
	if !ok {
		if p.err == nil {
			p.err = fmt.Errorf("print %s at line %d: no such instruction with these modifiers", i.Op, i.Pos.Line)
		}
		return
	}
	if i.Call != nil {
		p.call(i.Call)
		return
	}
	sep := " "
	for k := range i.Args {
		p.str(sep)
		p.operand(&i.Args[k])
		sep = ", "
	}
}

func (p *printer) call(c *Call) {
	sep := " "
	if len(c.Results) > 0 {
		p.str(" ")
		p.list("(", c.Results, ")")
		sep = ", "
	}
	p.str(sep)
	p.operand(&c.Callee)
	if len(c.Args) > 0 {
		p.str(", ")
		p.list("(", c.Args, ")")
	}
	if c.Via.Kind != OperandNone {
		p.str(", ")
		p.operand(&c.Via)
	}
}

func (p *printer) list(open string, list []Operand, end string) {
	p.str(open)
	for i := range list {
		if i > 0 {
			p.str(", ")
		}
		p.operand(&list[i])
	}
	p.str(end)
}

func (p *printer) operand(o *Operand) {
	if o.Neg {
		p.str("!")
	}
	if o.Minus {
		p.str("-")
	}
	switch o.Kind {
	case OperandImm:
		p.number(o.ImmKind, o.Value)
	case OperandSpecial:
		p.str(o.Special.String())
	case OperandAddr:
		p.str("[", o.Name)
		if o.Name == "" {
			p.int(o.Value)
		} else {
			p.offset(o.Value)
		}
		p.str("]")
	case OperandTexel:
		p.str("[", o.Name)
		p.offset(o.Value)
		p.str(", ")
		if len(o.Elems) == 1 { // a number, or a register of vector type
			p.operand(&o.Elems[0])
		} else {
			p.list("{", o.Elems, "}")
		}
		p.str("]")
	case OperandVector:
		if o.Name != "" {
			p.str(o.Name)
		} else {
			p.list("{", o.Elems, "}")
		}
	case OperandPair:
		if len(o.Elems) == 2 {
			p.operand(&o.Elems[0])
			p.str("|")
			p.operand(&o.Elems[1])
		}
	case OperandSink:
		p.str("_")
	default:
		p.str(o.Name)
		if o.Comp != 0 {
			p.str(".", "xyzw"[o.Comp-1:o.Comp])
		}
		if o.Sel != 0 {
			p.str(".", o.Sel.String())
		}
		p.offset(o.Value)
	}
}
