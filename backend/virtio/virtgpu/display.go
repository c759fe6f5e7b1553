package virtgpu

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Requests of the vhost-user-gpu protocol, by which QEMU shows pictures (QEMU's
// docs/interop/vhost-user-gpu.rst). A message is request u32, flags u32, size of
// the payload u32, payload.
const (
	gpuGetProtocolFeatures = 1
	gpuSetProtocolFeatures = 2
	gpuGetDisplayInfo      = 3
	gpuCursorPos           = 4
	gpuCursorPosHide       = 5
	gpuCursorUpdate        = 6
	gpuScanout             = 7
	gpuUpdate              = 8

	gpuHeaderSize = 12
	gpuFlagReply  = 1 << 2
)

// updateBytes is how many bytes of pixels go into one message, roughly: QEMU
// reads a message in one go, and its machine stands still meanwhile.
const updateBytes = 1 << 20

// updateHead is the size of what comes before the pixels of an update, in bytes.
const updateHead = 20

// displayTimeout is how long QEMU may take to read what we draw, or to answer. It
// answers at once unless it waits for us, which it does not do without closing
// the display first.
const displayTimeout = 5 * time.Second

// display is the socket on which QEMU takes pictures. It is safe for concurrent
// use; close interrupts what another goroutine does.
type display struct {
	conn *net.UnixConn

	mu     sync.Mutex
	ready  bool // protocol features are settled
	sizes  [MaxScanouts]struct{ w, h uint32 }
	buf    []byte
	canvas *canvas // nil where QEMU shows the pointer itself
}

func newDisplay(conn *net.UnixConn, drawPointer bool) *display {
	p := &display{conn: conn}
	if drawPointer {
		p.canvas = &canvas{}
	}
	return p
}

func (p *display) close() {
	_ = p.conn.Close() // the pictures in it have no taker any more
}

// send sends one message. Precondition: p.mu is held.
func (p *display) send(req uint32, payload []byte) error {
	le := binary.LittleEndian
	var head [gpuHeaderSize]byte
	le.PutUint32(head[0:], req)
	le.PutUint32(head[8:], uint32(len(payload)))
	if err := p.conn.SetWriteDeadline(time.Now().Add(displayTimeout)); err != nil {
		return err
	}
	bufs := net.Buffers{head[:], payload}
	if _, err := bufs.WriteTo(p.conn); err != nil {
		return fmt.Errorf("drawing (request %d): %w", req, err)
	}
	return nil
}

// ask sends a request and returns the payload of the answer, which must have size
// bytes. Precondition: p.mu is held.
func (p *display) ask(req uint32, size int) ([]byte, error) {
	if err := p.send(req, nil); err != nil {
		return nil, err
	}
	if err := p.conn.SetReadDeadline(time.Now().Add(displayTimeout)); err != nil {
		return nil, err
	}
	b := make([]byte, gpuHeaderSize+size)
	if _, err := io.ReadFull(p.conn, b); err != nil {
		return nil, fmt.Errorf("waiting for the answer to request %d: %w", req, err)
	}
	le := binary.LittleEndian
	if le.Uint32(b) != req || le.Uint32(b[4:])&gpuFlagReply == 0 || le.Uint32(b[8:]) != uint32(size) {
		return nil, fmt.Errorf("answer to request %d has header % x", req, b[:gpuHeaderSize])
	}
	return b[gpuHeaderSize:], nil
}

// handshake settles the protocol features before anything else is said: none is
// needed. Precondition: p.mu is held.
func (p *display) handshake() error {
	if p.ready {
		return nil
	}
	if _, err := p.ask(gpuGetProtocolFeatures, 8); err != nil {
		return err
	}
	p.ready = true
	return p.send(gpuSetProtocolFeatures, make([]byte, 8))
}

// modes asks where QEMU's outputs lie; those that are off are empty. After an
// error the display is of no more use.
func (p *display) modes() (modes [MaxScanouts]rect, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.handshake(); err != nil {
		return modes, err
	}
	b, err := p.ask(gpuGetDisplayInfo, headerSize+24*MaxScanouts)
	if err != nil {
		return modes, err
	}
	for i := range modes {
		e := b[headerSize+24*i:]
		if binary.LittleEndian.Uint32(e[rectSize:]) != 0 {
			modes[i] = decodeRect(e)
		}
	}
	return modes, nil
}

// say settles the features if that is still to do, then sends a message.
// Precondition: p.mu is held.
func (p *display) say(req uint32, payload []byte) error {
	if err := p.handshake(); err != nil {
		return err
	}
	return p.send(req, payload)
}

func words(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// scanout sets the size of an output; 0 turns it off.
func (p *display) scanout(id, w, h uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setSize(id, w, h)
}

func (p *display) setSize(id, w, h uint32) error {
	p.sizes[id].w, p.sizes[id].h = w, h
	if c := p.painted(id); c != nil {
		c.resize(w, h)
	}
	return p.say(gpuScanout, words(id, w, h))
}

// show makes an output show the area of an image, of which the part r is new. All
// of it is sent if whole is set or the output had another size: QEMU must know a
// size before it gets an update that fits. Precondition: area is not empty and lies
// in the image.
func (p *display) show(id uint32, m *image, area, r rect, whole bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sizes[id].w != area.w || p.sizes[id].h != area.h {
		if err := p.setSize(id, area.w, area.h); err != nil {
			return err
		}
		whole = true
	}
	if whole {
		r = area
	}
	if r = r.intersect(area); r.empty() {
		return nil
	}
	rows := max(1, updateBytes/(r.w*pixelSize))
	for y := r.y; y < r.y+r.h; y += rows {
		band := rect{r.x, y, r.w, min(rows, r.y+r.h-y)}
		p.buf = append(p.buf[:0], words(id, band.x-area.x, band.y-area.y, band.w, band.h)...)
		p.buf = m.appendBGRX(p.buf, band)
		if c := p.painted(id); c != nil {
			c.put(rect{band.x - area.x, band.y - area.y, band.w, band.h}, p.buf[updateHead:])
		}
		if err := p.say(gpuUpdate, p.buf); err != nil {
			return err
		}
	}
	return nil
}

// cursorShape sets the picture and the place of the pointer. Precondition: the
// image has cursorSize by cursorSize pixels.
func (p *display) cursorShape(c cursor, m *image) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := rect{0, 0, cursorSize, cursorSize}
	shape := *m
	shape.format.opaque = false // a pointer has alpha; Linux's dumb buffers, of which it is one, say that they have none
	if p.canvas != nil {
		p.canvas.shape = shape.appendBGRX(nil, all)
		return p.point(c)
	}
	return p.say(gpuCursorUpdate, shape.appendBGRX(words(c.scanout, c.x, c.y, c.hotX, c.hotY), all))
}

func (p *display) cursorMove(c cursor) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canvas != nil {
		return p.point(c)
	}
	return p.say(gpuCursorPos, words(c.scanout, c.x, c.y))
}

func (p *display) cursorHide(c cursor) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canvas != nil {
		p.canvas.shape = nil
		return p.point(c)
	}
	return p.say(gpuCursorPosHide, words(c.scanout, c.x, c.y))
}
