package frontend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/carrier"
	"pvdrm/gem"
	"pvdrm/hypercall"
)

// ringPages is a carrier of memory only.
type ringPages struct{ carrier.Carrier }

func (ringPages) Alloc(n uint64) (*carrier.Pages, error) {
	return &carrier.Pages{Mem: make([]byte, n)}, nil
}
func (ringPages) Capset() hypercall.Capset                        { return hypercall.Capset{} }
func (ringPages) Attach(*carrier.Pages, hypercall.Doorbell) error { return nil }

// BenchmarkNull is the frontend's part of a null ioctl: the answers are there already.
// Built with go test -c it runs in a virtual machine, too (pvdrm up --copy), where
// the processor is emulated.
func BenchmarkNull(b *testing.B) {
	l, err := newLink(ringPages{}, hypercall.DefaultLayout, Config{})
	require.NoError(b, err)
	f := &File{link: l}
	backend, err := hypercall.New(l.pages.Mem, hypercall.DefaultLayout)
	require.NoError(b, err)
	in, out, buf := backend.RequestsIn(), backend.CompletionsOut(), make([]byte, hypercall.MaxMessage)
	payload := hypercall.MemoryInfo{Used: 1}.Append(nil)
	const batch = 256
	id, best := uint32(0), time.Hour
	for b.Loop() {
		b.StopTimer()
		for {
			if _, _, ok, err := in.Get(buf); err != nil || !ok {
				break
			}
		}
		for range batch {
			id++
			ok, err := out.Put(hypercall.Header{Op: hypercall.OpMemoryInfo, ID: id}, payload)
			require.True(b, ok && err == nil)
		}
		out.Publish()
		b.StartTimer()
		start := time.Now()
		for range batch {
			if n, err := f.GetParam(drm.ParamVRAMUsed); err != nil || n != 1 {
				b.Fatal(n, err)
			}
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Nanoseconds())/batch, "best-ns/call")
}

// BenchmarkExec is the frontend's part of a batch and of the wait for it, where the
// backend has done it by then.
func BenchmarkExec(b *testing.B) {
	l, err := newLink(ringPages{}, hypercall.DefaultLayout, Config{})
	require.NoError(b, err)
	f := &File{link: l, channels: gem.NewTable[*channel]("channel", 1)}
	id, err := f.channels.Add(&channel{})
	require.NoError(b, err)
	backend, err := hypercall.New(l.pages.Mem, hypercall.DefaultLayout)
	require.NoError(b, err)
	in, buf := backend.RequestsIn(), make([]byte, hypercall.MaxMessage)
	backend.SetDone(id, 1<<60)
	stream := drm.LaunchCmd{Function: 1}.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		n, err := f.Exec(id, stream, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, ok, err := in.Get(buf); err != nil || !ok {
			b.Fatal(ok, err)
		}
		if err := f.Wait(drm.Point{Channel: id, Seqno: n}, -1); err != nil {
			b.Fatal(err)
		}
	}
}
