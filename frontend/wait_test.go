package frontend

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// fakeCarrier has memory but no backend: the test plays it.
type fakeCarrier struct {
	carrier.Carrier
	bell     chan struct{} // ends a Sleep
	sleeping chan struct{} // gets a token for each Sleep
	broken   atomic.Bool
}

func newFakeLink(t *testing.T) (*link, *fakeCarrier, *hypercall.Ring) {
	t.Helper()
	c := &fakeCarrier{bell: make(chan struct{}, 1), sleeping: make(chan struct{}, 100)}
	l, err := newLink(c, hypercall.DefaultLayout, Config{})
	require.NoError(t, err)
	backend, err := hypercall.New(l.pages.Mem, hypercall.DefaultLayout)
	require.NoError(t, err)
	return l, c, backend
}

func (*fakeCarrier) Capset() hypercall.Capset { return hypercall.Capset{} }

func (c *fakeCarrier) Alloc(n uint64) (*carrier.Pages, error) {
	return &carrier.Pages{Mem: make([]byte, n)}, nil
}
func (c *fakeCarrier) Attach(*carrier.Pages, hypercall.Doorbell) error { return nil }
func (c *fakeCarrier) Settle() error                                   { return nil }
func (c *fakeCarrier) SleepExits() bool                                { return false }
func (c *fakeCarrier) Kick() error                                     { return nil }

func (c *fakeCarrier) Sleep(time.Duration) error {
	c.sleeping <- struct{}{}
	<-c.bell
	if c.broken.Load() {
		return syscall.ENODEV
	}
	return nil
}

func (c *fakeCarrier) notify(r *hypercall.Ring) {
	if r.WakeFrontend() {
		c.bell <- struct{}{}
	}
}

// guard bounds a wait that a bug would make endless.
const guard = 5 * time.Minute

func receive(t *testing.T, ch <-chan error, what string) error {
	t.Helper()
	select {
	case err := <-ch:
		return err
	case <-time.After(guard):
		require.Fail(t, what)
		return nil
	}
}

// An event for a waiter that does not lead comes while the leader polls for
// another one: nobody is asleep, so nothing is notified. The waiter must hear of
// it before the leader sleeps.
func TestFollowerHearsWhatWasNotNotified(t *testing.T) {
	l, c, backend := newFakeLink(t)
	var armed atomic.Bool
	var looks, before atomic.Int64
	leader, follower := make(chan error, 1), make(chan error, 1)
	go func() {
		leader <- l.wait(func() bool {
			if !backend.FrontendAsleep() && armed.CompareAndSwap(true, false) {
				for looks.Load() == before.Load() { // the leader's waking is reported: let that pass
					runtime.Gosched()
				}
				backend.SetDone(2, 1)
				c.notify(backend)
			}
			return backend.Done(1) >= 1
		}, -1)
	}()
	<-c.sleeping
	go func() {
		follower <- l.wait(func() bool { looks.Add(1); return backend.Done(2) >= 1 }, -1)
	}()
	for looks.Load() < 2 { // it has looked, taken the progress channel and looked again
		runtime.Gosched()
	}
	before.Store(looks.Load())
	armed.Store(true)
	c.bell <- struct{}{} // the leader wakes for no reason, polls, and sees the event come
	require.NoError(t, receive(t, follower, "the follower sleeps although its event has come"))
	backend.SetDone(1, 1)
	c.notify(backend)
	require.NoError(t, receive(t, leader, "the leader sleeps although its event has come"))
}

func TestLeadershipPassesOn(t *testing.T) {
	l, c, backend := newFakeLink(t)
	const waiters = 8
	ended := make(chan error, waiters)
	for i := range uint32(waiters) {
		go func() { ended <- l.wait(func() bool { return backend.Done(i+1) >= 1 }, -1) }()
	}
	<-c.sleeping
	for i := range uint32(waiters) {
		backend.SetDone(i+1, 1)
		c.notify(backend)
		require.NoError(t, receive(t, ended, "a waiter was forgotten"))
	}
}

func TestWaitTimesOut(t *testing.T) {
	l, _, _ := newFakeLink(t)
	require.ErrorIs(t, l.wait(func() bool { return false }, 0), syscall.ETIME)
	require.NoError(t, l.wait(func() bool { return true }, 0))
}

func TestEveryoneIsToldThatTheBackendIsGone(t *testing.T) {
	l, c, _ := newFakeLink(t)
	const waiters = 4
	ended := make(chan error, waiters)
	for range waiters {
		go func() { ended <- l.wait(func() bool { return false }, -1) }()
	}
	<-c.sleeping
	c.broken.Store(true)
	close(c.bell)
	for range waiters {
		require.ErrorIs(t, receive(t, ended, "a waiter waits for a backend that is gone"), syscall.ENODEV)
	}
	require.ErrorIs(t, l.post(hypercall.OpNop, nil), syscall.ENODEV)
}

func TestAnswersFindTheirCallers(t *testing.T) {
	l, c, backend := newFakeLink(t)
	in, out := backend.RequestsIn(), backend.CompletionsOut()
	stop := make(chan struct{})
	served := make(chan error, 1)
	go func() { // a backend that answers each request with its own payload, in reverse order where it can
		buf := make([]byte, hypercall.MaxMessage)
		for {
			select {
			case <-stop:
				served <- nil
				return
			default:
			}
			type answer struct {
				h       hypercall.Header
				payload []byte
			}
			var batch []answer
			for {
				h, payload, ok, err := in.Get(buf)
				if err != nil {
					served <- err
					return
				}
				if !ok {
					break
				}
				batch = append(batch, answer{hypercall.Header{Op: h.Op, ID: h.ID}, append([]byte{}, payload...)})
			}
			for i := len(batch) - 1; i >= 0; i-- {
				if _, err := out.Put(batch[i].h, batch[i].payload); err != nil {
					served <- err
					return
				}
			}
			if out.Publish() {
				c.bell <- struct{}{}
			}
			runtime.Gosched()
		}
	}()
	const callers, rounds = 8, 200
	ended := make(chan error, callers)
	for i := range byte(callers) {
		go func() {
			for round := range byte(rounds) {
				b, err := l.do(hypercall.OpNop, []byte{i, round})
				if err == nil && (len(b) != 2 || b[0] != i || b[1] != round) {
					err = syscall.EPROTO
				}
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range callers {
		require.NoError(t, receive(t, ended, "a caller waits for ever"))
	}
	close(stop)
	require.NoError(t, <-served)
}

// What comes in while a caller looks for its own answer reaches those it is for: an
// asynchronous failure, and the answer of somebody who waits.
func TestQuickHandsOnWhatIsNotItsOwn(t *testing.T) {
	l, c, backend := newFakeLink(t)
	in, out := backend.RequestsIn(), backend.CompletionsOut()
	buf := make([]byte, hypercall.MaxMessage)
	// As if two others had asked before: the answer of one is still to come, and
	// nobody waits for that of the other.
	earlier := &call{id: 1}
	l.nextID, l.calls = 2, append(l.calls, earlier)
	answered := make(chan error, 1)
	go func() {
		for {
			h, payload, ok, err := in.Get(buf)
			if err != nil {
				answered <- err
				return
			}
			if !ok {
				runtime.Gosched()
				continue
			}
			for _, answer := range []struct {
				h       hypercall.Header
				payload []byte
			}{
				{hypercall.Header{Op: hypercall.OpGemClose, ID: 2, Errno: uint32(syscall.ENOENT)}, nil},
				{hypercall.Header{Op: hypercall.OpNop, ID: 1}, []byte("earlier")},
				{hypercall.Header{Op: h.Op, ID: h.ID}, payload},
			} {
				if _, err = out.Put(answer.h, answer.payload); err != nil {
					break
				}
			}
			if out.Publish() { // the caller sleeps: this goroutine came late to the processor
				c.bell <- struct{}{}
			}
			answered <- err
			return
		}
	}()
	var r room
	b, err := l.doInto(hypercall.OpNop, []byte("own"), &r)
	require.NoError(t, err)
	require.Equal(t, "own", string(b))
	require.NoError(t, receive(t, answered, "the request did not come"))
	require.True(t, earlier.done.Load())
	require.Equal(t, "earlier", string(earlier.answer))
	require.ErrorIs(t, l.takeAsync(), syscall.ENOENT)
	require.False(t, l.leading.Load())
	require.Empty(t, l.calls)
}

// The errno of an answer is the caller's, and a link that broke answers nobody.
func TestQuickFailures(t *testing.T) {
	l, c, backend := newFakeLink(t)
	in, out := backend.RequestsIn(), backend.CompletionsOut()
	refuse := func() {
		buf := make([]byte, hypercall.MaxMessage)
		for {
			if h, _, ok, _ := in.Get(buf); ok {
				_, _ = out.Put(hypercall.Header{Op: h.Op, ID: h.ID, Errno: uint32(syscall.ENOSPC)}, []byte("full"))
				if out.Publish() {
					c.bell <- struct{}{}
				}
				return
			}
			runtime.Gosched()
		}
	}
	go refuse()
	b, err := l.do(hypercall.OpModuleLoad, nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, "full", string(b), "what the backend says of it")

	backend.SetState(hypercall.StateEnded)
	_, err = l.do(hypercall.OpNop, nil)
	require.ErrorIs(t, err, syscall.ENODEV)
	require.False(t, l.leading.Load())
}
