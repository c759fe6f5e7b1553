package vhostuser_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/backend/vhostuser/vhosttest"
)

// Whatever happens to a queue, each request comes back exactly once, with its own
// answer, unless the driver was reset meanwhile.
func TestQueueModel(t *testing.T) {
	type sent struct {
		head   uint16
		msg    []byte
		answer []byte
		chain  heldChain
	}
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
		q := f.NewQueue(0, 8)
		q.EventIdx = features&vhosttest.FeatureEventIdx != 0
		base := rapid.Uint16().Draw(rt, "first index")
		q.Seek(base)
		q.Start(base)

		var held []sent
		back := func(want sent) {
			head, n := q.Wait()
			require.Equal(rt, want.head, head)
			require.Equal(rt, reversed(want.msg), want.answer[:n])
		}
		rt.Repeat(map[string]func(*rapid.T){
			"send": func(rt *rapid.T) {
				if len(held) == 4 { // two descriptors each
					rt.Skip("the queue is full")
				}
				s := sent{msg: rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(rt, "message")}
				cut := rapid.IntRange(0, len(s.msg)).Draw(rt, "cut")
				in, out := f.Alloc(128, 8), f.Alloc(128, 8)
				copy(f.Bytes(in, 128), s.msg)
				s.answer = f.Bytes(out, 128)
				if rapid.Bool().Draw(rt, "indirect") {
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
				s.chain = <-e.held
				held = append(held, s)
			},
			"complete": func(rt *rapid.T) {
				if len(held) == 0 {
					rt.Skip("nothing is in flight")
				}
				i := rapid.IntRange(0, len(held)-1).Draw(rt, "which")
				s := held[i]
				held = append(held[:i:i], held[i+1:]...)
				s.chain.complete()
				back(s)
			},
			"pause": func(rt *rapid.T) {
				at := q.Stop()
				n := rapid.IntRange(0, len(held)).Draw(rt, "completed meanwhile")
				for _, s := range held[:n] {
					s.chain.complete()
				}
				f.ShareMemory()
				q.Start(at)
				for _, s := range held[:n] {
					back(s)
				}
				held = held[n:]
			},
			"new memory table": func(*rapid.T) { f.ShareMemory() },
			"reset": func(*rapid.T) {
				q.Stop()
				f.Set(vhosttest.ResetDevice, nil)
				q.Reset()
				q.Start(0)
				for _, s := range held {
					s.chain.complete()
				}
				held = nil
			},
			"": func(*rapid.T) {
				_, _, ok := q.Poll()
				require.False(rt, ok, "a request came back that nobody completed")
			},
		})
		require.NoError(t, f.Conn.Close())
	})
}
