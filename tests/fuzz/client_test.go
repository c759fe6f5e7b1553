package fuzz

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/session"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// layout is the smallest ring, so that it is full soon.
var layout = hypercall.Layout{RequestSlots: hypercall.MinSlots, CompletionSlots: hypercall.MinSlots, BulkBytes: 16 << 10}

// patience bounds everything that must end. It is long enough for a machine that has
// many other things to do.
const patience = 2 * time.Minute

// client is a file whose ring is written by hand, so that it can lie.
type client struct {
	carrier  *carrier
	session  *session.Session
	ring     *hypercall.Ring
	mem      []byte
	requests *hypercall.Producer
	answers  *hypercall.Consumer
	buf      []byte
	id       uint32
	must     map[uint32]bool   // requests without an answer: whether they need one
	errno    map[uint32]uint32 // of the answers that somebody waits for
	seqno    map[uint32]uint64 // of the last batch of each channel
	lied     bool              // the session may end, or answer nothing more
	revoked  []chan struct{}   // closed when a grant is back
	grants   []*grant          // all that there ever were
}

// open makes a file, or returns nil where the guest may not have one more.
func open(device gpu.Device, group *session.Group, flags uint32) *client {
	c := &client{
		carrier: newCarrier(), buf: make([]byte, hypercall.MaxMessage),
		must: map[uint32]bool{}, errno: map[uint32]uint32{}, seqno: map[uint32]uint64{},
	}
	ring := c.grant(ringID, 1, int(layout.Bytes()/page))
	c.mem = ring.runs[0]
	var err error
	if c.ring, err = hypercall.New(c.mem, layout); err != nil {
		panic(err)
	}
	c.requests, c.answers = c.ring.Requests(), c.ring.Completions()
	d := hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: ringID, Layout: layout, Flags: flags}
	c.session, err = session.Attach(device, c.carrier, group, d, "fuzz", zap.NewNop())
	if err != nil {
		c.free()
		return nil
	}
	return c
}

func (c *client) grant(id uint32, runs, pages int) *grant {
	g := c.carrier.add(id, runs, pages)
	if g != nil {
		c.grants = append(c.grants, g)
	}
	return g
}

func (c *client) ended() bool {
	select {
	case <-c.session.Ended():
		return true
	default:
		return false
	}
}

// send sends a request, of which the session learns with the next kick at the latest.
func (c *client) send(op hypercall.Op, flags uint16, payload []byte) uint32 {
	c.id++
	for deadline := time.Now().Add(patience); ; {
		ok, err := c.requests.Put(hypercall.Header{Op: op, Flags: flags, ID: c.id}, payload)
		if err != nil && !c.lied {
			panic(fmt.Sprintf("a ring without a lie: %v", err))
		}
		if err != nil || ok {
			break
		}
		if c.ended() || c.lied {
			return 0 // the session need not take more
		}
		if time.Now().After(deadline) {
			panic("the session takes no more requests")
		}
		c.kick()
		c.drain()
		time.Sleep(20 * time.Microsecond)
	}
	info, _ := op.Info()
	c.must[c.id] = !info.Async || flags&hypercall.FlagAnswer != 0
	return c.id
}

// kick publishes what was sent and wakes the session.
func (c *client) kick() {
	c.requests.Publish()
	c.session.Kick()
}

// drain reads the answers that are there.
func (c *client) drain() {
	for {
		h, payload, ok, err := c.answers.Get(c.buf)
		if err != nil || !ok {
			if err != nil && !c.lied {
				panic(fmt.Sprintf("answers: %v", err))
			}
			return
		}
		if c.lied {
			continue // what is read may be anything
		}
		if _, waits := c.must[h.ID]; !waits {
			panic(fmt.Sprintf("answer of %s to request %d, which was not made or had one (%d bytes)", h.Op, h.ID, len(payload)))
		}
		delete(c.must, h.ID)
		if h.Errno != 0 {
			c.errno[h.ID] = h.Errno
		}
	}
}

// pending reports whether an answer is missing that must come.
func (c *client) pending() bool {
	for _, must := range c.must {
		if must {
			return true
		}
	}
	return false
}

// settle waits until every request has its answer.
func (c *client) settle() {
	c.kick()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Microsecond) {
		if c.drain(); !c.pending() || c.lied {
			return
		}
		if c.ended() {
			panic("the session ended, and the protocol was kept")
		}
		if time.Now().After(deadline) {
			panic("requests have no answer")
		}
	}
}

// ask sends a request and returns the error in its answer.
func (c *client) ask(op hypercall.Op, payload []byte) error {
	id := c.send(op, hypercall.FlagAnswer, payload)
	c.settle()
	if errno := c.errno[id]; errno != 0 {
		return fmt.Errorf("%s: %w", op, syscall.Errno(errno))
	}
	return nil
}

// await waits until a channel has come so far.
func (c *client) await(channel uint32, seqno uint64, timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); c.ring.Done(channel) < seqno; time.Sleep(20 * time.Microsecond) {
		if c.ended() || time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// lie changes a word of the ring object behind the producer's back.
func (c *client) lie(offset, value uint32) {
	c.lied = true
	binary.LittleEndian.PutUint32(c.mem[offset&^3%uint32(len(c.mem)):], value)
}

// revoke takes a grant back. When the session says that it is done, the pages can no
// longer be touched.
func (c *client) revoke(id uint32) {
	if id == ringID {
		return // carriers end the session
	}
	g := c.carrier.remove(id)
	if g == nil {
		return
	}
	done := make(chan struct{})
	c.revoked = append(c.revoked, done)
	c.session.Revoke(id, func() {
		g.takeBack()
		close(done)
	})
}

// regain waits until all grants are back that were taken back.
func (c *client) regain() {
	for _, done := range c.revoked {
		select {
		case <-done:
		case <-time.After(patience):
			panic("a grant does not come back")
		}
	}
	c.revoked = nil
}

// close ends the file and checks that it leaves nothing behind.
func (c *client) close() {
	c.session.Close()
	if state := c.ring.State(); state != hypercall.StateEnded && !c.lied {
		panic(fmt.Sprintf("a session that has ended shows state %d", state))
	}
	c.regain()
	c.free()
}

func (c *client) free() {
	for _, g := range c.grants {
		g.free()
	}
}
