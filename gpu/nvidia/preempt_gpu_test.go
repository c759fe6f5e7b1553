package nvidia_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// TestPreemptEndlessKernel takes a kernel that counts off the first NVIDIA GPU and lets it go on, again and
// again, with the worker confined. It stands still while it is stopped, and loses nothing.
func TestPreemptEndlessKernel(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	k := startCounting(t, dev)
	p := k.ctx.(gpu.Preempter)
	if err := p.Preempt(context.Background()); err != nil {
		require.ErrorIs(t, err, gpu.ErrUnsupported)
		t.Skipf("this driver: %v", err)
	}
	require.NoError(t, p.Resume())
	const rounds = 200
	var off, on, again []time.Duration
	for range rounds {
		begin := time.Now()
		require.NoError(t, p.Preempt(context.Background()))
		off = append(off, time.Since(begin))
		before := k.count()
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, before, k.count(), "it runs while it is stopped")
		begin = time.Now()
		require.NoError(t, p.Resume())
		on = append(on, time.Since(begin))
		for k.count() == before {
		}
		again = append(again, time.Since(begin))
		require.Greater(t, k.count(), before, "it began again")
		time.Sleep(2 * time.Millisecond)
	}
	for _, x := range []struct {
		what string
		took []time.Duration
	}{{what: "off", took: off}, {what: "on", took: on}, {what: "counts again", took: again}} {
		slices.Sort(x.took)
		t.Logf("%s: p50 %v p99 %v most %v", x.what, x.took[rounds/2], x.took[rounds*99/100], x.took[rounds-1])
	}
	hostmem.SwapUint32(k.mem, 64, 1)
	require.NoError(t, (<-k.done).Err)
}

// counter is a context with a kernel that counts in granted memory.
type counter struct {
	ctx    gpu.Context
	ch     gpu.Channel
	launch *gpu.Launch
	mem    []byte
	done   chan gpu.Result
}

func (k *counter) count() uint32 { return hostmem.LoadUint32(k.mem, 0) }

func startCounting(t *testing.T, dev gpu.Device) *counter {
	k := newCounting(t, dev)
	require.NoError(t, k.ch.Submit([]gpu.Command{k.launch}, func(r gpu.Result) { k.done <- r }))
	require.Eventually(t, func() bool { return k.count() != 0 }, 5*time.Minute, time.Millisecond)
	return k
}

func newCounting(t *testing.T, dev gpu.Device) *counter {
	k := &counter{done: make(chan gpu.Result, 1)}
	var err error
	k.ctx, err = dev.NewContext("counts")
	require.NoError(t, err)
	region, err := hostmem.New(4096)
	require.NoError(t, err)
	t.Cleanup(region.Release)
	k.mem = region.Bytes()
	sys, err := k.ctx.NewSystem([][]byte{k.mem})
	require.NoError(t, err)
	at := dev.Properties().System.Base
	require.NoError(t, k.ctx.Map(at, sys, 0, sys.Size(), gpu.ProtRead|gpu.ProtWrite))
	k.ch, err = k.ctx.NewChannel()
	require.NoError(t, err)
	mod, err := k.ctx.LoadModule(context.Background(), "count.ptx", []byte(countSource), nil)
	require.NoError(t, err)
	f, err := mod.Function("count")
	require.NoError(t, err)
	k.launch = &gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, at)}
	return k
}

// TestWorkOnItsOwn has a worker run a kernel of which its backend knows nothing, on the first NVIDIA
// GPU. A context beside it that does nothing is left alone.
func TestWorkOnItsOwn(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker), Gate: wantedGate{}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	idle, k := newCounting(t, dev), newCounting(t, dev)
	if err := k.ctx.(gpu.Preempter).Resume(); err != nil {
		require.ErrorIs(t, err, gpu.ErrUnsupported)
		t.Skipf("this driver: %v", err)
	}
	require.NoError(t, nvidia.LaunchOnItsOwn(k.ch, k.launch))
	begin := time.Now()
	require.Eventually(t, func() bool { return k.ctx.Err() != nil }, 5*time.Minute, time.Millisecond)
	t.Logf("after %v: %v", time.Since(begin), k.ctx.Err())
	var lost *gpu.LostError
	require.ErrorAs(t, k.ctx.Err(), &lost)
	require.Equal(t, gpu.LostDevice, lost.Cause)
	require.NoError(t, idle.ctx.Err())
}

// TestPreemptAtAnyTimeOnAGPU stops contexts on the first NVIDIA GPU at any moment of what they do: while they
// copy, compile and load modules, make and close channels, unmap memory, fault, lose their worker or its
// keeper, and close. A context beside them goes on.
func TestPreemptAtAnyTimeOnAGPU(t *testing.T) {
	if _, err := nvidia.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	for _, last := range []struct {
		name string
		end  func(t *testing.T, k *counter)
	}{
		{name: "close", end: func(*testing.T, *counter) {}},
		{name: "fault", end: func(t *testing.T, k *counter) {
			k.launch.Params = binary.LittleEndian.AppendUint64(nil, 0x1000) // nothing is mapped there
			lost := make(chan gpu.Result, 1)
			require.NoError(t, k.ch.Submit([]gpu.Command{k.launch}, func(r gpu.Result) { lost <- r }))
			require.ErrorAs(t, (<-lost).Err, new(*gpu.LostError))
		}},
		{name: "death of the worker", end: func(t *testing.T, k *counter) {
			require.NoError(t, unix.Kill(workerOf(t), unix.SIGKILL))
			require.Eventually(t, func() bool { return k.ctx.Err() != nil }, 5*time.Minute, time.Millisecond)
		}},
		{name: "death of the keeper", end: func(t *testing.T, k *counter) {
			require.NoError(t, unix.Kill(keeperOf(t), unix.SIGKILL))
			require.Eventually(t, func() bool { return k.ctx.Err() != nil }, 5*time.Minute, time.Millisecond)
		}},
	} {
		t.Run(last.name, func(t *testing.T) {
			gate := &turnGate{}
			dev, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(realWorker), Gate: gate, LaunchLimit: -1})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, dev.Close()) })
			k := newCounting(t, dev)
			p := k.ctx.(gpu.Preempter)
			if err := p.Resume(); err != nil {
				require.ErrorIs(t, err, gpu.ErrUnsupported)
				t.Skipf("this driver: %v", err)
			}
			ends := make(chan struct{})
			stops, rounds := make(chan int, 1), 0
			go func() {
				for {
					select {
					case <-ends:
						stops <- rounds
						return
					default:
					}
					gate.preempts[gpu.EngineCompute].Store(true)
					err := p.Preempt(context.Background())
					time.Sleep(rand.N(time.Millisecond))
					if err == nil && p.Resume() == nil { // fails when the context has ended
						rounds++
					}
					time.Sleep(rand.N(3 * time.Millisecond)) // a context that is never on the GPU gets nowhere
				}
			}()
			busyContext(t, dev, k)
			last.end(t, k)
			require.NoError(t, k.ctx.Close())
			close(ends)
			t.Logf("stopped %d times", <-stops)
			if last.name == "death of the keeper" {
				return // a device has one
			}
			next := startCounting(t, dev)
			hostmem.SwapUint32(next.mem, 64, 1)
			require.NoError(t, (<-next.done).Err, "the device lives")
		})
	}
}

// busyContext does all that a context can.
func busyContext(t *testing.T, dev gpu.Device, k *counter) {
	hostmem.SwapUint32(k.mem, 64, 1) // its kernels end at once
	props := dev.Properties()
	for i := range 12 {
		vram, err := k.ctx.NewVRAM(2 * props.VRAM.Page)
		require.NoError(t, err)
		require.NoError(t, k.ctx.Map(props.VRAM.Base, vram, 0, vram.Size(), gpu.ProtRead|gpu.ProtWrite))
		half := vram.Size() / 2
		results := make(chan gpu.Result, 8)
		submit := func(ch gpu.Channel, cmds ...gpu.Command) {
			require.NoError(t, ch.Submit(cmds, func(r gpu.Result) { results <- r }))
		}
		submit(k.ch, &gpu.Fill{Dst: props.VRAM.Base, Pattern: uint32(i), Size: 4, Width: half, Height: 1}, k.launch,
			&gpu.Copy{Src: props.VRAM.Base, Dst: props.VRAM.Base + half, Width: half, Height: 1})
		more, err := k.ctx.NewChannel()
		require.NoError(t, err)
		submit(more, k.launch, k.launch)
		m, err := k.ctx.LoadModule(context.Background(), "again.ptx", fmt.Appendf(nil, "%s// %d\n", countSource, i), nil)
		require.NoError(t, err)
		require.NoError(t, m.Close())
		for range 2 {
			require.NoError(t, (<-results).Err)
		}
		require.NoError(t, more.Close())
		require.NoError(t, k.ctx.Unmap(props.VRAM.Base, vram.Size()))
		require.NoError(t, vram.Close())
	}
}
