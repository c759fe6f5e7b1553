package ptx

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// requireDiagnostics demands a BuildError with places in it.
func requireDiagnostics(t testing.TB, err error) []gpu.Diagnostic {
	t.Helper()
	var build *gpu.BuildError
	require.True(t, errors.As(err, &build), "%v", err)
	require.NotEmpty(t, build.Diagnostics)
	require.LessOrEqual(t, len(build.Diagnostics), MaxDiagnostics)
	for _, d := range build.Diagnostics {
		require.NotEmpty(t, d.Message)
		require.Positive(t, d.Line)
		require.Positive(t, d.Col)
	}
	return build.Diagnostics
}

const head = ".version 7.0\n.target sm_70\n.address_size 64\n"

// kernel puts statements into a kernel; they begin in line 6.
func kernel(body string) string {
	return head + ".visible .entry k(.param .u64 a)\n{ .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<3>; .reg .b64 %rd<9>;\n" + body + "\n}\n"
}

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string
	}{
		{name: "empty", src: "", want: []string{"1:1: error: .version directive missing; the module must begin with one"}},
		{name: "no target", src: ".version 6.0", want: []string{"1:1: error: .target directive missing; it names the architecture, such as sm_70"}},
		{name: "version first", src: ".target sm_70", want: []string{"1:1: error: .version must be the first directive, not .target"}},
		{name: "version", src: ".version x", want: []string{"1:1: error: .version needs a number such as 6.3"}},
		{name: "not PTX", src: "int main() {}", want: []string{`1:1: error: syntax error near "int": directive expected`}},
		{name: "unknown directive", src: head + ".nosuch 3;", want: []string{"4:1: error: unknown or unsupported directive .nosuch"}},
		{name: "comment", src: head + "/* open", want: []string{"4:1: error: comment not closed"}},
		{name: "body not closed", src: head + ".entry k() { ret;", want: []string{"4:19: error: function k is not closed: '}' expected"}},
		{name: "unknown instruction", src: kernel("frob.u32 %r1, %r2;"), want: []string{"6:1: error: unknown instruction 'frob'"}},
		{name: "modifier", src: kernel("add.rn.u32 %r1, %r1, %r2;"), want: []string{"6:1: error: illegal modifier '.u32' for instruction 'add.rn.u32'"}},
		{name: "modifier missing", src: kernel("fma.f32 %f1, %f1, %f2, %f3;"), want: []string{"6:1: error: modifier missing in instruction 'fma.f32', expected fma.(rn/rz/rm/rp){.ftz}{.sat}.f32 d, a, b, c"}},
		{name: "rounding", src: kernel("cvt.s32.f32 %r1, %f1;"), want: []string{"6:1: error: illegal modifiers of instruction 'cvt.s32.f32': integer rounding modifier (.rni, .rzi, .rmi, .rpi) required from floating point to integer"}},
		{name: "several", src: kernel("add.u32 %r1, %r9, %r2;\nbra X;\n@%r1 ret;\nmov.u32 %f1, 3;\nld.global.u32 %r1, [a];"), want: []string{
			"6:14: error: unknown symbol '%r9'; registers are declared with .reg",
			"7:5: error: unknown label 'X'",
			"8:1: error: '%r1' is not a predicate",
			"9:9: error: arguments mismatch for instruction 'mov.u32': operand 1 '%f1' is .f32, expected .u32",
			"10:20: error: arguments mismatch for instruction 'ld.global.u32': operand 2 'a' is in .param, not in .global",
		}},
		{name: "several in syntax", src: kernel("add.u32 %r1 %r2;\nret;\nmov.u32 %r1, ;\nfrob;\nret"), want: []string{
			`6:13: error: syntax error near "%r2": ';' expected`,
			`8:14: error: syntax error near ";": operand expected`,
			"9:1: error: unknown instruction 'frob'",
			`12:1: error: syntax error near "}": ';' expected`,
		}},
		{name: "operand count", src: kernel("add.u32 %r1, %r2;"), want: []string{"6:1: error: arguments mismatch for instruction 'add.u32': 2 operands, expected add.(u16/u32/u64/s16/s32/s64) d, a, b"}},
		{name: "raw operands", src: kernel("mma.sync {%r1, {%r2};\nwgmma.fence };"), want: []string{
			`6:21: error: syntax error near ";": operand expected`,
			`7:13: error: syntax error near "}": operand expected`,
			`8:1: error: syntax error near "}": directive expected`,
		}},
		{name: "call", src: head + ".func (.param .b32 r) f(.param .b32 x) { ret; }\n.entry k() { .reg .f32 %f<2>; call f, (%f1); call (%f1), f, (%f1);\ncall g; }", want: []string{
			"5:31: error: call of 'f' has 0 results and 1 arguments, expected 1 and 1",
			"6:6: error: unknown function 'g'",
		}},
		{name: "address of a function", src: kernel("call %rd1, (%r1);"), want: []string{"6:6: error: indirect call needs a .callprototype or .calltargets"}},
		{name: "initialiser", src: head + ".global .u32 x[2] = {1, 2, 3};\n.global .u64 y = z;\n.const .f32 f = 1;", want: []string{
			"4:14: error: initialiser of 'x': 3 values for 2 elements",
			"5:18: error: unknown symbol 'z'",
			"6:13: error: initialiser of 'f': integer for type .f32",
		}},
		{name: "size", src: head + ".global .u32 x[1000000000][1000000000][1000000000];", want: []string{"4:14: error: 'x' is larger than 1099511627776 bytes"}},
		{name: "number", src: kernel("mov.u64 %rd1, 99999999999999999999;\nmov.f32 %f1, 0f123;\nmov.u32 %r1, 1/0;"), want: []string{
			`6:15: error: "99999999999999999999" is not a number of at most 64 bits`,
			`7:14: error: "0f123" needs 8 hexadecimal digits`,
			"8:15: error: division by zero in constant expression",
		}},
		{name: "zero byte", src: kernel("ret\x00;"), want: []string{`6:4: error: syntax error near "\x00": ';' expected`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load("f", []byte(c.src))
			var got []string
			for _, d := range requireDiagnostics(t, err) {
				require.Equal(t, "f", d.File)
				got = append(got, strings.TrimPrefix(d.String(), "f:"))
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestComplaintsAreCapped(t *testing.T) {
	for _, statement := range []string{"frob;\n", "bra X;\n"} {
		_, err := Load("f", []byte(kernel(strings.Repeat(statement, 1000))))
		require.Len(t, requireDiagnostics(t, err), MaxDiagnostics)
	}
	_, err := Load("f", []byte(head+strings.Repeat(".nosuch;\n", 1000)))
	require.Len(t, requireDiagnostics(t, err), MaxDiagnostics)
}

func TestLimits(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{name: "source", src: head + strings.Repeat(" ", MaxSource), want: "is longer than"},
		{name: "statements", src: kernel(strings.Repeat("ret;", MaxStatements+1)), want: "statements"},
		{name: "variables", src: kernel(".reg .b32 x" + strings.Repeat(",x", MaxVariables) + ";"), want: "variables"},
		{name: "directives", src: head + strings.Repeat(".func f;", MaxDirectives+1), want: "directives"},
		{name: "initialisers", src: head + ".global .b8 x[] = {0" + strings.Repeat(",0", MaxInitialiser) + "};", want: "initialisers"},
		{name: "braces", src: kernel(strings.Repeat("{", 1000) + strings.Repeat("}", 1000)), want: "nested too deeply"},
		{name: "initialiser nesting", src: head + ".global .b8 x = " + strings.Repeat("{", 1000), want: "nested too deeply"},
		{name: "parentheses", src: kernel("mov.u32 %r1, " + strings.Repeat("(", 1000)), want: "nested too deeply"},
		{name: "signs", src: kernel("mov.u32 %r1, " + strings.Repeat("- ", 1000) + "1;"), want: "nested too deeply"},
		{name: "questions", src: kernel("mov.u32 %r1, " + strings.Repeat("1?", 1000) + "1;"), want: "nested too deeply"},
		{name: "name", src: kernel(strings.Repeat("x", maxName+1) + ":"), want: "longer than"},
		{name: "dimensions", src: head + ".global .b8 x" + strings.Repeat("[1]", 9) + ";", want: "dimensions"},
		{name: "parameters", src: head + ".entry k(.param .b8 x[40000]) { ret; }", want: "parameters"},
		{name: "vector", src: kernel("mov.b64 %rd1, {" + strings.Repeat("%r1,", 128) + "%r1};"), want: "more than 128 elements"},
		{name: "alignment", src: head + ".global .align 3 .b8 x;", want: "power of two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load("f", []byte(c.src))
			requireDiagnostics(t, err)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A range of registers costs what is used of it.
func TestLargeRegisterRange(t *testing.T) {
	src := []byte(kernel(".reg .b32 %big<2000000000>;\nmov.u32 %big1999999999, 1;\nadd.u32 %r1, %big0, %big1999999999;"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := Load("f", src)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
	f := m.Directives[0].(*Func)
	require.Equal(t, []Reg{{"%big1999999999", B32}, {"%r1", B32}, {"%big0", B32}}, f.Regs)
}

// Verify refuses what Parse cannot produce, but a program can.
func TestVerifyProgrammaticModules(t *testing.T) {
	reg := func(name string) Operand { return Operand{Kind: OperandName, Name: name} }
	for _, c := range []struct {
		name string
		stmt Stmt
		want string
	}{
		{name: "no such form", stmt: &Instr{Op: OpAdd, Mods: Mods{Types: [4]Type{F32}, Mode: ModeWide}}, want: "does not exist with these modifiers"},
		{name: "no op", stmt: &Instr{}, want: "does not exist"},
		{name: "op out of range", stmt: &Instr{Op: 255}, want: "does not exist"},
		{name: "no operands", stmt: &Instr{Op: OpAdd, Mods: Mods{Types: [4]Type{F32}}}, want: "0 operands"},
		{name: "empty call", stmt: &Instr{Op: OpCall}, want: "call without operands"},
		{name: "open brace", stmt: &Scope{Open: true}, want: "do not match"},
		{name: "closing brace", stmt: &Scope{}, want: "do not match"},
		{name: "pair", stmt: &Instr{Op: OpSetp, Mods: Mods{Types: [4]Type{U32}, Cmp: CmpEQ}, Args: []Operand{{Kind: OperandPair}, reg("x"), reg("x")}}, want: "not a pair"},
		{name: "list", stmt: &Targets{Name: "l"}, want: "is empty"},
		{name: "vector", stmt: &Var{Name: "v", Space: SpaceReg, Type: B32, Vec: 3}, want: "vector of 3"},
		{name: "type", stmt: &Var{Name: "v", Space: SpaceReg, Type: 200}, want: "no type or state space that exists"},
		{name: "untyped", stmt: &Var{Name: "v", Space: SpaceReg}, want: "cannot be declared"},
		{name: "special register", stmt: &Instr{Op: OpMov, Mods: Mods{Types: [4]Type{U32}}, Args: []Operand{reg("x"), {Kind: OperandSpecial, Special: 255}}}, want: "special register 255"},
		{name: "cut-off enum", stmt: &Instr{Op: OpAdd, Mods: Mods{Types: [4]Type{99}}}, want: "does not exist"},
		{name: "array", stmt: &Var{Name: "v", Space: SpaceLocal, Type: B32, Array: true}, want: "dimensions"},
		{name: "dimension", stmt: &Var{Name: "v", Space: SpaceLocal, Type: B32, Array: true, Dims: []int64{-1}}, want: "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Module{Version: [2]int{7, 0}, Target: "sm_70", AddressSize: 64, Directives: []Directive{
				&Func{Name: "k", Entry: true, Defined: true, Body: []Stmt{&Var{Name: "x", Space: SpaceReg, Type: U32}, c.stmt}}}}
			require.ErrorContains(t, Verify(m), c.want)
		})
	}
}

func TestPrintFailsOnUnknownForm(t *testing.T) {
	m := &Module{Version: [2]int{7, 0}, Target: "sm_70", AddressSize: 64, Directives: []Directive{
		&Func{Name: "k", Entry: true, Defined: true, Body: []Stmt{&Instr{Op: OpAdd}}}}}
	require.ErrorContains(t, Print(failingWriter{}, m), "no such instruction")
	m.Directives = nil
	require.ErrorIs(t, Print(failingWriter{}, m), errFull)
}

var errFull = errors.New("disk full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("write: %w", errFull) }
