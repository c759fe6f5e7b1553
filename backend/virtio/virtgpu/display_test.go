package virtgpu_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/virtio/virtgpu"
)

// outputs decodes the answer to GET_DISPLAY_INFO: width, height and enabled of
// the first two outputs.
func outputs(b []byte) [6]uint32 {
	u := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	return [6]uint32{u(2), u(3), u(4), u(8), u(9), u(10)}
}

func TestDisplayInfo(t *testing.T) {
	fixed := newGPU(t, 1600, 900)
	fixed.plug(1024, 768)
	b := fixed.want(respDisplayInfo, getDisplayInfo, 0)
	require.Len(t, b, 16*24)
	require.Equal(t, [6]uint32{1600, 900, 1, 0, 0, 0}, outputs(b))

	g := newGPU(t, 0, 0)
	require.Equal(t, [6]uint32{1280, 800, 1, 0, 0, 0}, outputs(g.want(respDisplayInfo, getDisplayInfo, 0)), "nobody to ask")
	d := g.plug(1024, 768)
	require.Equal(t, [6]uint32{1024, 768, 1, 0, 0, 0}, outputs(g.want(respDisplayInfo, getDisplayInfo, 0)))
	d.unplug()
	require.Equal(t, [6]uint32{1280, 800, 1, 0, 0, 0}, outputs(g.want(respDisplayInfo, getDisplayInfo, 0)), "display lost")
	g.plug(0, 0)
	require.Equal(t, [6]uint32{1280, 800, 1, 0, 0, 0}, outputs(g.want(respDisplayInfo, getDisplayInfo, 0)), "all outputs off")
}

func TestEDIDAnswer(t *testing.T) {
	g := newGPU(t, 0, 0)
	g.plug(1024, 768)
	b := g.want(respEDID, getEDID, 0, words(0, 0))
	require.Len(t, b, 8+1024)
	require.Equal(t, uint32(128), binary.LittleEndian.Uint32(b))
	require.Equal(t, uint32(1024), uint32(b[8+56])|uint32(b[8+58]&0xf0)<<4)
	require.Equal(t, uint32(768), uint32(b[8+59])|uint32(b[8+61]&0xf0)<<4)
	g.want(respEDID, getEDID, 0, words(15, 0)) // off, and may be turned on
	g.want(errScanout, getEDID, 0, words(16, 0))
}

// screen is a 2D resource with backing pages that are scattered.
type screen struct {
	g    *gpu
	id   uint32
	w, h uint32
	list []entry
}

func (g *gpu) screen(id, format, w, h uint32) *screen {
	g.t.Helper()
	g.ok(create2D, 0, words(id, format, w, h))
	s := &screen{g: g, id: id, w: w, h: h, list: g.pages(int((w*h*4 + 4095) / 4096))}
	g.back(id, s.list...)
	return s
}

// set writes a pixel where the guest does.
func (s *screen) set(x, y uint32, px ...byte) {
	at := 4 * (y*s.w + x)
	copy(s.g.Bytes(s.list[at/4096].addr+uint64(at%4096), 4), px)
}

func (s *screen) transfer(x, y, w, h uint32) {
	s.g.t.Helper()
	s.g.ok(transfer2D, 0, words(x, y, w, h, 4*(y*s.w+x), 0, s.id, 0))
}

func (s *screen) flush(x, y, w, h uint32) {
	s.g.t.Helper()
	s.g.ok(flush, 0, words(x, y, w, h, s.id, 0))
}

func (s *screen) show(output, x, y, w, h uint32) {
	s.g.t.Helper()
	s.g.ok(setScanout, 0, words(x, y, w, h, output, s.id))
}

// pixel waits until an output shows px at a place.
func (d *display) pixel(output, x, y uint32, px ...byte) {
	d.t.Helper()
	d.until("pixel", func() bool {
		p, at := d.pixels[output], 4*(y*d.sizes[output][0]+x)
		return int(at)+4 <= len(p) && string(p[at:at+4]) == string(px)
	})
}

func TestPicture(t *testing.T) {
	g := newGPU(t, 640, 480)
	d := g.plug(640, 480)
	s := g.screen(1, 1, 640, 480)
	s.set(0, 0, 1, 2, 3, 4)
	s.set(639, 479, 5, 6, 7, 8)
	s.set(100, 50, 9, 9, 9, 9)
	s.transfer(0, 0, 640, 480)
	s.flush(0, 0, 640, 480) // nobody looks
	s.show(0, 0, 0, 640, 480)
	s.flush(100, 50, 1, 1) // the first picture is whole in any case
	d.pixel(0, 0, 0, 1, 2, 3, 4)
	d.pixel(0, 639, 479, 5, 6, 7, 8)

	// Only what was transferred and flushed changes.
	s.set(10, 10, 0xaa, 0xbb, 0xcc, 0xdd)
	s.set(11, 10, 0xee, 0xee, 0xee, 0xee)
	s.transfer(10, 10, 1, 1)
	s.flush(0, 10, 640, 1)
	d.pixel(0, 10, 10, 0xaa, 0xbb, 0xcc, 0xdd)
	d.pixel(0, 11, 10, 0, 0, 0, 0)

	// Another resource of the same size, of which a part is shown.
	two := g.screen(2, 1, 700, 500)
	two.set(60, 20, 1, 1, 1, 1)
	two.set(699, 499, 2, 2, 2, 2)
	two.transfer(0, 0, 700, 500)
	two.show(0, 60, 20, 640, 480)
	two.flush(0, 0, 1, 1) // outside of what is shown, but the picture is another one
	d.pixel(0, 0, 0, 1, 1, 1, 1)
	d.pixel(0, 639, 479, 2, 2, 2, 2)

	// A resource that goes away turns its output off.
	g.ok(unref, 0, words(2, 0))
	d.until("output off", func() bool { return d.sizes[0] == [2]uint32{} })
	s.show(0, 0, 0, 640, 480)
	s.flush(0, 0, 640, 480)
	d.pixel(0, 0, 0, 1, 2, 3, 4)
	g.ok(setScanout, 0, words(0, 0, 0, 0, 0, 0))
	d.until("output off", func() bool { return d.sizes[0] == [2]uint32{} })
}

// A large picture travels in several messages.
func TestLargePicture(t *testing.T) {
	g := newGPU(t, 1024, 700)
	d := g.plug(1024, 700)
	s := g.screen(1, 2, 1024, 700)
	s.set(0, 0, 1, 2, 3, 0)
	s.set(1023, 699, 4, 5, 6, 0)
	s.transfer(0, 0, 1024, 700)
	s.show(3, 0, 0, 1024, 700)
	s.flush(0, 0, 1024, 700)
	d.pixel(3, 0, 0, 1, 2, 3, 0xff)
	d.pixel(3, 1023, 699, 4, 5, 6, 0xff)
	d.until("several messages", func() bool { return d.count[8] == 3 })
}

func TestFormats(t *testing.T) {
	g := newGPU(t, 640, 480)
	d := g.plug(640, 480)
	for format, want := range map[uint32][4]byte{
		1:   {1, 2, 3, 4},
		2:   {1, 2, 3, 0xff},
		3:   {4, 3, 2, 1},
		4:   {4, 3, 2, 0xff},
		67:  {3, 2, 1, 4},
		68:  {2, 3, 4, 0xff},
		121: {2, 3, 4, 1},
		134: {3, 2, 1, 0xff},
	} {
		s := g.screen(1, format, 8, 8)
		s.set(3, 4, 1, 2, 3, 4)
		s.transfer(0, 0, 8, 8)
		s.show(0, 0, 0, 8, 8)
		s.flush(0, 0, 8, 8)
		d.pixel(0, 3, 4, want[:]...)
		g.ok(unref, 0, words(1, 0))
	}
}

// QEMU plugs a new display whenever the machine goes on.
func TestNewDisplay(t *testing.T) {
	g := newGPU(t, 640, 480)
	first := g.plug(640, 480)
	s := g.screen(1, 1, 640, 480)
	s.set(5, 5, 1, 2, 3, 4)
	s.transfer(0, 0, 640, 480)
	s.show(0, 0, 0, 640, 480)
	s.flush(0, 0, 640, 480)
	first.pixel(0, 5, 5, 1, 2, 3, 4)
	second := g.plug(640, 480)
	second.pixel(0, 5, 5, 1, 2, 3, 4)
	<-first.done

	// Without a display nothing breaks.
	second.unplug()
	s.flush(0, 0, 640, 480)
	s.flush(0, 0, 640, 480)
	third := g.plug(640, 480)
	third.pixel(0, 5, 5, 1, 2, 3, 4)
}

func TestCursor(t *testing.T) {
	g := newGPU(t, 640, 480)
	d := g.plug(640, 480)
	s := g.screen(1, 2, 64, 64) // B8G8R8X8: a pointer has alpha all the same
	s.set(2, 0, 9, 8, 7, 6)
	s.transfer(0, 0, 64, 64)
	cursor := func(typ, x, y, id, hotX, hotY uint32) {
		g.cursor.Do(append(header(typ, 0, 0), words(0, x, y, 0, id, hotX, hotY, 0)...), 0)
	}
	cursor(updateCursor, 10, 20, 1, 3, 4)
	d.until("shape", func() bool {
		return string(d.cursor[:min(20, len(d.cursor))]) == string(words(0, 10, 20, 3, 4)) &&
			string(d.cursor[28:32]) == "\x09\x08\x07\x06"
	})
	cursor(moveCursor, 11, 22, 0, 0, 0)
	d.until("move", func() bool { return string(d.place) == string(words(0, 11, 22)) })

	again := g.plug(640, 480)
	again.until("shape on the new display", func() bool {
		return string(again.cursor[:min(20, len(again.cursor))]) == string(words(0, 11, 22, 3, 4))
	})
	cursor(updateCursor, 0, 0, 0, 0, 0)
	again.until("hidden", func() bool { return again.count[5] == 1 && again.cursor == nil })
	cursor(moveCursor, 1, 1, 0, 0, 0) // a hidden pointer does not come back

	b := g.cursor.Do(append(header(updateCursor, 0, 0), words(16, 0, 0, 0, 1, 0, 0, 0)...), 24)
	require.Equal(t, words(errScanout), b[:4])
	b = g.cursor.Do(append(header(updateCursor, 0, 0), words(0, 0, 0, 0, 1, 64, 0, 0)...), 24)
	require.Equal(t, words(errParameter), b[:4])
	b = g.cursor.Do(append(header(updateCursor, 0, 0), words(0, 0, 0, 0, 2, 0, 0, 0)...), 24)
	require.Equal(t, words(errResource), b[:4])
	g.screen(2, 1, 32, 64)
	b = g.cursor.Do(append(header(updateCursor, 0, 0), words(0, 0, 0, 0, 2, 0, 0, 0)...), 24)
	require.Equal(t, words(errParameter), b[:4])
	b = g.cursor.Do(header(getDisplayInfo, 0, 0), 24)
	require.Equal(t, words(errUnspec), b[:4], "wrong queue")
	again.until("nothing moved", func() bool { return again.count[4] == 0 })
}

// What a guest gets wrong is answered with the error that the specification has
// for it, and changes nothing.
func Test2DErrors(t *testing.T) {
	g := newGPU(t, 640, 480)
	d := g.plug(640, 480)
	s := g.screen(1, 1, 16, 16)
	g.ok(create2D, 0, words(2, 1, 16, 16)) // without backing
	g.ok(create3D, 0, words(3), make([]byte, 44))
	g.ok(create2D, 0, words(4, 1, 16, 16))
	g.back(4, entry{s.list[0].addr, 1000}) // too little backing
	for _, c := range []struct {
		name      string
		resp, typ uint32
		body      []byte
	}{
		{name: "unknown command", resp: errUnspec, typ: 0x10b, body: nil},
		{name: "answer as command", resp: errUnspec, typ: respOK, body: nil},
		{name: "cut short", resp: errParameter, typ: create2D, body: words(9, 1, 16)},
		{name: "cursor command", resp: errUnspec, typ: moveCursor, body: make([]byte, 32)},
		{name: "unref of nothing", resp: errResource, typ: unref, body: words(9, 0)},
		{name: "output out of range", resp: errScanout, typ: setScanout, body: words(0, 0, 16, 16, 16, 1)},
		{name: "resource does not exist", resp: errResource, typ: setScanout, body: words(0, 0, 16, 16, 0, 9)},
		{name: "3D resource shown", resp: errResource, typ: setScanout, body: words(0, 0, 16, 16, 0, 3)},
		{name: "too wide", resp: errParameter, typ: setScanout, body: words(1, 0, 16, 16, 0, 1)},
		{name: "wraps around", resp: errParameter, typ: setScanout, body: words(^uint32(0), 0, 2, 2, 0, 1)},
		{name: "empty", resp: errParameter, typ: setScanout, body: words(0, 0, 0, 16, 0, 1)},
		{name: "flush too wide", resp: errParameter, typ: flush, body: words(0, 0, 17, 1, 1, 0)},
		{name: "flush of nothing", resp: errResource, typ: flush, body: words(0, 0, 1, 1, 9, 0)},
		{name: "transfer too high", resp: errParameter, typ: transfer2D, body: words(0, 1, 16, 16, 0, 0, 1, 0)},
		{name: "transfer wraps around", resp: errParameter, typ: transfer2D, body: words(8, 0, ^uint32(7), 1, 0, 0, 1, 0)},
		{name: "transfer from beyond the end", resp: errParameter, typ: transfer2D, body: words(0, 0, 16, 16, 4096, 0, 1, 0)},
		{name: "offset wraps around", resp: errParameter, typ: transfer2D, body: words(0, 0, 16, 16, ^uint32(0)-63, ^uint32(0), 1, 0)},
		{name: "transfer without backing", resp: errUnspec, typ: transfer2D, body: words(0, 0, 16, 16, 0, 0, 2, 0)},
		{name: "transfer of a 3D resource", resp: errResource, typ: transfer2D, body: words(0, 0, 1, 1, 0, 0, 3, 0)},
		{name: "too little backing", resp: errParameter, typ: transfer2D, body: words(0, 0, 16, 16, 0, 0, 4, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed := g.dev.Stats().Failed
			got, b := g.send(header(c.typ, 0, 0), c.body)
			require.Equalf(t, c.resp, got, "answer %#x", got)
			require.Empty(t, b)
			require.Equal(t, failed+1, g.dev.Stats().Failed)
		})
	}
	g.ok(flush, 0, words(0, 0, 1, 1, 3, 0)) // a 3D resource that nobody sees
	require.Empty(t, g.control.Do(make([]byte, 23), 64), "not even a header")
	s.show(0, 0, 0, 16, 16)
	s.flush(0, 0, 16, 16)
	d.pixel(0, 0, 0, 0, 0, 0, 0)
}

// A display that does not follow the protocol is dropped, and the guest goes on.
func TestHostileDisplay(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply []byte
	}{
		{"wrong request", words(9, 4, 8, 0, 0)},
		{"no reply flag", words(1, 0, 8, 0, 0)},
		{"huge", words(1, 4, ^uint32(0), 0, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGPU(t, 0, 0)
			conn := g.plugRaw()
			go func() { _, _ = conn.Write(c.reply) }()
			require.Equal(t, [6]uint32{1280, 800, 1, 0, 0, 0}, outputs(g.want(respDisplayInfo, getDisplayInfo, 0)))
			buf := make([]byte, 100)
			n, err := conn.Read(buf)
			for err == nil {
				n, err = conn.Read(buf)
			}
			require.Zero(t, n, "the device hung up")
		})
	}
}

// FuzzCommands sends arbitrary commands. Each must be answered.
func FuzzCommands(f *testing.F) {
	cmd := func(queue byte, b ...[]byte) []byte {
		var all []byte
		for _, p := range b {
			all = append(all, p...)
		}
		return append([]byte{queue, byte(len(all))}, all...)
	}
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	f.Add(join(
		cmd(0, header(create2D, 0, 0), words(1, 1, 64, 64)),
		cmd(0, header(attachBacking, 0, 0), words(1, 2), entries([]entry{{0x100000, 8192}, {0x200000, 8192}})),
		cmd(0, header(setScanout, 0, 0), words(0, 0, 64, 64, 0, 1)),
		cmd(0, header(transfer2D, 0, 0), words(0, 0, 64, 64, 0, 0, 1, 0)),
		cmd(0, header(flush, 0, 0), words(0, 0, 64, 64, 1, 0)),
		cmd(1, header(updateCursor, 0, 0), words(0, 1, 2, 0, 1, 3, 4, 0)),
		cmd(0, header(detachBacking, 0, 0), words(1, 0)),
		cmd(0, header(unref, 0, 0), words(1, 0))))
	f.Add(join(
		cmd(0, header(ctxCreate, 1, 0), words(4, 0), []byte("fuzz"), make([]byte, 60)),
		cmd(0, header(create3D, 0, 0), words(1, 2, 1, 1, 4096, 1, 1, 1, 0, 0, 0, 0)),
		cmd(0, header(ctxAttach, 1, 0), words(1, 0)),
		cmd(0, header(attachBacking, 0, 0), words(1, 1), entries([]entry{{0x100000, 4096}})),
		cmd(0, header(submit3D, 1, 0), words(4, 0), []byte("work")),
		cmd(0, header(transferTo3D, 1, 0), make([]byte, 32), words(1, 0, 0, 0)),
		cmd(0, header(ctxDetach, 1, 0), words(1, 0)),
		cmd(0, header(ctxDestroy, 1, 0))))
	f.Add(join(
		cmd(0, header(getDisplayInfo, 0, 0)),
		cmd(0, header(getEDID, 0, 1), words(0, 0)),
		cmd(0, header(getCapsetInfo, 0, 0), words(1, 0)),
		cmd(0, header(getCapset, 0, 0), words(40, 1)),
		cmd(1, header(moveCursor, 0, 0), words(0, 1, 2, 0, 0, 0, 0, 0))))

	r := &instant{}
	g := newGPUWith(f, nil, virtgpu.Config{Components: []virtgpu.Component{r}, Width: 640, Height: 480, DrawPointer: true})
	d := g.plug(640, 480)
	f.Fuzz(func(t *testing.T, in []byte) {
		g.t, g.TB = t, t
		for len(in) >= 2 {
			q, n := g.control, min(int(in[1]), len(in)-2)
			if in[0]&1 != 0 {
				q = g.cursor
			}
			b := q.Do(in[2:2+n], 2048)
			in = in[2+n:]
			if n < 24 {
				require.Empty(t, b)
				continue
			}
			require.GreaterOrEqual(t, len(b), 24)
			typ := binary.LittleEndian.Uint32(b)
			require.True(t, typ >= respOK && typ <= respEDID || typ >= errUnspec && typ <= errParameter, "%#x", typ)
		}
		d.mu.Lock()
		require.NoError(t, d.broken)
		d.mu.Unlock()
		g.reset()
		s := g.dev.Stats()
		require.Zero(t, s.Resources)
		require.Zero(t, s.Entries)
		require.Zero(t, s.Image)
	})
}

// instant is a component whose fences signal at once.
type instant struct{}

func (*instant) Capsets() []virtgpu.Capset {
	return []virtgpu.Capset{{ID: 40, Version: 1, Data: []byte("x")}}
}
func (*instant) Recognizes([]byte) bool  { return false }
func (*instant) Owns(*virtgpu.Args) bool { return false }
func (*instant) Hints() bool             { return true }

func (*instant) NewContext(uint32, string) (virtgpu.Context, error) { return instantContext{}, nil }

type instantContext struct{}

func (instantContext) Submit(_ []byte, _ bool, done func(error))     { done(nil) }
func (instantContext) Attach(_ *virtgpu.Resource, done func(error))  { done(nil) }
func (instantContext) Detach(_ uint32, done func(error))             { done(nil) }
func (instantContext) Transfer(_ virtgpu.Transfer, done func(error)) { done(nil) }
func (instantContext) Close(done func(error))                        { done(nil) }
