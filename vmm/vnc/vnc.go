// Package vnc shows a screen to VNC viewers: a server of the RFB protocol (RFC 6143).
// QEMU's own server refuses a GPU that renders unless the host has
// one too; this one shows whatever can be taken a picture of. Viewers only look, unless
// an Input receives their keyboard and pointer.
//
// Each viewer has two goroutines, one that reads its messages and one that draws;
// all end with the viewer's connection, which ends with the context of Serve. The
// screen is asked for a picture only while a viewer waits for one. There is no password:
// any client that can connect may look, and cannot keep others from looking (see lounge).
package vnc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Picture is the content of a screen: rows of Width pixels of 3 bytes, red, green and
// blue. It does not change.
type Picture struct {
	Width, Height int
	Pix           []byte
}

// Screen takes a picture. It is called from several goroutines.
type Screen func(ctx context.Context) (*Picture, error)

const (
	maxViewers = 8
	maxSide    = 65535 // limit of the protocol
	// interval is the time between pictures while a viewer waits for a change.
	interval = 40 * time.Millisecond
	// greetTimeout is how long a viewer may take to greet.
	greetTimeout = 10 * time.Second
	// sayTimeout is how long a viewer may take to take a picture, or to send the rest of a message.
	sayTimeout = 30 * time.Second
	// maxCut bounds the clipboard text of a viewer, which the server discards.
	maxCut = 1 << 20
	// letGoTimeout is how long the machine may take to hear that a viewer is gone.
	letGoTimeout = time.Second
)

// Messages and encodings (RFC 6143, sections 7.5 to 7.8).
const (
	setPixelFormat   = 0
	setEncodings     = 2
	updateRequest    = 3
	keyEvent         = 4
	pointerEvent     = 5
	cutText          = 6
	encodingRaw      = 0
	qemuMessage      = 255
	encodingSize     = -223 // the viewer understands that the screen changes its size
	encodingKeys     = -258 // the viewer can tell where a key lies
	securityNone     = 1
	pixelFormatBytes = 16
)

// Serve shows the screen to viewers that connect to l, until ctx ends; it closes l. input takes
// their keyboard and pointer; nil if they only look. Where there are maxViewers, a new one takes the place of
// the one that says the least: see lounge.
func Serve(ctx context.Context, l net.Listener, name string, screen Screen, input Input) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer stop()
	var viewers sync.WaitGroup
	defer viewers.Wait()
	var here lounge
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("waiting for viewers: %w", errors.Join(err, l.Close()))
		}
		v := newViewer(conn, screen, input)
		left := here.enter(v)
		if left == nil {
			_ = conn.Close() // those who were sent away are still leaving
			continue
		}
		viewers.Go(func() {
			defer left()
			v.serve(ctx, name)
		})
	}
}

// viewer is one connection.
type viewer struct {
	conn   net.Conn
	in     *bufio.Reader
	screen Screen
	hands  *hands   // owned by the goroutine that reads; nil if the viewer only looks
	shown  *Picture // owned by the goroutine that draws

	wake chan struct{} // holds a token when something below has changed

	heard atomic.Int64 // when it last sent a message, in nanoseconds since came; 0: it has not greeted
	came  time.Time

	mu      sync.Mutex
	format  pixelFormat
	resizes bool // it takes encodingSize
	waits   bool // it has asked for an update
	whole   bool // of the whole screen
	keys    bool // it offers encodingKeys, and was not told yet that it may
	width   int  // of what it sees
	height  int
}

func newViewer(conn net.Conn, screen Screen, input Input) *viewer {
	v := &viewer{conn: conn, in: bufio.NewReader(conn), screen: screen, wake: make(chan struct{}, 1), format: trueColor, came: time.Now()}
	if input != nil {
		v.hands = &hands{input: input}
	}
	return v
}

// serve talks to the viewer until it goes away. What it did wrong is of no interest
// to anybody but it.
func (v *viewer) serve(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { _ = v.conn.Close() }()                         // it may be closed already
	stop := context.AfterFunc(ctx, func() { _ = v.conn.Close() }) // ends what waits for it
	defer stop()
	defer cancel()
	if err := v.greet(ctx, name); err != nil {
		return
	}
	v.hear()
	var drawer sync.WaitGroup
	drawer.Go(func() {
		defer cancel()
		_ = v.draw(ctx)
	})
	_ = v.listen(ctx)
	cancel()
	drawer.Wait()
	if v.hands != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoTimeout)
		defer cancel()
		v.hands.letGo(end)
	}
}

// greet settles version and security, and says what there is (section 7.1 to 7.3).
func (v *viewer) greet(ctx context.Context, name string) error {
	if err := v.conn.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(v.conn, "RFB 003.008\n"); err != nil {
		return err
	}
	var version [12]byte
	if _, err := io.ReadFull(v.in, version[:]); err != nil {
		return err
	}
	switch string(version[:]) {
	case "RFB 003.003\n", "RFB 003.005\n":
		if _, err := v.conn.Write([]byte{0, 0, 0, securityNone}); err != nil {
			return err
		}
	case "RFB 003.007\n", "RFB 003.008\n":
		if _, err := v.conn.Write([]byte{1, securityNone}); err != nil {
			return err
		}
		if choice, err := v.in.ReadByte(); err != nil || choice != securityNone {
			return fmt.Errorf("the viewer chose security %d: %w", choice, err)
		}
		if version[10] == '8' {
			if _, err := v.conn.Write([]byte{0, 0, 0, 0}); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("the viewer speaks %q", version)
	}
	if _, err := v.in.ReadByte(); err != nil { // whether it shares the screen: all do
		return err
	}
	p, err := v.screen(ctx)
	if err != nil {
		return err
	}
	v.shown = &Picture{Width: p.Width, Height: p.Height} // nothing of it yet
	v.width, v.height = p.Width, p.Height
	be := binary.BigEndian
	b := be.AppendUint16(nil, uint16(p.Width))
	b = be.AppendUint16(b, uint16(p.Height))
	b = append(b, trueColor.encode()...)
	b = be.AppendUint32(b, uint32(len(name)))
	if _, err := v.conn.Write(append(b, name...)); err != nil {
		return err
	}
	return v.conn.SetDeadline(time.Time{})
}

// listen reads messages until there are no more.
func (v *viewer) listen(ctx context.Context) error {
	var b [19]byte
	for {
		if err := v.conn.SetReadDeadline(time.Time{}); err != nil { // it may say nothing for as long as it likes
			return err
		}
		kind, err := v.in.ReadByte()
		if err != nil {
			return err
		}
		v.hear()
		if err := v.conn.SetReadDeadline(time.Now().Add(sayTimeout)); err != nil {
			return err
		}
		size, ok := map[byte]int{setPixelFormat: 19, setEncodings: 3, updateRequest: 9, keyEvent: 7, pointerEvent: 5, cutText: 7, qemuMessage: 0}[kind]
		if !ok || kind == qemuMessage && v.hands == nil {
			return fmt.Errorf("the viewer sent message %d", kind)
		}
		if _, err := io.ReadFull(v.in, b[:size]); err != nil {
			return err
		}
		if err := v.act(ctx, kind, b[:size]); err != nil {
			return err
		}
		switch kind {
		case setPixelFormat:
			f, err := decodePixelFormat(b[3:])
			if err != nil {
				return err
			}
			v.change(func() { v.format, v.whole = f, true })
		case setEncodings:
			if err := v.encodings(int(binary.BigEndian.Uint16(b[1:]))); err != nil {
				return err
			}
		case updateRequest:
			whole := b[0] == 0
			v.change(func() { v.waits, v.whole = true, v.whole || whole })
		case cutText:
			n := binary.BigEndian.Uint32(b[3:])
			if n > maxCut {
				return fmt.Errorf("the viewer sends %d bytes of text, at most %d are taken", n, maxCut)
			}
			if _, err := io.CopyN(io.Discard, v.in, int64(n)); err != nil {
				return err
			}
		}
	}
}

func (v *viewer) encodings(n int) error {
	var b [4]byte
	resizes, keys := false, false
	for range n {
		if _, err := io.ReadFull(v.in, b[:]); err != nil {
			return err
		}
		switch int32(binary.BigEndian.Uint32(b[:])) {
		case encodingSize:
			resizes = true
		case encodingKeys:
			keys = v.hands != nil
		}
	}
	v.change(func() { v.resizes, v.keys = resizes, keys })
	return nil
}

// change changes what the viewer wants.
func (v *viewer) change(f func()) {
	v.mu.Lock()
	f()
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}
