package fuzz

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"pvdrm/backend/session"
	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/hypercall"
)

// FuzzSession runs programs of a hostile guest against real sessions on a software
// GPU: any order of requests with ids that are mostly good, kernels that go where they
// should not, pages that are taken back while kernels use them, a ring that lies.
//
// The backend must not panic, and must answer or end the session, in bounded time; it
// ends none that keeps to the protocol. It touches no page after it has given it back:
// those fault. When the guest has gone, nothing of it is left, and what another guest
// has in memory is as it was.
func FuzzSession(f *testing.F) {
	for _, seed := range sessionSeeds() {
		f.Add(seed)
	}
	var w *world
	f.Cleanup(func() {
		if w != nil {
			w.close()
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 512 {
			return
		}
		stop := time.AfterFunc(4*patience, func() {
			debug.SetTraceback("all")
			panic("it hangs")
		})
		defer stop.Stop()
		if w == nil {
			var err error
			if w, err = newWorld(); err != nil {
				t.Fatal(err)
			}
		}
		fine := false
		defer func() {
			if !fine { // what it left would fail the next program, too, and so the fuzzer's search for a smaller one
				w = nil
			}
		}()
		w.run(t, data)
		fine = true
	})
}

// world is a device, and a guest on it that every program leaves alone.
type world struct {
	device gpu.Device
	victim *victim
	runs   int
	base   gpu.Stats // without a guest but the victim
	count  [2]int    // goroutines and descriptors
}

func newWorld() (*world, error) {
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 32 << 20, SMs: 2, MaxChannels: 6, LaunchLimit: 2 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	w := &world{device: device}
	w.victim = newVictim(device)
	w.base = device.Stats()
	return w, nil
}

func (w *world) close() {
	w.victim.close()
	if err := w.device.Close(); err != nil {
		panic(err)
	}
}

// limits are few enough that programs meet them.
var limits = quota.Limits{
	quota.VRAM: 8 << 20, quota.Granted: 1 << 20, quota.Contexts: 2, quota.Channels: 4,
	quota.Modules: 4, quota.ModuleText: 32 << 10, quota.Queued: 64,
}

func (w *world) run(t *testing.T, data []byte) {
	group := &session.Group{}
	group.SetLimits(limits)
	p := &program{input: input{data}, props: w.device.Properties()}
	p.open = func(int) *client { return open(w.device, group, hypercall.DoorbellNoPoll) }
	for range 64 {
		if !p.step() {
			break
		}
	}
	for _, c := range p.files {
		if c != nil && !c.lied {
			if err := c.ask(hypercall.OpNop, nil); err != nil {
				t.Fatalf("at the end: %v", err)
			}
		}
	}
	w.victim.check(t)
	for _, c := range p.files {
		if c != nil {
			c.close()
		}
	}
	stats := group.Stats()
	for _, q := range stats.Quotas {
		if q.Used != 0 {
			t.Fatalf("%d of %s are charged to a guest that has gone", q.Used, q.Resource)
		}
	}
	if n := stats.Lost[gpu.LostDevice.String()]; n != 0 {
		t.Fatalf("%d contexts were lost to a fault of the device", n)
	}
	if s := w.device.Stats(); s.VRAMUsed != w.base.VRAMUsed || s.Channels != w.base.Channels {
		t.Fatalf("%d bytes of VRAM and %d channels are in use, where %d and %d were before the guest", s.VRAMUsed, s.Channels, w.base.VRAMUsed, w.base.Channels)
	}
	w.victim.check(t)
	if w.runs++; w.runs%256 == 0 {
		w.leaks(t)
	}
}

// leaks checks that goroutines and descriptors do not grow in number.
func (w *world) leaks(t *testing.T) {
	var count [2]int
	for range 6000 { // goroutines that are about to end
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		if count = [2]int{runtime.NumGoroutine(), len(fds)}; w.count == [2]int{} {
			w.count = count
		}
		if count[0] <= w.count[0]+8 && count[1] <= w.count[1]+8 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	all := make([]byte, 1<<20)
	t.Fatalf("%v goroutines and descriptors, and %v after the first programs:\n%s", count, w.count, all[:runtime.Stack(all, true)])
}

// victim is a guest with a pattern in VRAM and in granted memory.
type victim struct {
	*client
	pages, result []byte
	props         gpu.Properties
}

const victimBytes = 16 * page

// pattern is what the victim has.
var pattern = bytes.Repeat([]byte("another guest's "), victimBytes/16)

func newVictim(device gpu.Device) *victim {
	v := &victim{client: open(device, &session.Group{}, hypercall.DoorbellNoPoll), props: device.Properties()}
	if v.client == nil {
		panic("no session")
	}
	v.pages, v.result = v.grant(1, 1, victimBytes/page).runs[0], v.grant(2, 1, victimBytes/page).runs[0]
	copy(v.pages, pattern)
	for _, r := range []struct {
		op      hypercall.Op
		payload []byte
	}{
		{hypercall.OpChannelAlloc, hypercall.ID{ID: 1}.Append(nil)},
		{hypercall.OpGemGrant, hypercall.GemGrant{Handle: 1, Resource: 1, Size: victimBytes}.Append(nil)},
		{hypercall.OpGemGrant, hypercall.GemGrant{Handle: 2, Resource: 2, Size: victimBytes}.Append(nil)},
		{hypercall.OpGemNew, hypercall.GemNew{Handle: 3, Size: victimBytes}.Append(nil)},
		{hypercall.OpVMBind, v.map3()},
	} {
		if err := v.ask(r.op, r.payload); err != nil {
			panic(err)
		}
	}
	v.move(v.props.VRAM.Base, v.props.System.Base)
	return v
}

// map3 maps the objects 1 to 3.
func (v *victim) map3() []byte {
	return hypercall.VMBind{Ops: []drm.BindOp{
		{Op: drm.BindMap, Handle: 1, Addr: v.props.System.Base, Range: victimBytes},
		{Op: drm.BindMap, Handle: 2, Addr: v.props.System.Base + victimBytes, Range: victimBytes},
		{Op: drm.BindMap, Handle: 3, Addr: v.props.VRAM.Base, Range: victimBytes},
	}}.Append(nil)
}

// move copies on the GPU.
func (v *victim) move(dst, src uint64) {
	v.seqno[1]++
	stream := drm.CopyCmd{Dst: dst, Src: src, Width: victimBytes, Height: 1}.Append(nil)
	if err := v.ask(hypercall.OpExec, hypercall.Exec{Channel: 1, Seqno: v.seqno[1], Stream: stream}.Append(nil)); err != nil {
		panic(err)
	}
	if !v.await(1, v.seqno[1], patience) {
		panic("a copy of another guest does not end")
	}
	if r := v.ring.Channel(1); r.Failed != 0 {
		panic(fmt.Sprintf("a copy of another guest failed: %+v", r))
	}
}

// check checks that all is as it was, and that new VRAM reads as zero.
func (v *victim) check(t *testing.T) {
	v.move(v.props.System.Base+victimBytes, v.props.VRAM.Base)
	if !bytes.Equal(v.result, pattern) {
		t.Fatal("another guest's VRAM changed")
	}
	if !bytes.Equal(v.pages, pattern) {
		t.Fatal("another guest's pages changed")
	}
	fresh := v.props.VRAM.Base + 2*victimBytes
	v.send(hypercall.OpGemNew, 0, hypercall.GemNew{Handle: 4, Size: victimBytes}.Append(nil))
	v.send(hypercall.OpVMBind, 0, hypercall.VMBind{Ops: []drm.BindOp{{Op: drm.BindMap, Handle: 4, Addr: fresh, Range: victimBytes}}}.Append(nil))
	v.move(v.props.System.Base+victimBytes, fresh)
	if !bytes.Equal(v.result, make([]byte, victimBytes)) {
		t.Fatal("new VRAM holds what somebody left there")
	}
	if err := v.ask(hypercall.OpGemClose, hypercall.ID{ID: 4}.Append(nil)); err != nil {
		t.Fatal(err)
	}
}
