package file

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// A device that takes batches behind points gets them before the points are reached, in order.
func TestBatchesFollow(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(r *rig, a, b, c *Channel)
		waits   []drm.Point
		want    []uint64 // batches of the points that the device got; nil where it was not asked
		refuses bool
		err     error
		held    int  // batches that the device has then
		waiting bool // on the host
	}{
		{name: "one", waits: []drm.Point{{Channel: 1, Seqno: 2}}, want: []uint64{2}, held: 5},
		{name: "two, one of them reached", waits: []drm.Point{{Channel: 1, Seqno: 1}, {Channel: 3, Seqno: 1}}, want: []uint64{1}, held: 4,
			prepare: func(r *rig, _, _, _ *Channel) { r.end(gpu.Result{}) }},
		{name: "two", waits: []drm.Point{{Channel: 1, Seqno: 2}, {Channel: 3, Seqno: 1}}, want: []uint64{2, 1}, held: 5},
		{name: "its own and another", waits: []drm.Point{{Channel: 2, Seqno: 1}, {Channel: 1, Seqno: 1}}, want: []uint64{1}, held: 5},
		{name: "refused", waits: []drm.Point{{Channel: 1, Seqno: 2}}, want: []uint64{2}, refuses: true, held: 4, waiting: true},
		{name: "closed", waits: []drm.Point{{Channel: 1, Seqno: 2}}, want: []uint64{2}, err: gpu.ErrClosed, held: 4},
		{name: "restored", waits: []drm.Point{{Channel: 1, Seqno: 2}}, held: 4, waiting: true,
			prepare: func(_ *rig, a, _, _ *Channel) { a.restored = true }},
		{name: "poisoned", waits: []drm.Point{{Channel: 1, Seqno: 2}}, held: 4, waiting: true,
			prepare: func(_ *rig, _, b, _ *Channel) { b.poison = &Failure{Seqno: 1, Err: errDevice} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, quota.Limits{})
			var got []uint64
			r.dev.Follow = func(points []gpu.Point, done func(gpu.Result)) (bool, error) {
				got = nil
				for _, p := range points {
					got = append(got, p.Batch)
				}
				if test.refuses || test.err != nil {
					return false, test.err
				}
				r.dev.Submit(nil, done)
				return true, nil
			}
			a, b, c := r.channel(1), r.channel(2), r.channel(3)
			r.exec(a)
			r.exec(a)
			r.exec(b)
			r.exec(c)
			if test.name == "two, one of them reached" { // the third channel's
				r.mu.Lock()
				last := r.pending[3]
				r.pending = append([]func(gpu.Result){last}, r.pending[:3]...)
				r.mu.Unlock()
			}
			if test.prepare != nil {
				test.prepare(r, a, b, c)
			}
			r.exec(b, test.waits...)
			require.Equal(t, test.want, got)
			require.Equal(t, test.held, r.held())
			_, left := r.Advance()
			require.Equal(t, test.waiting, left)
			for r.held() > 0 {
				r.end(gpu.Result{})
				r.Advance()
			}
			require.True(t, b.Reached(2))
			require.Equal(t, test.err != nil || test.name == "poisoned", b.Failure() != nil)
			r.closed()
		})
	}
}
