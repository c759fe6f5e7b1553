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
		require.Equal(t, [3]uint32{4, 5, 6}, p.Block)
		order = append(order, len(p.Params))
	}
	require.Equal(t, []int{0, 3, 0}, order)
	require.Zero(t, l.bytes)

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
