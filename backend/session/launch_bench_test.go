package session

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/file/fakegpu"
	"pvdrm/drm"
	"pvdrm/hypercall"
)

// BenchmarkExec measures what a session does for a batch, on a device that ends each at once. The
// pump sleeps meanwhile.
func BenchmarkExec(b *testing.B) {
	fake := &fakegpu.Device{}
	r := &rig{TB: b, dev: fake, fake: fake, group: &Group{}, log: zap.NewNop()}
	f := r.open()
	require.Zero(b, f.ofID(hypercall.OpChannelAlloc, 1))
	m := hypercall.Exec{Channel: 1, Stream: drm.TimestampCmd{Addr: 8}.Append(nil)}
	payload := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		m.Seqno++
		payload = m.Append(payload[:0])
		if err := f.Session.handle(hypercall.Header{Op: hypercall.OpExec}, payload); err != nil {
			b.Fatal(err)
		}
	}
}
