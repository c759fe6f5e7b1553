package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/vhostuser/vhosttest"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/hypercall"
)

// Commands of virtio-gpu, and the answer of those that succeed.
const (
	cmdCreate2D      = 0x101
	cmdUnref         = 0x102
	cmdSetScanout    = 0x103
	cmdFlush         = 0x104
	cmdTransfer2D    = 0x105
	cmdAttachBacking = 0x106
	cmdDetachBacking = 0x107
	cmdCtxCreate     = 0x200
	cmdCtxDestroy    = 0x201
	cmdCtxAttach     = 0x202
	cmdCtxDetach     = 0x203
	cmdCreate3D      = 0x204
	cmdTransferTo    = 0x205
	cmdTransferFrom  = 0x206
	cmdSubmit        = 0x207
	answerOK         = 0x1100
	answerErr        = 0x1200 // the first error
	answerLast       = 0x1205
)

const (
	backingPages = 128 // of guest memory that becomes backing of resources
	slots        = 8   // commands that may be out at once
	slotBytes    = 8 << 10
)

// machine is a virtual machine with a device: OpenGL by virglrenderer in a process of
// its own, and a software GPU. It lives as long as the fuzzer's process.
type machine struct {
	*vhosttest.Frontend
	test    *owner
	dev     *virtgpu.Device
	gl      *virgl.Renderer
	gpu     gpu.Device
	control *vhosttest.Queue
	free    []uint64 // addresses of slots
	out     map[uint16]pending
	backing uint64 // guest-physical address of the pages
	used    [backingPages]int
	owner   map[uint32][]int // pages of a resource, as the device said OK to
	runs    int
	count   int // descriptors after the first runs
}

// pending is a command without an answer.
type pending struct {
	slot uint64
	then func(ok bool)
}

// freePage is what a page holds that belongs to no resource.
var freePage = bytes.Repeat([]byte{0xf5}, page)

// owner is a test whose resources outlive it: those of a machine.
type owner struct {
	testing.TB
	undo []func()
}

// Cleanup calls f when the machine ends.
func (o *owner) Cleanup(f func()) { o.undo = append(o.undo, f) }

func (o *owner) end() {
	for len(o.undo) > 0 {
		f := o.undo[len(o.undo)-1]
		o.undo = o.undo[:len(o.undo)-1]
		f()
	}
}

func newMachine(f *owner) *machine {
	// A renderer that takes longer for one command is killed, as in production.
	gl, err := virgl.New(virgl.Config{Keeper: command(roleKeeper), Limit: 3 * time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := gl.Close(); err != nil {
			f.Error(err)
		}
	})
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 32 << 20, SMs: 1, LaunchLimit: 5 * time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := device.Close(); err != nil {
			f.Error(err)
		}
	})
	dev, err := virtgpu.New(virtgpu.Config{Width: 640, Height: 480,
		Components: []virtgpu.Component{pvdrm.Component{Guest: &virtio.Guest{Device: device, Log: zap.NewNop()}}, gl}})
	if err != nil {
		f.Fatal(err)
	}
	front, back := vhosttest.Pair(f)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = dev.ServeConn(context.Background(), back) // the guest sees how it goes
	}()
	f.Cleanup(func() {
		_ = front.Close() // a test may have done so
		<-ended
	})
	m := &machine{Frontend: vhosttest.New(f, front), test: f, dev: dev, gl: gl, gpu: device, out: map[uint16]pending{}, owner: map[uint32][]int{}}
	m.Hello(vhosttest.Features | 3)
	m.ShareMemory()
	m.control = m.NewQueue(0, 64)
	m.control.Start(0)
	for range slots {
		m.free = append(m.free, m.Alloc(slotBytes, 8))
	}
	m.backing = m.Alloc(backingPages*page, page)
	for i := range backingPages {
		copy(m.page(i), freePage)
	}
	return m
}

func (m *machine) page(i int) []byte { return m.Bytes(m.backing+uint64(i)*page, page) }

// send sends a command; then is called when it was answered.
func (m *machine) send(typ, ctx uint32, then func(ok bool), parts ...[]byte) {
	for len(m.free) == 0 {
		m.collect()
	}
	slot := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	fence := uint32(0)
	if typ >= cmdTransferTo { // as Linux does; a fence would have the others wait for those before it
		fence = 1
	}
	cmd := vhosttest.Words(typ, fence, uint32(m.runs), 0, ctx, 0)
	for _, p := range parts {
		cmd = append(cmd, p...)
	}
	const room = 512 // for the answer
	cmd = cmd[:min(len(cmd), slotBytes-room)]
	n := uint64(copy(m.Bytes(slot, slotBytes-room), cmd))
	head := m.control.Add(vhosttest.Buf{Addr: slot, Len: uint32(n)}, vhosttest.Buf{Addr: slot + slotBytes - room, Len: room, Write: true})
	m.out[head] = pending{slot, then}
	m.control.Kick()
}

// collect waits for one answer.
func (m *machine) collect() {
	head, n := m.control.Wait()
	p, ok := m.out[head]
	if !ok {
		panic(fmt.Sprintf("answer to a command that is not out: %d", head))
	}
	delete(m.out, head)
	m.free = append(m.free, p.slot)
	if n < 24 {
		panic(fmt.Sprintf("answer of %d bytes", n))
	}
	typ := binary.LittleEndian.Uint32(m.Bytes(p.slot+slotBytes-512, 4))
	if typ < answerOK || typ > answerOK+4 && typ < answerErr || typ > answerLast {
		panic(fmt.Sprintf("answer %#x", typ))
	}
	if p.then != nil {
		p.then(typ < answerErr)
	}
}

// settle waits for all answers.
func (m *machine) settle() {
	for len(m.out) > 0 {
		m.collect()
	}
}

// do sends a command and waits for its answer.
func (m *machine) do(typ, ctx uint32, parts ...[]byte) (ok bool) {
	m.settle()
	m.send(typ, ctx, func(is bool) { ok = is }, parts...)
	m.settle()
	return ok
}

// attach gives a resource pages.
func (m *machine) attach(res uint32, pages []int) {
	m.settle() // what is known of pages is what the device has said
	body := vhosttest.Words(res, uint32(len(pages)))
	for _, p := range pages {
		body = append(body, vhosttest.Longs(m.backing+uint64(p)*page)...)
		body = append(body, vhosttest.Words(page, 0)...)
	}
	for _, p := range pages {
		m.take(p)
	}
	m.send(cmdAttachBacking, 0, func(ok bool) {
		if !ok {
			m.give(pages)
			return
		}
		m.owner[res] = pages
	}, body)
	m.settle()
}

// take checks that nothing has touched a free page, and clears it.
func (m *machine) take(p int) {
	if m.used[p]++; m.used[p] == 1 {
		m.check(p)
		clear(m.page(p))
	}
}

func (m *machine) check(p int) {
	if m.used[p] == 0 && !bytes.Equal(m.page(p), freePage) {
		panic(fmt.Sprintf("page %d was written after the guest had it back: %.32x", p, m.page(p)))
	}
}

func (m *machine) give(pages []int) {
	for _, p := range pages {
		if m.used[p]--; m.used[p] == 0 {
			copy(m.page(p), freePage)
		}
	}
}

// detach takes pages back, alone or with their resource.
func (m *machine) detach(typ, res uint32) {
	m.send(typ, 0, func(ok bool) {
		if ok {
			m.give(m.owner[res])
			delete(m.owner, res)
		}
	}, vhosttest.Words(res, 0))
}

// create3D makes a resource for OpenGL, or for PVDRM.
func (m *machine) create3D(res uint32, shared bool, args []byte) {
	flags := uint32(0)
	if shared {
		flags = hypercall.ResourceFlag
	}
	m.send(cmdCreate3D, 0, nil, vhosttest.Words(res), args, vhosttest.Words(flags, 0))
}

// reset restarts the guest, which has all its pages then.
func (m *machine) reset() {
	m.settle()
	m.control.Stop()
	m.Set(vhosttest.ResetDevice, nil)
	m.control.Reset()
	m.control.Start(0)
	for _, pages := range m.owner {
		m.give(pages)
	}
	clear(m.owner)
}
