package nvidia_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// stepSource has a kernel whose launches have to run in order: it multiplies a word by three and adds one.
const stepSource = `.version 6.0
.target sm_50
.address_size 64
.visible .entry step(.param .u64 p, .param .u32 v)
{
	.reg .u64 %a;
	.reg .u32 %r<3>;
	ld.param.u64 %a, [p];
	ld.param.u32 %r0, [v];
	ld.global.u32 %r1, [%a];
	mad.lo.u32 %r2, %r1, 3, %r0;
	st.global.u32 [%a], %r2;
	ret;
}
`

// stepper runs graphs on the first NVIDIA GPU.
type stepper struct {
	*fakeClient // which is none here
	mem         []byte
	va, vram    uint64
}

func newStepper(t *testing.T, config nvidia.Config) *stepper {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	t.Cleanup(nvidia.SetGraphTime(time.Second))
	config.Keeper = keeperCommand(chosenWorker())
	dev, err := nvidia.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	c := &stepper{fakeClient: &fakeClient{T: t, dev: dev, props: dev.Properties()}}
	c.ctx, err = dev.NewContext("graphs")
	require.NoError(t, err)
	c.ch, err = c.ctx.NewChannel()
	require.NoError(t, err)
	c.load()
	c.vram = c.fakeClient.vram()
	c.mem, c.va = c.granted(4096)
	return c
}

func (c *stepper) load() {
	var err error
	c.mod, err = c.ctx.LoadModule(context.Background(), "step.ptx", []byte(stepSource), nil)
	require.NoError(c, err)
}

// steps is a batch that begins with a word, does n steps, and brings the word and the time to granted memory.
func (c *stepper) steps(first uint32, n int) (cmds []gpu.Command, want uint32) {
	at := c.vram + 1024
	cmds = append(cmds, &gpu.Fill{Dst: c.vram, Size: 1, Width: 32, Height: 8, Pitch: 64}, &gpu.Fill{Dst: at, Pattern: first, Size: 4, Width: 4, Height: 1})
	for i := range uint32(n) {
		cmds = append(cmds, c.launch("step", binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, at), i)...))
		first = 3*first + i
	}
	return append(cmds, &gpu.Copy{Dst: c.vram + 512, Src: at, Width: 4, Height: 1}, &gpu.Copy{Dst: c.va, Src: c.vram + 512, Width: 4, Height: 1},
		&gpu.Copy{Dst: c.va + 1024, Src: c.vram, Width: 16, Height: 4, DstPitch: 16, SrcPitch: 64}, &gpu.Timestamp{VA: c.va + 2048}), first
}

// works runs such a batch some times.
func (c *stepper) works(times int, first uint32, n int) {
	c.Helper()
	for range times {
		before := binary.LittleEndian.Uint64(c.mem[2048:])
		clear(c.mem[:2048])
		cmds, want := c.steps(first, n)
		require.NoError(c, c.do(cmds...).Err)
		require.Equal(c, want, binary.LittleEndian.Uint32(c.mem))
		require.Greater(c, binary.LittleEndian.Uint64(c.mem[2048:]), before)
	}
}

// The driver's graphs do what single commands do, in the same order, while modules and memory come and go.
func TestGraphOnTheGPU(t *testing.T) {
	c := newStepper(t, nvidia.Config{VRAMBytes: 16 << 30})
	graphs := func() uint64 { return c.dev.Stats().Graphs }
	c.works(6, 5, 10)
	require.EqualValues(t, 4, graphs())
	for n := range 40 { // graphs of up to 100 kernels
		c.works(3, uint32(n), 1+5*(n%20))
	}
	require.EqualValues(t, 44, graphs())
	require.NoError(t, c.ctx.Unmap(c.vram, c.props.VRAM.Page))
	c.fakeClient.vram()
	c.works(4, 5, 10)
	old := c.mod
	c.load()
	require.NoError(t, old.Close())
	for n := range 1500 { // more than there are slots
		c.works(3, uint32(n), 4)
	}
	require.Zero(t, c.dev.Stats().GraphsApart)
	require.Greater(t, graphs(), uint64(44+3+900))
	require.NoError(t, c.mod.Close())
	require.NoError(t, c.ctx.Err())
}

// A graph that faults ends its context alone.
func TestFaultingGraphOnTheGPU(t *testing.T) {
	c := newStepper(t, nvidia.Config{VRAMBytes: 16 << 30})
	cmds, _ := c.steps(1, 10)
	for range 3 {
		require.NoError(t, c.do(cmds...).Err)
	}
	require.EqualValues(t, 1, c.dev.Stats().Graphs)
	m, err := c.ctx.NewVRAM(c.props.VRAM.Page)
	require.NoError(t, err)
	at := c.props.VRAM.Base + 8*c.props.VRAM.Page
	require.NoError(t, c.ctx.Map(at, m, 0, m.Size(), gpu.ProtRead|gpu.ProtWrite))
	var far []gpu.Command
	for i := range uint32(nvidia.GraphLeast) {
		far = append(far, c.launch("step", binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, at), i)...))
	}
	for range 3 {
		require.NoError(t, c.do(far...).Err)
	}
	require.EqualValues(t, 2, c.dev.Stats().Graphs)
	require.NoError(t, c.ctx.Unmap(at, m.Size())) // the kernels' own matter
	var lost *gpu.LostError
	require.ErrorAs(t, c.do(far...).Err, &lost)
	require.Equal(t, gpu.LostAddress, lost.Cause)
	next, err := c.dev.NewContext("next")
	require.NoError(t, err)
	require.NoError(t, next.Close())
}

// BenchmarkGraph launches ten kernels that come again and again, as a graph and one by one.
func BenchmarkGraph(b *testing.B) {
	for _, way := range []struct {
		name   string
		config nvidia.Config
	}{{name: "graph", config: nvidia.Config{}}, {name: "single", config: nvidia.Config{NoGraphs: true}}} {
		b.Run(way.name, func(b *testing.B) {
			x := newBenchOf(b, way.config)
			var cmds []gpu.Command
			for range 10 {
				cmds = append(cmds, x.launch("nothing", nil))
			}
			for b.Loop() {
				x.do(cmds...)
			}
		})
	}
}
