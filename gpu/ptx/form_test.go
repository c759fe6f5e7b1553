package ptx

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// registers returns the name of a register of the snippets' kernel for type t.
func registers(t Type) string {
	return map[Type]string{Pred: "p", B8: "h", U8: "u", S8: "u", B16: "h", U16: "u", S16: "u", F16: "h", BF16: "h",
		B32: "r", U32: "r", S32: "r", F32: "f", F16x2: "r", BF16x2: "r", U16x2: "r", S16x2: "r", TF32: "r",
		B64: "d", B128: "wide", U64: "d", S64: "d", F64: "g", F32x2: "d", E4M3x2: "h", E5M2x2: "h", E2M3x2: "h", E3M2x2: "h"}[t]
}

// operandText returns an operand that a takes in an instruction with modifiers m.
func operandText(f *Form, a *argSpec, m *Mods) string {
	reg := registers(a.resolve(m))
	if a.ref == refFixed && a.fixed == B8 {
		reg = "tiny"
	}
	if a.relaxed && m.Vec > 0 {
		if m.Vec == 2 {
			return "{" + reg + ", " + reg + "2}"
		}
		return "{" + strings.Repeat(reg+", ", int(m.Vec)-1) + reg + "2}"
	}
	switch a.kind {
	case argObject:
		return "[d]"
	case argFragment, argFragmentDst:
		part := fragmentByName[a.name]
		if f.Op == OpWgmma && part == FragmentA { // transposed as a descriptor
			return registers(B64)
		}
		if f.Op == OpWmma && m.Mode != ModeMMA {
			part = m.Fragment
		}
		t, n := (&Instr{Op: f.Op, Mods: *m}).Registers(part)
		return "{" + strings.Repeat(registers(t)+", ", n)[:n*(len(registers(t))+2)-2] + "}"
	case argTexel:
		at := "r"
		if m.Types[1] == F32 {
			at = "f"
		}
		list := strings.Repeat(", "+at, m.Geometry.Coordinates())
		if m.Geometry.Layered() {
			list = strings.Replace(list, at, "r", 1)
		}
		return "[d, {" + list[2:] + "}]"
	case argTensor:
		return "[d+64, {" + strings.Repeat(", r", m.Geometry.Axes())[2:] + "}]"
	case argOffsets:
		return "{" + strings.Repeat(", h", m.Geometry.Axes()-2)[2:] + "}"
	case argGradient:
		return "{" + strings.Repeat(", "+reg, m.Geometry.Axes())[2:] + "}"
	case argAddr:
		if a.name == "s" {
			if m.HasWord(FromShared) {
				return "[sh]"
			}
			return "[d]"
		}
		switch m.Space {
		case SpaceShared, SpaceSharedCTA, SpaceSharedCluster:
			return "[sh+16]"
		case SpaceLocal:
			return "[lo+16]"
		case SpaceParamEntry:
			return "[prm]"
		case SpaceParam, SpaceParamFunc:
			return "[pp]"
		}
		return "[d+16]"
	case argImm:
		return constantText(a.name)
	case argLabel:
		return "L0"
	case argTargets:
		return "list"
	case argSink:
		return "_"
	case argPred:
		return "!q"
	case argPreds:
		return "p|q"
	case argDstPair:
		return reg + "|p"
	}
	if a.name == "a" && a.ref == refFixed && a.fixed == U32 && a.parts == selectNone || a.name == "b" && a.ref == refFixed && a.fixed == U32 && a.optional {
		return "0"
	}
	return reg
}

// constantText is a constant that an operand may be.
func constantText(name string) string {
	switch name {
	case "bytes":
		return "16"
	case "registers":
		return "32"
	case "selector", "transA", "transB":
		return "0"
	case "ord":
		return "4"
	case "factorA", "factorB":
		return "-1"
	case "size":
		return "128"
	}
	return "8"
}

// samples returns instructions that together have every value of every slot of
// the form, with its optional modifiers absent, alone and together.
func samples(f *Form) []string {
	seen := map[string]bool{}
	var list []string
	try := func(choose func(slot int) (uint8, bool)) {
		var m Mods
		nth := 0
		for i, s := range f.slots {
			if v, ok := choose(i); ok {
				m.set(s.field, v, nth)
			}
			if s.field == fieldType {
				nth++
			}
		}
		if m.Vec > 0 && int(m.Vec)*m.Types[0].Size() > 16 && !f.Derived {
			return
		}
		b, ok := f.appendMods([]byte(f.Name), &m)
		if !ok || seen[string(b)] {
			return
		}
		seen[string(b)] = true
		text := string(b)
		for i := range f.args {
			text += [2]string{", ", " "}[min(1, max(0, 1-i))] + operandText(f, &f.args[i], &m)
		}
		list = append(list, text)
	}
	values := func(s slot) (vs []uint8) {
		for v := range fieldNames[s.field] {
			if s.allowed>>v&1 != 0 {
				vs = append(vs, uint8(v))
			}
		}
		return vs
	}
	base := func(i int) (uint8, bool) { return values(f.slots[i])[0], !f.slots[i].optional }
	try(base)
	try(func(i int) (uint8, bool) { return values(f.slots[i])[0], true })
	for i, s := range f.slots {
		for _, v := range values(s) {
			try(func(k int) (uint8, bool) {
				if k == i {
					return v, true
				}
				return base(k)
			})
			// Two types often must fit each other.
			for k := i + 1; k < len(f.slots); k++ {
				for _, w := range values(f.slots[k]) {
					try(func(n int) (uint8, bool) {
						switch n {
						case i:
							return v, true
						case k:
							return w, true
						}
						return base(n)
					})
				}
			}
		}
	}
	return list
}

// snippet puts an instruction into a kernel that declares what samples use.
func snippet(text string) []byte {
	decls := ""
	if strings.HasPrefix(text, "brx") {
		decls = "list: .branchtargets L0, L0;\n"
	}
	if strings.HasPrefix(text, "call") {
		text += " fn"
		return fmt.Appendf(nil, snippetBody, ".func fn() { ret; }", text+";")
	}
	body := snippetBody
	if strings.HasPrefix(text, "cvta") && strings.Contains(text, "32") {
		body = strings.Replace(body, ".address_size 64", ".address_size 32", 1)
	}
	return fmt.Appendf(nil, body, "", decls+text+";")
}

// TestEveryForm reads, checks and prints samples of every row. With PTX_FORMS
// set to a file name it writes them there, and "verdicts.py FILE" on a machine
// with ptxas tells which of them ptxas refuses.
func TestEveryForm(t *testing.T) {
	n := 0
	for _, f := range Forms() {
		if f.Op == OpRaw {
			continue
		}
		list := samples(f)
		require.NotEmpty(t, list, f.Syntax())
		n += len(list)
		for _, text := range list {
			m, err := Parse("a.ptx", snippet(text))
			require.NoError(t, err, text)
			require.NoError(t, Verify(m), text)
			printed := printed(t, m)
			again, err := Parse("a.ptx", []byte(printed))
			require.NoError(t, err, printed)
			require.NoError(t, Verify(again), printed)
			require.Empty(t, equal(m, again), text)
			i := sampled(m)
			require.Same(t, f, i.Form, "%s is read as another row: %s", text, i.Form.Syntax())
			require.Same(t, f, theTable().find(i.Op, &i.Mods))
			name, _, _ := strings.Cut(text, " ")
			require.Equal(t, name, i.Name())
		}
	}
	if file := os.Getenv("PTX_FORMS"); file != "" {
		require.NoError(t, dumpForms(file))
	}
	t.Logf("%d rows, %d instructions", len(Forms()), n)
}

// sampled returns the instruction of a snippet.
func sampled(m *Module) *Instr {
	f := m.Directives[len(m.Directives)-1].(*Func)
	for _, s := range f.Body {
		if i, ok := s.(*Instr); ok {
			return i
		}
	}
	return nil
}

// dumpForms writes the samples of all rows in the format of verdicts.txt, for
// a comparison with ptxas.
func dumpForms(file string) error {
	var b strings.Builder
	for _, f := range Forms() {
		if f.Op == OpRaw {
			continue
		}
		for n, text := range samples(f) {
			decls, body := "", text+";"
			if strings.HasPrefix(text, "brx") {
				body = "list: .branchtargets L0, L0; " + body
			}
			if strings.HasPrefix(text, "call") {
				decls, body = ".func fn() { ret; }", text+" fn;"
			}
			fmt.Fprintf(&b, "%d.%d | %s | %s\n", f.Index, n, decls, body)
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
