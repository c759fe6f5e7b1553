package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// reachBody is loads of one address by all lanes and accesses of .shared by rows, again and again, by registers
// that several of them use: on both sides of the end of a page, with the register's own address not among
// them, of other sizes in between, and while other lanes are away.
const reachBody = `.shared .align 16 .b8 s[2048];
	mov.u64 %rd5, s; mad.wide.u32 %rd6, %r2, 4, %rd5; mov.u32 %r5, 0; mov.u32 %r6, %r2; setp.lt.u32 %p2, %r2, 9;
L:	add.u64 %rd7, %rd1, 4000; ld.global.u32 %r7, [%rd7+8]; ld.global.u32 %r8, [%rd7+-16]; ld.global.u32 %r9, [%rd7+92]; ld.global.u64 %rd8, [%rd7+88]; ld.global.u64 %rd9, [%rd7]; add.u32 %r6, %r6, %r7;
	ld.global.u32 %r10, [%rd7+96]; ld.global.u32 %r11, [%rd7+4096]; xor.b32 %r6, %r6, %r8; add.u32 %r6, %r6, %r9; add.u32 %r6, %r6, %r10; xor.b32 %r6, %r6, %r11;
	cvt.u32.u64 %r7, %rd8; cvt.u32.u64 %r8, %rd9; add.u32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8;
	st.shared.u32 [%rd6+512], %r6; st.shared.u32 [%rd6+1024], %r5; ld.shared.u32 %r7, [%rd6+516]; ld.shared.u32 %r8, [%rd6+1020]; add.u32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8;
	ld.shared.u32 %r7, [%rd5+512]; ld.shared.u32 %r8, [%rd5+1028]; add.u32 %r6, %r6, %r7; @%p2 xor.b32 %r6, %r6, %r8;
	and.b32 %r12, %r5, 7; setp.eq.u32 %p3, %r12, 7; @!%p3 bra M; @%p2 bra M; add.u32 %r6, %r6, 1;
M:	ld.global.u32 %r7, [%rd1+4092]; ld.global.u32 %r8, [%rd1+4064]; add.u32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8; st.shared.u32 [%rd6], %r6; ld.shared.u32 %r7, [%rd6+4]; add.u32 %r6, %r6, %r7;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	st.global.u32 [%rd4+8192], %r6;`

// TestReach compares compiled accesses that are looked at together with those of the interpreter.
func TestReach(t *testing.T) {
	run := func(when Native, page uint64) []uint32 {
		m := exectest.NewMemory(page)
		k := kernel(t, build(t, "k.ptx", source("", reachBody), m), "k")
		data := make([]uint32, 4096)
		for i := range data {
			data[i] = uint32(i) * 0x9e3779b1
		}
		writeAll(m, exectest.BufA, data)
		require.NoError(t, Run(k, Launch{Grid: grid(2, 1, 1), Block: grid(64, 1, 1), Native: when,
			Params: params(uint64(exectest.BufA), uint64(0), uint32(100))}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA+8192, 64)
	}
	want := run(NativeNever, 4096)
	require.Equal(t, want, run(NativeAtOnce, 4096))
	require.Equal(t, want, run(NativeAtOnce, 1<<16))
}

// TestReachFault has the last of several loads by a register in a page that is not there.
func TestReachFault(t *testing.T) {
	run := func(when Native) *gpu.LostError {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", `mov.u32 %r5, 0;
			L: add.u64 %rd7, %rd1, 4064; ld.global.u32 %r6, [%rd7]; ld.global.u32 %r7, [%rd7+16]; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 9; @%p1 bra L;
			M: add.u64 %rd7, %rd1, 4064; ld.global.u32 %r6, [%rd7+4]; ld.global.u32 %r7, [%rd7+28]; ld.global.u32 %r7, [%rd7+32]; bra M;`), m), "k")
		m.Map(exectest.BufA, 4096)
		err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Native: when, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
		var lost *gpu.LostError
		require.ErrorAs(t, err, &lost)
		return lost
	}
	lost := run(NativeAtOnce)
	require.Equal(t, gpu.LostAddress, lost.Cause)
	require.EqualValues(t, exectest.BufA+4096, lost.Addr)
	require.Equal(t, run(NativeNever), lost)
}
