package session

import (
	"runtime"

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
	"pvdrm/internal/sample"
)

// Revoke returns while the pump is busy, and tells once when the pages are free: by the
// pump, at the end of the session, or at once after it.
func TestRevokeReturns(t *testing.T) {
	r := newRig(t, quota.Limits{})
	f := r.open()
	require.Zero(t, f.gemGrant(1, 2))
	require.Zero(t, f.gemGrant(2, 3))
	entered, release := make(chan struct{}), make(chan struct{})
	r.fake.NewVRAM = func() {
		entered <- struct{}{}
		<-release
	}
	first := f.send(hypercall.OpGemNew, hypercall.GemNew{Handle: 3, Size: 4096}.Append(nil))
	<-entered
	a, b, none := f.revoke(2), f.revoke(2), f.revoke(99)
	require.Zero(t, a.Load()+b.Load()+none.Load(), "the pump is in the device")
	require.EqualValues(t, 16384, r.used(quota.Granted))
	release <- struct{}{}
	require.Zero(t, f.wait(first).errno)
	until(func() bool { return a.Load() == 1 && b.Load() == 1 && none.Load() == 1 })
	require.EqualValues(t, 8192, r.used(quota.Granted))

	f.send(hypercall.OpGemNew, hypercall.GemNew{Handle: 4, Size: 4096}.Append(nil))
	<-entered
	last := f.revoke(3)
	f.End()
	require.Zero(t, last.Load(), "the pages are in use until the session has ended")
	release <- struct{}{}
	<-f.Ended()
	require.EqualValues(t, 1, last.Load())
	require.EqualValues(t, 1, f.revoke(3).Load(), "of a session that has ended")
	f.End()
	f.Close()
	r.nothing()
}

// Usage tells what each process of the guest holds that gave its number, and the less of the quota
// and the device.
func TestUsage(t *testing.T) {
	limits := quota.Limits{}
	limits[quota.VRAM] = 1 << 20
	r := newRig(t, limits)
	ask := func(f *client) hypercall.Usage {
		a := f.wait(f.send(hypercall.OpUsage, nil))
		require.Zero(t, a.errno)
		u, err := hypercall.DecodeUsage([]byte(a.payload))
		require.NoError(t, err)
		require.NotZero(t, u.NowNS)
		u.NowNS = 0
		return u
	}
	watcher, a, b := r.open(), r.open(), r.open()
	require.Zero(t, watcher.do(hypercall.OpProperties, nil))
	require.Zero(t, b.do(hypercall.OpProperties, hypercall.Owner{Process: 77}.Append(nil)))
	require.Zero(t, a.do(hypercall.OpProperties, hypercall.Owner{Process: 5}.Append(nil)))
	require.Equal(t, syscall.EINVAL, a.do(hypercall.OpProperties, []byte{1}))
	require.Zero(t, a.gemNew(1, 8192))
	require.Zero(t, b.gemNew(1, 1<<16))
	require.Zero(t, watcher.gemNew(1, 4096))
	const left = 1<<20 - 8192 - 1<<16 - 4096
	most := min(1<<20, r.dev.Properties().VRAMBytes)
	require.Equal(t, hypercall.Usage{VRAM: most, VRAMFree: min(left, most-min(most, r.dev.VRAMUsed())),
		Clients: []hypercall.Client{{Process: 5, VRAM: 8192}, {Process: 77, VRAM: 1 << 16}}}, ask(watcher))
	b.Close()
	require.Zero(t, a.ofID(hypercall.OpGemClose, 1))
	require.Equal(t, []hypercall.Client{{Process: 5}}, ask(a).Clients)
	a.Close()
	watcher.Close()
	r.nothing()
}

// A session that only looks has no context, tells the same, and what needs a context is not supported.
func TestWatchingSession(t *testing.T) {
	r := newRig(t, quota.Limits{})
	w := r.openWith(hypercall.DoorbellWatch)
	require.Zero(t, w.do(hypercall.OpProperties, nil))
	require.Zero(t, w.do(hypercall.OpUsage, nil))
	require.Zero(t, w.do(hypercall.OpMemoryInfo, nil))
	require.Equal(t, syscall.EOPNOTSUPP, w.gemNew(1, 4096))
	require.NotContains(t, r.fake.Calls(), "NewContext")
	a := r.open()
	require.Contains(t, r.fake.Calls(), "NewContext")
	require.Zero(t, a.gemNew(1, 4096))
	a.Close()
	w.Close()
	r.nothing()
}

// A grant that is revoked while the session ends is free when it has ended.
func TestRevokeAtTheEnd(t *testing.T) {
	r := newRig(t, quota.Limits{})
	release := make(chan struct{})
	r.fake.Closing = func() { <-release }
	f := r.open()
	f.End()
	until(func() bool { return f.ring.State() == hypercall.StateEnded }) // the pump closes the context
	n := f.revoke(2)
	require.Zero(t, n.Load())
	close(release)
	<-f.Ended()
	require.EqualValues(t, 1, n.Load())
}

// What a guest's sessions cause in the log is bounded for all of them together.
func TestLogIsSampled(t *testing.T) {
	out, written := observer.New(zapcore.InfoLevel)
	r := newRig(t, quota.Limits{})
	r.log = zap.New(out)
	for range 3 * sample.Burst {
		f := r.open()
		const slots = 8192 // offset of the first request
		_, err := f.req.Put(hypercall.Header{Op: hypercall.OpNop, ID: 1}, nil)
		require.NoError(t, err)
		for i := range hypercall.HeaderBytes {
			f.mem[slots+i] = 0xff
		}
		f.req.Publish()
		f.Kick()
		<-f.Ended()
	}
	require.Equal(t, sample.Burst, written.Len())
	require.Contains(t, written.All()[0].Message, "session ended")
}

// Batches of a file that waits are taken until they take too much memory; the rest stays
// in the ring. Those of a guest that exceed its quota fail in their place.
func TestQueuedBytes(t *testing.T) {
	r := newRig(t, quota.Limits{})
	taken := make(chan func(gpu.Result), 1000)
	r.fake.Submit = func(_ []gpu.Command, done func(gpu.Result)) { taken <- done }
	f := r.open()
	require.Zero(t, f.ofID(hypercall.OpChannelAlloc, 1))
	large := drm.TimestampCmd{Addr: 8}.Append(nil)
	for len(large) < 8<<10 {
		large = append(large, large...)
	}
	f.exec(1, large)
	until(func() bool { return len(taken) == 1 })
	each, most := r.used(quota.QueuedBytes), uint64(1<<20)
	require.Greater(t, each, uint64(len(large)))
	fit := (most + each - 1) / each
	n := fit + 8 // the others stay in the ring
	for i := range n - 1 {
		f.exec(i+2, large)
	}
	until(func() bool { return r.used(quota.QueuedBytes) == fit*each }) // charged after Queued
	require.Equal(t, fit, r.used(quota.Queued))
	(<-taken)(gpu.Result{}) // one ends: the next is taken
	until(func() bool { return len(taken) == int(fit) })
	require.Equal(t, fit, r.used(quota.Queued))
	for f.ring.Done(1) < n { // all of them end at last
		select {
		case done := <-taken:
			done(gpu.Result{})
		default:
			runtime.Gosched()
		}
	}
	f.Close()
	r.nothing()
}

// Ids of functions, objects and pieces of granted memory are bounded for the guest.
func TestCounts(t *testing.T) {
	r := newRig(t, quota.Limits{quota.Functions: 2, quota.Objects: 2, quota.Runs: 3})
	a, b := r.open(), r.open()
	for _, f := range []*client{a, b} {
		require.Zero(t, f.wait(f.whole(1, "source")).errno)
		require.Zero(t, f.do(hypercall.OpModuleFunction, hypercall.Symbol{Module: 1, Function: 1, Name: "f"}.Append(nil)))
	}
	require.Equal(t, syscall.ENOSPC, a.do(hypercall.OpModuleFunction, hypercall.Symbol{Module: 1, Function: 2, Name: "f"}.Append(nil)))
	require.Zero(t, b.ofID(hypercall.OpModuleUnload, 1))
	require.EqualValues(t, 1, r.used(quota.Functions))

	require.Zero(t, a.gemGrant(1, 2))
	require.Equal(t, syscall.ENOMEM, b.gemGrant(1, 2), "runs")
	require.EqualValues(t, 1, r.used(quota.Objects), "none of what it would have taken")
	require.EqualValues(t, 8192, r.used(quota.Granted))
	require.Zero(t, b.gemNew(1, 4096))
	require.Equal(t, syscall.ENOSPC, b.gemNew(2, 4096), "objects")
	a.Close()
	b.Close()
	r.nothing()
}

// A session is with the device that the capset announced.
func TestDeviceNumber(t *testing.T) {
	r := newRig(t, quota.Limits{})
	r.fake.Number = 2
	attach := func(number uint32) error {
		_, err := Attach(r.dev, &client{}, r.group, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Device: number}, "file", r.log)
		return err
	}
	require.ErrorIs(t, attach(0), syscall.ENODEV)
	require.ErrorIs(t, attach(3), syscall.ENODEV)
	require.ErrorIs(t, attach(2), syscall.ENOENT, "it has no ring")
	r.nothing()
}
