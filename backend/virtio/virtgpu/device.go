package virtgpu

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"pvdrm/backend/virtio/vhostuser"
	"pvdrm/internal/sample"
)

// Device is the virtio-gpu device of one guest.
type Device struct {
	components  []*component
	capsets     []Capset
	width       uint32 // 0: ask QEMU
	height      uint32
	drawPointer bool
	sampler     sample.Sampler
	log         *zap.Logger // sampled: a guest causes complaints as fast as it rings doorbells
	server      *vhostuser.Server
	quotas      *quotas

	timeline timeline

	commands, failed atomic.Uint64

	order order
	// turn is held while a command of the control queue runs: on the queue's goroutine, or on
	// another one if it had to wait; and while the device is reset. It comes before all other
	// locks. Nothing waits for a context or the renderer while it holds it, except a reset.
	turn     sync.Mutex
	contexts map[uint32]*guestContext // guarded by turn
	attached int                      // resources of all contexts together, as turn

	mu        sync.Mutex
	resources map[uint32]*Resource
	scanouts  [MaxScanouts]scanout
	cursor    cursor
	display   *display // nil without

	frames   [MaxScanouts]*frame // newest pictures of renderers that are not painted yet
	painting bool                // a goroutine paints them
	spare    []byte              // for the pixels of the next one; may be nil
}

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
		components:  newComponents(c.Components),
		capsets:     c.capsets(),
		width:       uint32(c.Width),
		height:      uint32(c.Height),
		drawPointer: c.DrawPointer,
		quotas:      newQuotas(),
		contexts:    make(map[uint32]*guestContext),
		resources:   make(map[uint32]*Resource),
	}
	d.order.init(d.catchUp)
	d.log = d.sampler.Wrap(log)
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
	if len(p.components) == 0 {
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

// Handle decodes a command, and runs and answers it if it need not wait for earlier ones.
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
	r := &request{header: decodeHeader(&raw), chain: c}
	if r.flags&flagFence != 0 {
		r.moment = d.timeline.add()
	}
	if err := d.decode(queue, r); err != nil {
		d.complete(c, r.moment, r.answer(d.refused(r.cmd.name, err), nil))
		return
	}
	if queue != controlQueue {
		d.perform(r)
		return
	}
	d.turn.Lock()
	defer d.turn.Unlock()
	if d.order.admits(r) {
		d.perform(r)
		return
	}
	if err := d.keep(r); err != nil {
		d.complete(c, r.moment, r.answer(d.refused(r.cmd.name, err), nil))
		return
	}
	d.order.wait(r)
}

// decode finds a command in the table and reads its fixed part. It names the command in any case.
func (d *Device) decode(queue int, r *request) error {
	cmd, ok := commands[r.typ]
	if r.cmd = cmd; !ok {
		r.cmd.name = "unknown"
		return refuse(respErrUnspec, "no command has type %#x", r.typ)
	}
	if cmd.queue != queue {
		return refuse(respErrUnspec, "sent on queue %d", queue)
	}
	if cmd.is3D && len(d.components) == 0 {
		return refuse(respErrUnspec, "3D was not offered")
	}
	if n, _ := r.chain.Read(r.body[:cmd.size]); n < cmd.size { // its only error is the end
		return refuse(respErrParameter, "%d bytes, want %d", headerSize+n, headerSize+cmd.size)
	}
	return nil
}

// perform runs a command, and answers it unless it was kept (later).
func (d *Device) perform(r *request) {
	payload, err := r.cmd.run(d, r, r.body[:r.cmd.size])
	switch {
	case err != nil:
		d.complete(r.chain, r.moment, r.answer(d.refused(r.cmd.name, err), nil))
	case !r.held:
		d.complete(r.chain, r.moment, r.answer(r.cmd.resp, payload))
	}
}

// keep reads the rest of a command that is about to wait: the guest's memory may change, or be
// gone, until it runs. Answers to later commands wait for its fence, unless it is a hint: it says
// that pages are no longer used, or that a picture is rendered.
func (d *Device) keep(r *request) (err error) {
	switch r.typ {
	case cmdSubmit3D:
		if err = d.readSubmit(r); err == nil && !d.order.keep(len(r.rest)) {
			err = refuse(respErrNoMemory, "commands with %d bytes wait for contexts that end", maxKept)
		}
	case cmdAttachBacking:
		err = d.readBacking(r)
	}
	if err == nil && r.moment != nil && !d.hint(r.rest) {
		d.timeline.bind(r.moment)
	}
	return err
}

// catchUp runs the commands that have waited long enough.
func (d *Device) catchUp() {
	for {
		d.turn.Lock()
		r := d.order.next()
		if r != nil {
			d.perform(r)
			d.order.leave(r)
		}
		d.turn.Unlock()
		if r == nil {
			return
		}
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

// Reset forgets all contexts, resources and scanouts. It waits until nothing uses the guest's
// pages: they may be anything afterwards. What runs for the guest is aborted for that.
func (p *port) Reset() {
	d := (*Device)(p)
	d.turn.Lock()
	defer d.turn.Unlock()
	for _, r := range d.order.drop() {
		if r.backing != nil {
			r.backing.release()
		}
	}
	for id, c := range d.contexts {
		delete(d.contexts, id)
		if c.component != nil {
			end := d.order.begin()
			c.Close(func(error) { end() })
		}
	}
	d.attached = 0
	for _, c := range d.components {
		if c.renderer != nil {
			c.renderer.Reset()
		}
	}
	d.order.settle()
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
