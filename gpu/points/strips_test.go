package points_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/points"
	"pvdrm/gpu/ptx/rewrite"
	"pvdrm/gpu/softgpu"
)

// counting are loops that count to a bound: what precedes them, a round, and how they end. %r0 is the parameter, %r1 the
// thread, %r2 counts, %d2 too, and %r5 is what is stored.
var counting = map[string][2]string{
	"up, less":           {"mov.u32 %r2, 0;", "add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r0; @%q bra L;"},
	"up, at most":        {"mov.u32 %r2, %r1;", "add.s32 %r2, %r2, 3; setp.le.s32 %q, %r2, %r0; @%q bra L;"},
	"up, greater bound":  {"mov.u32 %r2, 0;", "add.u32 %r2, %r2, 1; setp.gt.u32 %q, %r0, %r2; @%q bra L;"},
	"up, until":          {"mov.u32 %r2, %r1; mad.lo.u32 %r0, %r0, 7, %r1;", "add.u32 %r2, %r2, 7; setp.ne.u32 %q, %r2, %r0; @%q bra L;"},
	"up, past the end":   {"mov.u32 %r2, 0xffffffe0; sub.u32 %r0, %r0, 32;", "add.u32 %r2, %r2, 1; setp.ne.s32 %q, %r0, %r2; @%q bra L;"},
	"up, out":            {"mov.u32 %r2, -500;", "add.s32 %r2, %r2, 1; setp.ge.s32 %q, %r2, %r0; @%q bra M; bra L; M:"},
	"up, not less":       {"mov.u32 %r2, 0;", "add.u32 %r2, %r2, 1; setp.ge.u32 %q, %r2, %r0; @!%q bra L;"},
	"up to the greatest": {"sub.u32 %r2, 2147483647, %r0;", "add.s32 %r2, %r2, 1; setp.lt.s32 %q, %r2, 2147483647; @%q bra L;"},
	"down, more":         {"mov.u32 %r2, %r0;", "add.s32 %r2, %r2, -1; setp.gt.s32 %q, %r2, 0; @%q bra L;"},
	"down, until":        {"mov.u32 %r2, %r0;", "add.s32 %r2, %r2, -1; setp.eq.s32 %q, %r2, 0; @%q bra M; bra L; M:"},
	"down, by two":       {"shl.b32 %r2, %r0, 1;", "add.s32 %r2, %r2, -2; setp.ne.s32 %q, %r2, 0; @%q bra L;"},
	"down to the least":  {"mov.u32 %r2, %r0;", "add.u32 %r2, %r2, 0xffffffff; setp.hi.u32 %q, %r2, 0; @%q bra L;"},
	"64 bits":            {"mov.u64 %d2, 0x100000000; cvt.u64.u32 %d3, %r0; add.u64 %d3, %d3, %d2;", "add.s64 %d2, %d2, 1; cvt.u32.u64 %r2, %d2; setp.lt.u64 %q, %d2, %d3; @%q bra L;"},
	"lower half":         {"mov.u64 %d2, 0xfffffff8;", "add.s64 %d2, %d2, 1; cvt.u32.u64 %r2, %d2; setp.ne.u32 %q, %r2, 700; @%q bra L;"},
	"steps over the end": {"mov.u32 %r2, 0;", "add.u32 %r2, %r2, 5; setp.lt.u32 %q, %r2, %r0; @%q bra L;"},
	"no step":            {"mov.u32 %r2, 0; mov.u32 %r3, 1;", "add.u32 %r2, %r2, %r3; setp.lt.u32 %q, %r2, %r0; @%q bra L;"},
}

// countingKernel is a kernel with such a loop.
func countingKernel(name string, c [2]string) string {
	return fmt.Sprintf(`.visible .entry %s(.param .u64 p, .param .u32 rounds) {
	.reg .pred %%q; .reg .b32 %%r<8>; .reg .b64 %%d<5>;
	ld.param.u64 %%d0, [p]; ld.param.u32 %%r0, [rounds];
	mov.u32 %%r1, %%tid.x; mov.u32 %%r6, %%ctaid.x; mov.u32 %%r7, %%ntid.x; mad.lo.u32 %%r7, %%r6, %%r7, %%r1;
	mul.wide.u32 %%d1, %%r7, 4; add.u64 %%d1, %%d1, %%d0;
	mov.u32 %%r5, %%r7; add.u32 %%r0, %%r0, %%r1;
	%s
L:	mad.lo.u32 %%r5, %%r5, 1664525, %%r2;
	%s
	st.global.u32 [%%d1], %%r5;
	ret;
}
`, name, c[0], c[1])
}

// Loops that count give what they give in the kernel, stopped between any two of their strips, however long those are
// and wherever the bound lies in one.
func TestStrips(t *testing.T) {
	source, names, n := ".version 6.3\n.target sm_70\n.address_size 64\n", map[string]string{}, 0
	for what, c := range counting {
		names[what] = fmt.Sprintf("k%d", n)
		source += countingKernel(names[what], c)
		n++
	}
	results := func(d gpu.Device, rounds uint32) (list map[string][]byte) {
		x := newClient(t, d, rounds)
		mod, err := x.ctx.LoadModule(context.Background(), "counting.ptx", []byte(source), nil)
		require.NoError(t, err)
		list = map[string][]byte{}
		for what, name := range names {
			x.launch.Func, err = mod.Function(name)
			require.NoError(t, err)
			binary.LittleEndian.PutUint32(x.launch.Params[8:], rounds)
			require.NoError(t, (<-x.start()).Err, what)
			list[what] = bytes.Clone(x.host[:480])
		}
		require.NoError(t, d.Close())
		return list
	}
	for _, rounds := range []uint32{1, 2, 63, 64, 65, 1000} {
		plain, err := softgpu.New(softgpu.Config{VRAMBytes: 96 << 20})
		require.NoError(t, err)
		want := results(plain, rounds)
		for _, interval := range []int{1, 30, 300, 1500} {
			d := open(t, softgpu.Config{}, points.Config{Short: -1, Look: 1, Options: rewrite.SuspendOptions{Interval: interval, Count: true}})
			got := results(d, rounds)
			_, _, pieces := d.Counts()
			require.Equal(t, want, got, "%d rounds, looks each %d instructions", rounds, interval)
			require.True(t, rounds < 1000 || pieces > uint64(len(counting)), "%d pieces", pieces)
		}
	}
}
