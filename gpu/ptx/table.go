package ptx

import (
	"math/bits"
	"strings"
	"sync"
)

// Form is one row of the instruction table: an instruction with one set of
// modifiers and one operand pattern. The table drives the parser, the
// verifier, the printer and the documentation.
type Form struct {
	// Index is the row number. It may change from one build to the next.
	Index   int
	Op      Op
	Name    string // the part before the first dot, or the first words of a family of OpRaw
	Section string // of the PTX ISA manual
	Arch    int    // first architecture that has it, such as 100 for sm_100; 0 up to sm_90
	Only    bool   // and the only one: a .target with the suffix a
	Derived bool   // what it does follows from PTX's text: no GPU at hand has it

	slots []slot    // modifiers in the order in which they are written
	args  []argSpec // operands
	check func(*Mods) string
	need  int // number of operands that are not optional
}

// field is the part of Mods that a modifier sets.
type field uint8

const (
	fieldType field = iota
	fieldRound
	fieldCmp
	fieldBool
	fieldSpace
	fieldVec
	fieldOrder
	fieldScope
	fieldCache
	fieldL1
	fieldL2
	fieldPrefetch
	fieldAtomic
	fieldMode
	fieldGeometry
	fieldShape
	fieldFragment
	fieldLayoutA
	fieldLayoutB
	fieldCount
	fieldStep
	fieldGroup8 // the shapes of wgmma by k
	fieldGroup16
	fieldGroup32
	fieldGroup64
	fieldGroup256
	fieldFlag
	fieldWord
)

// fieldNames are the spellings of the values of each field.
var fieldNames = [...][]string{
	fieldType: typeNames[:], fieldRound: roundNames[:], fieldCmp: cmpNames[:], fieldBool: boolNames[:],
	fieldSpace: spaceNames[:], fieldVec: {2: "v2", 4: "v4", 8: "v8"}, fieldOrder: orderNames[:],
	fieldScope: scopeNames[:], fieldCache: cacheNames[:], fieldL1: evictNames[:], fieldL2: evictNames[:],
	fieldPrefetch: prefetchNames[:], fieldAtomic: atomicNames[:], fieldMode: modeNames[:],
	fieldGeometry: geometryNames[:], fieldShape: shapeNames[:], fieldFragment: fragmentNames[:],
	fieldLayoutA: layoutNames[:], fieldLayoutB: layoutNames[:], fieldCount: {1: "x1", 2: "x2", 4: "x4"}, fieldFlag: flagNames[:],
	fieldStep: stepNames[:], fieldGroup8: groupShapes(8), fieldGroup16: groupShapes(16), fieldGroup32: groupShapes(32), fieldGroup64: groupShapes(64), fieldGroup256: groupShapes(256),
	fieldWord: wordNames[:],
}

// slot is one place for a modifier in a Form.
type slot struct {
	field    field
	optional bool
	allowed  uint64 // bit n: value n of the field may stand here
}

// match returns the value that word names in this slot.
func (s slot) match(word string) (uint8, bool) {
	for v, name := range fieldNames[s.field] {
		if name == word && s.allowed>>v&1 != 0 {
			return uint8(v), true
		}
	}
	return 0, false
}

// get returns the value of field f; nth counts the types before it.
func (m *Mods) get(f field, allowed uint64, nth int) (uint8, bool) {
	var v uint8
	switch f {
	case fieldType:
		v = uint8(m.Types[nth])
	case fieldRound:
		v = uint8(m.Round)
	case fieldCmp:
		v = uint8(m.Cmp)
	case fieldBool:
		v = uint8(m.Bool)
	case fieldSpace:
		v = uint8(m.Space)
	case fieldVec:
		v = m.Vec
	case fieldOrder:
		v = uint8(m.Order)
	case fieldScope:
		v = uint8(m.Scope)
	case fieldCache:
		v = uint8(m.Cache)
	case fieldL1:
		v = uint8(m.L1)
	case fieldL2:
		v = uint8(m.L2)
	case fieldPrefetch:
		v = uint8(m.Prefetch)
	case fieldAtomic:
		v = uint8(m.Atomic)
	case fieldMode:
		v = uint8(m.Mode)
	case fieldGeometry:
		v = uint8(m.Geometry)
	case fieldShape:
		v = uint8(m.Shape)
	case fieldFragment:
		v = uint8(m.Fragment)
	case fieldLayoutA, fieldLayoutB:
		v = uint8(m.Layouts[f-fieldLayoutA])
	case fieldCount:
		v = m.Count
	case fieldStep:
		v = uint8(m.Step)
	case fieldGroup8, fieldGroup16, fieldGroup32, fieldGroup64, fieldGroup256:
		if m.Shape == f.groupShape() {
			v = m.Count
		}
	case fieldFlag:
		for i := range numFlags {
			if allowed>>i&1 != 0 && m.Flags>>i&1 != 0 {
				return uint8(i), true
			}
		}
		return 0, false
	case fieldWord:
		if w := allowed & uint64(m.Words); w != 0 {
			return uint8(bits.TrailingZeros64(w)), true
		}
		return 0, false
	}
	return v, v != 0 && allowed>>v&1 != 0
}

// set gives field f the value v; nth counts the types before it.
func (m *Mods) set(f field, v uint8, nth int) {
	switch f {
	case fieldType:
		m.Types[nth] = Type(v)
	case fieldRound:
		m.Round = Rounding(v)
	case fieldCmp:
		m.Cmp = Cmp(v)
	case fieldBool:
		m.Bool = Bool(v)
	case fieldSpace:
		m.Space = Space(v)
	case fieldVec:
		m.Vec = v
	case fieldOrder:
		m.Order = Order(v)
	case fieldScope:
		m.Scope = MemScope(v)
	case fieldCache:
		m.Cache = Cache(v)
	case fieldL1:
		m.L1 = Evict(v)
	case fieldL2:
		m.L2 = Evict(v)
	case fieldPrefetch:
		m.Prefetch = Prefetch(v)
	case fieldAtomic:
		m.Atomic = Atomic(v)
	case fieldMode:
		m.Mode = Mode(v)
	case fieldGeometry:
		m.Geometry = Geometry(v)
	case fieldShape:
		m.Shape = Shape(v)
	case fieldFragment:
		m.Fragment = Fragment(v)
	case fieldLayoutA, fieldLayoutB:
		m.Layouts[f-fieldLayoutA] = Layout(v)
	case fieldCount:
		m.Count = v
	case fieldStep:
		m.Step = GroupStep(v)
	case fieldGroup8, fieldGroup16, fieldGroup32, fieldGroup64, fieldGroup256:
		m.Shape, m.Count = f.groupShape(), v
	case fieldFlag:
		m.Flags |= 1 << v
	case fieldWord:
		m.Words |= 1 << v
	}
}

// parseMods reads the modifiers of a name, such as ".rn.ftz.f32". They may stand
// in any order, as ptxas has it, but for the types among themselves. On failure
// bad is the modifier that does not fit, or "" where one is missing, and rest
// how much of words follows it.
func (f *Form) parseMods(words string) (m Mods, rest int, bad string, ok bool) {
	var filled uint32
	for words != "" {
		word := words[1:]
		if i := strings.IndexByte(word, '.'); i >= 0 {
			word = word[:i]
		}
		words = words[1+len(word):]
		at := f.place(&m, filled, word)
		if at < 0 {
			return m, len(words), word, false
		}
		filled |= 1 << at
	}
	for i, s := range f.slots {
		if !s.optional && filled>>i&1 == 0 {
			return m, 0, "", false
		}
	}
	return m, 0, "", true
}

// place puts a modifier into the first free slot that takes it and returns the
// number of the slot, or -1.
func (f *Form) place(m *Mods, filled uint32, word string) int {
	nth := 0
	for i, s := range f.slots {
		free := filled>>i&1 == 0
		if free {
			if v, ok := s.match(word); ok {
				m.set(s.field, v, nth)
				return i
			}
		}
		if s.field == fieldType {
			if _, isType := typeByName[word]; free && isType {
				return -1 // the first type comes first
			}
			nth++
		}
	}
	return -1
}

// appendMods appends the modifiers of m as they are written, and reports
// whether the form can express all of them.
func (f *Form) appendMods(b []byte, m *Mods) ([]byte, bool) {
	var written Mods
	nth := 0
	for _, s := range f.slots {
		v, ok := m.get(s.field, s.allowed, nth)
		if ok {
			written.set(s.field, v, nth)
			b = append(b, '.')
			b = append(b, fieldNames[s.field][v]...)
		} else if !s.optional {
			return b, false
		}
		if s.field == fieldType {
			nth++
		}
	}
	return b, written == *m && (f.check == nil || f.check(m) == "")
}

// table is the instruction table in the forms that its users need.
type table struct {
	forms  []*Form
	byOp   [numOps][]*Form
	byName map[string]Op
	// raw maps the first part of a name to the families of OpRaw that begin with it.
	raw map[string][]*Form
}

var theTable = sync.OnceValue(func() *table {
	t := &table{byName: map[string]Op{}, raw: map[string][]*Form{}}
	for op := OpRaw + 1; op < numOps; op++ {
		t.byName[opNames[op]] = op
	}
	for _, group := range [][]Form{intForms(), floatForms(), halfForms(), compareForms(), logicForms(),
		moveForms(), convertForms(), textureForms(), videoForms(), flowForms(), syncForms(), matrixForms(), groupForms(), asyncForms(), bulkForms(), mbarrierForms(),
		clusterForms(), rawForms()} {
		for i := range group {
			f := &group[i]
			f.Index = len(t.forms)
			t.forms = append(t.forms, f)
			if f.Op == OpRaw {
				first, _, _ := strings.Cut(f.Name, ".")
				t.raw[first] = append(t.raw[first], f)
			} else {
				t.byOp[f.Op] = append(t.byOp[f.Op], f)
			}
		}
	}
	return t
})

// Forms returns the rows of the instruction table. The caller must not change
// the slice.
func Forms() []*Form { return theTable().forms }

// Syntax returns the pattern of the row for people, such as
// "add{.sat}.s32 d, a, b".
func (f *Form) Syntax() string {
	if f.Op == OpRaw {
		return f.Name
	}
	var b strings.Builder
	b.WriteString(f.Name)
	for _, s := range f.slots {
		var words []string
		for v, name := range fieldNames[s.field] {
			if s.allowed>>v&1 != 0 {
				words = append(words, name)
			}
		}
		w := "." + words[0]
		switch {
		case s.field >= fieldGroup8 && s.field <= fieldGroup256:
			w = "." + s.field.groupShape().String()
		case len(words) > 1:
			w = ".(" + strings.Join(words, "/") + ")"
		}
		if s.optional {
			w = "{" + w + "}"
		}
		b.WriteString(w)
	}
	for i := range f.args {
		a := &f.args[i]
		w := a.String()
		if i > 0 {
			w = ", " + w
		} else {
			w = " " + w
		}
		if a.optional {
			w = "{" + w + "}"
		}
		b.WriteString(w)
	}
	return b.String()
}

// form makes a row. Args is the operand pattern (see parseArgs).
func form(op Op, section, args string, slots ...slot) Form {
	f := Form{Op: op, Name: op.String(), Section: section, slots: slots, args: parseArgs(args)}
	for _, a := range f.args {
		if !a.optional {
			f.need++
		}
	}
	return f
}

// with adds a condition on the modifiers that the slots cannot express. It
// returns what is wrong, or "".
func (f Form) with(check func(*Mods) string) Form {
	f.check = check
	return f
}

// since names the first architecture that has the row.
func (f Form) since(arch int) Form {
	f.Arch = arch
	return f
}

// only names the one architecture that has the row, such as 90 for sm_90a.
func (f Form) only(arch int) Form {
	f.Arch, f.Only = arch, true
	return f
}

// derived makes a row of an architecture that no recordings exist of, but whose text says all.
func (f Form) derived(arch int) Form {
	f.Arch, f.Derived = arch, true
	return f
}

// Builders of slots. Each takes the values that may stand there.

func typ(ts ...Type) slot { return slot{field: fieldType, allowed: mask(ts)} }

func pick[V ~uint8](f field, vs ...V) slot { return slot{field: f, allowed: mask(vs)} }

func flag(f Flags) slot { return slot{field: fieldFlag, allowed: uint64(f)} }

func opt(s slot) slot {
	s.optional = true
	return s
}

func mask[V ~uint8](vs []V) (m uint64) {
	for _, v := range vs {
		m |= 1 << v
	}
	return m
}

// span returns all values from first to last.
func span[V ~uint8](first, last V) []V {
	var vs []V
	for v := first; v <= last; v++ {
		vs = append(vs, v)
	}
	return vs
}

// bothOrNone demands that .xorsign and .abs stand together.
func bothOrNone(m *Mods) string {
	if (m.Flags&XorSign != 0) != (m.Flags&Abs != 0) {
		return ".xorsign needs .abs after it"
	}
	return ""
}
