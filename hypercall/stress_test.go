package hypercall

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// bell is a doorbell: like an eventfd it keeps one ring until somebody waits.
type bell chan struct{}

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

const stressRounds = 20000

// echo is the session's thread: it returns each request, and has a point completed for it.
func echo(b *Ring, points chan<- uint64, toBackend, toFrontend bell) (echoed int, err error) {
	defer close(points)
	in, out := b.RequestsIn(), b.CompletionsOut()
	buf := make([]byte, MaxMessage)
	for echoed < stressRounds {
		h, payload, ok, err := in.Get(buf)
		if err != nil {
			return echoed, err
		}
		if !ok {
			if wait(in, echoed) {
				if in.Sleep() {
					<-toBackend
				}
				in.Awake()
			}
			continue
		}
		for ok := false; !ok; {
			if ok, err = out.Put(h, payload); err != nil {
				return echoed, err
			}
			if !ok {
				runtime.Gosched() // the frontend is awake: it has completions to take
			}
		}
		if out.Publish() {
			toFrontend.ring()
		}
		echoed++
		points <- uint64(echoed)
	}
	return echoed, nil
}

// demand is the frontend's thread, with up to 100 requests under way.
func demand(t *testing.T, f *Ring, toBackend, toFrontend bell) {
	out, in := f.Requests(), f.Completions()
	buf := make([]byte, MaxMessage)
	sent, got := 0, 0
	for got < stressRounds || f.Done(3) < stressRounds {
		for batch := 0; batch < 1+sent%7 && sent < stressRounds && sent-got < 100; batch++ {
			ok, err := out.Put(Header{Op: OpExec, ID: uint32(sent)}, stressPayload(sent))
			require.NoError(t, err)
			if !ok {
				break
			}
			sent++
		}
		if out.Publish() {
			toBackend.ring()
		}
		h, payload, ok, err := in.Get(buf)
		require.NoError(t, err)
		if ok {
			require.Equal(t, uint32(got), h.ID)
			require.True(t, bytes.Equal(stressPayload(got), payload), "message %d changed", got)
			got++
			continue
		}
		if done := f.Done(3); wait(in, got) && (sent == stressRounds || sent-got == 100) {
			if in.Sleep() && f.Done(3) == done && done < stressRounds {
				<-toFrontend
			}
			in.Awake()
		}
	}
}

// TestTwoSidesUnderLoad runs a backend that echoes requests and completes
// points, and a frontend that waits for both, each polling a little and then
// sleeping on its bell. The test hangs if a wake-up is lost.
func TestTwoSidesUnderLoad(t *testing.T) {
	f, b := newPair(t, smallLayout)
	toBackend, toFrontend := make(bell, 1), make(bell, 1)
	points := make(chan uint64, 64)
	var threads sync.WaitGroup
	threads.Go(func() { // the device's thread, which stores points
		for point := range points {
			b.SetDone(3, point)
			if b.WakeFrontend() {
				toFrontend.ring()
			}
		}
	})
	var echoed int
	var sessionErr error
	threads.Go(func() { echoed, sessionErr = echo(b, points, toBackend, toFrontend) })
	demand(t, f, toBackend, toFrontend)
	threads.Wait()
	require.NoError(t, sessionErr)
	require.Equal(t, stressRounds, echoed)
	require.EqualValues(t, stressRounds, f.Done(3))
}

// wait polls for a moment, for a different number of times at each step, and
// reports whether nothing came.
func wait(c *Consumer, step int) bool {
	for range step % 5 {
		if c.Ready() {
			return false
		}
		runtime.Gosched()
	}
	return !c.Ready()
}

func stressPayload(i int) []byte {
	return bytes.Repeat([]byte{byte(i), byte(i >> 8), 0x5a}, i%300)
}
