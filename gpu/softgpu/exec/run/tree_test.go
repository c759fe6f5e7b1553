package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// The launches that wait come back from an encoded state as they were.
func TestTreeEncoding(t *testing.T) {
	kernel := &ir.Function{Name: "kernel"}
	limits := DefaultLimits()
	tree := &Tree{}
	l := launcher{tree, &limits}
	launch := func(by uint64, tail bool, params ...byte) {
		require.Zero(t, l.Launch(&ir.Child{Kernel: kernel, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, Shared: 7, Params: params, By: by, Tail: tail}))
	}
	launch(1, true)
	launch(1, false, 1, 2, 3)
	launch(0, false, 4)
	require.Equal(t, []byte{4}, tree.Next().Params)
	waits, code := l.Synchronize(2, 100)
	require.False(t, waits, "the child has launched nothing")
	require.Zero(t, code)
	launch(6, false, 1, 2)
	waits, _ = l.Synchronize(2, 100)
	require.True(t, waits)
	require.Zero(t, l.LastError(1, 1, 4, true))
	tree.Suspend(&State{kernel: "waits", params: make([]byte, 10)})
	require.Len(t, tree.Next().Params, 2)
	launch(5, false)
	require.Zero(t, l.LastError(3, 4, 9, true))
	require.Zero(t, l.LastError(4, 4, 2, true))

	state := State{kernel: "kernel", tree: tree.clone()}
	encoded, err := state.MarshalBinary()
	require.NoError(t, err)
	var back State
	require.NoError(t, back.UnmarshalBinary(encoded))
	again, err := back.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, encoded, again)
	for n := range encoded {
		require.ErrorIs(t, new(State).UnmarshalBinary(encoded[:n]), gpu.ErrInvalid)
	}

	require.Equal(t, "kernel", back.Child().Kernel)
	l.Tree = back.Tree()
	require.EqualValues(t, 9, l.LastError(3, 4, 0, false))
	l.forget(3)
	require.Zero(t, l.LastError(3, 4, 0, false))
	require.EqualValues(t, 2, l.LastError(4, 4, 0, false))
	var order []int
	for p := l.Next(); p != nil; p = l.Next() {
		if order = append(order, len(p.Params)); p.From != nil {
			require.Equal(t, "waits", p.Kernel)
			require.EqualValues(t, 4, l.LastError(1, 1, 0, false))
			require.Zero(t, l.LastError(3, 4, 0, false))
			continue
		}
		require.Equal(t, [3]uint32{4, 5, 6}, p.Block)
	}
	require.Equal(t, []int{0, 10, 3, 0}, order)
	require.Zero(t, l.bytes)
	require.Zero(t, l.stopped)

	state.tree = nil
	encoded, err = state.MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, back.UnmarshalBinary(encoded))
	require.Nil(t, back.Tree())
	require.Nil(t, back.Child())
}

// What waits on a device is bounded over all trees, and what ran takes no memory.
func TestWaitingLaunchesAreBounded(t *testing.T) {
	limits := DefaultLimits()
	child := &ir.Child{Kernel: &ir.Function{Name: "kernel"}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: make([]byte, 1<<10)}
	var w Waiting
	a, b := launcher{NewTree(&w), &limits}, launcher{NewTree(&w), &limits}
	n := 0
	for ; a.Launch(child) == 0; n++ {
		require.Less(t, n, maxTreeBytes>>10)
	}
	require.EqualValues(t, ir.ErrPendingCount, b.Launch(child))
	for range n - 1 {
		require.NotNil(t, a.Next())
	}
	require.LessOrEqual(t, cap(a.levels[0].next), 2)
	require.Zero(t, b.Launch(child))
	c := b.clone()
	require.True(t, c.Charge(&w))
	b.Release()
	a.Release()
	require.EqualValues(t, c.bytes, w.bytes.Load())
	c.Release()
	require.Zero(t, w.bytes.Load())
}

// So are the kernels that wait for what they have launched.
func TestStoppedKernelsAreBounded(t *testing.T) {
	limits := DefaultLimits()
	child := &ir.Child{Kernel: &ir.Function{Name: "kernel"}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	var w Waiting
	a, b := launcher{NewTree(&w), &limits}, launcher{NewTree(&w), &limits}
	sync := func(l launcher, bytes int) bool {
		require.Zero(t, l.Launch(child))
		waits, code := l.Synchronize(maxSyncDepth, bytes)
		require.Equal(t, !waits, code == ir.ErrSyncDepth)
		return waits
	}
	require.False(t, sync(a, maxStopped+1))
	require.True(t, sync(a, maxStopped-100))
	require.True(t, sync(a, maxStopped), "another thread of the same kernel")
	require.False(t, sync(b, 101))
	require.True(t, sync(b, 100))
	a.Suspend(&State{})
	require.EqualValues(t, maxStopped, w.stopped.Load())
	for range 3 {
		require.Nil(t, a.Next().From)
	}
	require.NotNil(t, a.Next().From)
	require.EqualValues(t, 100, w.stopped.Load())
	require.Nil(t, b.Next().From, "it ends without having waited")
	require.Zero(t, w.stopped.Load())
	require.True(t, sync(b, 7))
	c := b.clone()
	require.Zero(t, c.stopped, "it does not wait yet")
	b.Suspend(&State{params: make([]byte, 1)})
	c = b.clone()
	require.True(t, c.Charge(&w))
	require.EqualValues(t, 14, w.stopped.Load())
	b.Release()
	c.Release()
	a.Release()
	require.Zero(t, w.stopped.Load()+w.bytes.Load())
}
