package link

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
)

const head = ".version 7.0\n.target sm_70\n.address_size 64\n"

// try links units, which are called in0, in1 and so on. It returns the place of the source that
// was refused, the number of units where the end was.
func try(units ...string) (text string, at int, err error) {
	l := New()
	for i, u := range units {
		if err := l.Add(fmt.Sprintf("in%d", i), []byte(head+u)); err != nil {
			return "", i, err
		}
	}
	b, err := l.Complete()
	return string(b), len(units), err
}

// linked links units and loads the result.
func linked(t *testing.T, units ...string) string {
	t.Helper()
	text, _, err := try(units...)
	require.NoError(t, err)
	_, err = ptx.Load("linked", []byte(text))
	require.NoError(t, err, text)
	return text
}

const callsFoo = ".extern .func foo;\n.visible .entry k() { call foo; ret; }\n"

// What NVIDIA's linker said on an H100 with driver 580.
func TestAnswersOfNVIDIA(t *testing.T) {
	const variable = ".visible .global .u32 v[4];\n"
	for name, c := range map[string]struct {
		units []string
		at    int // 2: at the end
		log   string
	}{
		"nothing defines it":    {units: []string{callsFoo, variable}, at: 2, log: "error   : Undefined reference to 'foo' in 'in0'\n"},
		"two strong":            {units: []string{variable, variable}, at: 1, log: "error   : Multiple definition of 'v' in 'in1', first defined in 'in0'\n"},
		"two strong functions":  {units: []string{".visible .func foo { ret; }", ".visible .func foo { ret; }"}, at: 1, log: "error   : Multiple definition of 'foo' in 'in1', first defined in 'in0'\n"},
		"two kernels":           {units: []string{".entry k() { ret; }", ".entry k() { ret; }"}, at: 1, log: "error   : Multiple definition of 'k' in 'in1', first defined in 'in0'\n"},
		"other size":            {units: []string{variable, ".extern .global .u32 v[5];"}, at: 1, log: "error   : Size doesn't match for 'v' in 'in1', first specified in 'in0'\n"},
		"other space":           {units: []string{".extern .const .u32 v[4];", variable}, at: 1, log: "error   : State space doesn't match for 'v' in 'in1', first specified in 'in0'\n"},
		"function and variable": {units: []string{".extern .func v;", variable}, at: 1, log: "error   : State space doesn't match for 'v' in 'in1', first specified in 'in0'\n"},
		"other parameters":      {units: []string{callsFoo, ".visible .func foo(.param .u32 x) { ret; }"}, at: 1, log: "error   : Prototype doesn't match for 'foo' in 'in1', first specified in 'in0'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, at, err := try(c.units...)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, Symbols, e.Kind)
			require.Equal(t, c.log, e.Log)
			require.Equal(t, c.at, at)
		})
	}
}

func TestKindsOfErrors(t *testing.T) {
	l := New()
	kind := func(err error) Kind {
		var e *Error
		require.ErrorAs(t, err, &e)
		return e.Kind
	}
	require.Equal(t, NotPTX, kind(l.Add("a", []byte("nonsense\x00"))))
	empty, err := l.Complete() // what is no PTX at all leaves the linker as it was
	require.NoError(t, err)
	_, err = ptx.Load("empty", empty)
	require.NoError(t, err)
	require.NoError(t, l.Add("a", []byte(head+"\x00\x00")))
	require.Equal(t, Syntax, kind(l.Add("b", []byte(head+".entry k() { add.u32 %r1 %r2; }"))))
	require.Equal(t, Broken, kind(l.Add("c", []byte(head))))
	_, err = l.Complete()
	require.Equal(t, Broken, kind(err))

	for _, second := range []string{
		".version 7.0\n.target sm_70\n.address_size 32\n",
		".version 7.0\n.target sm_70, texmode_independent\n.address_size 64\n",
	} {
		l := New()
		require.NoError(t, l.Add("a", []byte(head)))
		require.Equal(t, Unsupported, kind(l.Add("b", []byte(second))))
	}
}

func TestOneSourceStaysAsItIs(t *testing.T) {
	const source = "// a comment\n.file 1 \"a.cu\"\n.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.entry k() { .loc 1 2 3\n ret; }"
	require.Equal(t, head+source, linked(t, source))
	_, _, err := try(callsFoo)
	require.Equal(t, []string{"foo"}, Missing(err))
	require.Nil(t, Missing(errors.New("other")))
}

// A definition stands for all declarations, wherever it comes.
func TestDefinitions(t *testing.T) {
	const (
		uses  = ".extern .func (.param .u32 r) get;\n.extern .global .align 8 .b8 v[16];\n.entry k() { .reg .u32 %r<2>; .param .u32 x; call (x), get; ld.param.u32 %r0, [x]; st.global.u32 [v+4], %r0; }\n"
		gives = ".visible .global .u64 v[2] = {1, 2};\n.visible .func (.param .u32 r) get { .reg .u64 %rd<2>; mov.u64 %rd0, v; st.param.u32 [r], 7; ret; }\n"
	)
	for _, units := range [][]string{{uses, gives}, {gives, uses}, {uses, strings.ReplaceAll(uses, "entry k", "entry k2"), gives}} {
		text := linked(t, units...)
		require.Equal(t, 1, strings.Count(text, "{1, 2}"), text)
	}
	// What is declared and not used may be missing.
	linked(t, ".extern .func nothing;\n.extern .global .u32 none;", ".entry k() { ret; }")
}

func TestWeakAndCommon(t *testing.T) {
	weak := func(n int) string {
		return fmt.Sprintf(".weak .func (.param .u32 r) f { st.param.u32 [r], %d; ret; }\n.weak .entry w() { .param .u32 x; call (x), f; ret; }\n", n)
	}
	text := linked(t, weak(1), weak(2), weak(3))
	require.Contains(t, text, "[r], 1;")
	require.NotContains(t, text, "[r], 2;")
	require.NotContains(t, text, "[r], 3;")
	require.Equal(t, 1, strings.Count(text, ".entry w"))

	strong := strings.ReplaceAll(strings.Split(weak(9), "\n")[0], ".weak", ".visible")
	for _, units := range [][]string{{weak(1), strong}, {strong, weak(1)}} {
		text := linked(t, units...)
		require.Contains(t, text, "[r], 9;")
		require.NotContains(t, text, "[r], 1;")
		require.Equal(t, 1, strings.Count(text, ".entry w"))
	}

	const small, large, given = ".common .global .u32 c[2];\n", ".common .global .u32 c[8];\n", ".visible .global .u32 c[8] = {5};\n"
	const use = ".extern .global .u32 c[];\n.entry k() { st.global.u32 [c], 1; }\n"
	for _, units := range [][]string{{small, large, use}, {use, large, small}, {large, use}} {
		require.Contains(t, linked(t, units...), ".common .global .u32 c[8];")
	}
	for _, units := range [][]string{{small, given, use}, {given, small, use}, {use, large, given}} {
		text := linked(t, units...)
		require.Contains(t, text, "c[8] = {5}")
		require.NotContains(t, text, ".common")
	}
	text = linked(t, ".common .func f { ret; }", ".common .func f { trap; }") // which PTX does not say what it means
	require.NotContains(t, text, "trap")
	_, at, err := try(large, ".visible .global .u32 c[2];")
	require.ErrorContains(t, err, "Size doesn't match for 'c' in 'in1'")
	require.Equal(t, 1, at)
	_, _, err = try(".visible .global .u32 c[2];", large)
	require.ErrorContains(t, err, "Size doesn't match for 'c' in 'in1'")
}

// Each unit keeps what is its own, also where names are those of registers, labels, parameters and
// instructions.
func TestLocalSymbols(t *testing.T) {
	unit := func(n int) string {
		return fmt.Sprintf(`.global .u32 mine = %[1]d;
.global .u64 at = generic(mine);
.func (.param .u32 r) add(.param .u32 mine) { .reg .u32 %%r<3>; ld.param.u32 %%r0, [mine]; add.u32 %%r0, %%r0, %[1]d; st.param.u32 [r], %%r0; ret; }
.visible .entry k%[1]d() {
	.reg .u32 %%r<3>; .reg .pred p; .reg .u64 %%rd<2>;
	ld.global.u32 %%r0, [mine+0];
	setp.eq.u32 p, %%r0, 0;
	@!p bra at;
	{ .reg .f32 add; add.f32 add, add, 0f00000000; add .f32 add, add, 0f3F800000; }
	mov.u64 %%rd0, add;
	.param .u32 x; .param .u32 y;
	st.param.u32 [x], mine.x;
at:	call.uni (y), add, (x);
	ret;
}`, n)
	}
	first, second := unit(1), unit(2)
	for i, u := range []string{first, second} {
		u = strings.ReplaceAll(strings.ReplaceAll(u, "mine.x", "%r0"), "bra at", "bra out")
		u = strings.ReplaceAll(u, "\nat:", "\nout:")
		if i == 0 {
			first = u
		} else {
			second = u
		}
	}
	text := linked(t, first, second)
	require.Contains(t, text, ".global .u32 mine = 1;")
	require.Contains(t, text, ".global .u32 mine$1$ = 2;")
	require.Contains(t, text, ".global .u64 at$1$ = generic(mine$1$);")
	require.Contains(t, text, "add$1$(\n\t.param .u32 mine$1$\n)")
	require.Contains(t, text, "add.f32 add$1$, add$1$, 0f00000000; add .f32 add$1$")
	require.Contains(t, text, "ld.global.u32 %r0, [mine$1$+0];")

	// A symbol of one unit hides behind that of all others.
	text = linked(t, ".visible .global .u32 mine = 4;", first)
	require.Contains(t, text, ".visible .global .u32 mine = 4;")
	require.Contains(t, text, ".global .u32 mine$1$ = 1;")

	// The new name may be in use, too.
	text = linked(t, first, strings.Replace(second, ".reg .pred p;", ".reg .pred p; .reg .u32 mine$1$;", 1))
	require.Contains(t, text, ".global .u32 mine$1$_ = 2;")

	const ranged = ".global .u32 r3;\n.entry %s() { .reg .u32 r<5>; mov.u32 r3, 1; }"
	_, _, err := try(".visible .global .u32 r3;", fmt.Sprintf(ranged, "k"))
	require.ErrorContains(t, err, "'r3' in 'in1' is both a register and a symbol that another source has")
}

func TestSharedMemoryOfALaunch(t *testing.T) {
	const unit = ".extern .shared .align %d .b8 mem[];\n.entry k%d() { .reg .u32 %%r; ld.shared.u32 %%r, [mem]; }"
	text := linked(t, fmt.Sprintf(unit, 4, 1), fmt.Sprintf(unit, 16, 2))
	require.Equal(t, 1, strings.Count(text, ".extern .shared .align 16 .b8 mem[];"), text)
}

func TestHeader(t *testing.T) {
	l := New()
	for _, h := range []string{".version 6.5\n.target sm_75, debug\n", ".version 8.0\n.target sm_70\n", ".version 7.8\n.target sm_90\n", ".version 7.8\n.target sm_90a\n", ".version 7.8\n.target sm_90, texmode_unified\n"} {
		require.NoError(t, l.Add("unit", []byte(h+".address_size 64\n")))
	}
	text, err := l.Complete()
	require.NoError(t, err)
	require.Equal(t, ".version 8.0\n.target sm_90a\n.address_size 64\n", string(text))
}

func TestAliases(t *testing.T) {
	const unit = ".weak .func f;\n.weak .func g { ret; }\n.alias f, g;\n.entry k%d() { call f; ret; }"
	for _, units := range [][]string{
		{fmt.Sprintf(unit, 1), fmt.Sprintf(unit, 2)},
		{fmt.Sprintf(unit, 1), ".visible .func g { ret; }"},
		{".extern .func f;\n.entry k() { call f; ret; }", fmt.Sprintf(unit, 2)},
	} {
		require.Equal(t, 1, strings.Count(linked(t, units...), ".alias f, g;"))
	}
}

// Instructions that gpu/ptx does not know go through as they are.
func TestUnknownInstructions(t *testing.T) {
	const unit = ".global .u32 x;\n.visible .func f%d .unheard 3\n{ frob .b32 {x, %%r1}, [x+4]; ret; }"
	text, _, err := try(fmt.Sprintf(unit, 1), fmt.Sprintf(unit, 2))
	require.NoError(t, err)
	require.Contains(t, text, "frob .b32 {x$1$, %r1}, [x$1$+4];")
	require.Equal(t, 2, strings.Count(text, ".unheard 3"))
}

// Compilers' modules come through with nothing changed but debug information.
func TestModulesOfCompilers(t *testing.T) {
	files, err := filepath.Glob("../../../gpu/ptx/testdata/clang/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		whole, err := ptx.Load(file, source)
		require.NoError(t, err)
		l := New()
		require.NoError(t, l.Add("module", source))
		require.NoError(t, l.Add("empty", []byte(".version 6.0\n.target sm_30\n.address_size 64\n")))
		text, err := l.Complete()
		require.NoError(t, err)
		again, err := ptx.Load(file, text)
		require.NoError(t, err)
		require.Equal(t, plain(t, whole), plain(t, again), file)
	}
}

// plain prints a module without debug information.
func plain(t *testing.T, m *ptx.Module) string {
	m.Directives = slices.DeleteFunc(m.Directives, func(d ptx.Directive) bool {
		if f, ok := d.(*ptx.Func); ok {
			f.Body = slices.DeleteFunc(f.Body, func(s ptx.Stmt) bool { _, loc := s.(*ptx.Loc); return loc })
			return false
		}
		_, file := d.(*ptx.File)
		_, section := d.(*ptx.Section)
		return file || section
	})
	m.TargetOpts = nil
	var b strings.Builder
	require.NoError(t, ptx.Print(&b, m))
	return b.String()
}

// FuzzLink links anything. What comes out is a module whose directives can be read again, with
// the same result when it is linked once more.
func FuzzLink(f *testing.F) {
	const cut = "\x01"
	f.Add(head + callsFoo + cut + head + ".visible .func foo { ret; }")
	f.Add(head + ".global .u32 x = 1;\n.entry k() { @!p bra x; x: .loc 1 2 3\n ld.u32 {%r1, x}, [x+4]; }" + cut + head + ".global .u32 x[] = {1, x};\n.weak .func f(.reg .u32 x) { .reg .u32 r<3>; }")
	f.Add(head + ".common .global .u32 x[2];" + cut + head + ".common .global .u32 x[3] = {1};" + cut + head + ".extern .global .u32 x;")
	f.Add(head + ".common .func f { ret; }" + cut + head + ".common .func f { ret; }")
	f.Add(head + ".extern .func (.param .b32 r) cudaGetLastError;\n.entry k() { .param .b32 r; call (r), cudaGetLastError; }")
	f.Add(head + ".weak .func f;\n.weak .func g { ret; }\n.alias f, g;" + cut + head + ".extern .shared .b8 m[];\n.pragma \"x\";")
	f.Fuzz(func(t *testing.T, all string) {
		l := New()
		l.UseRuntime()
		for i, u := range strings.SplitN(all, cut, 4) {
			if err := l.Add(fmt.Sprintf("in%d", i), []byte(u)); err != nil {
				var e *Error
				require.ErrorAs(t, err, &e)
				return
			}
		}
		text, err := l.Complete()
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			return
		}
		again := New()
		require.NoError(t, again.Add("again", text), "%s", text)
		_, err = again.Complete()
		require.NoError(t, err)
	})
}
