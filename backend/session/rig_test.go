package session

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/file/fakegpu"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/internal/hostmem"
)

// rig is a guest on a device.
type rig struct {
	testing.TB
	dev   gpu.Device
	fake  *fakegpu.Device // the same, unless it is another
	group *Group
	log   *zap.Logger
}

func newRig(t *testing.T, limits quota.Limits) *rig {
	fake := &fakegpu.Device{}
	r := &rig{TB: t, dev: fake, fake: fake, group: &Group{}, log: zap.NewNop()}
	r.group.SetLimits(limits)
	return r
}

// used is what the guest has of a resource.
func (r *rig) used(res quota.Resource) uint64 { return r.group.Used(res) }

// nothing checks that the guest has nothing.
func (r *rig) nothing() {
	r.Helper()
	for _, q := range r.group.Stats().Quotas {
		require.Zero(r, q.Used, q.Resource)
	}
}

// client is the frontend's end of a session: it may send what no frontend would.
type client struct {
	*rig
	*Session
	mem  []byte // the ring
	ring *hypercall.Ring
	req  *hypercall.Producer
	cpl  *hypercall.Consumer
	id   uint32
	got  map[uint32]answer

	grants map[uint32][]byte // by id; before Attach
}

type answer struct {
	errno   syscall.Errno
	payload string
}

const ringID = 1

func (r *rig) open() *client { return r.openWith(0) }

// openWith opens a file with flags of the attach doorbell.
func (r *rig) openWith(flags uint32) *client {
	r.Helper()
	layout := hypercall.DefaultLayout
	region, err := hostmem.New(layout.Bytes())
	require.NoError(r, err)
	f := &client{rig: r, mem: region.Bytes(), got: map[uint32]answer{}, grants: map[uint32][]byte{}}
	f.grants[ringID] = f.mem
	for id := uint32(2); id < 10; id++ {
		pages, err := hostmem.New(8192)
		require.NoError(r, err)
		r.Cleanup(pages.Release)
		f.grants[id] = pages.Bytes()
	}
	f.ring, err = hypercall.New(f.mem, layout)
	require.NoError(r, err)
	f.req, f.cpl = f.ring.Requests(), f.ring.Completions()
	f.Session, err = Attach(r.dev, f, r.group, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: ringID, Layout: layout, Flags: flags}, "file", r.log)
	require.NoError(r, err)
	r.Cleanup(func() {
		f.Session.Close()
		region.Release()
	})
	return f
}

// Grant, Notify and Counts are those of Carrier.
func (f *client) Grant(id uint32) (Grant, error) {
	mem, ok := f.grants[id]
	if !ok {
		return nil, syscall.ENOENT
	}
	return testGrant(mem), nil
}
func (f *client) Notify()                                {}
func (f *client) Counts() (doorbells, interrupts uint64) { return 0, 0 }

type testGrant []byte

func (g testGrant) Size() uint64 { return uint64(len(g)) }
func (g testGrant) Acquire() ([][]byte, func(), error) {
	return [][]byte{g[:4096], g[4096:]}, func() {}, nil
}
func (g testGrant) MapContiguous() ([]byte, func(), error) { return g, func() {}, nil }

// send queues a request and returns its number.
func (f *client) send(op hypercall.Op, payload []byte) uint32 {
	f.Helper()
	return f.sendFlags(op, hypercall.FlagAnswer, payload)
}

// exec sends a batch to channel 1.
func (f *client) exec(seqno uint64, stream []byte) {
	f.Helper()
	f.sendFlags(hypercall.OpExec, 0, hypercall.Exec{Channel: 1, Seqno: seqno, Stream: stream}.Append(nil))
}

func (f *client) sendFlags(op hypercall.Op, flags uint16, payload []byte) uint32 {
	f.Helper()
	f.fake.Pass()
	f.id++
	for {
		ok, err := f.req.Put(hypercall.Header{Op: op, Flags: flags, ID: f.id}, payload)
		require.NoError(f, err)
		if ok {
			break
		}
		runtime.Gosched()
	}
	f.req.Publish()
	f.Kick()
	return f.id
}

// poll takes the answers that are there.
func (f *client) poll() {
	f.Helper()
	buf := make([]byte, hypercall.MaxMessage)
	for {
		h, payload, ok, err := f.cpl.Get(buf)
		require.NoError(f, err)
		if !ok {
			return
		}
		f.got[h.ID] = answer{syscall.Errno(h.Errno), string(payload)}
	}
}

// wait waits for the answer to a request.
func (f *client) wait(id uint32) answer {
	f.Helper()
	for {
		f.poll()
		if a, ok := f.got[id]; ok {
			delete(f.got, id)
			f.fake.Pass()
			return a
		}
		f.Kick()
		runtime.Gosched()
	}
}

// answered reports whether a request has been answered.
func (f *client) answered(id uint32) bool {
	f.poll()
	_, ok := f.got[id]
	return ok
}

// do sends a request and waits for its answer.
func (f *client) do(op hypercall.Op, payload []byte) syscall.Errno {
	f.Helper()
	return f.wait(f.send(op, payload)).errno
}

// part sends a part of a module's source.
func (f *client) part(module uint32, offset, total uint64, text string) uint32 {
	f.Helper()
	copy(f.ring.Bulk(), text)
	return f.send(hypercall.OpModuleLoad, hypercall.ModuleLoad{Module: module, Bytes: uint32(len(text)), Offset: offset, Total: total, Name: "m"}.Append(nil))
}

// whole sends a module.
func (f *client) whole(module uint32, text string) uint32 {
	f.Helper()
	return f.part(module, 0, uint64(len(text)), text)
}

func (f *client) gemNew(handle uint32, size uint64) syscall.Errno {
	f.Helper()
	return f.do(hypercall.OpGemNew, hypercall.GemNew{Handle: handle, Size: size}.Append(nil))
}

func (f *client) gemGrant(handle, resource uint32) syscall.Errno {
	f.Helper()
	return f.do(hypercall.OpGemGrant, hypercall.GemGrant{Handle: handle, Resource: resource, Size: 8192}.Append(nil))
}

func (f *client) ofID(op hypercall.Op, id uint32) syscall.Errno {
	f.Helper()
	return f.do(op, hypercall.ID{ID: id}.Append(nil))
}

// revoked revokes a grant and returns how often its end was told so far.
func (f *client) revoke(id uint32) *atomic.Int32 {
	n := new(atomic.Int32)
	f.Session.Revoke(id, func() { n.Add(1) })
	return n
}

// until waits for a condition that another goroutine brings about.
func until(is func() bool) {
	for !is() {
		runtime.Gosched()
	}
}
