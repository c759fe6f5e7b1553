package nvidia

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// worker are the objects of a worker that can be stopped, with so many channels.
func objectsOf(channels int) census {
	var c census
	c.add(10, allocation(1, 2, 3, classSubdevice)[:allocParams])
	for i := range uint32(channels) {
		c.add(10, allocation(1, 4, 100+i, 0xc86f)[:allocParams])
		c.add(10, allocation(1, 100+i, 1000+i, 0xc8b5)[:allocParams]) // copies
		if i%2 == 0 {
			c.add(10, allocation(1, 100+i, 2000+i, 0xcbc0)[:allocParams])
		}
	}
	return c
}

func TestCensus(t *testing.T) {
	c := objectsOf(3)
	c.add(10, allocation(1, 2, 9, 0x40)[:allocParams]) // memory
	got, err := c.target(map[int32]int{10: 77})
	require.NoError(t, err)
	require.Equal(t, target{fd: 77, client: 1, device: 2, subdevice: 3, channels: []channelOf{
		{client: 1, handle: 100, computes: true}, {client: 1, handle: 101}, {client: 1, handle: 102, computes: true}}}, got)
	for want, change := range map[string]func(*census){
		"gave no handles":     func(c *census) { c.add(10, allocation(1, 4, 0, 0xc86f)[:allocParams]) },
		"no channels":         func(c *census) { *c = census{} },
		"channels for kernel": func(c *census) { c.computes = nil },
		"no subdevice":        func(c *census) { c.objects[0].client = 7 },
		"closed":              func(c *census) { c.objects[0].device = 11 },
	} {
		c := objectsOf(3)
		change(&c)
		_, err := c.target(map[int32]int{10: 77})
		require.ErrorContains(t, err, want)
	}
	for range maxObjects {
		c.add(10, allocation(1, 4, 5, 0xc86f)[:allocParams])
	}
	_, err = c.target(map[int32]int{10: 77})
	require.Error(t, err, "some are not noted")
}

// rm keeps what is asked of it.
type rm struct {
	status uint32
	errno  unix.Errno

	mu    sync.Mutex
	on    map[uint32]bool // channels, by handle
	sizes []uint32        // of the lists
}

func (r *rm) call(fd int, request uint32, argument, params []byte) unix.Errno {
	r.mu.Lock()
	defer r.mu.Unlock()
	field := func(b []byte, at uint32) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	if fd != 77 || request != requestControl || field(argument, controlClient) != 1 || field(argument, controlObject) != 3 ||
		field(argument, controlCommand) != disableChannels || field(argument, controlSize) != uint32(len(params)) {
		return unix.ENOTTY
	}
	n := field(params, disableCount)
	r.sizes = append(r.sizes, n)
	for i := range n {
		r.on[field(params, disableHandles+4*i)] = params[disableOff] == 0
	}
	binary.LittleEndian.PutUint32(argument[controlStatus:], r.status)
	return r.errno
}

// running counts the channels that are on.
func (r *rm) running() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, on := range r.on {
		if on {
			n++
		}
	}
	return n
}

// lists are the sizes of the lists so far.
func (r *rm) lists() []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sizes)
}

// newStopped starts a stopper for a worker with so many channels, and returns the backend's end.
func newStopped(t *testing.T, r *rm, channels int) (*stopper, *stopLine) {
	return newStoppedOf(t, r, channels, true)
}

func newStoppedOf(t *testing.T, r *rm, channels int, runs bool) (*stopper, *stopLine) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	s, l := newStopper(fds[0], newStore()), &stopLine{fd: fds[1]}
	r.on = map[uint32]bool{}
	c := objectsOf(channels)
	of, err := c.target(map[int32]int{10: 77})
	s.begin(of, err, r.call, runs)
	t.Cleanup(l.close)
	t.Cleanup(s.close)
	return s, l
}

func TestStopper(t *testing.T) {
	const channels = 150
	r := &rm{}
	_, l := newStopped(t, r, channels)
	require.NoError(t, l.order(stopAsk, time.Minute))
	require.Equal(t, channels, r.running())
	require.Equal(t, []uint32{64, 64, 22}, r.lists(), "all were let run once, to find out that it works")
	require.NoError(t, l.order(stopKernels, time.Minute))
	require.Equal(t, channels/2, r.running())
	require.NoError(t, l.order(stopAll, time.Minute))
	require.Zero(t, r.running())
	require.NoError(t, l.order(stopNone, time.Minute))
	require.Equal(t, channels, r.running())
}

func TestStopperOfADriverThatRefuses(t *testing.T) {
	_, l := newStopped(t, &rm{status: 0x1b}, 3)
	require.ErrorContains(t, l.order(stopAsk, time.Minute), "status 0x1b")
	require.ErrorIs(t, l.order(stopAll, time.Minute), errUnstoppable)
	_, l = newStopped(t, &rm{errno: unix.EPERM}, 3)
	require.ErrorContains(t, l.order(stopAll, time.Minute), "operation not permitted")
	_, l = newStopped(t, &rm{}, 0)
	require.ErrorContains(t, l.order(stopAll, time.Minute), "does not know them")
}

// A worker that only compiles never runs anything on the GPU.
func TestStopperOfACompiler(t *testing.T) {
	r := &rm{}
	_, l := newStoppedOf(t, r, 3, false)
	require.ErrorIs(t, l.order(stopNone, time.Minute), errUnstoppable)
	require.Zero(t, r.running())
}

// A keeper that takes too long is not waited for, and what it says later is not taken for the next
// answer.
func TestLateKeeper(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	l := &stopLine{fd: fds[1]}
	t.Cleanup(l.close)
	require.ErrorIs(t, l.order(stopAll, time.Millisecond), errNoAnswer)
	answer := func(number, status uint32) {
		_, err := unix.Write(fds[0], binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, number), status))
		require.NoError(t, err)
	}
	answer(1, 0x99)
	answer(2, 0)
	require.NoError(t, l.order(stopNone, time.Minute))
	_, err = unix.Write(fds[0], make([]byte, answerBytes+1))
	require.NoError(t, err)
	require.ErrorContains(t, l.order(stopAsk, time.Minute), "takes no orders")
	require.NoError(t, unix.Close(fds[0]))
	require.ErrorIs(t, l.order(stopAsk, time.Minute), errUnstoppable)
}

// A backend that sends what is no order is served no longer.
func TestStopperOfABadBackend(t *testing.T) {
	for name, order := range map[string][]byte{"unknown": {0: 1, 4: stopEnds, stopBytes - 1: 0}, "short": {1}, "long": make([]byte, stopBytes+1), "none": {}} {
		t.Run(name, func(t *testing.T) {
			s, l := newStopped(t, &rm{}, 3)
			_, err := unix.Write(l.fd, order)
			require.NoError(t, err)
			<-s.served
			s.awaitRunning() // does not wait
		})
	}
}

// What could bring a stopped channel back waits until it goes on.
func TestResetWaitsForAStoppedChannel(t *testing.T) {
	s, l := newStopped(t, &rm{}, 3)
	s.awaitRunning()
	require.NoError(t, l.order(stopKernels, time.Minute))
	reset := make(chan struct{})
	go func() {
		s.awaitRunning()
		close(reset)
	}()
	time.Sleep(10 * time.Millisecond)
	select {
	case <-reset:
		require.Fail(t, "it did not wait")
	default:
	}
	require.NoError(t, l.order(stopNone, time.Minute))
	<-reset
}
