package nvidia_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
	"pvdrm/gpu/nvidia"
	"pvdrm/gpu/points"
	"pvdrm/internal/hostmem"
)

// TestPointsConformance runs parts of the conformance suite on the first NVIDIA GPU with kernels in pieces.
func TestPointsConformance(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	gputest.Run(t, func(t *testing.T) gpu.Device {
		d, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker), VRAMBytes: 8 << 30})
		require.NoError(t, err)
		p, err := points.New(d, points.Config{Force: true, Short: -1, Area: 32 << 20, Far: true})
		require.NoError(t, err)
		return p
	}, "launch", "signal")
}

// loops are kernels that loop: one that computes, one that reads memory, and one whose threads meet at barriers. The
// threads of all of them leave a word each.
const loops = `.version 6.3
.target sm_70
.address_size 64
.visible .entry computes(.param .u64 p, .param .u64 data, .param .u32 rounds) {
	.reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<3>;
	ld.param.u64 %d0, [p]; ld.param.u32 %r0, [rounds];
	mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
	mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d0;
	mov.u32 %r4, 0; mov.u32 %r5, %r1;
L:	mad.lo.u32 %r5, %r5, 1664525, %r4;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %q, %r4, %r0;
	@%q bra L;
	st.global.u32 [%d1], %r5;
	ret;
}
.visible .entry reads(.param .u64 p, .param .u64 data, .param .u32 rounds) {
	.reg .pred %q; .reg .b32 %r<12>; .reg .b64 %d<6>;
	ld.param.u64 %d0, [p]; ld.param.u64 %d2, [data]; ld.param.u32 %r0, [rounds];
	mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
	mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r3;
	mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d0;
	mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r7, %r1;
L:	and.b32 %r8, %r7, 0xffffff;
	mul.wide.u32 %d3, %r8, 4; add.u64 %d3, %d3, %d2;
	ld.global.u32 %r9, [%d3]; add.u32 %r5, %r5, %r9; add.u32 %r5, %r5, %r8;
	add.u32 %r7, %r7, %r6;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %q, %r4, %r0;
	@%q bra L;
	st.global.u32 [%d1], %r5;
	ret;
}
.visible .entry meets(.param .u64 p, .param .u64 data, .param .u32 rounds) {
	.reg .pred %q; .reg .b32 %r<12>; .reg .b64 %d<6>; .shared .align 4 .b8 s[1024];
	ld.param.u64 %d0, [p]; ld.param.u32 %r0, [rounds];
	mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r6, %r2, %r3, %r1;
	mul.wide.u32 %d1, %r6, 4; add.u64 %d1, %d1, %d0;
	mov.u32 %r7, s; mad.lo.u32 %r8, %r1, 4, %r7;
	xor.b32 %r9, %r1, 33; mad.lo.u32 %r9, %r9, 4, %r7;
	mov.u32 %r4, 0; mov.u32 %r5, %r6;
L:	st.shared.u32 [%r8], %r5;
	bar.sync 0;
	ld.shared.u32 %r10, [%r9];
	bar.sync 0;
	mad.lo.u32 %r5, %r5, 1664525, %r10;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %q, %r4, %r0;
	@%q bra L;
	st.global.u32 [%d1], %r5;
	ret;
}
`

// TestPointsOnTheGPU compares kernels as they are with their twins on the first NVIDIA GPU: alone, and where each piece is
// asked to end at once. The results are the same.
func TestPointsOnTheGPU(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	const blocks, threads, runs = 1056, 256, 7
	for _, k := range []struct {
		name   string
		rounds uint32
	}{{name: "computes", rounds: 4_000_000}, {name: "reads", rounds: 20_000}, {name: "meets", rounds: 200_000}} {
		want, whole := []byte(nil), time.Duration(0)
		for _, c := range []struct {
			name        string
			asked, stay bool
		}{
			{name: "as it is", stay: true}, {name: "twin"}, {name: "in pieces", asked: true},
		} {
			g := &turnGate{}
			inner, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker), Gate: g})
			require.NoError(t, err)
			dev, err := points.New(inner, points.Config{Force: true, Short: -1, Far: true})
			require.NoError(t, err)
			x := newLooping(t, dev, k.name, blocks, threads, k.rounds)
			if c.stay {
				x.as(inner, t, k.name)
			}
			g.revoked[gpu.EngineCompute].Store(c.asked)
			var took []time.Duration
			for range runs {
				begin := time.Now()
				require.NoError(t, x.ch.Submit([]gpu.Command{x.launch}, func(r gpu.Result) { x.done <- r }))
				require.NoError(t, (<-x.done).Err)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			_, _, pieces := dev.Counts()
			if want == nil {
				want, whole = slices.Clone(x.mem), took[runs/2]
			}
			require.Equal(t, want, x.mem, "%s, %s", k.name, c.name)
			t.Logf("%s, %s: %v, %.3f of as it is; %d pieces a run", k.name, c.name, took[runs/2], float64(took[runs/2])/float64(whole), 1+pieces/runs)
			if c.asked && pieces > 0 {
				t.Logf("%s, %s: a switch costs %v", k.name, c.name, (took[runs/2]-whole)/time.Duration(max(pieces/runs, 1)))
			}
			require.NoError(t, dev.Close())
		}
	}
}

// newLooping is a context with a kernel of loops, whose words lie in granted memory.
func newLooping(t *testing.T, dev gpu.Device, kernel string, blocks, threads, rounds uint32) *counter {
	k := &counter{done: make(chan gpu.Result, 1)}
	var err error
	k.ctx, err = dev.NewContext("loops")
	require.NoError(t, err)
	region, err := hostmem.New(uint64(4*blocks*threads+4095) &^ 4095)
	require.NoError(t, err)
	t.Cleanup(region.Release)
	k.mem = region.Bytes()
	sys, err := k.ctx.NewSystem([][]byte{k.mem})
	require.NoError(t, err)
	p := dev.Properties()
	require.NoError(t, k.ctx.Map(p.System.Base, sys, 0, sys.Size(), gpu.ProtRead|gpu.ProtWrite))
	data, err := k.ctx.NewVRAM(64 << 20)
	require.NoError(t, err)
	require.NoError(t, k.ctx.Map(p.VRAM.Base, data, 0, data.Size(), gpu.ProtRead|gpu.ProtWrite))
	k.ch, err = k.ctx.NewChannel()
	require.NoError(t, err)
	mod, err := k.ctx.LoadModule(context.Background(), "loops.ptx", []byte(loops), nil)
	require.NoError(t, err)
	f, err := mod.Function(kernel)
	require.NoError(t, err)
	params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, p.System.Base), p.VRAM.Base)
	k.launch = &gpu.Launch{Func: f, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}, Params: binary.LittleEndian.AppendUint32(params, rounds)}
	return k
}

// as makes it one of a device of its own, whose kernels stay as they are.
func (k *counter) as(dev gpu.Device, t *testing.T, kernel string) {
	rounds := binary.LittleEndian.Uint32(k.launch.Params[16:])
	*k = *newLooping(t, dev, kernel, k.launch.Grid[0], k.launch.Block[0], rounds)
}
