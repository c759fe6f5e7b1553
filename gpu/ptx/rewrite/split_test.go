package rewrite_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/rewrite"
)

// head begins the modules of these tests.
const head = ".version 8.3\n.target sm_90\n.address_size 64\n"

// kernel makes a module of the body of a kernel with the parameter p, behind what precedes it.
func kernel(before, body string) string {
	return head + before + "\n.visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<16>;\n.reg .b64 %d<8>;\nld.param.u64 %d0, [p];\n" + body + "\nret;\n}\n"
}

// split divides a source, which must parse.
func split(t require.TestingT, source string) *rewrite.Result {
	m, err := ptx.Load("test.ptx", []byte(source))
	require.NoError(t, err, source)
	r, err := rewrite.Split(nil, m, []byte(source))
	require.NoError(t, err)
	return r
}

// The parameters of large grids do not overflow.
func TestAppendRange(t *testing.T) {
	const most = 1<<31 - 1
	grid := [3]uint32{most, 65535, 65535}
	last := uint64(most)*65535*65535 - 1
	b := rewrite.AppendRange([]byte{1}, last, grid)
	require.Len(t, b, 4+24)
	var words []uint32
	for k := 4; k < len(b); k += 4 {
		words = append(words, binary.LittleEndian.Uint32(b[k:]))
	}
	require.Equal(t, []uint32{most - 1, 65534, 65534, most, 65535, 65535}, words)
}

// Kernels that are left whole, and a word of the reason.
var indivisible = map[string]struct{ source, why string }{
	"grid number":    {kernel("", "mov.u64 %d1, %gridid; st.global.u64 [%d0], %d1;"), "%gridid"},
	"cooperative":    {kernel("", "mov.u32 %r1, %envreg1; st.global.u32 [%d0], %r1;"), "%envreg1"},
	"cluster":        {head + ".visible .entry k()\n.reqnctapercluster 2, 1, 1\n{\nret;\n}\n", "clusters"},
	"explicit":       {head + ".visible .entry k()\n.explicitcluster\n{\nret;\n}\n", "clusters"},
	"other launches": {kernel("", "griddepcontrol.wait;"), "griddepcontrol"},
	"driver":         {kernel(".extern .func (.reg .b32 o) cudaLaunchDeviceV2(.reg .b64 a, .reg .b64 b);", "call.uni (%r1), cudaLaunchDeviceV2, (%d0, %d0);"), "cudaLaunchDeviceV2"},
	"indirect": {kernel(".func f() { .reg .b32 %x; mov.u32 %x, %ctaid.x; ret; }", `
mov.u64 %d1, f;
proto: .callprototype _ ();
call %d1, (), proto;`), "addresses"},
	"inside a function": {kernel(".func f() { .reg .b64 %x; mov.u64 %x, %gridid; ret; }", "call.uni f;"), "calls f, which reads %gridid"},
	"parameters":        {head + ".visible .entry k(.param .align 4 .b8 p[4080])\n{\nret;\n}\n", "4080 bytes"},
	"grid barrier": {kernel("", `
atom.global.add.u32 %r1, [%d0], 1;
wait:
ld.volatile.global.u32 %r2, [%d0];
mov.u32 %r3, %nctaid.x;
setp.lt.u32 %p1, %r2, %r3;
@%p1 bra wait;`), "waits for memory"},
	"barrier by atomics": {kernel("", `
mov.u32 %r5, 0;
wait:
atom.global.add.u32 %r2, [%d0], %r5;
setp.lt.u32 %p1, %r2, 7;
@%p1 bra wait;`), "waits for memory"},
	"barrier by cas": {kernel("", `
wait:
atom.global.cas.b32 %r2, [%d0], 0, 0;
setp.lt.u32 %p1, %r2, 7;
@%p1 bra wait;`), "waits for memory"},
	"by way of shared memory": {kernel(".shared .u32 flag;", `
wait:
bar.sync 0;
ld.acquire.gpu.u32 %r2, [%d0];
st.shared.u32 [flag], %r2;
bar.sync 0;
ld.shared.u32 %r3, [flag];
shl.b32 %r4, %r3, 1;
setp.lt.u32 %p1, %r4, 7;
@%p1 bra wait;`), "waits for memory"},
	"in a function": {kernel(`
.func (.reg .b32 o) get(.reg .b64 a) { ld.relaxed.gpu.u32 o, [a]; ret; }
.func (.reg .b32 o) more(.reg .b64 a) { call.uni (o), get, (a); ret; }`, `
wait:
call.uni (%r2), more, (%d0);
setp.lt.u32 %p1, %r2, 7;
@%p1 bra wait;`), "waits for memory"},
	"sleeps": {kernel("", `
wait:
nanosleep.u32 100;
ld.global.u32 %r2, [%d0];
setp.lt.u32 %p1, %r2, 7;
@%p1 bra wait;`), "waits for memory"},
	"private": {strings.Replace(kernel("", "add.u32 kept, kept, 1;"), head, ".version 2.3\n.target sm_20\n.reg .u32 kept;\n", 1), "kept"},
}

// What must run whole does, with a reason.
func TestIndivisible(t *testing.T) {
	for name, c := range indivisible {
		r := split(t, c.source)
		require.Empty(t, r.Kernels[0].Twin, name)
		require.Contains(t, r.Kernels[0].Why, c.why, name)
		require.False(t, r.Added(), name)
	}
}

// Loops that read memory of others without waiting for it are divided.
func TestDivisibleLoops(t *testing.T) {
	for name, body := range map[string]string{
		"sum by cas": `
ld.global.u32 %r1, [%d0];
again:
add.u32 %r2, %r1, 1;
atom.global.cas.b32 %r3, [%d0], %r1, %r2;
setp.ne.u32 %p1, %r1, %r3;
mov.u32 %r1, %r3;
@%p1 bra again;`,
		"queue": `
next:
atom.global.add.u32 %r1, [%d0], 1;
setp.lt.u32 %p1, %r1, 1000;
@%p1 bra next;`,
		"reads past the caches": `
mov.u32 %r1, 0;
next:
ld.volatile.global.u32 %r2, [%d0];
st.global.u32 [%d0+4], %r2;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, 1000;
@%p1 bra next;`,
		"list": `
next:
ld.global.u64 %d0, [%d0];
setp.ne.u64 %p1, %d0, 0;
@%p1 bra next;`,
		"last block": `
mov.u32 %r2, %nctaid.x;
atom.global.inc.u32 %r1, [%d0], %r2;
setp.ne.u32 %p1, %r1, %r2;
@%p1 ret;`,
	} {
		r := split(t, kernel("", body))
		require.NotEmpty(t, r.Kernels[0].Twin, "%s: %s", name, r.Kernels[0].Why)
	}
}

// Names that the module has already are not used again.
func TestSplitNames(t *testing.T) {
	source := strings.ReplaceAll(kernel("", "mov.u32 %r1, %ctaid.x;"), "k(", "pvdrm0_k(")
	r := split(t, source)
	require.Equal(t, "pvdrm1_pvdrm0_k", r.Kernels[0].Twin)
	require.True(t, strings.HasPrefix(string(r.Source), source), "the module itself stays as it is")
	again := split(t, string(r.Source))
	require.Len(t, again.Kernels, 2)
	split(t, string(again.Source))
}

// Hostile sources are divided or refused: what is added parses.
func FuzzSplit(f *testing.F) {
	f.Add(kernel(".func (.reg .b32 o) f(.param .b32 a) { mov.u32 o, %ctaid.y; ret; }", "{ .param .b32 a; st.param.b32 [a], 1; call.uni (%r1), f, (a); }"))
	for _, c := range indivisible {
		f.Add(c.source)
	}
	f.Add(kernel("", "a: b: bra a; l: .branchtargets a, b, a; brx.idx %r1, l;"))
	f.Fuzz(func(t *testing.T, source string) {
		m, err := ptx.Load("fuzz.ptx", []byte(source))
		if err != nil {
			return
		}
		r, err := rewrite.Split(nil, m, []byte(source))
		require.NoError(t, err)
		for _, k := range r.Kernels {
			require.NotEqual(t, k.Twin == "", k.Why == "", "%s has a twin or a reason", k.Name)
		}
		if !r.Added() {
			return
		}
		m, err = ptx.Load("fuzz.ptx", r.Source)
		require.NoError(t, err, "%s", r.Source)
		defined := map[string]bool{}
		for _, d := range m.Directives {
			if fn, ok := d.(*ptx.Func); ok && fn.Entry && fn.Defined {
				defined[fn.Name] = true
			}
		}
		for _, k := range r.Kernels {
			require.True(t, k.Twin == "" || defined[k.Twin], fmt.Sprint(k))
		}
	})
}

// Numbers that a source uses in many ways do not keep a name from being found.
func TestFreshNames(t *testing.T) {
	names := "// pvdrm pvdrm2_ pvdrm00_ pvdrm123456789012345678 pvdrm0"
	r := split(t, strings.Replace(kernel("", ""), ".version", names+"\n.version", 1))
	require.Equal(t, "pvdrm1_k", r.Kernels[0].Twin)
	r = split(t, kernel("", "")+"// pvdrm0")
	require.Equal(t, "pvdrm1_k", r.Kernels[0].Twin)
	load := kernel("", "") + "// pvdrm"
	require.Equal(t, "pvdrm0_k", split(t, load).Kernels[0].Twin)
}
