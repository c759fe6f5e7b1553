package nvidia_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// TestSignalOnTheGPU asks kernels on the first NVIDIA GPU to end, and measures how long they take from the
// wish to the result: kernels that look at each round, and ones of many blocks that look every 2.5 ms, as
// GLoop's do. It logs what a launch and its end take besides.
func TestSignalOnTheGPU(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	const rounds = 200
	for _, c := range []struct {
		name            string
		blocks, threads uint32
		every           uint64 // nanoseconds between two looks of a block
	}{
		{name: "one thread", blocks: 1, threads: 1},
		{name: "full GPU", blocks: 132, threads: 1024},
		{name: "full GPU, 2.5 ms", blocks: 132, threads: 1024, every: 2_500_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &turnGate{}
			dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker), Gate: g})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, dev.Close()) })
			k := newCounting(t, dev)
			mod, err := k.ctx.LoadModule(context.Background(), "willing.ptx", []byte(willingSource), nil)
			require.NoError(t, err)
			f, err := mod.Function("willing")
			require.NoError(t, err)
			at := dev.Properties().System.Base
			k.launch = &gpu.Launch{Func: f, Grid: [3]uint32{c.blocks, 1, 1}, Block: [3]uint32{c.threads, 1, 1}, Signal: at + 64,
				Params: binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, at), c.every)}
			var took, alone []time.Duration
			for range rounds {
				hostmem.SwapUint32(k.mem, 0, 0)
				require.NoError(t, k.ch.Submit([]gpu.Command{k.launch}, func(r gpu.Result) { k.done <- r }))
				for k.count() == 0 {
				}
				time.Sleep(time.Millisecond)
				begin := time.Now()
				g.revoked[gpu.EngineCompute].Store(true)
				require.NoError(t, (<-k.done).Err)
				took = append(took, time.Since(begin))
				require.Equal(t, uint32(1), hostmem.LoadUint32(k.mem, 64))
				g.revoked[gpu.EngineCompute].Store(false)
				begin = time.Now() // with the signal set it ends at its first look
				hostmem.SwapUint32(k.mem, 128, 1)
				require.NoError(t, k.ch.Submit([]gpu.Command{k.launch}, func(r gpu.Result) { k.done <- r }))
				require.NoError(t, (<-k.done).Err)
				alone = append(alone, time.Since(begin))
				hostmem.SwapUint32(k.mem, 64, 0)
			}
			require.Zero(t, dev.Stats().Preemptions)
			for what, list := range map[string][]time.Duration{"from the wish to the result": took, "a launch that ends at its first look": alone} {
				slices.Sort(list)
				t.Logf("%s: p50 %v p99 %v most %v", what, list[rounds/2], list[rounds*99/100], list[rounds-1])
			}
		})
	}
}

// willingSource is a kernel that writes 1 to *p, and ends when the word at p+64 is set, at which each block
// looks when a time has passed since its last look.
const willingSource = `.version 6.3
.target sm_70
.address_size 64
.visible .entry willing(.param .u64 p, .param .u64 every) {
	.reg .pred %q<2>; .reg .b32 %r<4>; .reg .b64 %d<6>; .shared .align 4 .u32 seen;
	ld.param.u64 %d1, [p]; ld.param.u64 %d2, [every];
	mov.u32 %r1, 1; st.volatile.global.u32 [%d1], %r1;
	mov.u64 %d3, %globaltimer;
	mov.u32 %r3, %tid.x; setp.ne.u32 %q1, %r3, 0;
L:	mov.u64 %d4, %globaltimer; sub.u64 %d5, %d4, %d3; setp.lt.u64 %q0, %d5, %d2;
	@%q0 bra L;
	mov.u64 %d3, %d4;
	@%q1 bra M;
	ld.volatile.global.u32 %r2, [%d1+64]; st.shared.u32 [seen], %r2;
M:	bar.sync 0;
	ld.shared.u32 %r2, [seen];
	bar.sync 0;
	setp.eq.u32 %q0, %r2, 0; @%q0 bra L;
	ret;
}
`
