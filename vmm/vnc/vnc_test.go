package vnc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// wall is a screen under test.
type wall struct {
	input Input // nil: for looking only

	mu sync.Mutex
	p  *Picture
}

func (w *wall) show(p *Picture) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p = p
}

func (w *wall) take(context.Context) (*Picture, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.p, nil
}

// plain is a picture of one colour.
func plain(width, height int, r, g, b byte) *Picture {
	return &Picture{width, height, bytes.Repeat([]byte{r, g, b}, width*height)}
}

// serve starts a server; the end of the test ends it.
func serve(t *testing.T, w *wall) string {
	path := filepath.Join(t.TempDir(), "vnc")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, "test", w.take, w.input) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return path
}

// client is a viewer under test.
type client struct {
	net.Conn
	t *testing.T
}

func dial(t *testing.T, path string) *client {
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, t}
}

func (c *client) say(b ...byte) {
	c.t.Helper()
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

func (c *client) read(n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(c.t, err)
	return b
}

// gone waits until the server has hung up.
func (c *client) gone() {
	c.t.Helper()
	_, err := io.Copy(io.Discard, c)
	if err != nil { // with what it had not read
		require.ErrorContains(c.t, err, "reset")
	}
}

// greet does what a viewer of version 3.8 does and returns the size.
func (c *client) greet() (w, h uint16) {
	c.t.Helper()
	require.Equal(c.t, "RFB 003.008\n", string(c.read(12)))
	c.say([]byte("RFB 003.008\n")...)
	require.Equal(c.t, []byte{1, 1}, c.read(2))
	c.say(1)
	require.Equal(c.t, []byte{0, 0, 0, 0}, c.read(4))
	c.say(1)
	b := c.read(4 + 16 + 4 + 4)
	require.Equal(c.t, trueColor.encode(), b[4:20])
	require.Equal(c.t, "test", string(b[24:]))
	return binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
}

func (c *client) request(incremental byte) { c.say(updateRequest, incremental, 0, 0, 0, 0, 0, 4, 0, 3) }

// update reads the rectangle of an update.
func (c *client) update(size int) (rect [4]uint16, pixels []byte) {
	c.t.Helper()
	require.Equal(c.t, []byte{0, 0, 0, 1}, c.read(4))
	for i := range rect {
		rect[i] = binary.BigEndian.Uint16(c.read(2))
	}
	require.Equal(c.t, []byte{0, 0, 0, 0}, c.read(4), "raw")
	return rect, c.read(int(rect[2]) * int(rect[3]) * size)
}

func TestViewer(t *testing.T) {
	w := &wall{p: plain(4, 3, 1, 2, 3)}
	c := dial(t, serve(t, w))
	width, height := c.greet()
	require.Equal(t, []uint16{4, 3}, []uint16{width, height})
	c.request(0)
	rect, pixels := c.update(4)
	require.Equal(t, [4]uint16{0, 0, 4, 3}, rect)
	require.Equal(t, bytes.Repeat([]byte{3, 2, 1, 0}, 12), pixels)

	// Only the rows that change come, once they have.
	c.request(1)
	next := plain(4, 3, 1, 2, 3)
	next.Pix[3*4+1] = 99
	w.show(next)
	rect, pixels = c.update(4)
	require.Equal(t, [4]uint16{0, 1, 4, 1}, rect)
	require.Equal(t, []byte{3, 99, 1, 0}, pixels[:4])

	// Another format, after keys, a pointer and a text that mean nothing here. All
	// is sent again in it.
	c.say(keyEvent, 1, 0, 0, 0, 0, 0, 'a')
	c.say(pointerEvent, 0, 0, 1, 0, 1)
	c.say(cutText, 0, 0, 0, 0, 0, 0, 2, 'h', 'i')
	c.say(setPixelFormat, 0, 0, 0, 16, 16, 1, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0)
	w.show(plain(4, 3, 255, 255, 0))
	c.request(1)
	rect, pixels = c.update(2)
	require.Equal(t, [4]uint16{0, 0, 4, 3}, rect)
	require.Equal(t, []byte{0xff, 0xe0}, pixels[:2])
}

func TestResize(t *testing.T) {
	w := &wall{p: plain(4, 3, 0, 0, 0)}
	path := serve(t, w)
	one, two := dial(t, path), dial(t, path)
	one.greet()
	two.greet()
	one.say(setEncodings, 0, 0, 2, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x21)
	w.show(plain(2, 2, 9, 9, 9))
	one.request(1)
	two.request(1)
	require.Equal(t, []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0, 2, 0xff, 0xff, 0xff, 0x21}, one.read(16))
	require.Equal(t, []byte{0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 0, 9, 9, 9, 0}, one.read(16))
	two.gone()
}

func TestOldViewer(t *testing.T) {
	c := dial(t, serve(t, &wall{p: plain(4, 3, 0, 0, 0)}))
	c.read(12)
	c.say([]byte("RFB 003.003\n")...)
	require.Equal(t, []byte{0, 0, 0, 1}, c.read(4))
	c.say(0)
	c.read(4 + 16 + 4 + 4)
	c.request(0)
	c.update(4)
}

func TestWrongViewers(t *testing.T) {
	path := serve(t, &wall{p: plain(4, 3, 0, 0, 0)})
	for name, talk := range map[string]func(c *client){
		"version":  func(c *client) { c.say([]byte("HTTP/1.1 200")...) },
		"security": func(c *client) { c.say([]byte("RFB 003.008\n")...); c.read(2); c.say(2) },
		"message":  func(c *client) { c.read(0); c.say([]byte("RFB 003.007\n")...); c.say(1, 1, 255) },
		"colours": func(c *client) {
			c.say([]byte("RFB 003.007\n")...)
			c.say(1, 1, 0, 0, 0, 0, 8, 8, 0, 0)
			c.say(make([]byte, 12)...)
		},
		"much text": func(c *client) {
			c.say([]byte("RFB 003.007\n")...)
			c.say(1, 1, cutText, 0, 0, 0, 0, 16, 0, 1)
		},
		"shift": func(c *client) {
			c.say([]byte("RFB 003.007\n")...)
			c.say(1, 1, 0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 32, 0, 0, 0, 0, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, path)
			c.read(12)
			talk(c)
			c.gone()
		})
	}
}

// Viewers that are left open keep no other out: the one that said nothing for the longest time makes
// room, and those that have not greeted do so before all others.
func TestIdleViewersMakeRoom(t *testing.T) {
	path := serve(t, &wall{p: plain(4, 3, 0, 0, 0)})
	ask := func(c *client) { // it is heard before it is answered
		t.Helper()
		c.request(0)
		c.update(4)
	}
	viewer := func() *client {
		c := dial(t, path)
		c.greet()
		ask(c)
		return c
	}
	var open []*client
	for range maxViewers - 1 {
		open = append(open, viewer())
	}
	silent := dial(t, path)
	silent.read(12)
	ask(open[0])

	next := viewer()
	silent.gone()
	ask(open[1])
	last := viewer()
	open[2].gone()
	for _, c := range append(open[3:], open[0], open[1], next, last) {
		ask(c)
	}
}

// A viewer that does not greet in time is sent away, also where there is room.
func TestGreetTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		began := time.Now()
		go newViewer(there, (&wall{p: plain(4, 3, 0, 0, 0)}).take, nil).serve(t.Context(), "test")
		_, err := io.Copy(io.Discard, here)
		require.NoError(t, err)
		require.Equal(t, greetTimeout, time.Since(began))
	})
}

// A viewer that begins a message ends it in time.
func TestSlowMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		v := newViewer(there, (&wall{p: plain(4, 3, 0, 0, 0)}).take, nil)
		go func() {
			_ = v.listen(t.Context())
			_ = there.Close()
		}()
		time.Sleep(time.Hour) // it may say nothing
		began := time.Now()
		_, err := here.Write([]byte{cutText, 0, 0, 0, 0, 0, 0, 9, 'a'})
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, here)
		require.NoError(t, err)
		require.Equal(t, sayTimeout, time.Since(began))
	})
}

func FuzzViewer(f *testing.F) {
	f.Add([]byte("RFB 003.008\n\x01\x01\x03\x00\x00\x00\x00\x00\x00\x04\x00\x03"))
	f.Add([]byte("RFB 003.003\n\x01\x02\x00\x00\x01\xff\xff\xff\x21\x03\x01\x00\x00\x00\x00\x00\x04\x00\x03"))
	f.Add([]byte("RFB 003.008\n\x01\x01\x02\x00\x00\x01\xff\xff\xfe\xfe\xff\x00\x00\x01\x00\x00\x00\x61\x00\x00\x00\x1e\x05\x01\x00\x01\x00\x02"))
	f.Fuzz(func(t *testing.T, said []byte) {
		here, there := net.Pipe()
		w := &wall{p: plain(4, 3, 1, 2, 3)}
		v := newViewer(there, w.take, &diary{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			v.serve(context.Background(), "fuzz")
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }() // whatever it answers
		_, _ = here.Write(said)                          // it may have hung up
		_ = here.Close()
		<-ended
	})
}
