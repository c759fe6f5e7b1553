package serve_test

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/gpuvm"
	"pvdrm/backend/gpuvm/serve"
	"pvdrm/backend/session"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall"
	"pvdrm/hypercall/paging"
	"pvdrm/hypercall/trap"
	"pvdrm/internal/hostmem"
)

// granted is memory of a guest in this process.
type granted struct{ *hostmem.Region }

func (g granted) Size() uint64 { return uint64(len(g.Bytes())) }

func (g granted) Acquire() ([][]byte, func(), error) {
	mem, release, err := g.MapContiguous()
	return [][]byte{mem[:len(mem)/2], mem[len(mem)/2:]}, release, err // as of a machine, in runs
}

func (g granted) MapContiguous() ([]byte, func(), error) {
	g.Region.Acquire()
	return g.Bytes(), g.Release, nil
}

// hostile is a carrier whose guest writes into its mailbox what it likes.
type hostile struct {
	grants map[uint32]granted
	rung   chan struct{}
}

func (h *hostile) Grant(id uint32) (session.Grant, error) {
	g, ok := h.grants[id]
	if !ok {
		return nil, unix.ENOENT
	}
	return g, nil
}

func (h *hostile) Notify() {
	select {
	case h.rung <- struct{}{}:
	default:
	}
}

func (h *hostile) Counts() (doorbells, interrupts uint64) { return 0, 0 }

// Ids of what a hostile guest has granted.
const (
	idBox  = 1
	idRAM  = 2
	idVRAM = 3
	idView = 4
)

// newHostile makes the memory of a guest.
func newHostile(t testing.TB) *hostile {
	h := &hostile{grants: map[uint32]granted{}, rung: make(chan struct{}, 1)}
	for id, size := range map[uint32]uint64{idBox: trap.MailboxBytes * 2, idRAM: 1 << 20, idVRAM: 2 << 20, idView: 1 << 20} {
		r, err := hostmem.New(size)
		require.NoError(t, err)
		t.Cleanup(r.Release)
		h.grants[id] = granted{r}
	}
	return h
}

// request makes a request and waits for the answer.
func (h *hostile) request(t testing.TB, g session.Attached, box *trap.Mailbox, r trap.Request) trap.Answer {
	box.Post(r)
	g.Kick()
	for !box.Done() {
		select {
		case <-h.rung:
		case <-g.Ended():
			return trap.Answer{Failed: true}
		case <-time.After(time.Minute):
			require.Fail(t, "no answer")
		}
	}
	return box.Answer()
}

// A guest that makes requests out of order, or with what it has not granted, is refused them, and one
// that takes back what its VM consists of has none any more.
func TestRequestsOutOfOrder(t *testing.T) {
	c, err := card.New(softgpu.Config{VRAMBytes: 64 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	a, err := gpuvm.New(c, 1)
	require.NoError(t, err)
	mode, err := gpuvm.ModeOf("fv-bar1")
	require.NoError(t, err)
	server := &serve.Server{Aggregator: a, Mode: mode, Log: zap.NewNop()}
	attach := func(h *hostile) (session.Attached, *trap.Mailbox) {
		g, err := server.Attach(h, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: idBox}, "test")
		require.NoError(t, err)
		box, err := trap.NewMailbox(h.grants[idBox].Bytes())
		require.NoError(t, err)
		return g, box
	}
	_, err = server.Attach(newHostile(t), hypercall.Doorbell{Resource: 77}, "test")
	require.ErrorIs(t, err, unix.ENOENT)

	h := newHostile(t)
	g, box := attach(h)
	for _, kind := range []trap.Kind{trap.Read, trap.Write, trap.Call, trap.Count} {
		require.True(t, h.request(t, g, box, trap.Request{Kind: kind}).Failed, "before the VM is there")
	}
	require.False(t, h.request(t, g, box, trap.Request{Kind: trap.Ask}).Failed)
	require.True(t, h.request(t, g, box, trap.Request{Kind: 99}).Failed)
	done := make(chan struct{})
	g.Revoke(idRAM, func() { close(done) })
	<-done // it is in no use
	require.False(t, h.request(t, g, box, trap.Request{Kind: trap.Open, Payload: trap.Grants{RAM: idRAM, VRAM: idVRAM, View: idView}.Encode()}).Failed)
	require.True(t, h.request(t, g, box, trap.Request{Kind: trap.Open, Payload: trap.Grants{RAM: idRAM}.Encode()}).Failed, "once")
	require.Equal(t, uint32(hw.CardID), h.request(t, g, box, trap.Request{Kind: trap.Read}).Value)
	for _, r := range []trap.Request{{Kind: trap.Read, BAR: 1<<32 - 1}, {Kind: trap.Read, BAR: 2}, {Kind: trap.Read, BAR: hw.BAR3, Off: 1<<64 - 1}, {Kind: trap.Read, BAR: hw.BAR0, Off: 2}} {
		require.Equal(t, ^uint32(0), h.request(t, g, box, r).Value)
	}
	require.True(t, h.request(t, g, box, trap.Request{Kind: trap.Call, Payload: make([]byte, paging.OpBytes)}).Failed, "the mode has none")
	done = make(chan struct{})
	g.Revoke(idVRAM, func() { close(done) })
	<-done
	<-g.Ended()
	require.True(t, h.request(t, g, box, trap.Request{Kind: trap.Read}).Failed)
	g.Close()

	for _, grants := range []trap.Grants{{}, {RAM: 77}, {RAM: idRAM, VRAM: idVRAM}, {RAM: idRAM, VRAM: idVRAM, View: idBox}, {RAM: idRAM, VRAM: 77, View: idView}} {
		h := newHostile(t)
		g, box := attach(h)
		require.True(t, h.request(t, g, box, trap.Request{Kind: trap.Open, Payload: grants.Encode()}).Failed, "%+v", grants)
		require.True(t, h.request(t, g, box, trap.Request{Kind: trap.Open, Payload: trap.Grants{RAM: idRAM}.Encode()}).Failed, "it had its chance")
		g.Close()
	}
	h = newHostile(t)
	g, box = attach(h)
	require.True(t, h.request(t, g, box, trap.Request{Kind: trap.Open, Payload: []byte{1}}).Failed)
	g.Close()
	h = newHostile(t) // one memory for all
	h.grants[idRAM], h.grants[idView] = h.grants[idVRAM], h.grants[idVRAM]
	g, box = attach(h)
	require.False(t, h.request(t, g, box, trap.Request{Kind: trap.Open, Payload: trap.Grants{RAM: idRAM, VRAM: idVRAM, View: idView}.Encode()}).Failed)
	require.Equal(t, uint32(hw.CardID), h.request(t, g, box, trap.Request{Kind: trap.Read}).Value)
	g.Close()
}

// Guests that end at any moment, while others write into their mailboxes, leave the card to the next.
func TestGuestsThatEndAtAnyMoment(t *testing.T) {
	c, err := card.New(softgpu.Config{VRAMBytes: 64 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	a, err := gpuvm.New(c, 2)
	require.NoError(t, err)
	rounds := 60
	if testing.Short() || raceDetector {
		rounds = 12
	}
	var all sync.WaitGroup
	for i := range uint64(2) {
		mode, err := gpuvm.ModeOf([]string{"fv-opt", "pv-bar1"}[i])
		require.NoError(t, err)
		server := &serve.Server{Aggregator: a, Mode: mode, Polled: i == 1, Log: zap.NewNop()}
		all.Go(func() {
			r := rand.New(rand.NewPCG(i, 5))
			for range rounds {
				h := newHostile(t)
				g, err := server.Attach(h, hypercall.Doorbell{Resource: idBox}, "test")
				if err != nil {
					t.Error(err)
					return
				}
				mem := h.grants[idBox].Bytes()
				for n := range r.IntN(400) {
					scribble(r, mem, uint32(n+1))
					g.Kick()
				}
				switch r.IntN(3) {
				case 0:
					g.End()
				case 1:
					g.Revoke(idRAM, func() {})
				}
				g.Close()
			}
		})
	}
	all.Wait()
	for range 2 { // both parts are there, and empty
		vm, err := a.NewVM(gpuvm.Modes[0], make([]byte, 4096))
		require.NoError(t, err)
		defer vm.Close()
		for i := range uint64(1000) {
			require.Zero(t, vm.Read(hw.BAR0, hw.WindowBase+4*i))
		}
	}
}

// scribble writes a request into a mailbox without waiting for the one before.
func scribble(r *rand.Rand, mem []byte, ticket uint32) {
	kind := uint32(trap.Open)
	if ticket > 1 {
		kind = uint32(trap.Open + trap.Kind(r.IntN(6)))
	}
	binary.LittleEndian.PutUint32(mem[0x08:], kind)
	binary.LittleEndian.PutUint32(mem[0x0c:], []uint32{0, 1, 3, 9}[r.IntN(4)])
	binary.LittleEndian.PutUint64(mem[0x10:], []uint64{hw.RegChannel, hw.RegFlush, hw.RegBAR3, hw.WindowBase + 4*r.Uint64N(1<<16), r.Uint64()}[r.IntN(5)])
	binary.LittleEndian.PutUint32(mem[0x18:], []uint32{hw.Valid, hw.Valid | r.Uint32N(1<<12), r.Uint32()}[r.IntN(3)])
	binary.LittleEndian.PutUint32(mem[0x1c:], map[bool]uint32{true: 12, false: r.Uint32N(5000)}[kind == uint32(trap.Open)])
	copy(mem[0x40:], trap.Grants{RAM: idRAM, VRAM: idVRAM, View: idView}.Encode())
	hostmem.SwapUint32(mem, 0, ticket)
}
