package ref

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

const (
	dataBase = 1 << 20
	bufA     = 0x1000_0000
	pageSize = 4096
)

// memory is a Space of pages, by number.
type memory struct {
	pages    map[uint64][]byte
	readOnly map[uint64]bool
}

func (m *memory) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	n := va / pageSize
	prot = gpu.ProtRead | gpu.ProtWrite
	if m.readOnly[n] {
		prot = gpu.ProtRead
	}
	return m.pages[n], n * pageSize, prot, m.pages[n] != nil
}

func (m *memory) words(va uint64, n int) (out []uint32) {
	for k := range n {
		out = append(out, binary.LittleEndian.Uint32(m.pages[va/pageSize][va%pageSize+4*uint64(k):]))
	}
	return out
}

// compile loads a module and links it.
func compile(t *testing.T, source string, m *memory) (*Program, error) {
	t.Helper()
	mod, err := ptx.Load("k.ptx", []byte(source))
	require.NoError(t, err)
	p, err := Compile(mod)
	if err != nil {
		return nil, err
	}
	image, err := p.Link(dataBase)
	require.NoError(t, err)
	m.pages[dataBase/pageSize] = make([]byte, pageSize)
	copy(m.pages[dataBase/pageSize], image)
	return p, nil
}

// source wraps a body in a kernel k(u64 a); extra stands at module scope. %rd2
// is where the thread's word of the buffer a lies, %r1 its number.
func source(extra, body string) string {
	return ".version 8.5\n.target sm_90\n.address_size 64\n" + extra + `
.visible .entry k(.param .u64 a)
{
	.reg .b64 %rd<20>; .reg .b32 %r<20>; .reg .f32 %f<8>; .reg .pred %p<8>;
	ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1;
` + body + "\n\tret;\n}\n"
}

// run runs a body in one block and returns the words that threads wrote to a.
func run(t *testing.T, extra, body string, threads uint32, budget uint64) ([]uint32, error) {
	t.Helper()
	m := &memory{pages: map[uint64][]byte{bufA / pageSize: make([]byte, pageSize), bufA/pageSize + 1: make([]byte, pageSize)},
		readOnly: map[uint64]bool{bufA/pageSize + 1: true}}
	p, err := compile(t, source(extra, body), m)
	require.NoError(t, err)
	k, ok := p.Kernel("k")
	require.True(t, ok)
	l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, bufA)}
	err = Run(k, l, m, budget)
	return m.words(bufA, int(threads)), err
}

// Faults in .shared have the rank of the block in their address.
func TestFaultInAnotherBlock(t *testing.T) {
	m := &memory{pages: map[uint64][]byte{bufA / pageSize: make([]byte, pageSize)}}
	p, err := compile(t, source(".shared .align 4 .b8 s[100];", "mov.u32 %r2, s; mapa.shared::cluster.u32 %r2, %r2, 1; atom.shared::cluster.add.u32 %r3, [%r2+128], 1; bar.sync 0;"), m)
	require.NoError(t, err)
	k, ok := p.Kernel("k")
	require.True(t, ok)
	l := exec.Launch{Grid: [3]uint32{2, 1, 1}, Cluster: [3]uint32{2, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, bufA)}
	var lost *gpu.LostError
	require.ErrorAs(t, Run(k, l, m, plenty), &lost)
	require.Equal(t, gpu.LostAddress, lost.Cause)
	require.EqualValues(t, 1<<exec.ClusterShift+128, lost.Addr)
	require.True(t, lost.Write)
}

const plenty = 1 << 22

func TestFaults(t *testing.T) {
	const shared = ".shared .align 4 .b8 s[100];"
	for _, c := range []struct {
		name, extra, body string
		cause             gpu.LostCause
		addr              uint64
		write             bool
		thread            uint32
	}{
		{name: "unmapped read", body: "ld.global.u32 %r4, [%rd2+8188];", cause: gpu.LostAddress, addr: bufA + 8192, thread: 1},
		{name: "unmapped write", body: "st.global.u32 [%rd2-4], %r2;", cause: gpu.LostAddress, addr: bufA - 4, write: true},
		{name: "read only", body: "st.global.u32 [%rd1+4096], %r2;", cause: gpu.LostAddress, addr: bufA + 4096, write: true},
		{name: "read only atomic", body: "red.global.add.u32 [%rd1+4096], 1;", cause: gpu.LostAddress, addr: bufA + 4096, write: true},
		{name: "misaligned", body: "ld.global.u32 %r4, [%rd2+2];", cause: gpu.LostAlign, addr: bufA + 2},
		{name: "misaligned vector", body: "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd2];", cause: gpu.LostAlign, addr: bufA + 4, thread: 1},
		{name: "misaligned atomic", body: "atom.global.add.u64 %rd6, [%rd2], 1;", cause: gpu.LostAlign, addr: bufA + 4, write: true, thread: 1},
		{name: "shared beyond", extra: shared, body: "mov.u32 %r4, s; mad.lo.u32 %r4, %r1, 8, %r4; st.shared.u32 [%r4], %r1;", cause: gpu.LostAddress, addr: 128, write: true, thread: 16},
		{name: "generic shared", extra: shared, body: "mov.u64 %rd5, s; cvta.shared.u64 %rd5, %rd5; ld.u32 %r5, [%rd5+4096];", cause: gpu.LostAddress, addr: 4096},
		{name: "local beyond", body: ".local .b32 l[4]; mov.u64 %rd5, l; ld.local.u32 %r5, [%rd5+1048576];", cause: gpu.LostAddress, addr: 1 << 20},
		{name: "parameter written", body: "mov.u64 %rd5, a; cvta.param.u64 %rd5, %rd5; st.u32 [%rd5], 1;", cause: gpu.LostAddress, write: true},
		{name: "trap", body: "setp.eq.u32 %p1, %r1, 3; @%p1 trap;", cause: gpu.LostTrap, thread: 3},
		{name: "assertion", extra: ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);",
			body: "{ .param .b64 x; .param .b32 y; call __assertfail, (x, x, y, x, x); }", cause: gpu.LostTrap},
		{name: "indexed branch", body: "L: .branchtargets A; brx.idx %r1, L; A:", cause: gpu.LostInstruction, thread: 1},
		{name: "call of nothing", body: "P: .callprototype _ (); mov.u64 %rd5, 1234; call %rd5, P;", cause: gpu.LostInstruction},
		{name: "call of another signature", extra: ".func f(.param .u32 x) { ret; }", body: "P: .callprototype _ (); mov.u64 %rd5, f; call %rd5, P;", cause: gpu.LostInstruction},
		{name: "call of a kernel", body: "P: .callprototype _ (.param .u64 a); mov.u64 %rd5, k; .param .u64 x; call %rd5, (x), P;", cause: gpu.LostInstruction},
		{name: "endless recursion", extra: ".func f() { call f; ret; }", body: "call f;", cause: gpu.LostStack},
		{name: "alloca", body: "mov.u64 %rd3, 100000; alloca.u64 %rd4, %rd3;", cause: gpu.LostStack},
		{name: "endless loop", body: "L: bra L;", cause: gpu.LostTimeout},
		{name: "barrier without the others", body: "setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 0, 64; @!%p1 bar.sync 1, 64;", cause: gpu.LostInstruction},
		{name: "barrier for other numbers", body: "setp.lt.u32 %p1, %r1, 8; @%p1 bar.sync 0, 32; @!%p1 bar.sync 0, 64;", cause: gpu.LostInstruction, thread: 8},
		{name: "barrier that is none", body: "mov.u32 %r2, 16; barrier.sync %r2;", cause: gpu.LostInstruction},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := run(t, c.extra, c.body, 40, plenty)
			var lost *gpu.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, c.cause, lost.Cause, lost.Error())
			require.Equal(t, c.addr, lost.Addr)
			require.Equal(t, c.write, lost.Write)
			require.Contains(t, lost.Detail, "k.ptx:")
			if c.cause != gpu.LostTimeout {
				require.Equal(t, [3]uint32{c.thread, 0, 0}, lost.Thread, lost.Error())
			}
		})
	}
}

func TestResults(t *testing.T) {
	lane := func(f func(n uint32) uint32) []uint32 {
		out := make([]uint32, 40)
		for n := range out {
			out[n] = f(uint32(n))
		}
		return out
	}
	for _, c := range []struct {
		name, extra, body string
		want              []uint32
	}{
		{name: "recursion", extra: `.func (.param .u32 r) sum(.param .u32 n) { .reg .u32 %a; .reg .pred %p; ld.param.u32 %a, [n]; setp.eq.u32 %p, %a, 0; @%p bra Z;
			{ .param .u32 x; .param .u32 y; .reg .u32 %b; sub.u32 %b, %a, 1; st.param.u32 [x], %b; call (y), sum, (x); ld.param.u32 %b, [y]; add.u32 %a, %a, %b; }
			Z: st.param.u32 [r], %a; ret; }`,
			body: "{ .param .u32 x; .param .u32 y; st.param.u32 [x], %r1; call (y), sum, (x); ld.param.u32 %r2, [y]; } st.global.u32 [%rd2], %r2;",
			want: lane(func(n uint32) uint32 { return n * (n + 1) / 2 })},
		{name: "parameters in registers", extra: ".func (.reg .u32 %r) f(.reg .u32 %a, .reg .u64 %b) { .reg .u32 %c; cvt.u32.u64 %c, %b; sub.u32 %r, %a, %c; ret; }",
			body: "mov.u64 %rd3, 7; call (%r2), f, (%r1, %rd3); st.global.u32 [%rd2], %r2;", want: lane(func(n uint32) uint32 { return n - 7 })},
		{name: "indirect call", extra: ".func (.reg .u32 %r) f(.reg .u32 %a) { add.u32 %r, %a, 1; ret; } .func (.reg .u32 %r) g(.reg .u32 %a) { add.u32 %r, %a, 2; ret; } .global .u64 table[2] = {f, g};",
			body: `and.b32 %r2, %r1, 1; mov.u64 %rd3, table; mad.wide.u32 %rd3, %r2, 8, %rd3; ld.global.u64 %rd4, [%rd3];
			P: .callprototype (.reg .u32 _) _ (.reg .u32 _); call (%r3), %rd4, (%r1), P; st.global.u32 [%rd2], %r3;`,
			want: lane(func(n uint32) uint32 { return n + 1 + n%2 })},
		{name: "lanes wait for each other", extra: ".global .u32 turn;", body: `L: ld.volatile.global.u32 %r2, [turn]; setp.ne.u32 %p1, %r2, %r1; @%p1 bra L;
			st.global.u32 [%rd2], %r2; add.u32 %r2, %r2, 1; st.volatile.global.u32 [turn], %r2;`, want: lane(func(n uint32) uint32 { return n })},
		{name: "masks of their own", body: "mov.u32 %r2, %laneid; and.b32 %r3, %r2, 28; shl.b32 %r3, 15, %r3; redux.sync.add.u32 %r4, %r2, %r3; st.global.u32 [%rd2], %r4;",
			want: lane(func(n uint32) uint32 { return n%32/4*16 + 6 })},
		{name: "apart in a branch", body: `setp.lt.u32 %p1, %r1, 5; @%p1 bra L; vote.sync.ballot.b32 %r2, 1, 0xffffffe0; bra M; L: vote.sync.ballot.b32 %r2, 1, 31; M: st.global.u32 [%rd2], %r2;`,
			want: lane(func(n uint32) uint32 {
				switch {
				case n < 5:
					return 31
				case n < 32:
					return 0xffffffe0
				}
				return 0xe0
			})[:32]},
		{name: "barrier of all that are left", extra: ".shared .u32 s;", body: `setp.gt.u32 %p1, %r1, 9; @%p1 exit; atom.shared.add.u32 %r2, [s], %r1; bar.sync 0; ld.shared.u32 %r2, [s]; st.global.u32 [%rd2], %r2;`,
			want: lane(func(n uint32) uint32 {
				if n > 9 {
					return 0
				}
				return 45
			})},
		{name: "arrive and sync", extra: ".shared .u32 s;", body: `setp.lt.u32 %p1, %r1, 32; @%p1 bra L; mov.u32 %r2, 5; st.shared.u32 [s], %r2; bar.arrive 1, 64; exit;
			L: bar.sync 1, 64; ld.shared.u32 %r2, [s]; st.global.u32 [%rd2], %r2;`,
			want: lane(func(n uint32) uint32 { return 5 * (1 - n/32) })},
		{name: "alloca", body: "mov.u64 %rd3, 16; stacksave.u64 %rd6; alloca.u64 %rd4, %rd3; st.local.u32 [%rd4+12], %r1; ld.local.u32 %r2, [%rd4+12]; stackrestore.u64 %rd6; alloca.u64 %rd5, %rd3; sub.u64 %rd5, %rd5, %rd4; cvt.u32.u64 %r3, %rd5; add.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2;",
			want: lane(func(n uint32) uint32 { return n })},
		// 1+2^-12 squared and one: the product alone would be rounded.
		{name: "a sum takes in a product", body: "mov.b32 %f1, 0x3f800800; mul.f32 %f2, %f1, %f1; sub.f32 %f3, %f2, 0f3f801000; st.global.f32 [%rd2], %f3;",
			want: lane(func(uint32) uint32 { return math.Float32bits(0x1p-24) })},
		{name: "a product that is stored stays", body: "mov.b32 %f1, 0x3f800800; mul.f32 %f2, %f1, %f1; sub.f32 %f3, %f2, 0f3f801000; mov.f32 %f4, %f2; st.global.f32 [%rd2], %f3;",
			want: lane(func(uint32) uint32 { return 0 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := run(t, c.extra, c.body, 40, plenty)
			require.NoError(t, err)
			require.Equal(t, c.want, got[:len(c.want)])
		})
	}
}

func TestPrintf(t *testing.T) {
	m := &memory{pages: map[uint64][]byte{}}
	p, err := compile(t, source(`.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .b8 text[8] = {37, 100, 32, 37, 100, 10};`, `.local .align 8 .b8 args[8]; mov.u64 %rd3, args; st.local.u32 [%rd3], %r1; st.local.u32 [%rd3+4], 7;
	cvta.local.u64 %rd3, %rd3; mov.u64 %rd4, text;
	{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd4; st.param.b64 [a], %rd3; call (r), vprintf, (f, a); ld.param.b32 %r2, [r]; }
	setp.ne.u32 %p1, %r2, 2; @%p1 trap;`), m)
	require.NoError(t, err)
	k, _ := p.Kernel("k")
	var out strings.Builder
	l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{3, 1, 1}, Params: make([]byte, 8), Print: func(s string) { out.WriteString(s) }}
	require.NoError(t, Run(k, l, m, plenty))
	require.Equal(t, "0 7\n1 7\n2 7\n", out.String())
}

func TestAssert(t *testing.T) {
	m := &memory{pages: map[uint64][]byte{}}
	p, err := compile(t, source(`.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
.global .b8 text[4] = {97, 98, 99};`, `mov.u64 %rd3, text; setp.ne.u32 %p1, %r1, 2;
	{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; st.param.b64 [a], %rd3; st.param.b64 [b], %rd3; st.param.b32 [c], 5; st.param.b64 [d], 0;
	@!%p1 call __assertfail, (a, b, c, d, 1); }`), m)
	require.NoError(t, err)
	k, _ := p.Kernel("k")
	var out strings.Builder
	l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{3, 1, 1}, Params: make([]byte, 8), Print: func(s string) { out.WriteString(s) }}
	var lost *gpu.LostError
	require.ErrorAs(t, Run(k, l, m, plenty), &lost)
	require.Equal(t, gpu.LostTrap, lost.Cause)
	require.Equal(t, gpu.StderrMark+"abc:5: : block: [0,0,0], thread: [2,0,0] Assertion `abc` failed.\n", out.String())
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, extra, body, want string }{
		{name: "parameter", extra: ".func f(.reg .v2 .u32 %v) { ret; }", want: "vector type"},
		{name: "function", extra: ".extern .func f();", body: "call f;", want: "undefined function 'f'"},
		{name: "variable", extra: ".extern .global .u32 v;", body: "mov.u64 %rd3, v;", want: "undefined variable 'v'"},
		{name: "address of shared", extra: ".shared .u32 s; .global .u64 g = s;", body: "mov.u64 %rd3, g;", want: "no address in the generic address space"},
		{name: "large variable", extra: ".global .b8 big[1000000000];", body: "mov.u64 %rd3, big;", want: "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := compile(t, source(c.extra, c.body), &memory{pages: map[uint64][]byte{}})
			var e *gpu.BuildError
			require.ErrorAs(t, err, &e)
			require.Contains(t, err.Error(), c.want)
			require.NotZero(t, e.Diagnostics[0].Line)
		})
	}
}

func TestImpossibleLaunches(t *testing.T) {
	m := &memory{pages: map[uint64][]byte{}}
	p, err := compile(t, strings.Replace(source(".shared .b8 s[40000];", "mov.u32 %r2, s;"), "(.param .u64 a)\n", "(.param .u64 a) .maxntid 64\n", 1), m)
	require.NoError(t, err)
	k, _ := p.Kernel("k")
	for name, change := range map[string]func(*exec.Launch){
		"no blocks":       func(l *exec.Launch) { l.Grid[1] = 0 },
		"no threads":      func(l *exec.Launch) { l.Block[2] = 0 },
		"too many":        func(l *exec.Launch) { l.Block[0] = 65 },
		"shared memory":   func(l *exec.Launch) { l.SharedBytes = 20000 },
		"parameters":      func(l *exec.Launch) { l.Params = l.Params[:4] },
		"blocks in a row": func(l *exec.Launch) { l.Grid[1] = 1 << 16 },
	} {
		l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: make([]byte, 8)}
		require.NoError(t, Run(k, l, m, plenty))
		change(&l)
		require.ErrorIs(t, Run(k, l, m, plenty), gpu.ErrInvalid, name)
	}
	_, err = p.Link(12345)
	require.ErrorIs(t, err, gpu.ErrInvalid)
}

// A 32-bit address register and its offset add up in 32 bits, as on a GPU and in exec: a
// register below zero and a positive offset reach the window of shared memory.
func TestAddressWrapsInItsRegister(t *testing.T) {
	out, err := run(t, ".shared .align 4 .b8 sm[256];", `
	mov.u32 %r2, sm; add.s32 %r3, %r1, 7; st.shared.u32 [%r2], %r3;
	sub.s32 %r4, %r2, 128; ld.shared.u32 %r5, [%r4+128];
	st.global.u32 [%rd2], %r5;`, 1, plenty)
	require.NoError(t, err)
	require.Equal(t, uint32(7), out[0])
}

// A shuffle gives 0 from a lane that takes no part, on both engines: PTX defines nothing, and
// programs add up what they get.
func TestShuffleFromALaneThatTakesNoPart(t *testing.T) {
	const body = `
	mov.u32 %r2, %tid.x; add.u32 %r3, %r2, 100; setp.ge.u32 %p1, %r2, 8; @%p1 bra done;
	shfl.sync.down.b32 %r4, %r3, 4, 31, 0xff; add.u32 %r4, %r4, 1;
	st.global.u32 [%rd2], %r4;
done:`
	want := []uint32{105, 106, 107, 108, 1, 1, 1, 1, 0, 0}
	out, err := run(t, "", body, 32, plenty)
	require.NoError(t, err)
	require.Equal(t, want, out[:len(want)])

	require.Equal(t, want, runFast(t, source("", body), binary.LittleEndian.AppendUint64(nil, bufA), 32, len(want)))
}

// runFast runs kernel k of a module on the engine that this one is compared with, and returns
// words at bufA.
func runFast(t *testing.T, source string, params []byte, threads uint32, n int) []uint32 {
	t.Helper()
	m := &memory{pages: map[uint64][]byte{bufA / pageSize: make([]byte, pageSize)}}
	mod, err := ptx.Load("k.ptx", []byte(source))
	require.NoError(t, err)
	p, err := exec.Compile(mod)
	require.NoError(t, err)
	k, ok := p.Kernel("k")
	require.True(t, ok)
	l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}, Params: params}
	require.NoError(t, exec.Run(k, l, m, new(exec.Control), 1))
	return m.words(bufA, n)
}

// What compilers wrote before PTX 3.0: pointers of 32 bits, registers and local memory at
// module scope, prototypes without a ';'. Addresses wrap in their 32 bits.
func TestModuleOfAnOldCompiler(t *testing.T) {
	const src = `.version 2.2
.target sm_20
.reg .u32 %g<9>;
.local .align 8 .b8 stack[16];
.func (.reg .u32 r) twice (.reg .u32 x)

.func (.reg .u32 r) twice (.reg .u32 x) { add.u32 r, x, x; ret; }
.entry k(.param .u32 out)
{
	.reg .u64 %d;
	mov.u32 %g0, %tid.x;
	st.local.u32 [stack+8], %g0;
	mov.u32 %g1, stack;
	ld.local.u32 %g2, [%g1+8];
	call (%g3), twice, (%g2);
	ld.param.u32 %g4, [out];
	cvta.global.u32 %g5, %g4;
	mad.lo.u32 %g5, %g0, 4, %g5;
	sub.u32 %g6, %g5, 0x20000000;
	st.u32 [%g6+0x20000000], %g3;
	atom.global.add.u32 %g7, [%g5], 1;
	exit;
}`
	want := []uint32{1, 3, 5, 7}
	m := &memory{pages: map[uint64][]byte{bufA / pageSize: make([]byte, pageSize)}}
	p, err := compile(t, src, m)
	require.NoError(t, err)
	k, ok := p.Kernel("k")
	require.True(t, ok)
	l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{4, 1, 1}, Params: binary.LittleEndian.AppendUint32(nil, bufA)}
	require.NoError(t, Run(k, l, m, plenty))
	require.Equal(t, want, m.words(bufA, len(want)))
	require.Equal(t, want, runFast(t, src, l.Params, 4, len(want)))
}

// A kernel has up to 32,764 bytes of parameters.
func TestLargeParameters(t *testing.T) {
	for _, n := range []int{4096, 12248, 12252, 32764} {
		m := &memory{pages: map[uint64][]byte{bufA / pageSize: make([]byte, pageSize)}}
		p, err := compile(t, fmt.Sprintf(`.version 8.1
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .align 4 .b8 big[%d])
{
	.reg .u64 %%a, %%at; .reg .b32 %%r, %%n, %%sum; .reg .pred %%more;
	ld.param.u64 %%a, [a]; ld.param.u32 %%r, [big+%d]; st.global.u32 [%%a], %%r;
	mov.b64 %%at, big; mov.u32 %%n, %d; mov.u32 %%sum, 0;
L:	ld.param.u32 %%r, [%%at]; add.u32 %%sum, %%sum, %%r; add.u64 %%at, %%at, 4; sub.u32 %%n, %%n, 4;
	setp.ne.u32 %%more, %%n, 0; @%%more bra L;
	st.global.u32 [%%a+4], %%sum;
	ret;
}
`, n-8, n-12, n-8), m)
		require.NoError(t, err)
		k, ok := p.Kernel("k")
		require.True(t, ok)
		l := exec.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, bufA)}
		sum, last := uint32(0), uint32(0)
		for i := range uint32(n/4 - 2) {
			last = i*40503 + uint32(n)
			sum += last
			l.Params = binary.LittleEndian.AppendUint32(l.Params, last)
		}
		require.NoError(t, Run(k, l, m, plenty))
		require.Equal(t, []uint32{last, sum}, m.words(bufA, 2), "%d bytes", n)
	}
}
