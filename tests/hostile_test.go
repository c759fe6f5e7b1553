package tests

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	backend "pvdrm/backend/carrier/local"
	"pvdrm/drm"
	"pvdrm/frontend/carrier"
	"pvdrm/frontend/carrier/local"
	"pvdrm/gpu/softgpu"
	"pvdrm/hypercall"
)

// rawClient is a local guest that speaks the ring by hand, and so can lie.
type rawClient struct {
	*local.Carrier
	pages *carrier.Pages
	ring  *hypercall.Ring
	req   *hypercall.Producer
	cpl   *hypercall.Consumer
	buf   []byte
	id    uint32
}

func (h *host) raw(t *testing.T) *rawClient {
	t.Helper()
	c, err := local.Open(h.socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	r := &rawClient{Carrier: c, buf: make([]byte, hypercall.MaxMessage)}
	layout := hypercall.DefaultLayout
	r.pages, err = c.Alloc(layout.Bytes())
	require.NoError(t, err)
	r.ring, err = hypercall.New(r.pages.Mem, layout)
	require.NoError(t, err)
	require.NoError(t, c.Attach(r.pages, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: r.pages.ID, Layout: layout}))
	r.req, r.cpl = r.ring.Requests(), r.ring.Completions()
	return r
}

// send sends a request and rings in any case.
func (r *rawClient) send(t *testing.T, op hypercall.Op, payload []byte) uint32 {
	t.Helper()
	r.id++
	ok, err := r.req.Put(hypercall.Header{Op: op, ID: r.id, Flags: hypercall.FlagAnswer}, payload)
	require.NoError(t, err)
	require.True(t, ok)
	r.req.Publish()
	require.NoError(t, r.Kick())
	return r.id
}

// answer waits for the completion of the last request.
func (r *rawClient) answer(t *testing.T) (errno syscall.Errno, payload []byte) {
	t.Helper()
	var h hypercall.Header
	require.Eventually(t, func() bool {
		var ok bool
		var err error
		h, payload, ok, err = r.cpl.Get(r.buf)
		require.NoError(t, err)
		return ok
	}, patience, 100*time.Microsecond, "no answer")
	require.Equal(t, r.id, h.ID)
	return syscall.Errno(h.Errno), payload
}

func (r *rawClient) ask(t *testing.T, op hypercall.Op, payload []byte) syscall.Errno {
	t.Helper()
	r.send(t, op, payload)
	errno, _ := r.answer(t)
	return errno
}

// requireEnded waits until the backend has ended the session.
func (r *rawClient) requireEnded(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return r.ring.State() == hypercall.StateEnded }, patience, time.Millisecond)
}

func TestGarbageRequests(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	neighbour := newProgram(t, h.open(t))
	r := h.raw(t)
	require.Equal(t, syscall.ENOSYS, r.ask(t, 0, nil))
	require.Equal(t, syscall.ENOSYS, r.ask(t, 999, []byte{1, 2, 3}))
	require.Zero(t, r.ask(t, hypercall.OpNop, nil))
	rng := rand.New(rand.NewPCG(1, 2))
	for _, op := range hypercall.Ops {
		for range 50 {
			payload := make([]byte, rng.IntN(200))
			for i := range payload {
				payload[i] = byte(rng.IntN(4)) // small numbers name what may exist
			}
			r.ask(t, op.Op, payload)
		}
	}
	require.Zero(t, r.ask(t, hypercall.OpNop, nil), "the session survives requests that are only wrong")
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 1)))
}

func TestGarbageCommandStreams(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	neighbour := newProgram(t, h.open(t))
	rng := rand.New(rand.NewPCG(3, 4))
	whole := drm.CopyCmd{Dst: 1 << 20, Src: 1 << 30, Width: 1 << 40, Height: 1 << 40}.Append(nil)
	whole = drm.LaunchCmd{Function: 1, Grid: [3]uint32{1 << 31, 1 << 31, 1 << 31}, Block: [3]uint32{1 << 20, 1, 1}, SharedBytes: 1 << 31}.Append(whole)
	whole = drm.LaunchCmd{Function: 1, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Cluster: [3]uint32{1 << 31, 0, 1}, Signal: ^uint64(0)}.Append(whole)
	whole = drm.FillCmd{Dst: ^uint64(0), Size: 4, Width: 1 << 63, Height: 2, Pitch: 1 << 63}.Append(whole)
	whole = drm.TimestampCmd{Addr: 7}.Append(whole)
	for range 30 {
		f := h.open(t)
		ch, err := f.ChannelAlloc()
		require.NoError(t, err)
		stream := append([]byte{}, whole...)
		for range rng.IntN(8) {
			stream[rng.IntN(len(stream))] ^= byte(1 << rng.IntN(8))
		}
		seqno, err := f.Exec(ch, stream, nil)
		require.NoError(t, err)
		require.Error(t, f.Wait(drm.Point{Channel: ch, Seqno: seqno}, 20*time.Second))
		require.NoError(t, f.Close())
	}
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 1)))
}

func TestCorruptRingEndsTheSession(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	neighbour := newProgram(t, h.open(t))
	word := func(r *rawClient, off int, v uint32) { binary.LittleEndian.PutUint32(r.pages.Mem[off:], v) }
	const requestTail, slots = 0x000, 0x2000
	for name, lie := range map[string]func(*rawClient){
		"tail jumps":       func(r *rawClient) { word(r, requestTail, 1<<30) },
		"length too large": func(r *rawClient) { word(r, slots+4, 1<<30); word(r, requestTail, 1) },
		"length too small": func(r *rawClient) { word(r, slots+4, 3); word(r, requestTail, 1) },
		"length past tail": func(r *rawClient) { word(r, slots+4, 4096); word(r, requestTail, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := h.raw(t)
			lie(r)
			_ = r.Kick() // the backend may have seen it already and hung up
			r.requireEnded(t)
		})
	}
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 1)))
}

// The place up to which the guest has read completions is the guest's to write. A
// lie is seen when the queue seems full, and told once.
func TestCorruptCompletionsEndTheSession(t *testing.T) {
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20})
	require.NoError(t, err)
	core, logs := observer.New(zap.WarnLevel)
	h := startServer(t, backend.Config{Device: device, Log: zap.New(core)})
	r := h.raw(t)
	const completionHead = 0x100
	binary.LittleEndian.PutUint32(r.pages.Mem[completionHead:], 1<<30)
	for range 2 * hypercall.DefaultLayout.CompletionSlots {
		_, err := r.req.Put(hypercall.Header{Op: hypercall.OpProperties}, nil) // full, when the backend has stopped
		require.NoError(t, err)
		r.req.Publish()
		_ = r.Kick() // the backend may have hung up
	}
	r.requireEnded(t)
	require.NoError(t, h.stop())
	require.Len(t, logs.FilterMessageSnippet("broke the protocol").All(), 1)
	require.Equal(t, 1, logs.Len(), "%v", logs.All())
}

// What frees a channel waits for the kernel that runs there, and nobody waits for
// that: neither other requests nor who takes a grant back.
func TestFreeingAChannelHoldsNothingUp(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	r := h.raw(t)
	name := "forever"
	n := copy(r.ring.Bulk(), addOne)
	require.Zero(t, r.ask(t, hypercall.OpModuleLoad, hypercall.ModuleLoad{Module: 1, Bytes: uint32(n), Total: uint64(n), Name: name}.Append(nil)))
	require.Zero(t, r.ask(t, hypercall.OpModuleFunction, hypercall.Symbol{Module: 1, Function: 1, Name: name}.Append(nil)))
	require.Zero(t, r.ask(t, hypercall.OpChannelAlloc, hypercall.ID{ID: 1}.Append(nil)))
	launch := drm.LaunchCmd{Function: 1, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}.Append(nil)
	require.Zero(t, r.ask(t, hypercall.OpExec, hypercall.Exec{Channel: 1, Seqno: 1, Stream: launch}.Append(nil)))
	require.Zero(t, r.ask(t, hypercall.OpExec, hypercall.Exec{Channel: 1, Seqno: 2, Stream: launch}.Append(nil)))
	require.Eventually(t, func() bool { return h.device.Stats().Launches > 0 }, patience, time.Millisecond)
	pages, err := r.Alloc(4096)
	require.NoError(t, err)
	require.Zero(t, r.ask(t, hypercall.OpGemGrant, hypercall.GemGrant{Handle: 1, Resource: pages.ID, Size: 4096}.Append(nil)))

	r.send(t, hypercall.OpChannelFree, hypercall.ID{ID: 1}.Append(nil))
	require.Zero(t, r.ask(t, hypercall.OpNop, nil), "requests behind it are answered first")
	require.NoError(t, r.Free(pages))
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpGemClose, hypercall.ID{ID: 1}.Append(nil)), "the grant is gone")
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpExec, hypercall.Exec{Channel: 1, Seqno: 3}.Append(nil)), "it takes nothing more")
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpChannelFree, hypercall.ID{ID: 1}.Append(nil)))
	require.Equal(t, syscall.EEXIST, r.ask(t, hypercall.OpChannelAlloc, hypercall.ID{ID: 1}.Append(nil)), "the id is taken until it is free")
	require.Zero(t, r.ring.Done(1), "the kernel still runs")
	require.NoError(t, r.Close())
}

func TestFrontendThatNeverReadsCompletions(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	neighbour := newProgram(t, h.open(t))
	r := h.raw(t)
	sent := 0
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		ok, err := r.req.Put(hypercall.Header{Op: hypercall.OpProperties}, nil)
		require.NoError(t, err)
		if ok {
			sent++
		}
		r.req.Publish()
		if sent%64 == 0 {
			require.NoError(t, r.Kick())
		}
	}
	const slots = 2048 + 512
	require.Less(t, sent, 2*slots, "the backend stops taking requests when its answers are not read")
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 1)))
	require.NoError(t, r.Close())
}

func TestIDsOfOthersMeanNothing(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	victim := newProgram(t, h.open(t))
	r := h.raw(t)
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpGemClose, hypercall.ID{ID: victim.handle}.Append(nil)))
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpChannelFree, hypercall.ID{ID: victim.channel}.Append(nil)))
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpModuleUnload, hypercall.ID{ID: victim.module}.Append(nil)))
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpExec, hypercall.Exec{Channel: victim.channel, Seqno: 1}.Append(nil)))
	for id := range uint32(64) { // grants of others, by the carrier's ids
		if id != r.pages.ID {
			require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpGemGrant, hypercall.GemGrant{Handle: 5, Resource: id, Size: 4096}.Append(nil)))
		}
	}
	require.NoError(t, victim.run(victim.launch(victim.addr, 1)))
}

func TestGrantIsBounded(t *testing.T) {
	r := startHost(t, softgpu.Config{}).raw(t)
	p, err := r.Alloc(8192)
	require.NoError(t, err)
	grant := func(size uint64) syscall.Errno {
		return r.ask(t, hypercall.OpGemGrant, hypercall.GemGrant{Handle: 1, Resource: p.ID, Size: size}.Append(nil))
	}
	for _, size := range []uint64{0, 1, 4095, 8193, 12288, 1 << 62, ^uint64(4095)} {
		require.Equal(t, syscall.EINVAL, grant(size), "%d bytes", size)
	}
	require.Zero(t, grant(8192))
	require.Equal(t, syscall.EEXIST, grant(8192), "the handle is taken")
}

func TestGrantTakenBackWhileInUse(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	p := newProgram(t, h.open(t))
	r := h.raw(t)
	pages, err := r.Alloc(4096)
	require.NoError(t, err)
	require.Zero(t, r.ask(t, hypercall.OpGemGrant, hypercall.GemGrant{Handle: 1, Resource: pages.ID, Size: 4096}.Append(nil)))
	window, err := p.GetParam(drm.ParamSystemBase)
	require.NoError(t, err)
	bind := hypercall.VMBind{Ops: []drm.BindOp{{Op: drm.BindMap, Handle: 1, Addr: window, Range: 4096}}}
	require.Zero(t, r.ask(t, hypercall.OpVMBind, bind.Append(nil)))
	require.NoError(t, r.Free(pages))
	require.Equal(t, syscall.ENOENT, r.ask(t, hypercall.OpGemClose, hypercall.ID{ID: 1}.Append(nil)), "the object went with its pages")
	require.NoError(t, p.run(p.launch(p.addr, 1)))
}

// Random bytes, descriptors that are not ours, and messages out of order on the
// local socket end that connection only.
func TestGarbageOnTheLocalSocket(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	neighbour := newProgram(t, h.open(t))
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 100 {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: h.socket, Net: "unixpacket"})
		require.NoError(t, err)
		for range 4 {
			m := hypercall.LocalMessage{Op: hypercall.LocalOp(rng.IntN(8)), ID: uint32(rng.IntN(4)), Size: rng.Uint64() >> rng.IntN(64)}.Encode()
			if round%3 == 0 {
				m[rng.IntN(len(m))] ^= 0xff
			}
			var oob []byte
			if round%4 == 0 {
				oob = unix.UnixRights(0, 1, 2)
			}
			if _, _, err := c.WriteMsgUnix(m, oob, nil); err != nil {
				break // it has hung up
			}
		}
		require.NoError(t, c.Close())
	}
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 1)))
}
