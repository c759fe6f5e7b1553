package exec

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// relayed is what the kernel relay leaves.
func relayed(blocks, threads, rounds int) []uint32 {
	v := make([]uint32, blocks*threads)
	for i := range v {
		v[i] = uint32(i)
	}
	for range rounds {
		next := make([]uint32, len(v))
		for i := range v {
			next[i] = 3*v[i] + v[(i+threads)%len(v)]
		}
		v = next
	}
	return v
}

func gridKernel(t *testing.T, name string) (*Kernel, *exectest.Memory) {
	m := exectest.NewMemory(4096)
	k := kernel(t, buildFile(t, "grid.ptx", m), name)
	m.Map(exectest.BufA, 64<<10)
	return k, m
}

func relay(blocks, threads, rounds int) Launch {
	return Launch{Grid: grid(uint32(blocks), 1, 1), Block: grid(uint32(threads), 1, 1), Cooperative: true,
		Params: params(uint64(exectest.BufA), uint32(rounds))}
}

// TestGridBarrier checks that the blocks of a cooperative launch wait for each other, as many as
// there are, interpreted and compiled.
func TestGridBarrier(t *testing.T) {
	k, m := gridKernel(t, "relay")
	for _, native := range []Native{NativeNever, NativeAtOnce} {
		for _, shape := range [][2]int{{1, 1}, {2, 32}, {4, 256}, {7, 33}, {16, 96}} {
			t.Run(fmt.Sprint(native, shape), func(t *testing.T) {
				for range 3 { // workers that are used again
					l := relay(shape[0], shape[1], 20)
					l.Native = native
					require.NoError(t, Run(k, l, m, new(Control), 16))
					require.Equal(t, relayed(shape[0], shape[1], 20), readAll[uint32](m, exectest.BufA, shape[0]*shape[1]))
				}
			})
		}
	}
}

// TestGridTooLarge checks that a cooperative launch has no more blocks than run at the same time,
// however many workers it is offered.
func TestGridTooLarge(t *testing.T) {
	k, m := gridKernel(t, "relay")
	require.ErrorIs(t, Run(k, relay(5, 32, 1), m, new(Control), 4), gpu.ErrGridTooLarge)
	require.NoError(t, Run(k, relay(4, 32, 1), m, new(Control), 4))
	huge := relay(1, 1, 1)
	huge.Grid = grid(1<<31-1, 65535, 65535)
	require.ErrorIs(t, Run(k, huge, m, new(Control), 1<<20), gpu.ErrGridTooLarge)
	deep := relay(2, 1024, 1)
	deep.SharedBytes, deep.Limits = 30<<20, DefaultLimits()
	deep.Limits.SharedBytes = 30 << 20
	require.ErrorIs(t, Run(k, deep, m, new(Control), 16), gpu.ErrGridTooLarge, "their memory")
	deep.Grid = grid(1, 1, 1)
	require.NoError(t, Run(k, deep, m, new(Control), 16))
}

// TestWorkspace checks what a kernel sees of the workspace: nothing in an ordinary launch.
func TestWorkspace(t *testing.T) {
	k, m := gridKernel(t, "show")
	l := Launch{Grid: grid(1, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA))}
	for _, native := range []Native{NativeNever, NativeAtOnce} {
		l.Native, l.Cooperative = native, true
		require.NoError(t, Run(k, l, m, new(Control), 1))
		require.Equal(t, []uint32{0, uint32(GridBase >> 32), 8, 0}, readAll[uint32](m, exectest.BufA, 4))
		l.Cooperative = false
		require.NoError(t, Run(k, l, m, new(Control), 1))
		require.Equal(t, []uint32{0, 0, 8, 0}, readAll[uint32](m, exectest.BufA, 4))
	}
}

// TestGridBarrierEndless checks that a barrier which some blocks never reach ends at the limit.
func TestGridBarrierEndless(t *testing.T) {
	k, m := gridKernel(t, "alone")
	for _, native := range []Native{NativeNever, NativeAtOnce} {
		l := Launch{Grid: grid(8, 1, 1), Block: grid(64, 1, 1), Cooperative: true, Native: native, Params: params(uint64(exectest.BufA))}
		c := &Control{Deadline: time.Now().Add(20 * time.Millisecond)}
		require.Equal(t, gpu.LostTimeout, lost(t, Run(k, l, m, c, 8)).Cause)
	}
}

// TestGridBarrierPreempted checks that a cooperative launch goes on after it was preempted at any
// time, from what was encoded, also while blocks wait for others.
func TestGridBarrierPreempted(t *testing.T) {
	const blocks, threads, rounds = 6, 64, 200
	k, m := gridKernel(t, "relay")
	l, stops := relay(blocks, threads, rounds), 0
	var other *State
	for {
		c := new(Control)
		var space Space = m
		if stops < 3 {
			space = pausing{Memory: m, control: c}
		}
		l.Native = []Native{NativeNever, NativeAtOnce}[stops%2]
		timer := time.AfterFunc(time.Duration(50+20*stops)*time.Microsecond, c.Preempt)
		err := Run(k, l, space, c, blocks)
		timer.Stop()
		var stopped *Preempted
		if !errors.As(err, &stopped) {
			require.NoError(t, err)
			break
		}
		stops++
		code, err := stopped.State.MarshalBinary()
		require.NoError(t, err)
		l.From = new(State)
		require.NoError(t, l.From.UnmarshalBinary(code))
		other = l.From
	}
	require.Positive(t, stops)
	require.Equal(t, relayed(blocks, threads, rounds), readAll[uint32](m, exectest.BufA, blocks*threads))

	l.From, l.Cooperative = other, false
	require.ErrorIs(t, Run(k, l, m, new(Control), blocks), gpu.ErrInvalid, "the launch is not cooperative")
	l.Cooperative = true
	require.ErrorIs(t, Run(k, l, m, new(Control), blocks-1), gpu.ErrGridTooLarge, "fewer multiprocessors than before")
}

// BenchmarkGridBarrier measures a barrier of a whole grid.
func BenchmarkGridBarrier(b *testing.B) {
	m := exectest.NewMemory(4096)
	k, ok := buildFile(b, "grid.ptx", m).Kernel("relay")
	require.True(b, ok)
	m.Map(exectest.BufA, 64<<10)
	for _, blocks := range []int{2, 4, 16} {
		b.Run(fmt.Sprint(blocks, " blocks"), func(b *testing.B) {
			l := relay(blocks, 256, max(b.N/2, 1))
			require.NoError(b, Run(k, l, m, new(Control), blocks))
		})
	}
}
