package virtgpu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/vhostuser/vhosttest"
)

// post sends a command whose answer comes later.
func (g *gpu) post(q *vhosttest.Queue, typ uint32, body []byte) <-chan uint32 {
	answer := make(chan uint32, 1)
	go func() {
		b := q.Do(append(header(typ, 0, 0), body...), 64)
		answer <- binary.LittleEndian.Uint32(b)
	}()
	return answer
}

// solid is n pixels of one colour.
func solid(n int, px ...byte) []byte { return bytes.Repeat(px, n) }

func TestGLOnTheScreen(t *testing.T) {
	g, gl := newRenderingGPU(t)
	g.createFor(20, 640, 480, 0) // B8G8R8A8
	g.ok(setScanout, 0, words(0, 0, 640, 480, 0, 20))
	g.ok(flush, 0, words(0, 0, 640, 480, 20, 0))
	require.Empty(t, gl.reads, "no viewer looks, so nothing is read")

	d := g.plug(640, 480)
	answer := g.post(g.control, flush, words(5, 5, 1, 1, 20, 0))
	read := <-gl.reads
	require.Equal(t, "20 640x480+0+0", read.what, "whatever is flushed, a whole picture")
	read.done(solid(640*480, 1, 2, 3, 4), nil)
	require.Equal(t, uint32(respOK), <-answer)
	d.pixel(0, 639, 479, 1, 2, 3, 4)

	// A part of another resource.
	g.createFor(21, 800, 600, 0)
	g.ok(setScanout, 0, words(100, 50, 320, 200, 0, 21))
	answer = g.post(g.control, flush, words(0, 0, 800, 600, 21, 0))
	read = <-gl.reads
	require.Equal(t, "21 320x200+100+50", read.what)
	read.done(solid(320*200, 5, 6, 7, 8), nil)
	require.Equal(t, uint32(respOK), <-answer)
	d.pixel(0, 319, 199, 5, 6, 7, 8)

	// What cannot be read is the guest's to know.
	answer = g.post(g.control, flush, words(0, 0, 800, 600, 21, 0))
	(<-gl.reads).done(nil, errors.New("lost"))
	require.Equal(t, uint32(errUnspec), <-answer)

	g.ok(unref, 0, words(21, 0))
	d.until("off", func() bool { return d.sizes[0] == [2]uint32{0, 0} })
}

func TestGLThatCannotBeShown(t *testing.T) {
	g, _ := newRenderingGPU(t)
	g.plug(640, 480)
	g.createFor(20, 640, 480, 0)
	g.want(errParameter, setScanout, 0, words(1, 0, 640, 480, 0, 20))
	g.want(errParameter, setScanout, 0, words(0, 0, 0, 0, 0, 20))
	g.ok(create3D, 0, words(21, 2, 42, 2, 64, 64, 1, 1, 0, 0, 0, 0)) // not a format of 4 bytes
	g.want(errParameter, setScanout, 0, words(0, 0, 64, 64, 0, 21))
	g.want(errParameter, flush, 0, words(0, 0, 64, 64, 21, 0))
}

func TestGLPointer(t *testing.T) {
	g, gl := newRenderingGPU(t)
	d := g.plug(640, 480)
	g.createFor(20, 64, 64, 0)
	answer := g.post(g.cursor, updateCursor, words(0, 10, 20, 0, 20, 1, 2, 0))
	read := <-gl.reads
	require.Equal(t, "20 64x64+0+0", read.what)
	read.done(solid(64*64, 1, 2, 3, 4), nil)
	require.Equal(t, uint32(respOK), <-answer)
	d.until("pointer", func() bool { return len(d.cursor) > 24 && bytes.Equal(d.cursor[20:24], []byte{1, 2, 3, 4}) })
	g.createFor(21, 32, 32, 0)
	require.Equal(t, uint32(errParameter), <-g.post(g.cursor, updateCursor, words(0, 10, 20, 0, 21, 0, 0, 0)))
}

// TestNewestFrame has a display that takes nothing: the guest's commands go on, and
// what it then shows is the last picture.
func TestNewestFrame(t *testing.T) {
	g, gl := newRenderingGPU(t)
	conn := g.plugRaw()
	g.createFor(20, 1280, 800, 0)
	g.ok(setScanout, 0, words(0, 0, 1280, 800, 0, 20))
	const frames = 20
	for i := range frames {
		answer := g.post(g.control, flush, words(0, 0, 1280, 800, 20, 0))
		(<-gl.reads).done(solid(1280*800, byte(i), 0, 0, 255), nil)
		require.Equal(t, uint32(respOK), <-answer)
	}
	require.LessOrEqual(t, g.dev.Stats().Image, uint64(2*1280*800*4), "the one that is sent, and the newest")
	require.NoError(t, conn.Close())
}
