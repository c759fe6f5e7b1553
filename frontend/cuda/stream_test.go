package cuda

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/cudatest"
	"pvdrm/gpu"
)

// add queues ptr[0:n] += v on a stream.
func add(t require.TestingT, f *Function, s *Stream, p DevicePtr, v int) {
	require.NoError(t, f.Launch(one(s), p, 4, v))
}

// newAdder makes a context on a lazy device, a kernel "add" and 4 zeroed int32.
func newAdder(t *testing.T) (*cudatest.GPU, *Context, *Function, DevicePtr) {
	g := cudatest.NewGPU(t)
	g.KernelAdd()
	c := newContext(t, g)
	p := mustAlloc(t, c, 16)
	require.NoError(t, c.MemsetD8(p, 0, 16))
	g.SetLazy(true)
	return g, c, mustFunction(t, c, "add"), p
}

// The default stream comes after what other streams had queued, and they after it.
func TestLegacyDefaultStream(t *testing.T) {
	_, c, f, p := newAdder(t)
	a, b := mustStream(t, c), mustStream(t, c)
	add(t, f, a, p, 1)
	add(t, f, b, p, 2)
	require.Equal(t, byte(3), readBack(t, c, p, 1)[0], "the copy waits for both")
	add(t, f, nil, p, 4)
	add(t, f, b, p, 8)
	require.NoError(t, b.Synchronize())
	require.NoError(t, c.def.Query(), "the default stream's work was needed for b's")
	require.NoError(t, a.Query())
	require.Equal(t, byte(15), readBack(t, c, p, 1)[0])
}

func TestNonBlockingStream(t *testing.T) {
	_, c, f, p := newAdder(t)
	s, err := c.NewStreamNonBlocking()
	require.NoError(t, err)
	add(t, f, s, p, 1)
	require.Equal(t, byte(0), readBack(t, c, p, 1)[0], "the default stream does not wait")
	add(t, f, nil, p, 2)
	require.NoError(t, s.Synchronize())
	isResult(t, ErrNotReady, c.def.Query())
	require.Equal(t, byte(3), readBack(t, c, p, 1)[0])
}

// A point is waited for once: later work of the stream is behind it anyway.
func TestWaitsAreNotRepeated(t *testing.T) {
	_, c, f, p := newAdder(t)
	a := mustStream(t, c)
	add(t, f, a, p, 1)
	for range 3 {
		add(t, f, nil, p, 1)
	}
	waits := c.fake().Waits(c.def.channel)
	require.Len(t, waits[len(waits)-3], 1)
	require.Empty(t, waits[len(waits)-2])
	require.Empty(t, waits[len(waits)-1])
}

func TestWaitEvent(t *testing.T) {
	_, c, f, p := newAdder(t)
	a, err := c.NewStreamNonBlocking()
	require.NoError(t, err)
	b, err := c.NewStreamNonBlocking()
	require.NoError(t, err)
	e := mustEvent(t, c)
	require.NoError(t, b.WaitEvent(e), "never recorded: not waited for")
	add(t, f, a, p, 1)
	require.NoError(t, e.Record(a))
	add(t, f, a, p, 2)
	require.NoError(t, b.WaitEvent(e))
	isResult(t, ErrNotReady, b.Query(), "it waits, with nothing queued yet")
	require.NoError(t, e.Destroy(), "the wait stays")
	q := mustAlloc(t, c, 16)
	require.NoError(t, c.MemcpyDtoDAsync(q, p, 16, b))
	require.NoError(t, b.Synchronize())
	require.NoError(t, e.c.waitAll("", []point{e.last}, 0))
	isResult(t, ErrNotReady, a.Query(), "what came after the event was not waited for")
	require.Equal(t, byte(1), readBack(t, c, q, 1)[0])

	own := mustEvent(t, c)
	require.NoError(t, own.Record(b))
	require.NoError(t, b.WaitEvent(own), "a stream is always behind itself")
	require.NoError(t, b.Synchronize())
	isResult(t, ErrInvalidHandle, b.WaitEvent(nil))
	isResult(t, ErrInvalidHandle, b.WaitEvent(e))
}

// Waiting for a stream also waits for the events that it was told to wait for.
func TestSynchronizeWaitsForEvents(t *testing.T) {
	_, c, f, p := newAdder(t)
	a, b := mustStream(t, c), mustStream(t, c)
	e := mustEvent(t, c)
	add(t, f, a, p, 1)
	require.NoError(t, e.Record(a))
	require.NoError(t, b.WaitEvent(e))
	require.NoError(t, b.Synchronize())
	require.NoError(t, e.Query())
}

func TestStreamDestroy(t *testing.T) {
	g, c, f, p := newAdder(t)
	s, o := mustStream(t, c), mustStream(t, c)
	e := mustEvent(t, c)
	add(t, f, s, p, 1)
	require.NoError(t, e.Record(s))
	require.NoError(t, o.WaitEvent(e))
	channel := s.channel
	require.NoError(t, s.Destroy())

	// The next stream has the same channel and numbers that begin anew. What
	// was recorded on the old one is done, and not mistaken for its.
	n := mustStream(t, c)
	require.Equal(t, channel, n.channel)
	add(t, f, n, p, 2)
	require.NoError(t, e.Query())
	require.NoError(t, e.Synchronize())
	add(t, f, o, p, 4)
	require.NoError(t, o.Synchronize())
	isResult(t, ErrNotReady, n.Query())

	isResult(t, ErrInvalidHandle, s.Destroy())
	isResult(t, ErrInvalidHandle, s.Query())
	isResult(t, ErrInvalidHandle, s.Synchronize())
	isResult(t, ErrInvalidHandle, s.WaitEvent(e))
	isResult(t, ErrInvalidHandle, f.Launch(one(s), p, 1, 1))
	isResult(t, ErrInvalidHandle, e.Record(s))
	require.NoError(t, e.Record(n), "the old stream's slot is given up")
	require.NoError(t, o.WaitEvent(e))
	require.Equal(t, byte(7), readBack(t, c, p, 1)[0])
	require.Empty(t, g.Violations)
}

// A stream whose work could not be waited for is there as before.
func TestStreamDestroyFails(t *testing.T) {
	_, c, f, p := newAdder(t)
	s := mustStream(t, c)
	add(t, f, s, p, 1)
	c.fake().AsyncErr = syscall.ENOMEM
	isResult(t, ErrOutOfMemory, s.Destroy())
	add(t, f, s, p, 2)
	require.NoError(t, s.Destroy())
	require.Equal(t, byte(3), readBack(t, c, p, 1)[0])
}

// Streams share channels when the device has none left. Without any to share it is an error.
func TestNoChannelLeft(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.KernelAdd()
	g.Lazy = true
	c := newContext(t, g)
	f := mustFunction(t, c, "add")
	p := mustAlloc(t, c, 16)
	require.NoError(t, c.MemsetD8(p, 0, 16))
	own := g.Channels
	streams := make([]*Stream, 3*own)
	for i := range streams {
		streams[i] = mustStream(t, c)
		add(t, f, streams[i], p, 1)
	}
	require.Zero(t, g.Channels)
	require.Equal(t, byte(3*own), readBack(t, c, p, 1)[0], "the default stream waits for all of them")
	_, err := c.Device().CreateContext()
	isResult(t, ErrDeviceUnavailable, err)

	// An event orders streams of one channel and of several.
	e := mustEvent(t, c)
	for _, s := range streams[:own+1] {
		add(t, f, s, p, 1)
		require.NoError(t, e.Record(s))
		require.NoError(t, streams[own].WaitEvent(e))
	}
	add(t, f, streams[own], p, 1)
	require.NoError(t, streams[own].Synchronize())

	for i, s := range streams {
		require.NoError(t, s.Destroy())
		require.Equal(t, max(0, i+1-2*own), g.Channels, "a channel is free when its last stream is")
	}
	for g.Channels > 0 {
		other, err := c.Device().CreateContext()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, other.Destroy()) })
	}
	_, err = c.NewStream()
	isResult(t, ErrDeviceUnavailable, err)
}

// A context takes only some of a device's channels, and waits for the streams of all of them.
func TestManyStreams(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.Channels = 100
	g.KernelAdd()
	g.Lazy = true
	c := newContext(t, g)
	f := mustFunction(t, c, "add")
	p := mustAlloc(t, c, 16)
	require.NoError(t, c.MemsetD8(p, 0, 16))
	for range 200 {
		add(t, f, mustStream(t, c), p, 1)
	}
	require.Equal(t, 100-ownChannels, g.Channels)
	require.Equal(t, byte(200), readBack(t, c, p, 1)[0])
	for range maxStreams - 201 {
		mustStream(t, c)
	}
	_, err := c.NewStream()
	isResult(t, ErrOutOfMemory, err)
}

func TestEvents(t *testing.T) {
	g, c, f, p := newAdder(t)
	a, b := mustEvent(t, c), mustEvent(t, c)
	require.NoError(t, a.Query())
	require.NoError(t, a.Synchronize())
	_, err := b.Elapsed(a)
	isResult(t, ErrInvalidHandle, err)
	_, err = b.Elapsed(nil)
	isResult(t, ErrInvalidHandle, err)

	require.NoError(t, a.Record(nil))
	add(t, f, nil, p, 1)
	require.NoError(t, b.Record(nil))
	isResult(t, ErrNotReady, b.Query())
	_, err = b.Elapsed(a)
	isResult(t, ErrNotReady, err)
	require.NoError(t, b.Synchronize())
	d, err := b.Elapsed(a)
	require.NoError(t, err)
	require.Equal(t, time.Microsecond, d)
	d, err = a.Elapsed(b)
	require.NoError(t, err)
	require.Equal(t, -time.Microsecond, d)

	require.NoError(t, a.Destroy())
	isResult(t, ErrInvalidHandle, a.Destroy())
	isResult(t, ErrInvalidHandle, a.Query())
	isResult(t, ErrInvalidHandle, a.Record(nil))
	_, err = b.Elapsed(a)
	isResult(t, ErrInvalidHandle, err)
	require.Empty(t, g.Violations)
}

// An event that is recorded again counts for its last record, in whatever order
// the device comes to the two.
func TestEventRecordedAgain(t *testing.T) {
	_, c, f, p := newAdder(t)
	s, err := c.NewStreamNonBlocking()
	require.NoError(t, err)
	start, e := mustEvent(t, c), mustEvent(t, c)
	require.NoError(t, start.Record(nil))
	add(t, f, s, p, 1)
	require.NoError(t, e.Record(s))
	require.NoError(t, e.Record(nil)) // done before the one above
	require.NoError(t, e.Synchronize())
	require.NoError(t, s.Synchronize())
	d, err := e.Elapsed(start)
	require.NoError(t, err)
	require.Equal(t, time.Microsecond, d)
}

// The device may still write to the slot of an event that is destroyed; the
// memory is not used for something else before it did.
func TestDestroyedEventKeepsItsSlot(t *testing.T) {
	_, c, f, p := newAdder(t)
	e := mustEvent(t, c)
	add(t, f, nil, p, 1)
	require.NoError(t, e.Record(nil))
	slot := e.slot.addr
	require.NoError(t, e.Destroy())
	h := mustHost(t, c, stampBytes)
	other := mustEvent(t, c)
	require.NotEqual(t, DevicePtr(slot), h.DevicePtr())
	require.NotEqual(t, slot, other.slot.addr)
	require.NoError(t, c.Synchronize())
	require.Equal(t, slot, mustEvent(t, c).slot.addr, "now it is")
}

func TestEventSlotsAreGivenBack(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	s := mustStream(t, c)
	e := mustEvent(t, c)
	for i := range 10_000 {
		if i%2 == 0 {
			require.NoError(t, e.Record(s))
		} else {
			require.NoError(t, e.Record(nil))
		}
		o := mustEvent(t, c)
		require.NoError(t, o.Destroy())
	}
	require.Equal(t, 1, g.Calls["GemNew"])
}

// A fault on one stream is told to whoever waits on another.
func TestFaultOnAnotherStream(t *testing.T) {
	g, c, f, p := newAdder(t)
	g.KernelFault(uint32(gpu.LostStack))
	a, b := mustStream(t, c), mustStream(t, c)
	require.NoError(t, mustFunction(t, c, "fault").Launch(one(a)))
	add(t, f, b, p, 1)
	isResult(t, ErrHardwareStack, a.Synchronize())
	isResult(t, ErrHardwareStack, b.Synchronize())
}
