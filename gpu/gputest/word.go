package gputest

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// words returns a client and memory for it. The test ends if the device's channels do not wait
// for words.
func (r *rig) words() (*client, buffer) {
	c := r.client()
	b := c.system(4096)
	if !r.props.Words {
		require.ErrorIs(r, c.try(&gpu.Word{VA: b.va, Size: 4}).Err, gpu.ErrInvalid)
		c.alive()
		r.Skip("the device has no operations on words")
	}
	return c, b
}

// waits are a wait that holds only once the word at va is 7, and the write of that.
func waits(va uint64) (wait, write *gpu.Word) {
	return &gpu.Word{VA: va, Value: 7, Size: 4, Op: gpu.WaitEqual}, &gpu.Word{VA: va, Value: 7, Size: 4}
}

// pending checks that a batch has not ended after a time in which it could have.
func pending(r *rig, result <-chan gpu.Result) {
	r.Helper()
	select {
	case got := <-result:
		require.Fail(r, "it has ended", "%+v", got)
	case <-time.After(10 * time.Millisecond):
	}
}

var wordTests = []test{
	{"write", func(r *rig) {
		c, b := r.words()
		far := c.device(64)
		for _, va := range []uint64{b.va, far.va} {
			c.do(&gpu.Fill{Dst: va, Pattern: 0xaa, Size: 1, Width: 64, Height: 1},
				&gpu.Word{VA: va + 4, Value: 0x11111111deadbeef, Size: 4}, &gpu.Word{VA: va + 16, Value: 0x0123456789abcdef, Size: 8})
			data := c.read(va, 32)
			require.EqualValues(r, uint64(0xdeadbeefaaaaaaaa), binary.LittleEndian.Uint64(data))
			require.EqualValues(r, uint64(0xaaaaaaaaaaaaaaaa), binary.LittleEndian.Uint64(data[8:]))
			require.EqualValues(r, 0x0123456789abcdef, binary.LittleEndian.Uint64(data[16:]))
			require.EqualValues(r, uint64(0xaaaaaaaaaaaaaaaa), binary.LittleEndian.Uint64(data[24:]))
		}
	}},
	{"wait", func(r *rig) {
		c, b := r.words()
		far := c.device(64)
		c.alive() // loads the module: NVIDIA's driver loads none while a stream waits
		for _, va := range []uint64{b.va, far.va} {
			wait, write := waits(va)
			ch, err := c.NewChannel()
			require.NoError(r, err)
			waiting := c.submit(ch, wait, &gpu.Word{VA: va + 8, Value: 1<<64 - 1, Size: 8})
			c.alive() // the wait keeps no engine
			pending(r, waiting)
			require.Zero(r, binary.LittleEndian.Uint64(c.read(va+8, 8)))
			c.do(write)
			require.NoError(r, (<-waiting).Err)
			require.EqualValues(r, uint64(1<<64-1), binary.LittleEndian.Uint64(c.read(va+8, 8)))
			require.NoError(r, ch.Close())
		}
		wait, _ := waits(b.va + 128)
		waiting := c.submit(c.ch, wait)
		pending(r, waiting)
		storeWord(b.host, 128, 7) // by the owner of the memory
		require.NoError(r, (<-waiting).Err)
		for op := gpu.WordWrite; op <= gpu.WaitNor; op++ { // what holds at once
			c.do(&gpu.Word{VA: b.va + 64, Value: 5, Size: 8}, &gpu.Word{VA: b.va + 64, Value: 5, Size: 8, Op: op})
		}
	}},
	{"a wait ends with its channel, its context, or a fault", func(r *rig) {
		c, b := r.words()
		wait, _ := waits(b.va)
		ch, err := c.NewChannel()
		require.NoError(r, err)
		waiting := c.submit(ch, wait)
		pending(r, waiting)
		require.NoError(r, ch.Close())
		require.ErrorIs(r, (<-waiting).Err, gpu.ErrClosed)

		waiting = c.submit(c.ch, wait)
		pending(r, waiting)
		require.NoError(r, c.Unmap(b.va, 4096))
		r.lost((<-waiting).Err, gpu.LostAddress)

		c = r.client()
		b = c.system(4096)
		wait, _ = waits(b.va)
		waiting = c.submit(c.ch, wait)
		pending(r, waiting)
		require.NoError(r, c.Close())
		require.ErrorIs(r, (<-waiting).Err, gpu.ErrClosed)
	}},
	{"snapshot while waiting", func(r *rig) {
		c, b := r.words()
		s := c.snapshotter()
		wait, write := waits(b.va)
		waiting := c.submit(c.ch, wait)
		pending(r, waiting)
		require.NoError(r, s.Preempt(context.Background()))
		pending(r, waiting)
		_, err := s.Snapshot(context.Background(), &bytes.Buffer{})
		require.NoError(r, err)
		require.NoError(r, s.Resume())
		pending(r, waiting)
		require.NoError(r, c.try(write).Err)
		require.NoError(r, (<-waiting).Err)
	}},
	{"refused", func(r *rig) {
		c, b := r.words()
		for _, bad := range []*gpu.Word{nil, {VA: b.va + 2, Size: 4}, {VA: b.va + 4, Size: 8}, {VA: b.va, Size: 2}, {VA: b.va}, {VA: b.va, Size: 4, Op: gpu.WaitNor + 1}} {
			require.ErrorIs(r, c.try(bad).Err, gpu.ErrInvalid)
		}
		c.alive()
		r.lost(c.try(&gpu.Word{VA: 8, Size: 8, Op: gpu.WaitEqual}).Err, gpu.LostAddress)
		c, _ = r.words()
		r.lost(c.try(&gpu.Word{VA: 8, Size: 8}).Err, gpu.LostAddress)
	}},
}
