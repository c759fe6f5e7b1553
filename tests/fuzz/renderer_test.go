package fuzz

import (
	"encoding/binary"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"pvdrm/backend/virtio/vhostuser/vhosttest"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/backend/virtio/virgl/virgltest"
	"pvdrm/drm"
	"pvdrm/hypercall"
)

// FuzzGuest sends commands of a virtual machine to a device that renders with
// virglrenderer in its confined process, and has a software GPU for contexts that ring
// PVDRM's doorbells.
//
// Each command is answered in bounded time; the renderer may die, but a new one works;
// no page is written that the guest has back; after a reset nothing is left.
func FuzzGuest(f *testing.F) {
	if err := virgl.Probe(); err != nil && os.Getenv("CI") == "" {
		f.Skip("`make deps PVDRM_DEPS=test` installs it:", err)
	}
	for _, seed := range guestSeeds() {
		f.Add(seed)
	}
	var m *machine
	f.Cleanup(func() {
		if m != nil {
			m.test.TB = f
			m.test.end()
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1024 {
			return
		}
		if m == nil {
			m = newMachine(&owner{TB: t})
		}
		m.test.TB = t
		fine := false
		defer func() {
			if !fine { // as in FuzzSession
				old := m
				m = nil
				old.test.end()
			}
		}()
		stop := time.AfterFunc(4*patience, func() {
			debug.SetTraceback("all")
			panic("it hangs")
		})
		defer stop.Stop()
		p := guestProgram{input{data}, m}
		for range 48 {
			if len(p.b) == 0 {
				break
			}
			guestOperations[int(p.byte())%len(guestOperations)](&p)
		}
		m.settle()
		m.end(t)
		fine = true
	})
}

// end checks that the machine works, and that nothing is left of what a program made.
func (m *machine) end(t *testing.T) {
	const ctx, res = 40, 41
	works := func() bool {
		ok := m.do(cmdCtxCreate, ctx, vhosttest.Words(4, 0), make([]byte, 64)) &&
			m.do(cmdCreate3D, 0, vhosttest.Words(res), target(16), vhosttest.Words(0, 0)) &&
			m.do(cmdCtxAttach, ctx, vhosttest.Words(res, 0)) &&
			m.submit(ctx, paint(res))
		m.do(cmdCtxDestroy, ctx)
		m.do(cmdUnref, 0, vhosttest.Words(res, 0))
		return ok
	}
	for _, id := range append([]uint32{1, 2, 3, 4}, wildGuestIDs...) {
		m.send(cmdCtxDestroy, id, nil)
	}
	for _, id := range append([]uint32{1, 2, 3, 4}, wildGuestIDs...) {
		m.detach(cmdUnref, id)
	}
	// The renderer may have ended behind its last answer, so that the first that is
	// made then is lost.
	ok := works()
	if !ok {
		ok = works()
	}
	if !ok {
		t.Fatal("no rendering any more")
	}
	if m.runs++; m.runs%64 == 0 {
		m.reset()
	}
	if s := m.dev.Stats(); s.Resources != 0 || s.Entries != 0 || s.MapRuns != 0 || s.Image != 0 {
		t.Fatalf("after a program: %+v", s)
	}
	for p := range backingPages {
		m.check(p)
	}
	if s := m.gpu.Stats(); s.Channels != 0 {
		t.Fatalf("after a program: %+v", s)
	}
	if m.runs%64 == 0 {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		if m.count == 0 {
			m.count = len(fds)
		}
		if len(fds) > m.count+16 {
			t.Fatalf("%d descriptors, %d at the start", len(fds), m.count)
		}
	}
}

func (m *machine) submit(ctx uint32, stream []byte) bool {
	return m.do(cmdSubmit, ctx, vhosttest.Words(uint32(len(stream)), 0), stream)
}

// target is a render target, for create3D.
func target(side uint32) []byte {
	return vhosttest.Words(virgltest.TargetTexture2D, virgltest.FormatBGRA, virgltest.BindRenderTarget, side, side, 1, 1, 0, 0)
}

// paint is a stream that fills a render target.
func paint(res uint32) []byte {
	s := &virgltest.Stream{}
	s.Surface(1, res, virgltest.FormatBGRA)
	s.Framebuffer(1)
	s.Clear(0, 1, 0, 1)
	return s.Bytes()
}

// guestProgram runs an input as commands of a guest.
type guestProgram struct {
	input
	*machine
}

// id is of a context or resource: one of four, mostly.
func (p *guestProgram) id() uint32 {
	if b := p.byte(); b < 0xf0 {
		return 1 + uint32(b%4)
	} else {
		return wildGuestIDs[b%6]
	}
}

// wildGuestIDs are names that are not likely.
var wildGuestIDs = []uint32{0, 5, 40, 1 << 14, 1<<31 - 1, 1<<32 - 1}

var guestWords = []uint32{0, 1, 2, 3, 4, 8, 16, 64, 1 << 14, 1<<14 + 1, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 1, 640, 4096}

// word is a number, small or large.
func (p *guestProgram) word() uint32 {
	b := p.byte()
	if b < 0x80 {
		return uint32(b & 31)
	}
	return guestWords[b&15]
}

func (p *guestProgram) words(n int) (b []byte) {
	for range n {
		b = binary.LittleEndian.AppendUint32(b, p.word())
	}
	return b
}

var guestOperations = []func(*guestProgram){
	func(p *guestProgram) { p.context(p.id()) },
	func(p *guestProgram) { p.send(cmdCtxDestroy, p.id(), nil) },
	func(p *guestProgram) { p.send(cmdCtxAttach, p.id(), nil, vhosttest.Words(p.id(), 0)) },
	func(p *guestProgram) { p.send(cmdCtxDetach, p.id(), nil, vhosttest.Words(p.id(), 0)) },
	func(p *guestProgram) { p.create3D(p.id(), false, target(16)) },
	func(p *guestProgram) { id := p.id(); p.create3D(id, p.byte()&1 != 0, p.words(9)) },
	func(p *guestProgram) { p.send(cmdCreate2D, 0, nil, vhosttest.Words(p.id(), 1), p.words(2)) },
	func(p *guestProgram) { p.pages(p.id()) }, func(p *guestProgram) { p.pages(p.id()) },
	func(p *guestProgram) { p.detach(cmdDetachBacking, p.id()) },
	func(p *guestProgram) { p.detach(cmdDetachBacking, p.id()) },
	func(p *guestProgram) { p.detach(cmdUnref, p.id()) },
	(*guestProgram).transfer, (*guestProgram).transfer,
	(*guestProgram).stream, (*guestProgram).stream, (*guestProgram).stream,
	func(p *guestProgram) { ctx := p.id(); s := paint(p.id()); p.mutate(s); p.sendStream(ctx, s) },
	func(p *guestProgram) {
		p.send(cmdSetScanout, 0, nil, vhosttest.Words(0, 0, 16, 16, p.word(), p.id()))
	},
	func(p *guestProgram) { p.send(cmdFlush, 0, nil, p.words(4), vhosttest.Words(p.id(), 0)) },
	func(p *guestProgram) {
		p.send(cmdTransfer2D, 0, nil, p.words(4), vhosttest.Longs(uint64(p.word())), vhosttest.Words(p.id(), 0))
	},
	func(p *guestProgram) { // a doorbell of PVDRM
		d := hypercall.Doorbell{Op: hypercall.DoorbellOp(p.byte() % 5), Resource: p.id(), Layout: layout, Flags: uint32(p.byte() & 1)}
		p.sendStream(p.id(), d.Encode())
	},
	func(p *guestProgram) { // a PVDRM session, and pages that are granted to it
		ctx, ring := p.id(), p.id()
		p.context(ctx)
		p.create3D(ring, true, vhosttest.Words(2, 1, 2, uint32(layout.Bytes()), 1, 1, 1, 0, 0))
		p.send(cmdCtxAttach, ctx, nil, vhosttest.Words(ring, 0))
		p.detach(cmdDetachBacking, ring)
		p.ring(ring)
		p.sendStream(ctx, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: ring, Layout: layout}.Encode())
	},
	func(p *guestProgram) { p.requests() },
	func(p *guestProgram) { p.machine.settle() },
	func(p *guestProgram) { time.Sleep(time.Duration(p.byte()) * 20 * time.Microsecond) },
	func(p *guestProgram) {
		if p.byte() >= 0xe0 {
			p.machine.reset()
		}
	},
	func(p *guestProgram) { // anything at all, but what changes whose the pages are
		switch typ := 0x100 + uint32(p.byte())%0x0b + uint32(p.byte()&1)<<8; typ {
		case cmdAttachBacking, cmdDetachBacking, cmdUnref, cmdCreate2D, cmdCreate3D, cmdCtxCreate:
		default:
			p.send(typ, p.id(), nil, p.take(int(p.byte())))
		}
	},
	func(p *guestProgram) { // what a program does at its start
		id := p.id()
		p.context(id)
		p.create3D(id, false, target(16))
		p.send(cmdCtxAttach, id, nil, vhosttest.Words(id, 0))
		p.attach(id, []int{int(id % 8), 9 + int(id%8)})
		p.sendStream(id, paint(id))
	},
}

func (p *guestProgram) take(n int) []byte { return p.input.take(n) }

func (p *guestProgram) context(id uint32) {
	name := make([]byte, 64)
	p.send(cmdCtxCreate, id, nil, vhosttest.Words(4, 0), append([]byte("fuzz"), name[4:]...))
}

// pages gives a resource some.
func (p *guestProgram) pages(res uint32) {
	if p.owner[res] != nil {
		return // an error; the device keeps the old ones, as this end does
	}
	var list []int
	for range 1 + p.byte()%4 {
		list = append(list, int(p.byte())%64)
	}
	p.attach(res, list)
}

// ringPages is where rings of PVDRM are: behind all that other resources have.
const ringPages = 64

func (p *guestProgram) ring(res uint32) {
	p.machine.settle()
	if p.owner[res] != nil {
		return
	}
	list := make([]int, layout.Bytes()/page)
	for i := range list {
		list[i] = ringPages + i
	}
	p.attach(res, list)
}

// requests puts requests for granted memory and a kernel into the ring.
func (p *guestProgram) requests() {
	p.machine.settle()
	if p.used[ringPages] == 0 {
		return
	}
	ring, err := hypercall.New(p.Bytes(p.backing+ringPages*page, layout.Bytes()), layout)
	if err != nil {
		panic(err)
	}
	ctx, res := p.id(), p.id()
	p.create3D(res, true, vhosttest.Words(2, 1, 2, page, 1, 1, 1, 0, 0))
	p.send(cmdCtxAttach, ctx, nil, vhosttest.Words(res, 0))
	p.pages(res)
	r := ring.Requests()
	props := p.gpu.Properties()
	n := copy(ring.Bulk(), modules[0])
	put := func(op hypercall.Op, payload []byte) {
		// What commands have written to the ring meanwhile may have spoilt it.
		_, _ = r.Put(hypercall.Header{Op: op, Flags: hypercall.FlagAnswer}, payload)
	}
	kick := func() {
		r.Publish()
		p.sendStream(ctx, hypercall.Doorbell{Op: hypercall.DoorbellKick}.Encode())
		p.machine.settle()
	}
	put(hypercall.OpChannelAlloc, hypercall.ID{ID: 1}.Append(nil))
	put(hypercall.OpModuleLoad, hypercall.ModuleLoad{Module: 1, Bytes: uint32(n), Total: uint64(n)}.Append(nil))
	kick()
	answers, buf := ring.Completions(), make([]byte, hypercall.MaxMessage)
	for until := time.Now().Add(20 * time.Millisecond); time.Now().Before(until); { // it compiles, if there is a session
		if h, _, ok, err := answers.Get(buf); err != nil || ok && h.Op == hypercall.OpModuleLoad {
			break
		}
		time.Sleep(50 * time.Microsecond)
	}
	put(hypercall.OpModuleFunction, hypercall.Symbol{Module: 1, Function: 1, Name: kernelNames[0]}.Append(nil))
	put(hypercall.OpGemGrant, hypercall.GemGrant{Handle: 1, Resource: res, Size: page}.Append(nil))
	put(hypercall.OpVMBind, hypercall.VMBind{Ops: []drm.BindOp{{Op: drm.BindMap, Handle: 1, Addr: props.System.Base, Range: page}}}.Append(nil))
	put(hypercall.OpExec, hypercall.Exec{Channel: 1, Seqno: 1, Stream: launch(1, props.System.Base)}.Append(nil))
	kick()
}

func (p *guestProgram) transfer() {
	typ := uint32(cmdTransferTo)
	if p.byte()&1 != 0 {
		typ = cmdTransferFrom
	}
	box := vhosttest.Words(0, 0, 0, 16, 16, 1)
	if p.byte()&3 == 0 {
		box = p.words(6)
	}
	ctx := p.id()
	p.send(typ, ctx, nil, box, vhosttest.Longs(uint64(p.word())), vhosttest.Words(p.id()), p.words(3))
}

// stream submits commands of the virgl protocol.
func (p *guestProgram) stream() {
	ctx := p.id()
	s := &virgltest.Stream{}
	for range 1 + p.byte()%6 {
		b := p.byte()
		if b >= 0xf8 {
			text := []byte("FRAG\nDCL OUT[0], COLOR\nIMM[0] FLT32 { 1, 1, 1, 1 }\n0: MOV OUT[0], IMM[0]\n1: END\n")
			p.mutate(text)
			s.Shader(1+uint32(b&3), string(text))
			continue
		}
		words := make([]uint32, p.byte()%24)
		for i := range words {
			words[i] = p.word()
		}
		s.Command(uint32(b)%60, uint32(p.byte()%12), words...)
	}
	p.sendStream(ctx, s.Bytes())
}

func (p *guestProgram) mutate(b []byte) {
	for range p.byte() % 4 {
		b[int(p.byte())%len(b)] = p.byte()
	}
}

func (p *guestProgram) sendStream(ctx uint32, s []byte) {
	p.send(cmdSubmit, ctx, nil, vhosttest.Words(uint32(len(s)), 0), s)
}

func guestSeeds() [][]byte {
	const (
		opTransfer = 12
		opStream   = 14
		opScanout  = 18
		opFlush    = 19
		opPVDRM    = 22
		opRequests = 23
		opWait     = 24
		opSleep    = 25
		opStart    = 28
		opDetach   = 9
		opUnref    = 11
	)
	return [][]byte{
		{opStart, 0, opWait, opTransfer, 1, 1, 0, 0, 0, 0, 0, 0, opTransfer, 1, 1, 0, 0, 0, 0, 0, 0, opTransfer, 1, 1, 0, 0, 0, 0, 0, 0, opDetach, 0, opWait, opSleep, 50, opUnref, 0},
		{opStart, 0, opScanout, 0, 0, opFlush, 0, 0, 16, 16, 0, opDetach, 0, opStream, 0, 1, 5, 3, 0, 1, 2, 3, 7, 8, 0, 4, 1, 1, 1, 1, 0, 0, 0, 0},
		{opPVDRM, 0, 0, opStart, 1, opRequests, 0, 2, 0, 5, opWait, opSleep, 150, opUnref, 2, opWait, opSleep, 50},
		{opPVDRM, 0, 0, opRequests, 0, 2, 0, 5, opWait, opSleep, 150, opDetach, 2, opWait, opSleep, 50},
		{0, 0, 5, 0, 0, 2, 1, 2, 0x8f, 0x8e, 1, 1, 0, 0, 2, 0, 0, 7, 0, 3, 1, 2, 3, 4, opWait, 17, 0, 0, 0, 17, 0, 0, 0,
			opTransfer, 1, 1, 0, 0, 0, 0, 0x87, 0, opDetach, 0, opWait, opSleep, 250, opSleep, 250}, // pages that a slow transfer writes are taken back
		{opStart, 0, opStart, 1, opStream, 0, 0, 0xf8, 3, 9, 'X', 20, 0, 30, 200, opWait},
	}
}

// launch is a stream of one launch of a kernel without an end.
func launch(function uint32, addr uint64) []byte {
	params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, addr), 1)
	return drm.LaunchCmd{Function: function, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: params}.Append(nil)
}
