package virtgpu

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"pvdrm/backend/vhostuser"
)

// Device is the virtio-gpu device of one guest.
type Device struct {
	renderer    Renderer // or nil
	gl          GL       // or nil
	capsets     []Capset
	width       uint32 // 0: ask QEMU
	height      uint32
	drawPointer bool
	log         *zap.Logger // complaints about the guest; sampled
	server      *vhostuser.Server
	quotas      *quotas

	timeline timeline

	commands, failed atomic.Uint64

	// contexts belongs to the control queue's goroutine, or to the session's
	// while the queues are stopped.
	contexts map[uint32]*guestContext

	mu        sync.Mutex
	resources map[uint32]*Resource
	scanouts  [MaxScanouts]scanout
	cursor    cursor
	display   *display // nil without

	frames   [MaxScanouts]*frame // newest pictures that a GL rendered, not painted yet
	painting bool                // a goroutine paints them
	spare    []byte              // for the pixels of the next one; may be nil
}

// guestContext is a context with the resources attached to it.
type guestContext struct {
	Context  // of kindCompute
	id       uint32
	name     string
	kind     contextKind
	attached map[uint32]bool
}

// contextKind is what a context is for. Where there is a GL, what the guest does
// with the context first tells.
type contextKind uint8

const (
	kindUnknown contextKind = iota
	kindCompute             // of PVDRM's own
	kindGL                  // of the guest's OpenGL driver
)

// Stats are counters of a device since it was made.
type Stats struct {
	vhostuser.Stats
	Commands  uint64 // virtio-gpu commands
	Failed    uint64 // commands that were answered with an error
	Resources int    // that exist now
	Entries   int    // backing entries in use now
	MapRuns   int    // mappings made by Pages.Contiguous now
	Image     uint64 // bytes of 2D images now
}

// New makes a device.
func New(c Config) (*Device, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	log := c.Log
	if log == nil {
		log = zap.NewNop()
	}
	d := &Device{
		renderer:    c.Renderer,
		gl:          c.GL,
		width:       uint32(c.Width),
		height:      uint32(c.Height),
		drawPointer: c.DrawPointer,
		// A guest can provoke complaints as fast as it can ring doorbells.
		log: log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, time.Second, 5, 0)
		})),
		quotas:    newQuotas(),
		contexts:  make(map[uint32]*guestContext),
		resources: make(map[uint32]*Resource),
	}
	if c.Renderer != nil {
		d.capsets = c.capsets()
	}
	d.server = vhostuser.NewServer((*port)(d), log)
	return d, nil
}

// Serve serves the guest of whatever QEMU connects to l, one at a time, until ctx
// ends, and then returns nil. When QEMU goes away, all that its guest had is freed.
func (d *Device) Serve(ctx context.Context, l *net.UnixListener) error {
	return d.server.Serve(ctx, l)
}

// ServeConn serves one QEMU that is connected already, until it hangs up (nil),
// breaks the protocol, or ctx ends. It closes conn.
func (d *Device) ServeConn(ctx context.Context, conn *net.UnixConn) error {
	return d.server.ServeConn(ctx, conn)
}

// Stats returns the counters.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	resources := len(d.resources)
	d.mu.Unlock()
	return Stats{
		Stats:     d.server.Stats(),
		Commands:  d.commands.Load(),
		Failed:    d.failed.Load(),
		Resources: resources,
		Entries:   int(d.quotas.entries.used.Load()),
		MapRuns:   int(d.quotas.runs.used.Load()),
		Image:     uint64(d.quotas.image.used.Load()),
	}
}

// port is the side of a Device that the vhost-user server sees.
type port Device

func (p *port) Queues() int { return queueCount }

func (p *port) Features() uint64 {
	if p.renderer == nil {
		return featureEDID
	}
	return featureEDID | featureVirgl
}

func (p *port) Config() []byte {
	b := make([]byte, configSize)
	binary.LittleEndian.PutUint32(b[8:], 1) // scanouts; QEMU puts its own number here
	binary.LittleEndian.PutUint32(b[12:], uint32(len(p.capsets)))
	return b
}

// Handle decodes a command, runs it and answers it.
func (p *port) Handle(queue int, c *vhostuser.Chain) {
	d := (*Device)(p)
	d.commands.Add(1)
	var raw [headerSize]byte
	if n, err := c.Read(raw[:]); err != nil || n < headerSize {
		d.failed.Add(1)
		d.log.Warn("guest sent a command that is too short", zap.Int("queue", queue), zap.Int("bytes", n))
		c.Complete(nil)
		return
	}
	r := request{header: decodeHeader(&raw), chain: c}
	if r.flags&flagFence != 0 {
		r.moment = d.timeline.add()
	}
	cmd, payload, err := d.run(queue, &r)
	switch {
	case err != nil:
		code := d.refused(cmd.name, err)
		d.complete(c, r.moment, r.answer(code, nil))
	case !r.held:
		d.complete(c, r.moment, r.answer(cmd.resp, payload))
	}
}

// refused counts and logs a command that failed, and returns the type of its answer.
func (d *Device) refused(name string, err error) uint32 {
	d.failed.Add(1)
	d.log.Warn("refused a command of the guest", zap.String("command", name), zap.Error(err))
	if ce := (*commandError)(nil); errors.As(err, &ce) {
		return ce.code
	}
	return respErrUnspec
}

// complete gives a chain back, in its turn if it has a fence.
func (d *Device) complete(c *vhostuser.Chain, m *moment, answer []byte) {
	if m == nil {
		c.Complete(answer)
		return
	}
	d.timeline.end(m, func() { c.Complete(answer) })
}

// run finds a command in the table and runs it. The command it returns has a name
// in any case.
func (d *Device) run(queue int, r *request) (command, []byte, error) {
	cmd, ok := commands[r.typ]
	if !ok {
		return command{name: "unknown"}, nil, refuse(respErrUnspec, "no command has type %#x", r.typ)
	}
	if cmd.queue != queue {
		return cmd, nil, refuse(respErrUnspec, "sent on queue %d", queue)
	}
	if cmd.is3D && d.renderer == nil {
		return cmd, nil, refuse(respErrUnspec, "3D was not offered")
	}
	body := r.buf[:cmd.size]
	if n, _ := r.chain.Read(body); n < cmd.size { // its only error is the end
		return cmd, nil, refuse(respErrParameter, "%d bytes, want %d", headerSize+n, headerSize+cmd.size)
	}
	payload, err := cmd.run(d, r, body)
	return cmd, payload, err
}

// SetDisplay starts to draw on another socket.
func (p *port) SetDisplay(conn *net.UnixConn) {
	d := (*Device)(p)
	next := newDisplay(conn, d.drawPointer)
	d.mu.Lock()
	old := d.display
	d.display = next
	d.mu.Unlock()
	if old != nil {
		old.close()
	}
	// QEMU waits for us now and cannot take what we draw, so draw elsewhere. It
	// ends by itself: the socket has a time limit and is closed by the next one.
	go d.repaint(next)
}

// Reset forgets all contexts, resources and scanouts.
func (p *port) Reset() {
	d := (*Device)(p)
	for id, c := range d.contexts {
		delete(d.contexts, id)
		if c.kind == kindCompute {
			c.Close()
		}
	}
	if d.gl != nil {
		d.gl.Reset()
	}
	d.timeline.reset()
	d.mu.Lock()
	display := d.display
	d.display = nil
	d.scanouts = [MaxScanouts]scanout{}
	d.cursor = cursor{}
	for i, f := range d.frames {
		if f != nil {
			d.frames[i] = nil
			d.dropFrame(f)
		}
	}
	d.spare = nil
	for id := range d.resources {
		d.dropResource(id)
	}
	d.mu.Unlock()
	if display != nil {
		display.close()
	}
}

// dropResource forgets a resource. Precondition: d.mu is held.
func (d *Device) dropResource(id uint32) {
	r := d.resources[id]
	delete(d.resources, id)
	if r.image != nil {
		d.quotas.image.give(int64(len(r.image.pix)))
		r.image = nil
	}
	r.detach()
}

// cleanName makes a guest's string safe to print: printable ASCII, at most 63 bytes.
func cleanName(b []byte) string {
	clean := make([]byte, 0, len(b))
	for _, c := range b {
		if c == 0 || len(clean) == 63 {
			break
		}
		if c < 0x20 || c > 0x7e {
			c = '?'
		}
		clean = append(clean, c)
	}
	return strings.TrimSpace(string(clean))
}
