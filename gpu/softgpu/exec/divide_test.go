package exec

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// meets is a kernel each block of which waits until all blocks of its part have begun, where a part
// is one block for each worker: it hangs if one of them is left to the next part.
const meets = `.version 6.3
.target sm_50
.address_size 64
.visible .entry meet(.param .u64 begun, .param .u64 out, .param .u32 workers)
{
	.reg .b64 %d<4>; .reg .b32 %r<9>; .reg .pred %p;
	ld.param.u64 %d1, [begun]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [workers];
	mov.u32 %r2, %ctaid.x;
	atom.global.add.u32 %r3, [%d1], 1;
	div.u32 %r4, %r2, %r1; add.u32 %r4, %r4, 1; mul.lo.u32 %r4, %r4, %r1; // the end of its part
	mov.u32 %r5, %nctaid.x; min.u32 %r4, %r4, %r5;
L:	ld.volatile.global.u32 %r6, [%d1];
	setp.lt.u32 %p, %r6, %r4;
	@%p bra L;
	mul.wide.u32 %d3, %r2, 4; add.u64 %d3, %d3, %d2;
	add.u32 %r7, %r2, 1;
	red.global.add.u32 [%d3], %r7;
	ret;
}
`

// TestDivided checks that a divided launch stops between blocks only, that each worker runs a block
// of each part, and that each block runs once.
func TestDivided(t *testing.T) {
	const workers, blocks = 3, 10
	for name, native := range map[string]Native{"interpreted": NativeNever, "compiled": NativeAtOnce} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "meet.ptx", []byte(meets), m), "meet")
			m.Map(exectest.BufA, 4096)
			m.Map(exectest.BufB, 4096)
			l := Launch{Grid: grid(blocks, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(workers)), Native: native}
			parts := runDivided(t, k, l, m, workers)
			require.Equal(t, (blocks+workers-1)/workers, parts)
			b := m.Read(exectest.BufB, 4*blocks)
			for i := range blocks {
				require.EqualValues(t, i+1, binary.LittleEndian.Uint32(b[4*i:]))
			}
		})
	}
}

// TestDividedWhole checks that a launch of no more blocks than workers is left whole.
func TestDividedWhole(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "meet.ptx", []byte(meets), m), "meet")
	m.Map(exectest.BufA, 4096)
	m.Map(exectest.BufB, 4096)
	l := Launch{Grid: grid(3, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(3)), Cooperative: true}
	require.Equal(t, 1, runDivided(t, k, l, m, 3))
}

// runDivided runs a launch in parts that are as small as can be, and returns their number.
func runDivided(t *testing.T, k *Kernel, l Launch, m *exectest.Memory, workers int) (parts int) {
	for parts = 1; ; parts++ {
		err := Run(k, l, m, &Control{Divide: true, Yield: func() bool { return true }}, workers)
		stopped, ok := errors.AsType[*Preempted](err)
		if !ok {
			require.NoError(t, err)
			return parts
		}
		require.Contains(t, stopped.Error(), "with 0 blocks under way")
		l.From = stopped.State
	}
}
