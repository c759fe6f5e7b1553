package exec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// strideBody has registers whose lanes follow one another: sums and products of the thread's place, in blocks of operations
// behind branches and barriers, alive across accesses, changed in some lanes, and with BASE, which may be so that 32 bits wrap around
// between lanes. It adds all of them up.
const strideBody = `.shared .align 16 .b8 s[8192]; .reg .b32 %x<30>; .reg .b64 %y<30>;
	mov.u32 %x1, %tid.y; mov.u32 %x2, %ntid.y; mov.u32 %x4, %tid.z; mad.lo.u32 %x1, %x4, %x2, %x1; mov.u32 %x2, %ntid.x; mad.lo.u32 %x3, %x1, %x2, %r2; mul.wide.u32 %y1, %x3, 4; add.u64 %y2, %rd1, %y1;
	mov.u32 %x0, 0; mov.u32 %x20, 0;
L:	ld.global.u32 %x5, [%y2]; add.u32 %x0, %x0, %x5; add.u32 %x6, %r2, BASE; mul.wide.u32 %y3, %x6, 4; ld.global.u32 %x5, [%y2+4]; mul.wide.s32 %y4, %x6, 8; xor.b32 %x0, %x0, %x5;
	cvt.u64.u32 %y5, %x6; ld.global.u32 %x5, [%y2]; cvt.s64.s32 %y6, %x6; mad.wide.u32 %y7, %x6, 16, %y3; add.u32 %x0, %x0, %x5; shl.b64 %y8, %y7, 1; sub.u64 %y9, %y8, %y4; add.u64 %y10, %y3, %y9;
	cvt.u32.u64 %x7, %y3; cvt.u32.u64 %x8, %y4; mad.lo.u32 %x0, %x0, 31, %x7; xor.b32 %x0, %x0, %x8; shr.u64 %y11, %y7, 20; cvt.u32.u64 %x7, %y11; mad.lo.u32 %x0, %x0, 29, %x7;
	xor.b64 %y11, %y5, %y6; shr.u64 %y11, %y11, 24; cvt.u32.u64 %x7, %y11; mad.lo.u32 %x0, %x0, 27, %x7; shr.u64 %y11, %y10, 17; cvt.u32.u64 %x7, %y11; mad.lo.u32 %x0, %x0, 25, %x7; cvt.u32.u64 %x7, %y9; add.u32 %x0, %x0, %x7;
	shl.b32 %x9, %x6, 3; mad.lo.u32 %x10, %x9, 8, %x1; sub.u32 %x11, %x10, %x20; add.u32 %x12, %x11, %x9; setp.lt.u32 %p2, %x12, 700; @%p2 add.u32 %x11, %x11, 5; mov.u32 %x13, %x11; add.u32 %x0, %x0, %x13; add.u32 %x0, %x0, %x12;
	setp.gt.u32 %p3, %r2, 11; @%p3 bra M; add.u32 %x10, %x10, 77; add.u32 %x14, %x10, 3; mad.lo.u32 %x0, %x0, 3, %x14; add.u32 %x15, %x14, 1; add.u32 %x0, %x0, %x15; add.u32 %x16, %x15, %x14; add.u32 %x0, %x0, %x16; shl.b32 %x16, %x16, 1; xor.b32 %x0, %x0, %x16;
M:	add.u32 %x17, %x10, 9; mad.lo.u32 %x0, %x0, 5, %x17; mov.u32 %x18, s; mad.lo.u32 %x18, %x3, 4, %x18; st.shared.u32 [%x18], %x0; bar.sync 0; ld.shared.u32 %x5, [%x18]; mad.lo.u32 %x0, %x0, 7, %x5; mul.wide.u32 %y12, %x3, 8; add.u64 %y13, %rd1, %y12;
	ld.global.u64 %y14, [%y13+OFFSET]; cvt.u32.u64 %x5, %y14; add.u32 %x0, %x0, %x5; mul.wide.u32 %y15, %x3, 16; add.u64 %y15, %y15, %rd1; ld.global.v4.u32 {%x21, %x22, %x23, %x24}, [%y15]; mad.lo.u32 %x0, %x0, 3, %x22; xor.b32 %x0, %x0, %x24; add.u32 %x0, %x0, %x1;
	cvt.u64.u32 %y16, %x3; add.u64 %y16, %y16, %rd1; ld.global.u8 %x25, [%y16+5]; add.u32 %x0, %x0, %x25; bar.sync 0; add.u32 %x20, %x20, 1; setp.lt.u32 %p1, %x20, 4; @%p1 bra L;
	st.global.u32 [%y2+OUT], %x0;`

// strideOut is where threads write what they have, behind what they read.
const strideOut = 1 << 15

// TestStrides compares operations on registers whose lanes follow one another, and accesses by them, with the interpreter's.
func TestStrides(t *testing.T) {
	blocks := [][3]uint32{{32, 1, 1}, {256, 1, 1}, {70, 1, 1}, {32, 4, 1}, {64, 2, 2}, {16, 16, 1}, {8, 8, 2}, {33, 3, 1}, {31, 1, 1}}
	for _, base := range []uint32{0, 5, 1<<31 - 16, 1<<31 - 32, 1<<32 - 16, 1<<32 - 31, 1<<32 - 32, 1<<32 - 1, 1<<32 - 300, 1<<29 - 9} {
		for _, block := range blocks {
			t.Run(fmt.Sprint(base, block), func(t *testing.T) {
				want, wrong := runStrides(t, NativeNever, base, block, 8, 1<<16)
				require.NoError(t, wrong)
				for _, size := range []uint64{4096, 1 << 16} {
					got, err := runStrides(t, NativeAtOnce, base, block, 8, size)
					require.NoError(t, err)
					require.Equal(t, want, got)
				}
			})
		}
	}
}

// TestStridesFault has accesses by such registers that are not aligned, or go beyond memory, also around the end of the
// address space.
func TestStridesFault(t *testing.T) {
	for _, c := range []struct {
		offset int
		cause  gpu.LostCause
	}{
		{offset: 4, cause: gpu.LostAlign},
		{offset: 3 * strideOut, cause: gpu.LostAddress},
		{offset: 2*strideOut - 256, cause: gpu.LostAddress}, // the last lanes alone
		{offset: 2*strideOut - 128, cause: gpu.LostAddress}, // the second half of a warp
		{offset: 2*strideOut - 248, cause: gpu.LostAddress}, // the last lane of a warp
		{offset: -exectest.BufA - 128, cause: gpu.LostAddress},
		{offset: -exectest.BufA - 8, cause: gpu.LostAddress},
		{offset: -8, cause: gpu.LostAddress}, // the first lane alone
	} {
		for _, block := range [][3]uint32{{64, 1, 1}, {32, 2, 1}, {16, 4, 1}} {
			t.Run(fmt.Sprint(c.offset, block), func(t *testing.T) {
				want, wrong := runStrides(t, NativeNever, 3, block, c.offset, 4096)
				got, err := runStrides(t, NativeAtOnce, 3, block, c.offset, 4096)
				require.Equal(t, want, got)
				require.Equal(t, wrong, err)
				require.Equal(t, c.cause, lost(t, err).Cause)
			})
		}
	}
}

// runStrides runs strideBody and returns what its threads wrote.
func runStrides(t *testing.T, when Native, base uint32, block [3]uint32, offset int, page uint64) ([]uint32, error) {
	t.Helper()
	m := exectest.NewMemory(page)
	text := strings.NewReplacer("BASE", fmt.Sprint(base), "OFFSET", fmt.Sprint(offset), "OUT", fmt.Sprint(strideOut)).Replace(strideBody)
	k := kernel(t, build(t, "k.ptx", source("", text), m), "k")
	data := make([]uint32, 2*strideOut/4)
	for i := range data {
		data[i] = uint32(i) * 0x9e3779b1
	}
	writeAll(m, exectest.BufA, data)
	err := Run(k, Launch{Grid: grid(2, 1, 1), Block: block, Native: when, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
	return readAll[uint32](m, exectest.BufA+strideOut, 1024), err
}

// TestStridesAtTheEnd has accesses whose place is known from the blocks before, and of which the last block's leaves it by some lanes.
func TestStridesAtTheEnd(t *testing.T) {
	const page = 1 << 16
	for _, c := range []struct {
		name, move string
		step       uint64
		blocks     uint32
	}{
		{name: "by half of the lanes", move: "add", step: 64, blocks: (page-128)/64 + 2},
		{name: "by one lane", move: "add", step: 4, blocks: (page-128)/4 + 2},
		{name: "before it, by half", move: "sub", step: 64, blocks: (page-128)/64 + 2},
		{name: "before it, by one", move: "sub", step: 4, blocks: (page-128)/4 + 2},
	} {
		for access, text := range map[string]string{
			"load": "ld.global.u32 %r5, [%rd6]; st.global.u32 [%rd2], %r5;", "store": "st.global.u32 [%rd6], %r3;",
		} {
			t.Run(c.name+", "+access, func(t *testing.T) {
				m := exectest.NewMemory(page)
				k := kernel(t, build(t, "k.ptx", source("", fmt.Sprintf("mul.wide.u32 %%rd5, %%r3, %d; %s.u64 %%rd6, %%rd4, %%rd5; %s", c.step, c.move, text)), m), "k")
				m.Map(exectest.BufA, page)
				m.Map(exectest.BufB, 4)
				from := uint64(exectest.BufA)
				if c.move == "sub" {
					from += page - 128
				}
				run := func(when Native, blocks uint32) error {
					return Run(k, Launch{Grid: grid(blocks, 1, 1), Block: grid(32, 1, 1), Native: when, Params: params(from, uint64(exectest.BufB), uint32(0))}, m, new(Control), 1)
				}
				require.NoError(t, run(NativeAtOnce, c.blocks-1))
				err := run(NativeAtOnce, c.blocks)
				require.Equal(t, gpu.LostAddress, lost(t, err).Cause)
				require.Equal(t, run(NativeNever, c.blocks), err)
			})
		}
	}
}
