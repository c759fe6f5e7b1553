package vhostuser_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/backend/virtio/vhostuser/vhosttest"
)

// modelledQueue is a queue and the requests that it holds.
type modelledQueue struct {
	*vhosttest.Queue
	f    *vhosttest.Frontend
	e    *echo
	held []heldRequest
}

type heldRequest struct {
	head   uint16
	msg    []byte
	answer []byte
	chain  heldChain
}

// back takes a request's answer, which must be the next.
func (q *modelledQueue) back(t *rapid.T, want heldRequest) {
	head, n := q.Wait()
	require.Equal(t, want.head, head)
	require.Equal(t, reversed(want.msg), want.answer[:n])
}

func (q *modelledQueue) send(t *rapid.T) {
	if len(q.held) == 4 { // two descriptors each
		t.Skip("the queue is full")
	}
	s := heldRequest{msg: rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "message")}
	cut := rapid.IntRange(0, len(s.msg)).Draw(t, "cut")
	in, out := q.f.Alloc(128, 8), q.f.Alloc(128, 8)
	copy(q.f.Bytes(in, 128), s.msg)
	s.answer = q.f.Bytes(out, 128)
	if rapid.Bool().Draw(t, "indirect") {
		s.head = q.AddIndirect(
			vhosttest.Buf{Addr: in, Len: uint32(cut)},
			vhosttest.Buf{Addr: in + uint64(cut), Len: uint32(len(s.msg) - cut)},
			vhosttest.Buf{Addr: out, Len: 128, Write: true})
	} else {
		s.head = q.Add(
			vhosttest.Buf{Addr: in, Len: uint32(len(s.msg))},
			vhosttest.Buf{Addr: out, Len: 128, Write: true})
	}
	q.Kick()
	s.chain = <-q.e.held
	q.held = append(q.held, s)
}

func (q *modelledQueue) complete(t *rapid.T) {
	if len(q.held) == 0 {
		t.Skip("nothing is in flight")
	}
	i := rapid.IntRange(0, len(q.held)-1).Draw(t, "which")
	s := q.held[i]
	q.held = slices.Delete(q.held, i, i+1)
	s.chain.complete()
	q.back(t, s)
}

// pause stops the queue, completes some requests meanwhile, and starts it.
func (q *modelledQueue) pause(t *rapid.T) {
	at := q.Stop()
	n := rapid.IntRange(0, len(q.held)).Draw(t, "completed meanwhile")
	for _, s := range q.held[:n] {
		s.chain.complete()
	}
	q.f.ShareMemory()
	q.Start(at)
	for _, s := range q.held[:n] {
		q.back(t, s)
	}
	q.held = q.held[n:]
}

func (q *modelledQueue) reset(*rapid.T) {
	q.Stop()
	q.f.Set(vhosttest.ResetDevice, nil)
	q.Reset()
	q.Start(0)
	for _, s := range q.held {
		s.chain.complete()
	}
	q.held = nil
}

// Whatever happens to a queue, each request comes back exactly once, with its own
// answer, unless the driver was reset meanwhile.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := newEcho()
		e.hold = true
		f, _, _ := serve(t, e)
		features := uint64(vhosttest.Features)
		if rapid.Bool().Draw(rt, "flags only") {
			features &^= vhosttest.FeatureEventIdx
		}
		f.Hello(features)
		f.ShareMemory()
		q := &modelledQueue{Queue: f.NewQueue(0, 8), f: f, e: e}
		q.EventIdx = features&vhosttest.FeatureEventIdx != 0
		base := rapid.Uint16().Draw(rt, "first index")
		q.Seek(base)
		q.Start(base)
		rt.Repeat(map[string]func(*rapid.T){
			"send":             q.send,
			"complete":         q.complete,
			"pause":            q.pause,
			"new memory table": func(*rapid.T) { f.ShareMemory() },
			"reset":            q.reset,
			"": func(rt *rapid.T) {
				_, _, ok := q.Poll()
				require.False(rt, ok, "a request came back that was not completed")
			},
		})
		require.NoError(t, f.Conn.Close())
	})
}
