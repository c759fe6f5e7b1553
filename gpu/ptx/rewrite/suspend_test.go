package rewrite_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/rewrite"
)

// suspend has the kernels of a source suspended.
func suspend(t require.TestingT, source string) ([]byte, []rewrite.Suspended) {
	m, err := ptx.Load("test.ptx", []byte(source))
	require.NoError(t, err, source)
	changed, list, err := rewrite.Suspend(nil, m, []byte(source), rewrite.SuspendOptions{})
	require.NoError(t, err)
	_, err = ptx.Load("test.ptx", changed)
	require.NoError(t, err, "%s", changed)
	return changed, list
}

// Kernels that cannot be suspended, and a word of the reason.
var endless = map[string]struct{ source, why string }{
	"32 bits":     {".version 6.0\n.target sm_30\n.address_size 32\n.entry k()\n{\nret;\n}\n", "32 bits"},
	"private":     {strings.Replace(kernel("", "add.u32 kept, kept, 1;"), head, ".version 2.3\n.target sm_20\n.address_size 64\n.reg .u32 kept;\n", 1), "kept"},
	"parameters":  {head + ".visible .entry k(.param .align 4 .b8 p[4080])\n{\nret;\n}\n", "4080 bytes"},
	"cluster":     {head + ".visible .entry k()\n.reqnctapercluster 2, 1, 1\n{\nret;\n}\n", "clusters"},
	"grid number": {kernel("", "mov.u64 %d1, %gridid; st.global.u64 [%d0], %d1;"), "%gridid"},
	"stack":       {kernel("", "alloca.u64 %d1, %d0;"), "alloca"},
	"bulk":        {kernel("", "cp.async.bulk.commit_group;"), "cp.async.bulk"},
	"mbarrier":    {kernel(".shared .b64 s;", "mbarrier.init.shared.b64 [s], 1;"), "mbarrier"},
	"unknown":     {kernel("", "tcgen05.wait::ld.sync.aligned;"), "of which no more is known"},
	"driver":      {kernel(".extern .func f();", "call.uni f;"), "calls f"},
	"some threads": {kernel("", `
a: bar.sync 1, 64;
bra a;`), "some threads"},
	"barrier in a function": {kernel(".func f() { bar.sync 0; ret; }", "call.uni f;"), "calls a function with barriers"},
	"addresses": {kernel(".func f() { ret; }", `
bar.sync 0;
mov.u64 %d1, f;
proto: .callprototype _ ();
call %d1, (), proto;`), "by their addresses"},
	"variables of a function": {kernel(".func f() { .shared .u32 s; st.shared.u32 [s], 1; ret; }", "call.uni f;"), "declares variables in .shared"},
	"waits in a function": {kernel(`
.func lock(.reg .b64 a)
{
	.reg .pred %q; .reg .b32 %x;
again: ld.volatile.global.u32 %x, [a];
	setp.ne.u32 %q, %x, 0;
	@%q bra again;
	ret;
}`, "a: call.uni lock, (%d0); bra a;"), "lock has a loop that waits"},
	"locks in a function": {kernel(`
.func lock(.reg .b64 a)
{
	.reg .pred %q; .reg .b32 %x;
again: atom.global.cas.b32 %x, [a], 0, 1;
	setp.ne.u32 %q, %x, 0;
	@%q bra again;
	ret;
}`, "a: call.uni lock, (%d0); bra a;"), "lock has a loop that waits"},
	"waits for its block": {kernel(`.shared .u32 flag;
.func lock()
{
	.reg .pred %q; .reg .b32 %x;
again: ld.volatile.shared.u32 %x, [flag];
	setp.ne.u32 %q, %x, 0;
	@%q bra again;
	ret;
}`, "a: call.uni lock; bra a;"), "lock has a loop that waits"},
	"waits in braces": {kernel("", `
a: {
again: ld.acquire.gpu.u32 %r1, [%d0];
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra again;
}
bra a;`), "k has a loop that waits"},
	"warps": {kernel("", `
a: activemask.b32 %r1;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra a;`), "whole warps"},
	"guarded barrier": {kernel("", "a: @%p1 bar.sync 0; bra a;"), "guard"},
	"carry": {kernel("", `
add.cc.u32 %r1, %r1, %r1;
a: addc.cc.u32 %r1, %r1, %r1;
bra a;`), "carry flag"},
	"braces": {kernel("", "{ a: bra a; }"), "inner braces"},
	"wide": {kernel("", `
.reg .b128 %w;
mov.b128 %w, {%d0, %d0};
a: st.global.b128 [%d0], %w;
bra a;`), "128 bits"},
	"old": {strings.Replace(kernel(".shared .u32 s;", "a: ld.shared.u32 %r1, [s]; bra a;"), "8.3\n.target sm_90", "4.0\n.target sm_30", 1), "PTX 4.0"},
}

// What cannot be suspended is not, with a reason.
func TestNotSuspended(t *testing.T) {
	for name, c := range endless {
		_, list := suspend(t, c.source)
		require.Empty(t, list[0].Twin, name)
		require.Contains(t, list[0].Why, c.why, name)
	}
}

// What a block takes of the area grows with its threads and what they have.
func TestStride(t *testing.T) {
	_, list := suspend(t, kernel("", `
.local .align 8 .b8 mem[12];
.shared .align 4 .b8 some[20];
mov.u32 %r1, 0; mov.b64 %d1, mem; st.local.u64 [mem], %d1; st.shared.u32 [some], %r1;
a:
ld.local.u32 %r2, [mem+8];
add.u32 %r1, %r1, %r2;
setp.lt.u32 %p1, %r1, 100;
@%p1 bra a;
st.global.u32 [%d0], %r1;`))
	require.NotEmpty(t, list[0].Twin, list[0].Why)
	require.Equal(t, 1, list[0].Loops)
	require.Equal(t, 1, list[0].Points)
	// Of a thread: its point 8, the variable 16 and %r1 4. %d0 is a parameter.
	require.EqualValues(t, 16+32*64+32, list[0].Stride(64, 0))
	require.EqualValues(t, 16+32*64+32+112, list[0].Stride(64, 100))
}

func TestAppendState(t *testing.T) {
	b := rewrite.AppendState([]byte{1}, 2, 3, 4)
	require.Len(t, b, 8+24)
	for n := range 3 {
		require.EqualValues(t, 2+n, binary.LittleEndian.Uint64(b[8+8*n:]))
	}
}

// A kernel without loops has a twin, too: blocks that have not begun wait.
func TestSuspendWithoutLoops(t *testing.T) {
	_, list := suspend(t, kernel("", "st.global.u64 [%d0], %d0;"))
	require.NotEmpty(t, list[0].Twin)
	require.Zero(t, list[0].Points)
}

// Twins of Split have twins, too.
func TestSuspendDivided(t *testing.T) {
	r := split(t, kernel("", "mov.u32 %r1, %ctaid.x; a: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra a; st.global.u32 [%d0], %r1;"))
	_, list := suspend(t, string(r.Source))
	require.Len(t, list, 2)
	require.Equal(t, "pvdrm1_pvdrm0_k", list[1].Twin)
}

// Hostile sources are suspended or refused: what is added parses.
func FuzzSuspend(f *testing.F) {
	for _, c := range endless {
		f.Add(c.source)
	}
	f.Add(kernel(".shared .b8 s[12]; .extern .shared .b8 e[];", `
.local .b16 l[3];
a: mov.u64 %d1, e; st.shared.u32 [s+4], %r1; st.local.u16 [l], %h1;
bar.sync 0;
cp.async.ca.shared.global [%r1], [%d0], 4; cp.async.commit_group; cp.async.wait_group 0;
barrier.red.and.pred %p2, 0, %p1;
@%p1 bra a;
b: shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1; bra b;`))
	f.Fuzz(func(t *testing.T, source string) {
		m, err := ptx.Load("fuzz.ptx", []byte(source))
		if err != nil {
			return
		}
		changed, list, err := rewrite.Suspend(nil, m, []byte(source), rewrite.SuspendOptions{})
		require.NoError(t, err)
		m, err = ptx.Load("fuzz.ptx", changed)
		require.NoError(t, err, "%s", changed)
		defined := map[string]bool{}
		for _, d := range m.Directives {
			if fn, ok := d.(*ptx.Func); ok && fn.Entry && fn.Defined {
				defined[fn.Name] = true
			}
		}
		for _, k := range list {
			require.NotEqual(t, k.Twin == "", k.Why == "", "%s has a twin or a reason", k.Name)
			require.True(t, k.Twin == "" || defined[k.Twin])
			require.Positive(t, k.Stride(32, 1))
		}
	})
}

// Loops that end soon have no point, whichever way they count and leave.
func TestShortLoops(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		points int
	}{
		"up":           {"mov.u32 %r1, 0;\na: add.u32 %r1, %r1, 4;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 0},
		"down":         {"mov.u32 %r1, 64;\na: add.s32 %r1, %r1, -1;\nsetp.gt.s32 %p1, %r1, 0;\n@%p1 bra a;", 0},
		"out":          {"mov.u32 %r1, 0;\na: add.u32 %r1, %r1, 4;\nsetp.eq.u32 %p1, %r1, 256;\n@%p1 bra b;\nbra.uni a;\nb: add.u32 %r2, %r2, 1;", 0},
		"long":         {"mov.u32 %r1, 0;\na: add.u32 %r1, %r1, 1;\nsetp.ne.u32 %p1, %r1, 1000000;\n@%p1 bra a;", 1},
		"endless":      {"mov.u32 %r1, 0;\na: add.u32 %r1, %r1, 4;\nsetp.ne.u32 %p1, %r1, 255;\n@%p1 bra a;", 1},
		"wrong way":    {"mov.u32 %r1, 0;\na: add.s32 %r1, %r1, -4;\nsetp.ne.s32 %p1, %r1, 256;\n@%p1 bra a;", 1},
		"while equal":  {"mov.u32 %r1, 0;\na: add.u32 %r1, %r1, 4;\nsetp.eq.u32 %p1, %r2, 256;\n@%p1 bra a;", 1},
		"from memory":  {"ld.global.u32 %r1, [%d0];\na: add.u32 %r1, %r1, 4;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 1},
		"two steps":    {"mov.u32 %r1, 0;\na: add.u32 %r1, %r1, 4;\nadd.u32 %r1, %r1, -4;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 1},
		"two deciders": {"mov.u32 %r1, 0;\na: add.u32 %r1, %r1, 4;\nsetp.ne.u32 %p1, %r1, 256;\nsetp.ne.u32 %p1, %r2, 1;\n@%p1 bra a;", 1},
		"lower half":   {"mov.u64 %d1, 0;\na: add.s64 %d1, %d1, 4;\ncvt.u32.u64 %r1, %d1;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 0},
		"lowest byte":  {"mov.u64 %d1, 0;\na: add.s64 %d1, %d1, 4;\ncvt.u32.u8 %r1, %d1;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 1},
		"half guarded": {"mov.u64 %d1, 0;\na: add.s64 %d1, %d1, 4;\n@%p2 cvt.u32.u64 %r1, %d1;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 1},
		"half of two":  {"mov.u64 %d1, 0;\na: add.s64 %d1, %d1, 4;\ncvt.u32.u64 %r1, %d1;\nadd.u32 %r1, %r1, 1;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 1},
		"step guarded": {"mov.u32 %r1, 0;\na: @%p2 add.u32 %r1, %r1, 4;\nsetp.ne.u32 %p1, %r1, 256;\n@%p1 bra a;", 1},
	} {
		_, list := suspend(t, kernel("", c.body))
		require.NotEmpty(t, list[0].Twin, name)
		require.Equal(t, c.points, list[0].Points, name)
	}
}
