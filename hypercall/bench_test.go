package hypercall

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkQueue moves messages from a Producer to a Consumer in one thread:
// the cost of the protocol without that of the cache lines between two
// processors. An operation is one message.
func BenchmarkQueue(b *testing.B) {
	for _, size := range []int{16, 200, 4096} {
		for _, batch := range []int{1, 32} {
			b.Run(fmt.Sprintf("payload=%d/multicall=%d", size, batch), func(b *testing.B) {
				front, back := newPair(b, Layout{MaxSlots, MinSlots, 0})
				p, c := front.Requests(), back.RequestsIn()
				payload, buf := make([]byte, size), make([]byte, MaxMessage)
				b.SetBytes(int64(HeaderBytes + size))
				b.ReportAllocs()
				for left := b.N; left > 0; left -= batch {
					n := min(batch, left)
					for range n {
						mustPutFast(b, p, payload)
					}
					p.Publish()
					for range n {
						if _, _, ok, err := c.Get(buf); !ok || err != nil {
							b.Fatal(ok, err)
						}
					}
				}
			})
		}
	}
}

func mustPutFast(b *testing.B, p *Producer, payload []byte) {
	if ok, err := p.Put(Header{Op: OpExec}, payload); !ok || err != nil {
		b.Fatal(ok, err)
	}
}

// BenchmarkPingPong is a request and its answer between two polling goroutines.
func BenchmarkPingPong(b *testing.B) {
	front, back := newPair(b, smallLayout)
	done := make(chan error, 1)
	go func() {
		in, out := back.RequestsIn(), back.CompletionsOut()
		buf := make([]byte, MaxMessage)
		for range b.N {
			for !in.Ready() {
			}
			h, payload, _, err := in.Get(buf)
			if err == nil {
				_, err = out.Put(h, payload)
			}
			if err != nil {
				done <- err
				return
			}
			out.Publish()
		}
		done <- nil
	}()
	out, in := front.Requests(), front.Completions()
	buf := make([]byte, MaxMessage)
	for range b.N {
		mustPutFast(b, out, nil)
		out.Publish()
		for !in.Ready() {
		}
		if _, _, ok, err := in.Get(buf); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	require.NoError(b, <-done)
}

func BenchmarkDecodeExec(b *testing.B) {
	m := Exec{Channel: 1, Seqno: 2, Stream: make([]byte, 200)}.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeExec(m); err != nil {
			b.Fatal(err)
		}
	}
}
