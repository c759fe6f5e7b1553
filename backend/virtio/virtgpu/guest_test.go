package virtgpu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/vhostuser/vhosttest"
	"pvdrm/backend/virtio/virtgpu"
)

// Types of commands and answers, as the driver knows them.
const (
	getDisplayInfo  = 0x100
	create2D        = 0x101
	unref           = 0x102
	setScanout      = 0x103
	flush           = 0x104
	transfer2D      = 0x105
	attachBacking   = 0x106
	detachBacking   = 0x107
	getCapsetInfo   = 0x108
	getCapset       = 0x109
	getEDID         = 0x10a
	ctxCreate       = 0x200
	ctxDestroy      = 0x201
	ctxAttach       = 0x202
	ctxDetach       = 0x203
	create3D        = 0x204
	transferTo3D    = 0x205
	transferFrom3D  = 0x206
	submit3D        = 0x207
	updateCursor    = 0x300
	moveCursor      = 0x301
	respOK          = 0x1100
	respDisplayInfo = 0x1101
	respCapsetInfo  = 0x1102
	respCapset      = 0x1103
	respEDID        = 0x1104
	errUnspec       = 0x1200
	errNoMemory     = 0x1201
	errScanout      = 0x1202
	errResource     = 0x1203
	errContext      = 0x1204
	errParameter    = 0x1205
)

var words = vhosttest.Words

// header encodes the header of a command; fence 0 is none.
func header(typ uint32, ctx uint32, fence uint64) []byte {
	flags := uint32(0)
	if fence != 0 {
		flags = 1
	}
	return words(typ, flags, uint32(fence), uint32(fence>>32), ctx, 0)
}

// gpu is a guest with a driver for the device under test.
type gpu struct {
	*vhosttest.Frontend
	t       testing.TB
	dev     *virtgpu.Device
	rend    *pages
	control *vhosttest.Queue
	cursor  *vhosttest.Queue
}

// newGPU starts a device with a guest. Zero sides: the display is asked.
func newGPU(t testing.TB, width, height int) *gpu {
	t.Helper()
	r := newPages()
	return newGPUWith(t, r, virtgpu.Config{Components: []virtgpu.Component{r}, Width: width, Height: height})
}

func newGPUWith(t testing.TB, r *pages, c virtgpu.Config) *gpu {
	t.Helper()
	dev, err := virtgpu.New(c)
	require.NoError(t, err)
	return startGPU(t, r, dev)
}

// startGPU gives a device its guest.
func startGPU(t testing.TB, r *pages, dev *virtgpu.Device) *gpu {
	t.Helper()
	front, back := vhosttest.Pair(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = dev.ServeConn(context.Background(), back) // tests look at what the guest sees
	}()
	t.Cleanup(func() {
		_ = front.Close() // may be closed already
		<-ended
		if r != nil {
			r.releaseAll()
		}
		s := dev.Stats()
		require.Zero(t, s.Resources)
		require.Zero(t, s.Entries, "backing entries are given back")
		require.Zero(t, s.MapRuns, "mappings are given back")
		require.Zero(t, s.Image, "images are given back")
	})
	g := &gpu{Frontend: vhosttest.New(t, front), t: t, dev: dev, rend: r}
	g.Hello(vhosttest.Features | 3)
	g.ShareMemory()
	g.control, g.cursor = g.NewQueue(0, 64), g.NewQueue(1, 16)
	g.control.Start(0)
	g.cursor.Start(0)
	return g
}

// send sends a command on the control queue and returns the type of the answer
// and what follows its header.
func (g *gpu) send(parts ...[]byte) (uint32, []byte) {
	g.t.Helper()
	var cmd []byte
	for _, p := range parts {
		cmd = append(cmd, p...)
	}
	b := g.control.Do(cmd, 8192)
	require.GreaterOrEqual(g.t, len(b), 24)
	return binary.LittleEndian.Uint32(b), b[24:]
}

// ok sends a command that must be answered with OK.
func (g *gpu) ok(typ, ctx uint32, body ...[]byte) {
	g.t.Helper()
	g.want(respOK, typ, ctx, body...)
}

// want sends a command that must be answered with resp.
func (g *gpu) want(resp, typ, ctx uint32, body ...[]byte) []byte {
	g.t.Helper()
	got, b := g.send(append([][]byte{header(typ, ctx, 0)}, body...)...)
	require.Equalf(g.t, resp, got, "answer %#x", got)
	return b
}

// context makes a context.
func (g *gpu) context(id uint32, name string) *guestContext {
	g.t.Helper()
	g.ok(ctxCreate, id, words(uint32(len(name)), 0), append([]byte(name), make([]byte, 64-len(name))...))
	return g.rend.context(id)
}

// object makes a 3D resource attached to a context, without pages.
func (g *gpu) object(id, ctx uint32) {
	g.t.Helper()
	g.ok(create3D, 0, words(id, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0))
	g.ok(ctxAttach, ctx, words(id, 0))
}

// entry is one piece of a resource's backing.
type entry struct {
	addr uint64
	n    uint32
}

func entries(list []entry) []byte {
	var b []byte
	for _, e := range list {
		b = append(b, vhosttest.Longs(e.addr)...)
		b = append(b, words(e.n, 0)...)
	}
	return b
}

// back gives a resource its pages.
func (g *gpu) back(id uint32, list ...entry) {
	g.t.Helper()
	g.ok(attachBacking, 0, words(id, uint32(len(list))), entries(list))
}

// pages allocates n pages of guest memory that do not touch each other.
func (g *gpu) pages(n int) []entry {
	g.t.Helper()
	var list []entry
	for range n {
		list = append(list, entry{g.Alloc(4096, 8192), 4096})
	}
	return list
}

// display plays QEMU's side of the display socket.
type display struct {
	t    testing.TB
	conn *net.UnixConn
	done chan struct{}

	mu     sync.Mutex
	change *sync.Cond
	sizes  map[uint32][2]uint32
	pixels map[uint32][]byte // of an output, 4 bytes a pixel
	count  map[uint32]int    // messages by request
	cursor []byte            // the last shape
	place  []byte            // the last position
	broken error
}

// plug gives the device a display whose outputs are width by height pixels; 0: off.
func (g *gpu) plug(width, height uint32) *display {
	g.t.Helper()
	d := &display{t: g.t, conn: g.plugRaw(), done: make(chan struct{}),
		sizes: make(map[uint32][2]uint32), pixels: make(map[uint32][]byte), count: make(map[uint32]int)}
	d.change = sync.NewCond(&d.mu)
	go d.serve(width, height)
	g.t.Cleanup(d.unplug)
	return d
}

// plugRaw gives the device a display and returns QEMU's end of the socket.
func (g *gpu) plugRaw() *net.UnixConn {
	g.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(g.t, err)
	g.Set(vhosttest.GPUSetSocket, nil, fds[1])
	require.NoError(g.t, unix.Close(fds[1]))
	return vhosttest.FileConn(g.t, fds[0])
}

func (d *display) unplug() {
	_ = d.conn.Close() // tests close it too
	<-d.done
}

func (d *display) serve(width, height uint32) {
	defer close(d.done)
	le := binary.LittleEndian
	head := make([]byte, 12)
	for {
		if _, err := io.ReadFull(d.conn, head); err != nil {
			return
		}
		payload := make([]byte, le.Uint32(head[8:]))
		if _, err := io.ReadFull(d.conn, payload); err != nil {
			return
		}
		req := le.Uint32(head)
		var reply []byte
		switch req {
		case 1:
			reply = vhosttest.Longs(3)
		case 3:
			reply = header(respDisplayInfo, 0, 0)
			enabled := uint32(0)
			if width != 0 {
				enabled = 1
			}
			reply = append(reply, words(0, 0, width, height, enabled, 0)...)
			reply = append(reply, make([]byte, 15*24)...)
		}
		if reply != nil {
			msg := append(words(req, 4, uint32(len(reply))), reply...)
			if _, err := d.conn.Write(msg); err != nil {
				return
			}
		}
		d.mu.Lock()
		d.count[req]++
		if err := d.take(req, payload); err != nil && d.broken == nil {
			d.broken = err
		}
		d.change.Broadcast()
		d.mu.Unlock()
	}
}

// take does what QEMU does with a message, and complains where QEMU would crash.
func (d *display) take(req uint32, b []byte) error {
	le := binary.LittleEndian
	u := func(i int) uint32 { return le.Uint32(b[4*i:]) }
	switch req {
	case 1, 2, 3:
	case 4, 5:
		if len(b) != 12 {
			return errors.New("cursor position of a wrong size")
		}
		d.place = b
		if req == 5 {
			d.cursor = nil
		}
	case 6:
		if len(b) != 20+64*64*4 {
			return errors.New("cursor of a wrong size")
		}
		d.place, d.cursor = b[:12], b
	case 7:
		d.sizes[u(0)] = [2]uint32{u(1), u(2)}
		d.pixels[u(0)] = make([]byte, u(1)*u(2)*4)
	case 8:
		size := d.sizes[u(0)]
		x, y, w, h := u(1), u(2), u(3), u(4)
		if size[0] == 0 || x+w > size[0] || y+h > size[1] || w == 0 || h == 0 || len(b) != 20+int(4*w*h) {
			return errors.New("update that does not fit the output")
		}
		for row := range h {
			copy(d.pixels[u(0)][4*((y+row)*size[0]+x):], b[20+4*row*w:][:4*w])
		}
	default:
		return errors.New("unknown request")
	}
	return nil
}

// until waits until a condition about the display holds, or the display is gone.
func (d *display) until(what string, cond func() bool) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !cond() {
		require.NoError(d.t, d.broken, what)
		d.change.Wait()
	}
	require.NoError(d.t, d.broken, what)
}
