package ptx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// effectsOf finds the effects of the first kernel of a source.
func effectsOf(t *testing.T, source string) *Effects {
	t.Helper()
	m, err := Load("x.ptx", []byte(source))
	require.NoError(t, err, source)
	for _, d := range m.Directives {
		if f, ok := d.(*Func); ok && f.Entry {
			return m.Effects(f)
		}
	}
	t.Fatal("no kernel")
	return nil
}

// restart asks for a restart of a launch in which each parameter of 8 bytes points to an object of its
// own, but for those of a name that begins with n, and each variable is one.
func (e *Effects) restart(f *Func) string {
	save, err := e.Restart(func(p Pointer) (uint64, bool) {
		if p.Var != nil {
			return 100, true
		}
		return uint64(p.Param), !strings.HasPrefix(f.Params[p.Param].Name, "n")
	})
	if err != nil {
		return strings.TrimPrefix(err.Error(), ErrNoRestart.Error()+": ")
	}
	return fmt.Sprint(save)
}

// TestEffects gives samples with what is known of them: the objects to be saved before the launch, by
// the number of the parameter (100: a variable), or why it cannot begin again.
func TestEffects(t *testing.T) {
	const declarations = `.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .func (.param .b64 r) malloc (.param .b64 a);
.extern .func unheard_of ();
.global .align 8 .b8 counter[64];
.global .align 8 .u64 there;
.const .align 4 .u32 table[4];
.func (.reg .f32 y) twice (.reg .f32 x) { add.f32 y, x, x; ret; }
.func poke (.reg .b64 at) { st.global.u32 [at], 1; ret; }
.func again (.reg .b64 at) { call again, (at); ret; }
`
	for name, test := range map[string]struct{ body, want string }{
		"copies":                {"ld.global.u32 %r1, [%a]; st.global.u32 [%b], %r1;", "[]"},
		"in place":              {"ld.global.u32 %r1, [%a]; st.global.u32 [%a+4], %r1;", "[0]"},
		"an index":              {"add.s64 %c, %a, %n; ld.global.u32 %r1, [%c]; add.s64 %d, %b, %n; st.global.u32 [%d], %r1;", "[]"},
		"one register for both": {"mov.u64 %c, %a; ld.global.u32 %r1, [%c]; mov.u64 %c, %b; st.global.u32 [%c], %r1;", "[0 1]"},
		"an index of 32 bits":   {"ld.global.s32 %r1, [%a]; mul.wide.s32 %d, %r1, 4; add.s64 %c, %b, %d; st.global.u32 [%c], %r1;", "[]"},
		"one or the other":      {"selp.b64 %c, %a, %b, %p; ld.global.u32 %r1, [%c]; st.global.u32 [%b], %r1;", "[1]"},
		"a loop":                {"mov.u64 %c, %a;\nL: ld.global.u32 %r1, [%c]; add.s64 %c, %c, 4; @%p bra L; st.global.u32 [%b], %r1;", "[]"},
		"turned in a loop":      {"mov.u64 %c, %a; mov.u64 %d, %b;\nL: ld.global.u32 %r1, [%c]; st.global.u32 [%d], %r1; mov.u64 %e, %c; mov.u64 %c, %d; mov.u64 %d, %e; @%p bra L;", "[0 1]"},
		"generic":               {"cvta.to.global.u64 %c, %a; cvta.global.u64 %d, %c; ld.u32 %r1, [%d]; st.u32 [%b], %r1;", "[]"},
		"a pointer from memory": {"ld.global.u64 %c, [%a]; ld.global.u32 %r1, [%c]; st.global.u32 [%b], %r1;", "[1]"},
		"writes through it":     {"ld.global.u64 %c, [%a]; st.global.u32 [%c], 1;", "it writes where its text does not tell"},
		"an address of nothing": {"mov.u64 %c, 4096; st.global.u32 [%c], 1;", "it writes where its text does not tell"},
		"of two halves":         {"mov.b64 {%r1, %r2}, %a; mov.b64 %c, {%r1, %r2}; st.global.u32 [%c], 1;", "it writes where its text does not tell"},
		"by way of a float":     {"mov.b64 %f, %a; mov.b64 %c, %f; st.global.u32 [%c], 1;", "it writes where its text does not tell"},
		"spilled":               {".local .b64 spill; st.local.u64 [spill], %a; ld.local.u64 %c, [spill]; st.global.u32 [%c], 1;", "it writes where its text does not tell"},
		"red":                   {"red.global.add.u32 [%b], 1;", "[1]"},
		"atom, unused":          {"atom.global.add.u32 %r1, [%b], 1; st.global.u32 [%a], 1;", "[1]"},
		"atom, used":            {"atom.global.add.u32 %r1, [%b], 1; st.global.u32 [%a], %r1;", "[0 1]"},
		"atom in shared":        {".shared .u32 s; atom.shared.add.u32 %r1, [s], 1; st.global.u32 [%a], %r1;", "[0]"},
		"shared":                {".shared .u32 s; mov.u64 %c, s; cvta.shared.u64 %c, %c; st.u32 [%c], 1; ld.u32 %r1, [%c]; st.global.u32 [%a], %r1;", "[]"},
		"volatile in shared":    {".shared .u32 s; ld.volatile.shared.u32 %r1, [s]; st.global.u32 [%a], %r1;", "[]"},
		"volatile":              {"ld.volatile.global.u32 %r1, [%a];", "it has volatile or system-wide accesses to global memory, with which it may talk to the host"},
		"release to the system": {"st.release.sys.global.u32 [%a], 1;", "it has volatile or system-wide accesses to global memory, with which it may talk to the host"},
		"a variable":            {"ld.global.u32 %r1, [counter]; st.global.u32 [counter+4], %r1;", "[100]"},
		"a variable's address":  {"mov.u64 %c, counter; add.s64 %c, %c, %n; st.global.u32 [%c], 1;", "[]"},
		"a constant":            {"ld.const.u32 %r1, [table]; st.global.u32 [%a], %r1;", "[]"},
		"a clock":               {"mov.u64 %c, %clock64; st.global.u64 [%a], %c;", "[0]"},
		"the processor":         {"mov.u32 %r1, %smid; st.global.u32 [%a], %r1;", "[0]"},
		"a barrier of the grid": {"mov.u32 %r1, %envreg2;", "it waits for all blocks of its grid"},
		"prints":                {"{ .param .b64 x; .param .b64 y; .param .b32 z; call (z), vprintf, (x, y); }", "it prints"},
		"allocates":             {"{ .param .b64 x; .param .b64 z; call (z), malloc, (x); }", "it allocates memory"},
		"a foreign function":    {"call unheard_of;", "it calls a function that its text does not tell"},
		"a function":            {"ld.global.f32 %g, [%a]; call (%g), twice, (%g); st.global.f32 [%b], %g;", "[]"},
		"a function that pokes": {"call poke, (%a);", "it writes where its text does not tell"},
		"recursion":             {"call again, (%a);", "it calls a function that its text does not tell"},
		"an indirect call":      {"mov.u64 %c, poke; { x: .callprototype _ (.reg .b64 _); call %c, (%a), x; }", "it calls a function that its text does not tell"},
		"a matrix":              {"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%a]; st.global.u32 [%b], %r1;", "[]"},
		"asynchronously":        {".shared .align 16 .b8 s[16]; cp.async.ca.shared.global [s], [%a], 16; st.global.u32 [%b], 1;", "[]"},
		"in bulk":               {".shared .align 16 .b8 s[16]; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%b], [s], 16;", "[1]"},
		"discards":              {"ld.global.u32 %r1, [%a]; discard.global.L2 [%a], 128;", "[0]"},
		"unknown to us":         {"multimem.red.relaxed.sys.global.add.u32 [%a], 1;", "it writes where its text does not tell"},
	} {
		t.Run(name, func(t *testing.T) {
			source := ".version 8.5\n.target sm_90a\n.address_size 64\n" + declarations + `.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 n) {
	.reg .u64 %a, %b, %c, %d, %e, %n; .reg .b32 %r<9>; .reg .f64 %f; .reg .f32 %g; .reg .pred %p;
	ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %n, [n];
	` + test.body + "\n\tret;\n}\n"
			m, err := Load("x.ptx", []byte(source))
			require.NoError(t, err)
			for _, d := range m.Directives {
				if f, ok := d.(*Func); ok && f.Entry {
					require.Equal(t, test.want, m.Effects(f).restart(f))
				}
			}
		})
	}
}

// Pointers in a structure that is a parameter are told apart, also where a vector loads them.
func TestEffectsOfStructures(t *testing.T) {
	e := effectsOf(t, `.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .align 8 .b8 s[32]) {
	.reg .u64 %a<4>; .reg .u32 %r;
	ld.param.v2.u64 {%a0, %a1}, [s+8]; ld.param.u64 %a2, [s+24];
	ld.global.u32 %r, [%a0]; st.global.u32 [%a1], %r; red.global.add.u32 [%a2], %r;
	ret;
}
`)
	require.True(t, e.of(Pointer{Offset: 8}).Read)
	require.False(t, e.of(Pointer{Offset: 8}).Written)
	require.True(t, e.of(Pointer{Offset: 16}).Written)
	require.True(t, e.of(Pointer{Offset: 24}).Atomic)
	save, err := e.Restart(func(p Pointer) (uint64, bool) { return p.Offset, true })
	require.NoError(t, err)
	require.Equal(t, []uint64{24}, save)
	save, err = e.Restart(func(p Pointer) (uint64, bool) { return 7, true }) // all in one object
	require.NoError(t, err)
	require.Equal(t, []uint64{7}, save)
	_, err = e.Restart(func(p Pointer) (uint64, bool) { return 0, p.Offset != 16 })
	require.ErrorIs(t, err, ErrNoRestart)
}

// A body whose addresses do not settle, or that has too many, has unknown ones.
func TestEffectsAreBounded(t *testing.T) {
	var b strings.Builder
	const n = 3 * effectRounds
	fmt.Fprintf(&b, ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a) {\n.reg .u64 %%c<%d>;\nbra %s;\n", n+1, "E")
	for i := range n { // against the order of the text
		fmt.Fprintf(&b, "mov.u64 %%c%d, %%c%d;\n", i, i+1)
	}
	fmt.Fprintf(&b, "E: ld.param.u64 %%c%d, [a];\nst.global.u32 [%%c0], 1;\nret;\n}\n", n)
	_, err := effectsOf(t, b.String()).Restart(func(Pointer) (uint64, bool) { return 1, true })
	require.ErrorIs(t, err, ErrNoRestart)

	b.Reset()
	fmt.Fprintf(&b, ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k(.param .align 8 .b8 s[%d]) {\n.reg .u64 %%c;\n", 8*(maxPointers+10))
	for i := range maxPointers + 10 {
		fmt.Fprintf(&b, "ld.param.u64 %%c, [s+%d];\n", 8*i)
	}
	b.WriteString("st.global.u32 [%c], 1;\nret;\n}\n")
	e := effectsOf(t, b.String())
	require.Len(t, e.Pointers, maxPointers)
	_, err = e.Restart(func(Pointer) (uint64, bool) { return 1, true })
	require.ErrorIs(t, err, ErrNoRestart)
}

// The suite's kernels: what each does to the objects of its parameters. None does anything else.
func TestEffectsOfTheSuite(t *testing.T) {
	files, err := filepath.Glob("../../internal/suite/kernels/*.ptx")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	got := map[string]string{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		m, err := Load(file, source)
		require.NoError(t, err)
		for _, d := range m.Directives {
			f, ok := d.(*Func)
			if !ok || !f.Entry {
				continue
			}
			e := m.Effects(f)
			require.Empty(t, e.outside(), f.Name)
			for _, a := range e.Accesses {
				require.NotEmpty(t, a.Of, f.Name)
			}
			var words []string
			for i := range f.Params {
				a := e.Param(i)
				words = append(words, strings.Repeat("r", bit(a.Read))+strings.Repeat("w", bit(a.Written))+strings.Repeat("a", bit(a.Atomic)))
			}
			got[f.Name] = strings.TrimRight(strings.Join(words, ","), ",")
		}
	}
	for kernel, want := range map[string]string{
		"madd": "r,r,w", "fmmul": "r,r,w", "hmmul": "r,r,w", "attention": "r,r,r,w", "histogram": "r,rwa", "lud_inner": "rw", "hs_step": "r,r,w",
		"bfs_step": "r,r,rw,w", "bp_hidden": "r,,r,rw,rw,w", "bp_adjust": "r,rw,rw,r", "nn": "r,w", "spmv": "r,r,r,r,w", "scan_add": "rw,r",
		"sort_scatter": "r,w,r", "srad_scale": "r,,,w", "sha256": "r,w,r,r", "bitonic_tile": "rw", "blackscholes": "r,r,r,w,w", "loop": "rw",
	} {
		require.Equal(t, want, got[kernel], kernel)
	}
	require.Greater(t, len(got), 40)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
