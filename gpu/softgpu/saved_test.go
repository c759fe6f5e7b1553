package softgpu

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// large is a kernel of which one block of 1024 threads has room when it is preempted, but not two. It
// runs until the word at p is not 0.
const large = `.version 7.0
.target sm_70
.address_size 64
.visible .entry large(.param .u64 p)
{
	.local .align 8 .b8 all[12000]; .reg .b64 %d<3>; .reg .b32 %r; .reg .pred %p;
	ld.param.u64 %d1, [p]; mov.u64 %d2, all;
L:	st.local.u64 [%d2], %d1; ld.volatile.global.u32 %r, [%d1]; setp.eq.u32 %p, %r, 0; @%p bra L;
	ret;
}
`

// Launches that were preempted take a bounded part of the host's memory, in however many contexts.
// Where there is no room for another, the one that runs goes on, also after another process had the
// engine. All of them end.
func TestPreemptedLaunchesAreBounded(t *testing.T) {
	gate := newFussyGate(3)
	for name, c := range map[string]struct {
		gate   gpu.Gate
		most   int64
		pieces func(d *device) int64
	}{
		"contexts": {most: maxSaved, pieces: func(d *device) int64 { return int64(d.Stats().Preemptions) }},
		"gate":     {gate: gate, most: 2 * maxSaved, pieces: func(*device) int64 { return gate.pieces.Load() / 10 }},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDevice(t, Config{VRAMBytes: 16 << 20, SMs: 1, Gate: c.gate})
			var pages []*memory
			var ends []<-chan gpu.Result
			for range 4 {
				ctx, ch := testContext(t, d)
				page, err := ctx.newVRAM(4096)
				require.NoError(t, err)
				require.NoError(t, ctx.Map(vramBase, page, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
				l := launchOf(t, ctx, large, "large")
				l.Block[0], l.Params = 1024, binary.LittleEndian.AppendUint64(nil, vramBase)
				pages, ends = append(pages, page), append(ends, submit(t, ch, l))
			}
			saved := &d.compute.saved
			full := false // it is not at each moment
			for n := 0; n < 50 || c.pieces(d) == 0 || !full; n++ {
				now := saved.bytes.Load()
				require.LessOrEqual(t, now, c.most)
				full = full || now > maxSaved/2
				time.Sleep(5 * time.Millisecond)
			}
			for _, p := range pages {
				p.write(0, []byte{1})
			}
			for _, end := range ends {
				require.NoError(t, (<-end).Err)
			}
			require.Zero(t, saved.bytes.Load())
			require.Zero(t, saved.more.Load())
		})
	}
}
