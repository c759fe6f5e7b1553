package ptx

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// load parses and verifies a kernel with the given statements and returns it.
func load(t *testing.T, body string) *Func {
	t.Helper()
	m, err := Load("f", []byte(kernel(body)))
	require.NoError(t, err)
	return m.Directives[0].(*Func)
}

// instrs returns the instructions of a function.
func instrs(f *Func) (list []*Instr) {
	for _, s := range f.Body {
		if i, ok := s.(*Instr); ok {
			list = append(list, i)
		}
	}
	return list
}

func TestRegistersAreDense(t *testing.T) {
	f := load(t, `
		.reg .v2 .f32 v; .reg .u16 s;
		@!%p2 mov.f32 v.y, %f3;
		mov.f32 %f4, v.x;
		{ .reg .b16 %r<3>; cvt.u16.u32 %r2, %r3; }
		mov.u32 %r2, %r3;
		st.global.v2.f32 [%rd1+8], v;`)
	require.Equal(t, []Reg{{"v.x", F32}, {"v.y", F32}, {"s", U16}, {"%p2", Pred}, {"%f3", F32}, {"%f4", F32},
		{"%r2", B16}, {"%r3", B32}, {"%r2", B32}, {"%rd1", B64}}, f.Regs)
	list := instrs(f)
	require.Equal(t, Guard{Name: "%p2", Neg: true, Reg: 3}, list[0].Guard)
	require.EqualValues(t, 1, list[0].Args[0].Reg)
	require.EqualValues(t, NoReg, list[1].Guard.Reg)
	require.EqualValues(t, 6, list[2].Args[0].Reg)
	require.EqualValues(t, 8, list[3].Args[0].Reg)
	store := list[4]
	require.Equal(t, Operand{Kind: OperandAddr, Name: "%rd1", Value: 8, Reg: 9, Target: -1, Pos: store.Args[0].Pos}, store.Args[0])
	require.Equal(t, OperandVector, store.Args[1].Kind)
	require.EqualValues(t, 0, store.Args[1].Elems[0].Reg)
	require.EqualValues(t, 1, store.Args[1].Elems[1].Reg)
}

func TestLabelsBecomeIndexes(t *testing.T) {
	f := load(t, `
		list: .branchtargets X, END;
		X: bra END;
		{ bra X; X: bra X; }
		brx.idx %r1, list;
		END: ret;`)
	at := func(n int32) string { return f.Body[n].(*Label).Name }
	list := instrs(f)
	require.Equal(t, "END", at(list[0].Args[0].Target))
	inner := list[1].Args[0].Target
	require.Equal(t, "X", at(inner))
	require.Equal(t, inner, list[2].Args[0].Target)
	targets := list[3].Args[1].Ref.(*Targets)
	require.Equal(t, "X", at(targets.Labels[0].Target))
	require.NotEqual(t, inner, targets.Labels[0].Target)
	require.Equal(t, "END", at(targets.Labels[1].Target))
}

func TestSymbolsLeadToDefinitions(t *testing.T) {
	src, err := os.ReadFile("testdata/hand/directives.ptx")
	require.NoError(t, err)
	m, err := Load("directives.ptx", src)
	require.NoError(t, err)
	funcs := map[string][]*Func{}
	vars := map[string]*Var{}
	for _, d := range m.Directives {
		switch d := d.(type) {
		case *Func:
			funcs[d.Name] = append(funcs[d.Name], d)
		case *Var:
			vars[d.Name] = d
		}
	}
	require.Same(t, funcs["twice"][1], funcs["twice"][0].Def)
	require.Same(t, funcs["also_twice_target"][0], funcs["also_twice"][0].Def)
	require.Nil(t, funcs["vprintf"][0].Def)
	pointers := vars["pointers"].Init.Ext.List
	require.Same(t, vars["counter"], pointers[1].Ext.Ref)
	require.True(t, pointers[1].Ext.Generic)
	require.EqualValues(t, 4, pointers[1].Bits)
	require.Same(t, funcs["twice"][1], pointers[3].Ext.Ref)
	require.EqualValues(t, 0xff00, vars["split"].Init.Ext.List[1].Ext.Mask)
	require.Equal(t, -7/2, int(int64(vars["folded"].Init.Bits)))
	require.EqualValues(t, 0x7f, vars["other"].Init.Bits)

	k := funcs["kernel"][0]
	require.Equal(t, [3]uint32{128, 2, 1}, k.MaxNTid)
	require.EqualValues(t, 3, k.MinNCTA)
	require.EqualValues(t, 64, k.MaxNReg)
	require.Equal(t, &Ptr{Space: SpaceGlobal, Align: 16}, k.Params[0].Ptr)
	require.EqualValues(t, 24, k.Params[1].Size())
	require.EqualValues(t, 8, k.Params[1].Alignment())
	require.EqualValues(t, 8, k.Params[2].Size())
	var names []string
	for _, l := range k.Locals {
		names = append(names, l.Name)
	}
	require.Equal(t, []string{"depot", "tile", "arg", "res"}, names)

	var calls []*Call
	for _, i := range instrs(k) {
		if i.Call != nil {
			calls = append(calls, i.Call)
		}
	}
	require.Same(t, funcs["twice"][1], calls[0].Callee.Ref)
	require.Same(t, k.Locals[2], calls[0].Args[0].Ref)
	require.Same(t, k.Locals[3], calls[0].Results[0].Ref)
	require.Equal(t, OperandReg, calls[3].Callee.Kind)
	require.IsType(t, &Prototype{}, calls[3].Via.Ref)
	require.Same(t, funcs["twice"][1], calls[4].Via.Ref.(*Targets).Labels[0].Func)
	require.Same(t, funcs["also_twice_target"][0], calls[6].Callee.Ref)
}

func TestAddressSizeOfOldModules(t *testing.T) {
	for src, want := range map[string]int{
		".version 1.4\n.target sm_10\n":                   64,
		".version 2.2\n.target sm_20\n":                   64,
		".version 2.3\n.target sm_20\n":                   64,
		".version 2.3\n.target sm_20\n.address_size 64\n": 64,
		".version 1.4\n.target sm_10\n.address_size 32\n": 32,
	} {
		m, err := Parse("old.ptx", []byte(src))
		require.NoError(t, err)
		require.Equal(t, want, m.AddressSize, src)
		var out strings.Builder
		require.NoError(t, Print(&out, m))
		again, err := Parse("printed.ptx", []byte(out.String()))
		require.NoError(t, err)
		require.Equal(t, want, again.AddressSize, src)
		require.Equal(t, m.Unsized, again.Unsized, src)
	}
}

// A module that says the size of its addresses has none of another size.
func TestNarrowAddresses(t *testing.T) {
	const body = ".target sm_20\n%s.entry k() { .reg .u32 %%r<2>; ld.global.u32 %%r1, [%%r0+4]; cvta.to.global.u32 %%r1, %%r0; }"
	for head, ok := range map[string]bool{".version 1.4\n": true, ".version 2.3\n": true, ".version 8.0\n": true} {
		_, err := Load("k.ptx", fmt.Appendf(nil, head+body, ""))
		require.Equal(t, ok, err == nil, "%s: %v", head, err)
		_, err = Load("k.ptx", fmt.Appendf(nil, head+body, ".address_size 64\n"))
		require.ErrorContains(t, err, "has 32 bits, an address here 64")
		require.ErrorContains(t, err, "does not fit the address size of 64")
	}
}

// An H100's driver refuses the same modules.
func TestLargeParameters(t *testing.T) {
	for _, c := range []struct {
		version, target string
		most            int
	}{
		{version: "6.0", target: "sm_60", most: 4352}, {version: "8.0", target: "sm_70", most: 4352},
		{version: "8.0", target: "sm_90", most: 4352}, {version: "8.1", target: "sm_60", most: 4352},
		{version: "8.1", target: "sm_70", most: 32764}, {version: "8.4", target: "sm_90a", most: 32764},
		{version: "8.6", target: "sm_100a", most: 32764},
	} {
		kernel := func(n int) []byte {
			return fmt.Appendf(nil, ".version %s\n.target %s\n.address_size 64\n.entry k(.param .b8 a, .param .u64 p, .param .b8 big[%d]) { ret; }",
				c.version, c.target, n-16)
		}
		for _, n := range []int{4096, 4352, 4353, 12248, 12252, 32764, 32765, 32768} {
			_, err := Load("k.ptx", kernel(n))
			require.Equal(t, n <= c.most, err == nil, "%s, %s, %d bytes: %v", c.version, c.target, n, err)
		}
		_, err := Load("k.ptx", kernel(c.most+1))
		require.ErrorContains(t, err, fmt.Sprintf("parameters of 'k' take %d bytes, more than %d", c.most+1, c.most))
	}
}

// The next directive ends a prototype that has no ';' behind it.
func TestPrototypesOfOldCompilers(t *testing.T) {
	const head = ".version 7.8\n.target sm_70\n.address_size 64\n"
	for _, next := range []string{".visible .func f (.param .u32 a) { ret; }", ".entry k() { ret; }", ".file 1 \"a.cu\"", ".const .u32 x;", ".func g;"} {
		m, err := Load("k.ptx", []byte(head+".visible .func f (.param .u32 a) .noreturn\n"+next))
		require.NoError(t, err, next)
		require.Len(t, m.Directives, 2, next)
		require.False(t, m.Directives[0].(*Func).Defined)
		m, err = LoadDeclarations(nil, "k.ptx", []byte(head+".visible .func f (.param .u32 a)\n"+next))
		require.NoError(t, err, next)
		require.Len(t, m.Directives, 2, next)
	}
	_, err := Load("k.ptx", []byte(head+".func f .pragma2 \"x\";"))
	require.ErrorContains(t, err, "unknown directive .pragma2 of a function")
}

// Variables of a thread at module scope belong to the one function that uses them.
func TestPrivateVariables(t *testing.T) {
	const head = ".version 2.0\n.target sm_20\n.reg .u32 %g<9>, one;\n.local .align 8 .b8 stack[64];\n"
	const use = " { mov.u32 %g3, one; st.local.u32 [stack+4], %g3; ld.local.u32 %g4, [stack]; }\n"
	m, err := Load("k.ptx", []byte(head+".entry a()"+use+".entry b() { .reg .u32 one; mov.u32 one, 1; }"))
	require.NoError(t, err)
	a, b := m.Directives[3].(*Func), m.Directives[4].(*Func)
	require.Equal(t, []*Var{m.Directives[2].(*Var)}, a.Locals)
	require.Len(t, a.Regs, 3) // one, %g3, %g4
	require.Empty(t, b.Locals)

	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, ".reg .u32 x%d;\n", i)
	}
	for what, src := range map[string]string{
		"both use .reg or .local variables":   head + ".entry a()" + use + ".entry b() { .reg .u32 x; mov.u32 x, one; }",
		"is not allowed outside functions":    strings.Replace(head, "2.0", "3.0", 1),
		"cannot have an initialiser":          head + ".local .u32 x = 1;",
		"size of array 'x' is missing":        head + ".local .u32 x[];",
		"more than 256 variables of a thread": head + many.String(),
		"duplicate definition of 'one'":       head + ".reg .u64 one;",
		"registers are declared with .reg":    head + ".entry a() { mov.u32 %g9, 1; }",
	} {
		_, err := Load("k.ptx", []byte(src))
		require.ErrorContains(t, err, what)
	}
}

// Before PTX 3.2 a mad.f32 needed no rounding.
func TestRoundingOfOldModules(t *testing.T) {
	for _, c := range []struct {
		version, text, reads, fails string
	}{
		{version: "1.4", text: "mad.f32", reads: "mad.rn.f32", fails: ""},
		{version: "3.1", text: "mad.ftz.sat.f32", reads: "mad.rn.ftz.sat.f32", fails: ""},
		{version: "3.1", text: "mad.rz.f32", reads: "mad.rz.f32", fails: ""},
		{version: "3.2", text: "mad.f32", reads: "", fails: "modifier missing in instruction 'mad.f32'"},
		{version: "1.4", text: "fma.f32", reads: "", fails: "modifier missing in instruction 'fma.f32'"},
		{version: "1.4", text: "mad.xx.f32", reads: "", fails: "illegal modifier '.xx' for instruction 'mad.xx.f32'"},
	} {
		src := ".version " + c.version + "\n.target sm_50\n.entry k()\n{ .reg .f32 %f<4>;\n" + c.text + " %f0, %f1, %f2, %f3;\n}\n"
		m, err := Parse("old.ptx", []byte(src))
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails)
			continue
		}
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, Print(&out, m))
		require.Regexp(t, `\b`+c.reads+`\s`, out.String())
	}
}

func TestModifiers(t *testing.T) {
	for text, want := range map[string]Mods{
		"add.rn.ftz.sat.f32":                 {Types: [4]Type{F32}, Round: RN, Flags: FTZ | Sat},
		"cvt.rzi.ftz.sat.s8.f32":             {Types: [4]Type{S8, F32}, Round: RZI, Flags: FTZ | Sat},
		"setp.ltu.xor.ftz.f32":               {Types: [4]Type{F32}, Cmp: CmpLTU, Bool: BoolXor, Flags: FTZ},
		"set.hs.u32.u16":                     {Types: [4]Type{U32, U16}, Cmp: CmpHS},
		"ld.relaxed.gpu.global.L2::128B.u32": {Types: [4]Type{U32}, Order: OrderRelaxed, Scope: ScopeGPU, Space: SpaceGlobal, Prefetch: PrefetchL2x128},
		"ld.global.nc.L1::no_allocate.v4.f32": {Types: [4]Type{F32}, Space: SpaceGlobal, L1: EvictL1NoAllocate, Vec: 4,
			Flags: NC},
		"ld.volatile.shared::cta.v2.u8":    {Types: [4]Type{U8}, Order: OrderVolatile, Space: SpaceSharedCTA, Vec: 2},
		"atom.acq_rel.sys.shared.cas.b64":  {Types: [4]Type{B64}, Order: OrderAcqRel, Scope: ScopeSys, Space: SpaceShared, Atomic: AtomicCas},
		"red.add.noftz.bf16x2":             {Types: [4]Type{BF16x2}, Atomic: AtomicAdd, Flags: NoFTZ},
		"shfl.sync.bfly.b32":               {Types: [4]Type{B32}, Mode: ModeBfly, Flags: Sync},
		"shf.r.clamp.b32":                  {Types: [4]Type{B32}, Mode: ModeRight, Flags: Clamp},
		"mad.hi.cc.u64":                    {Types: [4]Type{U64}, Mode: ModeHi, Flags: CC},
		"mul.wide.s16":                     {Types: [4]Type{S16}, Mode: ModeWide},
		"dp2a.hi.s32.u32":                  {Types: [4]Type{S32, U32}, Mode: ModeHi},
		"prmt.b32.ecr":                     {Types: [4]Type{B32}, Mode: ModeECR},
		"barrier.cta.red.popc.aligned.u32": {Types: [4]Type{U32}, Scope: ScopeCTA, Mode: ModeRed, Bool: BoolPopc, Flags: Aligned},
		"vote.sync.uni.pred":               {Types: [4]Type{Pred}, Mode: ModeUni, Flags: Sync},
		"cvta.to.const.u64":                {Types: [4]Type{U64}, Space: SpaceConst, Flags: To},
		"min.ftz.NaN.xorsign.abs.f16x2":    {Types: [4]Type{F16x2}, Flags: FTZ | NaN | XorSign | Abs},
		"bfind.shiftamt.s64":               {Types: [4]Type{S64}, Flags: ShiftAmt},
		"membar.gl":                        {Scope: ScopeGL},
		"fence.sc.cta":                     {Order: OrderSC, Scope: ScopeCTA},
		"testp.subnormal.f64":              {Types: [4]Type{F64}, Mode: ModeSubnormal},
		"ret.uni":                          {Flags: Uni},
		"redux.sync.max.s32":               {Types: [4]Type{S32}, Atomic: AtomicMax, Flags: Sync},
		"prefetch.global.L2::evict_last":   {Space: SpaceGlobal, L2: EvictL2Last},
	} {
		p := &parser{table: theTable()}
		n := 0
		for n < len(text) && text[n] != '.' {
			n++
		}
		o, ok := p.lookup(Pos{}, text, n)
		require.True(t, ok, "%s: %v", text, p.diags)
		require.Equal(t, want, o.mods, text)
		b, ok := o.form.appendMods([]byte(o.form.Name), &o.mods)
		require.True(t, ok)
		require.Equal(t, text, string(b))
	}
}
