package session

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// Each operation is charged to the quotas that its row lists, and to no others.
func TestRowsCharge(t *testing.T) {
	r := newRig(t, quota.Limits{})
	r.fake.Keeps, r.fake.Images = 1, true
	r.fake.Load = func(_ context.Context, _ string, _ []byte, reserve gpu.Reserve) error { return reserve(4096) }
	submitted := make(chan func(gpu.Result), 2)
	r.fake.Submit = func(_ []gpu.Command, done func(gpu.Result)) { submitted <- done }
	r.fake.Closing = func() {
		for len(submitted) > 0 { // a context may be closed again
			done := <-submitted
			done(gpu.Result{Err: gpu.ErrClosed})
		}
	}
	f := r.open()
	stream := drm.TimestampCmd{Addr: 8}.Append(nil)
	requests := map[hypercall.Op][]byte{
		hypercall.OpGemNew:         hypercall.GemNew{Handle: 1, Size: 4096}.Append(nil),
		hypercall.OpGemGrant:       hypercall.GemGrant{Handle: 2, Resource: 2, Size: 8192}.Append(nil),
		hypercall.OpVMBind:         hypercall.VMBind{Ops: []drm.BindOp{{Op: drm.BindMap, Handle: 1, Range: 4096}}}.Append(nil),
		hypercall.OpChannelAlloc:   hypercall.ID{ID: 1}.Append(nil),
		hypercall.OpExec:           hypercall.Exec{Channel: 1, Seqno: 1, Stream: stream}.Append(nil),
		hypercall.OpModuleLoad:     hypercall.ModuleLoad{Module: 1, Bytes: 6, Total: 6}.Append(nil),
		hypercall.OpModuleFunction: hypercall.Symbol{Module: 1, Function: 1, Name: "f"}.Append(nil),
		hypercall.OpModuleGlobal:   hypercall.Symbol{Module: 1, Name: "v"}.Append(nil),
		hypercall.OpGemUnmap:       hypercall.ID{ID: 2}.Append(nil),
		hypercall.OpGemShare:       hypercall.ID{ID: 1}.Append(nil),
		hypercall.OpGemOpen:        nil, // with the key that was answered last, as event-open
		hypercall.OpEventNew:       hypercall.ID{ID: 1}.Append(nil),
		hypercall.OpEventOpen:      nil,
		hypercall.OpEventRecord:    hypercall.EventPoint{Event: 1, Channel: 1, Seqno: 1}.Append(nil),
		hypercall.OpEventWait:      hypercall.EventPoint{Event: 1, Channel: 1, Seqno: 2}.Append(nil),
		hypercall.OpEventReached:   hypercall.ID{ID: 1}.Append(nil),
	}
	var last drm.Key
	frees := map[hypercall.Op]bool{hypercall.OpGemClose: true, hypercall.OpChannelFree: true, hypercall.OpModuleUnload: true}
	for _, row := range hypercall.Ops {
		payload, ok := requests[row.Op]
		if frees[row.Op] || !ok && row.Request.Type != nil {
			require.Empty(t, row.Charges, "%s: no request of this test shows that it is charged", row.Name)
			continue
		}
		var before, after [quota.Resources]uint64
		for res := range quota.Resources {
			before[res] = r.used(res)
		}
		if ok && payload == nil {
			payload = hypercall.Open{ID: 3, Key: last}.Append(nil)
		}
		answer := f.wait(f.send(row.Op, payload))
		require.Zero(t, answer.errno, row.Name)
		if row.Op == hypercall.OpModuleLoad { // machine code is charged otherwise
			copy(f.ring.Bulk(), "\x7fELF")
			require.Zero(t, f.wait(f.send(row.Op, hypercall.ModuleLoad{Module: 2, Bytes: 6, Total: 6}.Append(nil))).errno)
		}
		if key, err := hypercall.DecodeKey([]byte(answer.payload)); err == nil {
			last = key.Key
		}
		var charged []quota.Resource
		for res := range quota.Resources {
			if after[res] = r.used(res); after[res] > before[res] {
				charged = append(charged, res)
			}
		}
		require.ElementsMatch(t, row.Charges, charged, "%s", row.Name)
	}
	f.Close()
	r.nothing()
}

// Requests and errors are counted by operation, those of unknown operations together, also
// those of sessions that have ended.
func TestRowsCount(t *testing.T) {
	r := newRig(t, quota.Limits{})
	const wrong = hypercall.Op(len(hypercall.Ops) + 1)
	for files := uint64(1); files <= 2; files++ {
		f := r.open()
		require.Zero(t, f.do(hypercall.OpNop, nil))
		for range 2 {
			require.Equal(t, syscall.ENOENT, f.ofID(hypercall.OpGemClose, 1), "an error")
			require.Equal(t, syscall.ENOSYS, f.do(wrong, nil))
			require.Equal(t, syscall.ENOSYS, f.do(wrong+100, nil))
		}
		check := func() bool {
			want := map[string]OpStats{
				"unknown": {Requests: 4 * files, Errors: 4 * files}, "nop": {Requests: files}, "gem-close": {Requests: 2 * files, Errors: 2 * files},
			}
			st := r.group.Stats()
			right := len(st.Operations) == hypercall.Rows && st.Total.Requests == 7*files
			for _, op := range st.Operations {
				w := want[op.Operation]
				right = right && w.Requests == op.Requests && w.Errors == op.Errors
			}
			return right
		}
		until(check) // an answer comes before the count of its burst
		f.Close()
		require.True(t, check())
	}
	r.nothing()
}

// The log has what was refused, as the rows describe it.
func TestRowsTrace(t *testing.T) {
	out, written := observer.New(zapcore.DebugLevel)
	r := newRig(t, quota.Limits{})
	r.log = zap.New(out)
	f := r.open()
	require.Equal(t, syscall.ENOENT, f.ofID(hypercall.OpGemClose, 77))
	f.Close()
	refused := written.FilterMessage("request failed").All()
	require.Len(t, refused, 1)
	require.Equal(t, "gem-close {ID:77}", refused[0].ContextMap()["request"])
	r.nothing()
}
