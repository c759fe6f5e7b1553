package softgpu

import (
	gocontext "context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// counting runs n rounds of a loop, each of 4 instructions, in each thread.
const counting = `
.version 6.3
.target sm_70
.address_size 64
.visible .entry count(.param .u32 n)
{
	.reg .pred %p;
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 0;
LOOP:
	add.u32 %r2, %r2, 1;
	xor.b32 %r2, %r2, 0;
	setp.lt.u32 %p, %r2, %r1;
	@%p bra LOOP;
	ret;
}
`

// modelled runs a kernel on a device with modelled time and returns what it
// took, and the device's statistics after it.
func modelled(t *testing.T, cfg Config, rounds, blocks, threads uint32) (gpu.Result, gpu.Stats) {
	t.Helper()
	cfg.ModelTime = true
	d, err := New(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	c, err := d.NewContext("model")
	require.NoError(t, err)
	m, err := c.LoadModule(gocontext.Background(), "count.ptx", []byte(counting), nil)
	require.NoError(t, err)
	f, err := m.Function("count")
	require.NoError(t, err)
	ch, err := c.NewChannel()
	require.NoError(t, err)
	done := make(chan gpu.Result, 1)
	launch := &gpu.Launch{Func: f, Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}, Params: binary.LittleEndian.AppendUint32(nil, rounds)}
	require.NoError(t, ch.Submit([]gpu.Command{launch}, func(r gpu.Result) { done <- r }))
	return <-done, d.Stats()
}

// Modelled time follows from what runs: the loop costs 4 cycles a round, and what
// stands around it 4 (a parameter, a move, the return, and nothing for the label).
func TestModelledTimeIsThatOfTheInstructions(t *testing.T) {
	const around = 3
	for _, c := range []struct {
		sms                     int
		rounds, blocks, threads uint32
		warpsOfTheBusiestOfThem uint64
	}{
		{sms: 1, rounds: 1000, blocks: 1, threads: 32, warpsOfTheBusiestOfThem: 1},
		{sms: 1, rounds: 1000, blocks: 1, threads: 64, warpsOfTheBusiestOfThem: 2},
		{sms: 1, rounds: 10, blocks: 6, threads: 32, warpsOfTheBusiestOfThem: 6},
		{sms: 2, rounds: 10, blocks: 6, threads: 32, warpsOfTheBusiestOfThem: 3},
		{sms: 4, rounds: 10, blocks: 6, threads: 32, warpsOfTheBusiestOfThem: 2},
		{sms: 64, rounds: 5, blocks: 6, threads: 256, warpsOfTheBusiestOfThem: 8},
	} {
		want := time.Duration(c.warpsOfTheBusiestOfThem * (4*uint64(c.rounds) + around))
		for range 3 {
			r, st := modelled(t, Config{SMs: c.sms}, c.rounds, c.blocks, c.threads)
			require.NoError(t, r.Err)
			require.Equal(t, want, st.ComputeBusy, "%+v", c)
		}
	}
}

// The limit of a launch counts modelled time, whatever the host takes.
func TestModelledLaunchLimit(t *testing.T) {
	r, _ := modelled(t, Config{SMs: 1, LaunchLimit: 4100 * time.Nanosecond}, 1000, 1, 32)
	require.NoError(t, r.Err)
	for _, blocks := range []uint32{2, 3} { // in one block, and in the sum of two
		r, _ = modelled(t, Config{SMs: 1, LaunchLimit: 4100 * time.Nanosecond}, 1000, blocks, 32)
		var lost *gpu.LostError
		require.ErrorAs(t, r.Err, &lost)
		require.Equal(t, gpu.LostTimeout, lost.Cause)
	}
	r, _ = modelled(t, Config{SMs: 1, LaunchLimit: time.Millisecond}, ^uint32(0), 1, 32)
	require.Error(t, r.Err)
}

func TestModelledCopies(t *testing.T) {
	d, err := New(Config{ModelTime: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	c, err := d.NewContext("model")
	require.NoError(t, err)
	const size = 8 << 20
	m, err := c.NewVRAM(size)
	require.NoError(t, err)
	base := d.Properties().VRAM.Base
	require.NoError(t, c.Map(base, m, 0, size, gpu.ProtRead|gpu.ProtWrite))
	ch, err := c.NewChannel()
	require.NoError(t, err)
	done := make(chan gpu.Result, 1)
	require.NoError(t, ch.Submit([]gpu.Command{
		&gpu.Copy{Dst: base, Src: base + size/2, Width: size / 2, Height: 1},
		&gpu.Timestamp{VA: base},
		&gpu.Copy{Dst: base + 4096, Src: base, Width: 8, Height: 1},
	}, func(r gpu.Result) { done <- r }))
	r := <-done
	require.NoError(t, r.Err)
	require.Equal(t, time.Duration(size/2/copyBytesPerNS), d.Stats().CopyBusy)
}
