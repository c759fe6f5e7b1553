// Package ptx reads, checks, prints and documents PTX, the assembly language
// of NVIDIA GPUs.
//
// Parse turns text into a Module, Verify resolves its names and checks it
// against the instruction table, and Print writes it back. Load does the first
// two. The package judges for no device: each engine says itself which rows of
// the table it runs. A Module that Verify accepted needs no further checks and no name
// look-ups to be executed: registers are dense indexes, labels are statement
// indexes, symbols are pointers to their declarations.
//
// Section numbers in comments are those of the PTX ISA manual, version 8.5.
//
// The package starts no goroutines. A Module is owned by its caller; Verify
// writes to it, everything else only reads, so a verified Module may be shared
// by any number of goroutines. Names in a Module are parts of one copy of the
// source, which lives as long as the Module.
package ptx

import (
	"strconv"
	"strings"
)

// Pos is a place in the source. It is zero in a Module that was not parsed.
type Pos struct {
	Line, Col int32 // 1-based; Col counts bytes
}

// Module is one PTX source file.
type Module struct {
	File        string // name of the source in diagnostics
	Version     [2]int // .version major.minor
	Target      string // first name of .target, such as "sm_70"
	TargetPos   Pos
	TargetOpts  []string
	AddressSize int  // 32 or 64
	Unsized     bool // the source has no .address_size: it is 64, and addresses may have 32 bits
	Directives  []Directive
}

// Architecture is the number of the module's .target, such as 90, and what follows it: the a of
// sm_90a. The number is 0 where there is none.
func (m *Module) Architecture() (n int, rest string) {
	_, digits, _ := strings.Cut(m.Target, "_")
	rest = strings.TrimLeft(digits, "0123456789")
	n, err := strconv.Atoi(digits[:len(digits)-len(rest)])
	if err != nil {
		return 0, rest
	}
	return n, rest
}

// Directive is what may stand at module scope: *Var, *Func, *File, *Pragma,
// *Alias or *Section.
type Directive interface {
	Position() Pos
	directive()
}

// Stmt is one statement of a function body: *Instr, *Label, *Var, *Scope,
// *Targets, *Prototype, *Pragma or *Loc.
type Stmt interface {
	Position() Pos
	stmt()
}

// Decl is what a name can stand for outside the registers: *Var, *Func,
// *Targets or *Prototype.
type Decl interface {
	Position() Pos
	decl()
}

// Linkage is the visibility of a symbol to other modules (section 11.6).
type Linkage uint8

// Linkages.
const (
	LinkNone Linkage = iota
	LinkVisible
	LinkExtern
	LinkWeak
	LinkCommon
)

// Var is a variable in any state space, a register, a range of registers, or
// a parameter. A declaration of several names becomes one Var for each.
type Var struct {
	Pos     Pos
	Name    string // for a range of registers the prefix, such as "%r"
	Linkage Linkage
	Space   Space // SpaceReg, SpaceConst, SpaceGlobal, SpaceLocal, SpaceParam or SpaceShared
	Type    Type  // of one element
	Vec     uint8 // 0, 2, 4 or 8: elements of a .v2, .v4 or .v8 type
	Managed bool  // .attribute(.managed)
	Align   uint32
	Range   uint32  // `.reg .b32 %r<Range>` declares Name0 … Name(Range-1); 0: one register
	Array   bool    // declared with dimensions
	Dims    []int64 // of an array; the first is 0 in `x[]`
	Init    *Init   // nil: zero, or none
	Ptr     *Ptr    // .ptr attribute of a kernel parameter
}

// Ptr is what a kernel parameter's .ptr says about where it points.
type Ptr struct {
	Space Space // SpaceGeneric when not stated
	Align uint32
}

// InitKind is the kind of an initialiser.
type InitKind uint8

// Kinds of an initialiser.
const (
	InitInt  InitKind = iota // Bits is a 64-bit integer
	InitF32                  // Bits are those of a float32 (0f…)
	InitF64                  // Bits are those of a float64 (0d… or decimal)
	InitList                 // Ext.List
	InitAddr                 // the address Ext.Name + Bits
)

// Init is the value a variable starts with: a number, the address of a
// variable or function, or a list of initialisers.
type Init struct {
	Kind InitKind
	Bits uint64   // number, or byte offset of an address
	Ext  *InitExt // nil for numbers
}

// InitExt is the part of an initialiser that numbers do not need.
type InitExt struct {
	Pos     Pos
	List    []Init
	Name    string // of a variable or function
	Generic bool   // generic(Name): its address in the generic space
	Mask    uint64 // 0xFF00(Name): these bits of the address, shifted down; 0: all of it
	Ref     Decl   // what Name stands for: *Var or *Func; set by Verify
}

// Func is a kernel (.entry) or a function (.func).
type Func struct {
	Pos     Pos
	Name    string
	Linkage Linkage
	Entry   bool
	Results []*Var // in .param or .reg; empty for an entry
	Params  []*Var // in .param or, for a .func, .reg

	MaxNTid     [3]uint32 // .maxntid; zero when absent
	ReqNTid     [3]uint32 // .reqntid; zero when absent
	MinNCTA     uint32    // .minnctapersm
	MaxNCTA     uint32    // .maxnctapersm (deprecated)
	MaxNReg     uint32    // .maxnreg
	NoReturn    bool
	Cluster     Cluster
	OtherTuning []string // performance directives that are kept as text, such as ".blocksareclusters"
	Pragmas     []string // .pragma between header and body
	Defined     bool     // has a body
	Body        []Stmt
	Text        string // the body as it was written, where LoadUnit read it
	End         Pos    // of the closing brace

	// Regs are the registers that the body mentions, in order of their first
	// mention, parameters in .reg first. Operand.Reg indexes it. Set by Verify.
	Regs []Reg
	// Def is the definition of a declared function, itself for a definition,
	// or nil if the module has none. Set by Verify.
	Def *Func
	// Locals are the variables that the body declares in .local, .shared and
	// .param, in order. Set by Verify.
	Locals []*Var
}

// Cluster is what the directives of a kernel say of its clusters (section 11.4).
type Cluster struct {
	Required [3]uint32 // .reqnctapercluster, in blocks; zero when absent
	Explicit bool      // .explicitcluster: each launch has a size of clusters
	MaxRank  uint32    // .maxclusterrank: the most blocks of a cluster; zero when absent
}

// Reg is one scalar register of a function. A register of vector type takes
// as many consecutive ones as it has elements.
type Reg struct {
	Name string // with .x, .y, .z or .w for an element of a vector
	Type Type
}

// Label is a branch target.
type Label struct {
	Pos  Pos
	Name string
}

// Scope is a brace inside a body. Declarations inside end with the scope.
type Scope struct {
	Pos  Pos
	Open bool
}

// Targets is a named list for indirect control flow: .branchtargets lists
// labels, .calltargets functions.
type Targets struct {
	Pos    Pos
	Name   string
	Call   bool
	Labels []LabelRef
}

// LabelRef is one entry of Targets.
type LabelRef struct {
	Pos    Pos
	Name   string
	Target int32 // .branchtargets: index in Func.Body of the label; set by Verify
	Func   *Func // .calltargets: set by Verify
}

// Prototype is a .callprototype: the signature of an indirect call.
type Prototype struct {
	Pos      Pos
	Name     string
	Results  []*Var // names are often "_"
	Params   []*Var
	NoReturn bool
}

// Pragma is a .pragma directive.
type Pragma struct {
	Pos  Pos
	Text []string // the strings, without quotes, escapes as written
}

// File is a .file directive of the debug information.
type File struct {
	Pos         Pos
	Index       uint32
	Name        string
	HasTime     bool // a timestamp and a size follow the name
	Time, Bytes uint64
}

// Loc is a .loc directive of the debug information.
type Loc struct {
	Pos             Pos
	File, Line, Col uint32
	Inline          string // the rest: `function_name …, inlined_at …`; "" when absent
}

// Section is a .section directive with debug information, kept as text.
type Section struct {
	Pos  Pos
	Name string
	Text string // between the braces
}

// Alias is a .alias directive.
type Alias struct {
	Pos          Pos
	Name, Target string
}

// Instr is one instruction.
type Instr struct {
	Pos   Pos
	Op    Op
	Guard Guard
	Mods  Mods
	Args  []Operand // as in the manual, destination first; none for a call
	Call  *Call     // of OpCall
	// Form is the row of the instruction table, set by Parse and Verify.
	Form *Form
	// Raw is the text of an instruction that the table knows by name only (OpRaw):
	// all but guard and semicolon.
	Raw string
}

// Guard is the predicate in front of an instruction: @p or @!p.
type Guard struct {
	Name string // "" when there is none
	Neg  bool
	Reg  int32 // index in Func.Regs; set by Verify
}

// Call holds the operands of a call (section 9.7.11.5).
type Call struct {
	Results []Operand
	Callee  Operand // OperandSymbol of a *Func, or a register for an indirect call
	Args    []Operand
	// Via names the .callprototype or .calltargets of an indirect call; its
	// Kind is OperandNone for a direct one.
	Via Operand
}

// OperandKind is the kind of an operand.
type OperandKind uint8

// Kinds of operands. Which fields of Operand each of them uses is stated here.
const (
	OperandNone    OperandKind = iota
	OperandName                // Name (+ Value): not yet resolved. Verify leaves none of these
	OperandReg                 // Name, Reg
	OperandImm                 // ImmKind, Value
	OperandSpecial             // Special
	OperandAddr                // [Name + Value]: a register (Reg), a variable (Ref), or neither (Name "")
	OperandTexel               // [Name + Value, {Elems}]: Name is a register (Reg) or a variable (Ref)
	OperandSymbol              // Name + Value as a number: the address of Ref
	OperandLabel               // Name, Target
	OperandVector              // Elems {a, b, …}; Name is set for a register of vector type
	OperandPair                // Elems p|q
	OperandSink                // _
)

// ImmKind is the kind of a number as it was written.
type ImmKind uint8

// Kinds of immediate operands.
const (
	ImmInt ImmKind = iota // 64 bits, two's complement
	ImmF32                // 0f and 8 hexadecimal digits: bits of a float32
	ImmF64                // 0d and 16 hexadecimal digits, or a decimal fraction: bits of a float64
)

// NoReg is Operand.Reg where there is no register.
const NoReg = -1

// Operand is one operand of an instruction.
type Operand struct {
	Kind    OperandKind
	Neg     bool // !p
	ImmKind ImmKind
	Comp    uint8 // 1 + the element chosen from a vector register (V.x …); 0: none
	Special Special
	Minus   bool     // -r, of vmad
	Sel     Selector // parts of a register, of video instructions; 0: none
	Reg     int32    // index in Func.Regs, or NoReg; set by Verify
	Target  int32    // index in Func.Body of the label; set by Verify
	Pos     Pos
	Name    string
	Value   uint64 // number, or byte offset (two's complement)
	Elems   []Operand
	Ref     Decl // what Name stands for; set by Verify
}

// Coordinates returns the coordinates of an OperandTexel that Verify has accepted.
func (o *Operand) Coordinates() []Operand {
	if len(o.Elems) == 1 && o.Elems[0].Kind == OperandVector {
		return o.Elems[0].Elems
	}
	return o.Elems
}

// AddressSpace returns the state space of operand n, an address.
func (i *Instr) AddressSpace(n int) Space {
	if n == 1 && (i.Op == OpCp || i.Op == OpTensormap) {
		return i.Mods.sourceSpace()
	}
	return i.Mods.Space
}

// Position returns where the statement or declaration stands.
func (v *Var) Position() Pos       { return v.Pos }
func (f *Func) Position() Pos      { return f.Pos }
func (l *Label) Position() Pos     { return l.Pos }
func (s *Scope) Position() Pos     { return s.Pos }
func (t *Targets) Position() Pos   { return t.Pos }
func (p *Prototype) Position() Pos { return p.Pos }
func (p *Pragma) Position() Pos    { return p.Pos }
func (f *File) Position() Pos      { return f.Pos }
func (l *Loc) Position() Pos       { return l.Pos }
func (s *Section) Position() Pos   { return s.Pos }
func (a *Alias) Position() Pos     { return a.Pos }
func (i *Instr) Position() Pos     { return i.Pos }

func (*Var) directive()     {}
func (*Func) directive()    {}
func (*File) directive()    {}
func (*Pragma) directive()  {}
func (*Alias) directive()   {}
func (*Section) directive() {}

func (*Instr) stmt()     {}
func (*Label) stmt()     {}
func (*Var) stmt()       {}
func (*Scope) stmt()     {}
func (*Targets) stmt()   {}
func (*Prototype) stmt() {}
func (*Pragma) stmt()    {}
func (*Loc) stmt()       {}

func (*Var) decl()       {}
func (*Func) decl()      {}
func (*Targets) decl()   {}
func (*Prototype) decl() {}
