package file

import (
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

func TestChannels(t *testing.T) {
	r := newRig(t, quota.Limits{quota.Channels: 1})
	_, err := r.NewChannel(0)
	require.ErrorIs(t, err, syscall.EINVAL)
	for _, id := range []uint32{drm.MaxChannels + 1, 1<<32 - 1} {
		_, err = r.NewChannel(id)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
	mended := r.failing("NewChannel")
	_, err = r.NewChannel(1)
	require.ErrorIs(t, err, errDevice)
	mended()
	r.nothingBut()
	r.channel(drm.MaxChannels)
	_, err = r.NewChannel(drm.MaxChannels)
	require.ErrorIs(t, err, syscall.EEXIST)
	_, err = r.NewChannel(1)
	require.ErrorIs(t, err, syscall.EBUSY)
	_, err = r.Channel(1)
	require.ErrorIs(t, err, syscall.ENOENT)
	r.closed()
}

// Batches have consecutive numbers; no other is accepted, and none is lost by the attempt.
func TestBatchNumbers(t *testing.T) {
	r := newRig(t, quota.Limits{})
	ch := r.channel(1)
	for _, seqno := range []uint64{0, 2, 1<<64 - 1} {
		_, err := r.Exec(ch, seqno, nil, nil)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
	r.nothingBut(quota.Channels)
	require.EqualValues(t, 1, r.exec(ch))
	require.EqualValues(t, 2, r.exec(ch))
	_, err := r.Exec(ch, 2, nil, nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.Equal(t, 2, r.held(), "the device has what is ready")
	require.Equal(t, 2, r.InFlight())
	r.end(gpu.Result{})
	require.True(t, ch.Reached(1))
	require.False(t, ch.Reached(2))
	require.EqualValues(t, 1, r.reached[1])
	require.Equal(t, 1, r.InFlight())
	r.end(gpu.Result{})
	require.Nil(t, ch.Failure())
	r.nothingBut(quota.Channels)
	r.closed()
}

// A batch waits for points of other channels, and those behind it wait with it.
func TestBatchesWait(t *testing.T) {
	r := newRig(t, quota.Limits{})
	a, b := r.channel(1), r.channel(2)
	r.exec(a)
	r.exec(a)
	left, err := r.Exec(b, 1, []drm.Point{{Channel: 1, Seqno: 1}, {Channel: 1, Seqno: 2}}, nil)
	require.NoError(t, err)
	require.True(t, left)
	r.exec(b)
	require.Equal(t, 2, r.held())
	moved, left := r.Advance()
	require.False(t, moved)
	require.True(t, left)
	r.end(gpu.Result{})
	_, left = r.Advance()
	require.True(t, left, "for one of two points")
	r.end(gpu.Result{Err: errDevice})
	moved, left = r.Advance()
	require.True(t, moved, "a point is reached by a failure, too")
	require.False(t, left)
	require.Equal(t, 2, r.held())
	r.end(gpu.Result{})
	r.end(gpu.Result{})
	require.Nil(t, b.Failure())
	require.EqualValues(t, 2, r.reached[2])
	r.closed()
}

// Waits can only be for points that exist, so nothing ever waits in a circle. A batch that waits for
// another fails in its place, and those behind it are canceled.
func TestInvalidWaits(t *testing.T) {
	for name, p := range map[string]drm.Point{
		"itself":           {Channel: 1, Seqno: 2},
		"the future":       {Channel: 2, Seqno: 1},
		"the far future":   {Channel: 1, Seqno: 1<<64 - 1},
		"no channel":       {Channel: 3, Seqno: 0},
		"no channel's id":  {Channel: 0, Seqno: 0},
		"an id far behind": {Channel: 1<<32 - 1, Seqno: 0},
	} {
		r := newRig(t, quota.Limits{})
		ch := r.channel(1)
		r.channel(2)
		r.exec(ch)
		r.exec(ch, p)
		r.exec(ch)
		require.Equal(t, 3, r.held(), "%s: each keeps its place in the order", name)
		for range 3 {
			r.end(gpu.Result{})
		}
		require.EqualValues(t, 2, ch.Failure().Seqno, name)
		require.Equal(t, ch.Failure(), r.failed[1])
		want := syscall.EINVAL
		if p.Channel != 1 && p.Channel != 2 {
			want = syscall.ENOENT
		}
		require.ErrorIs(t, ch.Failure().Err, want, name)
		require.EqualValues(t, 3, r.reached[1])
		r.closed()
	}
}

// A stream that cannot be decoded fails as a whole and names its command.
func TestInvalidStream(t *testing.T) {
	r := newRig(t, quota.Limits{})
	ch := r.channel(1)
	stream := drm.TimestampCmd{Addr: 8}.Append(nil)
	stream = drm.LaunchCmd{Function: 9}.Append(stream)
	_, err := r.Exec(ch, 1, nil, stream)
	require.NoError(t, err)
	r.end(gpu.Result{})
	require.ErrorIs(t, ch.Failure().Err, syscall.ENOENT, "the function")
	require.Equal(t, 1, ch.Failure().Index)
	r.closed()
}

// The first failure of a channel is the one that is reported.
func TestFirstFailure(t *testing.T) {
	r := newRig(t, quota.Limits{})
	ch := r.channel(1)
	for range 3 {
		r.exec(ch)
	}
	r.end(gpu.Result{})
	r.end(gpu.Result{Err: errDevice, Index: 4})
	r.end(gpu.Result{Err: gpu.ErrCanceled})
	require.Equal(t, &Failure{Seqno: 2, Err: errDevice, Index: 4}, ch.Failure())
	mended := r.failing("Submit")
	r.exec(ch)
	mended()
	require.EqualValues(t, 4, r.reached[1], "a batch that the device refuses ends at once")
	require.EqualValues(t, 2, ch.Failure().Seqno)
	r.closed()
}

// Batches that the guest may not queue fail in their place, before they are decoded.
func TestQueuedIsCharged(t *testing.T) {
	r := newRig(t, quota.Limits{quota.Queued: 2})
	ch := r.channel(1)
	for range 3 {
		r.exec(ch)
	}
	require.EqualValues(t, 2, r.guest.Used(quota.Queued))
	for range 3 {
		r.end(gpu.Result{})
	}
	require.ErrorIs(t, ch.Failure().Err, syscall.EBUSY)
	require.EqualValues(t, 3, ch.Failure().Seqno)
	r.nothingBut(quota.Channels)
	r.closed()

	r = newRig(t, quota.Limits{quota.QueuedBytes: 1})
	ch = r.channel(1)
	r.exec(ch)
	r.end(gpu.Result{})
	require.ErrorIs(t, ch.Failure().Err, syscall.EBUSY)
	r.nothingBut(quota.Channels)
	r.closed()
}

// The owner stops taking batches when many are in flight, or large ones.
func TestFull(t *testing.T) {
	r := newRig(t, quota.Limits{})
	ch := r.channel(1)
	for range maxInFlight {
		require.False(t, r.Full())
		r.exec(ch)
	}
	require.True(t, r.Full())
	r.end(gpu.Result{})
	require.False(t, r.Full())
	for r.held() > 0 {
		r.end(gpu.Result{})
	}
	large := make([]byte, 0, drm.MaxExecBytes)
	for len(large) < drm.MaxExecBytes-16 {
		large = drm.TimestampCmd{Addr: 8}.Append(large)
	}
	n := 0
	for ; !r.Full(); n++ {
		_, err := r.Exec(ch, ch.Submitted()+1, nil, large)
		require.NoError(t, err)
	}
	require.Less(t, n, maxInFlight)
	r.closed()
}

// A channel that is freed drops what waits, behind what the device has; its id is taken until then.
func TestFreeChannel(t *testing.T) {
	r := newRig(t, quota.Limits{})
	a, b := r.channel(1), r.channel(2)
	r.exec(a)
	r.exec(b, drm.Point{Channel: 1, Seqno: 1})
	fr, err := r.FreeChannel(2)
	require.NoError(t, err)
	_, err = r.FreeChannel(2)
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = r.Channel(2)
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = r.NewChannel(2)
	require.ErrorIs(t, err, syscall.EEXIST)
	r.exec(a, drm.Point{Channel: 2, Seqno: 1})
	fr.Wait()
	_, left := r.Advance()
	require.False(t, left, "nothing of a channel that is being freed begins")
	require.NoError(t, r.EndFree(fr))
	require.ErrorIs(t, b.Failure().Err, gpu.ErrClosed)
	require.True(t, b.Reached(1), "those that wait for it go on")
	require.EqualValues(t, 1, r.guest.Used(quota.Channels))
	again := r.channel(2)
	require.Zero(t, again.Submitted())

	fr, err = r.FreeChannel(2)
	require.NoError(t, err)
	mended := r.failing("Channel.Close")
	fr.Wait()
	mended()
	require.ErrorIs(t, r.EndFree(fr), errDevice)
	require.EqualValues(t, 1, r.guest.Used(quota.Channels))
	r.closed()
}

// The device ends batches on goroutines of its own, while the owner queues more and closes the file.
func TestCloseWithWorkInFlight(t *testing.T) {
	r := newRig(t, quota.Limits{})
	var device sync.WaitGroup
	batches := make(chan func(gpu.Result), 1000)
	r.dev.Submit = func(_ []gpu.Command, done func(gpu.Result)) { batches <- done }
	for range 2 { // two engines; the batches of a channel end in order only on one
		device.Go(func() {
			for done := range batches {
				done(gpu.Result{})
			}
		})
	}
	a, b := r.channel(1), r.channel(2)
	for range 300 {
		r.exec(a)
		r.exec(b, drm.Point{Channel: 1, Seqno: a.Submitted()})
		r.Advance()
	}
	r.dev.Closing = sync.OnceFunc(func() { // the context aborts what it has
		close(batches)
		device.Wait()
	})
	r.closed()
	require.Zero(t, r.held())
}

func TestStatusAndOutput(t *testing.T) {
	r := newRig(t, quota.Limits{})
	cause, text := r.Status()
	require.Equal(t, gpu.LostNone, cause)
	require.Empty(t, text)
	require.Empty(t, r.File.Output(), "the device keeps none")
	require.EqualValues(t, 12345, r.Used())
	require.GreaterOrEqual(t, len(r.Params()), int(drm.ParamSystemPage))
	r.dev.Lost = &gpu.LostError{Cause: gpu.LostTrap, Kernel: "k"}
	cause, text = r.Status()
	require.Equal(t, gpu.LostTrap, cause)
	require.Contains(t, text, "k")
	r.closed()

	full := &Guest{}
	full.SetLimits(quota.Limits{quota.Contexts: 1})
	first, err := Open(r.dev, full, "a", r)
	require.NoError(t, err)
	_, err = Open(r.dev, full, "b", r)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.NoError(t, first.Close())
	mended := r.failing("NewContext")
	_, err = Open(r.dev, full, "a", r)
	require.ErrorIs(t, err, errDevice)
	mended()
	require.Zero(t, full.Used(quota.Contexts))
}
