package session

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// hold is a compiler that stops at a hook until it is let go or canceled.
type hold struct {
	entered chan string   // names of modules, as they come
	release chan struct{} // one value lets one go
}

func (r *rig) hold() *hold {
	h := &hold{entered: make(chan string, 100), release: make(chan struct{}, 100)}
	r.fake.Load = func(ctx context.Context, name string, _ []byte, _ gpu.Reserve) error {
		h.entered <- name
		select {
		case <-h.release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return h
}

// Sources are charged at their first part, before they are kept, all that are not
// finished together; what is abandoned, fails or goes with its file is given back.
func TestChargedAtFirstPart(t *testing.T) {
	r := newRig(t, quota.Limits{quota.ModuleText: 3000})
	for range 64 {
		f := r.open()
		require.Equal(t, syscall.EFBIG, f.wait(f.part(1, 0, 63<<20, "x")).errno)
	}
	require.Zero(t, r.used(quota.ModuleText))
	var files []*client
	for range 3 {
		f := r.open()
		files = append(files, f)
		require.Zero(t, f.wait(f.part(1, 0, 1000, "first")).errno)
	}
	require.EqualValues(t, 3000, r.used(quota.ModuleText))
	require.EqualValues(t, 3, r.used(quota.Modules))
	more := r.open()
	a := more.wait(more.part(1, 0, 1, "x"))
	require.Equal(t, syscall.ENOSPC, a.errno)
	require.Contains(t, a.payload, "module-text")

	require.Zero(t, files[0].wait(files[0].part(2, 0, 400, "another")).errno, "in place of the first")
	require.EqualValues(t, 2400, r.used(quota.ModuleText))
	require.Equal(t, syscall.EINVAL, files[1].wait(files[1].part(1, 777, 1000, "x")).errno, "out of order")
	require.EqualValues(t, 1400, r.used(quota.ModuleText))
	files[2].Close()
	require.EqualValues(t, 400, r.used(quota.ModuleText))
	room := 0
	r.fake.Load = func(_ context.Context, _ string, source []byte, _ gpu.Reserve) error {
		room = cap(source)
		return nil
	}
	rest := strings.Repeat("x", 400-len("another"))
	require.Zero(t, files[0].wait(files[0].part(2, uint64(len("another")), 400, rest)).errno)
	require.Equal(t, 400, room, "allocated once")
	require.EqualValues(t, 400, r.used(quota.ModuleText), "loaded modules count")
	for _, f := range files {
		f.Close()
	}
	require.Zero(t, r.used(quota.ModuleText))
	require.Zero(t, r.used(quota.Modules))
}

// While a module compiles, everything else goes on: in other files, and in its own.
func TestCompilingHoldsNobodyUp(t *testing.T) {
	r := newRig(t, quota.Limits{})
	h := r.hold()
	mine, other := r.open(), r.open()
	for _, f := range []*client{mine, other} {
		require.Zero(t, f.gemGrant(1, 2))
	}
	id := mine.whole(7, "source")
	<-h.entered
	for _, f := range []*client{other, mine} {
		require.Zero(t, f.gemNew(5, 4096))
		require.Zero(t, f.ofID(hypercall.OpGemClose, 5))
		n := f.revoke(2)
		until(func() bool { return n.Load() == 1 })
		require.Equal(t, syscall.ENOENT, f.ofID(hypercall.OpGemClose, 1), "it went with its grant")
	}
	// The module is taken, and nothing else.
	require.Equal(t, syscall.EBUSY, mine.wait(mine.whole(7, "again")).errno)
	require.Equal(t, syscall.EBUSY, mine.wait(mine.whole(8, "another")).errno, "one at a time")
	require.Equal(t, syscall.EBUSY, mine.ofID(hypercall.OpModuleUnload, 7))
	symbol := hypercall.Symbol{Module: 7, Function: 1, Name: "f"}.Append(nil)
	require.Equal(t, syscall.EBUSY, mine.do(hypercall.OpModuleFunction, symbol))
	require.Equal(t, syscall.EBUSY, mine.do(hypercall.OpModuleGlobal, symbol))
	require.Equal(t, syscall.ENOENT, mine.ofID(hypercall.OpModuleUnload, 8))
	require.False(t, mine.answered(id))

	h.release <- struct{}{}
	require.Zero(t, mine.wait(id).errno)
	require.Zero(t, mine.do(hypercall.OpModuleFunction, symbol))
	require.EqualValues(t, 1, r.used(quota.Functions))
	require.Equal(t, syscall.EEXIST, mine.wait(mine.whole(7, "again")).errno)
	require.Zero(t, mine.ofID(hypercall.OpModuleUnload, 7))
	r.nothingBut(quota.Contexts)
}

// nothingBut checks that the guest has nothing but some resources.
func (r *rig) nothingBut(but ...quota.Resource) {
	r.Helper()
	for res := range quota.Resources {
		skip := false
		for _, b := range but {
			skip = skip || b == res
		}
		if !skip {
			require.Zero(r, r.used(res), res)
		}
	}
}

// Two modules of a guest compile at a time, and the others in their order.
func TestCompileTurns(t *testing.T) {
	r := newRig(t, quota.Limits{})
	h := r.hold()
	var files []*client
	var ids []uint32
	for n := range 5 {
		f := r.open()
		files = append(files, f)
		ids = append(ids, f.whole(1, "source"))
		until(func() bool {
			running, waiting := r.group.Compiling()
			return running+waiting == n+1
		})
	}
	running, waiting := r.group.Compiling()
	require.Equal(t, []int{2, 3}, []int{running, waiting})
	require.EqualValues(t, 2*gpu.ModuleMemory(6), r.used(quota.ModuleMemory))
	files[2].End() // it waits: the next takes its turn
	<-files[2].Ended()
	for _, n := range []int{0, 1, 3, 4} {
		<-h.entered
		h.release <- struct{}{}
		_ = n
	}
	for _, n := range []int{0, 1, 3, 4} {
		require.Zero(t, files[n].wait(ids[n]).errno)
	}
	for _, f := range files {
		f.Close()
	}
	running, _ = r.group.Compiling()
	require.Zero(t, running)
	r.nothing()
}

// A compilation waits for the memory that another has, but for no other.
func TestModuleMemory(t *testing.T) {
	one := gpu.ModuleMemory(6)
	r := newRig(t, quota.Limits{quota.ModuleMemory: one + one/2})
	r.fake.Keeps = one / 4
	h := r.hold()
	a, b := r.open(), r.open()
	first := a.whole(1, "source")
	<-h.entered
	second := b.whole(1, "source")
	until(func() bool {
		_, waiting := r.group.Compiling()
		return waiting == 1
	})
	require.Empty(t, h.entered)
	h.release <- struct{}{}
	require.Zero(t, a.wait(first).errno)
	<-h.entered
	require.Equal(t, one+one/4, r.used(quota.ModuleMemory), "what the first keeps and the second may need")
	h.release <- struct{}{}
	require.Zero(t, b.wait(second).errno)
	require.Equal(t, one/2, r.used(quota.ModuleMemory))
	h.release <- struct{}{}
	require.Zero(t, b.wait(b.whole(2, "source")).errno)
	require.Equal(t, syscall.ENOSPC, b.wait(b.whole(3, "source")).errno, "loaded modules have it")
	require.Equal(t, syscall.EFBIG, b.wait(b.part(3, 0, 1<<20, "x")).errno, "there will never be so much")
	require.Zero(t, b.ofID(hypercall.OpModuleUnload, 1))
	h.release <- struct{}{}
	require.Zero(t, b.wait(b.whole(3, "source")).errno)
	a.Close()
	b.Close()
	r.nothing()
}

// The end of a session cancels its compilation, waits for it and gives all back.
func TestEndCancels(t *testing.T) {
	r := newRig(t, quota.Limits{})
	var cause atomic.Value
	entered := make(chan struct{})
	r.fake.Load = func(ctx context.Context, _ string, _ []byte, reserve gpu.Reserve) error {
		if err := reserve(4096); err != nil {
			return err
		}
		close(entered)
		<-ctx.Done()
		cause.Store(context.Cause(ctx))
		return nil // too late to fail
	}
	f := r.open()
	f.whole(1, "source")
	<-entered
	require.EqualValues(t, 4096, r.used(quota.VRAM))
	f.End()
	<-f.Ended()
	require.Equal(t, errStopped, cause.Load())
	r.nothing()
	f.Close()
}

// A module that takes too long is refused, and the error names the reason.
func TestCompileTime(t *testing.T) {
	r := newRig(t, quota.Limits{})
	r.group.SetCompileTime(time.Millisecond)
	r.hold()
	f := r.open()
	a := f.wait(f.whole(1, "source"))
	require.Equal(t, syscall.ETIMEDOUT, a.errno)
	require.Contains(t, a.payload, "1ms")
	r.nothingBut(quota.Contexts)
}

// Variables count as VRAM, before they are made.
func TestVariablesAreCharged(t *testing.T) {
	r := newRig(t, quota.Limits{quota.VRAM: 8192})
	size, after := uint64(8192), error(nil)
	r.fake.Load = func(_ context.Context, _ string, _ []byte, reserve gpu.Reserve) error {
		if err := reserve(size); err != nil {
			return err
		}
		return after
	}
	f := r.open()
	require.Zero(t, f.wait(f.whole(1, "source")).errno)
	require.EqualValues(t, 8192, r.used(quota.VRAM))
	require.Equal(t, syscall.ENOMEM, f.gemNew(1, 4096))
	a := f.wait(f.whole(2, "source"))
	require.Equal(t, syscall.ENOMEM, a.errno)
	require.Contains(t, a.payload, "vram")
	require.EqualValues(t, 8192, r.used(quota.VRAM))
	require.Zero(t, f.ofID(hypercall.OpModuleUnload, 1))
	require.Zero(t, r.used(quota.VRAM))
	after = errors.New("the hook fails")
	require.NotZero(t, f.wait(f.whole(1, "source")).errno, "it fails after it has reserved")
	r.nothingBut(quota.Contexts)
}

// A compiler that panics costs the guest its module only.
func TestCompilerFault(t *testing.T) {
	out, written := observer.New(zapcore.InfoLevel)
	r := newRig(t, quota.Limits{})
	r.log = zap.New(out)
	r.fake.Load = func(context.Context, string, []byte, gpu.Reserve) error { panic("cannot happen") }
	f := r.open()
	a := f.wait(f.whole(1, "source"))
	require.Equal(t, syscall.EREMOTEIO, a.errno)
	require.Contains(t, a.payload, "cannot happen")
	require.Equal(t, 1, written.FilterMessage("fault of the compiler").Len())
	r.nothingBut(quota.Contexts)
}

// A text in an answer is cut to what fits.
func TestLongError(t *testing.T) {
	r := newRig(t, quota.Limits{})
	r.fake.Load = func(context.Context, string, []byte, gpu.Reserve) error {
		return &gpu.BuildError{Diagnostics: []gpu.Diagnostic{{File: "m", Line: 1, Col: 1, Message: strings.Repeat("x", 1<<16)}}}
	}
	f := r.open()
	a := f.wait(f.whole(1, "source"))
	require.Equal(t, syscall.ENOEXEC, a.errno)
	require.Len(t, a.payload, drm.MaxText)
}
