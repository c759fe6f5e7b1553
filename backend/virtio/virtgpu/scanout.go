package virtgpu

import (
	"encoding/binary"

	"go.uber.org/zap"
)

// scanout is what one output of the display shows.
type scanout struct {
	resource uint32 // 0: nothing
	area     rect   // of the resource's image
	stale    bool   // the display has the picture of another resource
}

// cursor is the shape and the place of the pointer.
type cursor struct {
	scanout, x, y uint32
	resource      uint32 // 0: hidden
	hotX, hotY    uint32
	image         *image // of a resource of a renderer
}

// Where neither the configuration nor QEMU says how large the display is.
const (
	fallbackWidth  = 1280
	fallbackHeight = 800
)

// outputs returns what is known about the outputs: where they lie, and an empty
// rectangle for those that are off. d.mu must not be held: QEMU may be asked.
func (d *Device) outputs() [MaxScanouts]rect {
	var out [MaxScanouts]rect
	if d.width != 0 {
		out[0] = rect{0, 0, d.width, d.height}
		return out
	}
	d.mu.Lock()
	display := d.display
	d.mu.Unlock()
	if display != nil {
		modes, err := display.modes()
		if err != nil {
			d.mu.Lock()
			d.lose(display, err)
			d.mu.Unlock()
		} else if modes != out {
			return modes
		}
	}
	out[0] = rect{0, 0, fallbackWidth, fallbackHeight}
	return out
}

// getDisplayInfo answers with struct virtio_gpu_resp_display_info: 16 times r rect,
// enabled u32, flags u32.
func (d *Device) getDisplayInfo(*request, []byte) ([]byte, error) {
	le := binary.LittleEndian
	var b []byte
	for _, r := range d.outputs() {
		enabled := uint32(1)
		if r.empty() {
			enabled = 0
		}
		for _, v := range []uint32{r.x, r.y, r.w, r.h, enabled, 0} {
			b = le.AppendUint32(b, v)
		}
	}
	return b, nil
}

// struct virtio_gpu_cmd_get_edid: scanout u32, padding u32. The answer is size
// u32, padding u32, edid u8[1024].
func (d *Device) getEDID(_ *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	id := le.Uint32(body)
	if id >= MaxScanouts {
		return nil, refuse(respErrScanout, "no output %d", id)
	}
	r := d.outputs()[id]
	if r.empty() {
		r = rect{0, 0, fallbackWidth, fallbackHeight}
	}
	e := edid(min(r.w, MaxDisplay), min(r.h, MaxDisplay))
	b := make([]byte, 8+1024)
	le.PutUint32(b, uint32(len(e)))
	copy(b[8:], e[:])
	return b, nil
}

// struct virtio_gpu_set_scanout: r rect, scanout_id u32, resource_id u32.
func (d *Device) setScanout(_ *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	r, id, resID := decodeRect(body), le.Uint32(body[rectSize:]), le.Uint32(body[rectSize+4:])
	if id >= MaxScanouts {
		return nil, refuse(respErrScanout, "no output %d", id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if resID == 0 {
		d.disable(int(id))
		return nil, nil
	}
	_, m, err := d.shown(resID)
	if err != nil {
		return nil, err
	}
	if r.empty() || !r.inside(m.width, m.height) {
		return nil, refuse(respErrParameter, "resource %d: %+v is outside of %dx%d", resID, r, m.width, m.height)
	}
	d.scanouts[id] = scanout{resource: resID, area: r, stale: true}
	return nil, nil
}

// shown finds a resource that can be shown, and its image. Precondition: d.mu is held.
func (d *Device) shown(id uint32) (*Resource, image, error) {
	res, err := d.resource(id)
	if err != nil {
		return nil, image{}, err
	}
	if res.renderer != nil {
		m, err := res.picture()
		return res, m, err
	}
	if res, err = d.resource2D(id); err != nil {
		return nil, image{}, err
	}
	return res, *res.image, nil
}

// disable turns an output off. Precondition: d.mu is held.
func (d *Device) disable(id int) {
	d.scanouts[id] = scanout{}
	d.draw(func(dp *display) error { return dp.scanout(uint32(id), 0, 0) })
}

// draw does something with the display if there is one. A display that fails is
// gone until QEMU gives us another one. Precondition: d.mu is held.
func (d *Device) draw(f func(*display) error) {
	if d.display == nil {
		return
	}
	if err := f(d.display); err != nil {
		d.lose(d.display, err)
	}
}

// lose gives up a display. Precondition: d.mu is held.
func (d *Device) lose(dp *display, err error) {
	d.log.Info("lost QEMU's display", zap.Error(err))
	dp.close()
	if d.display == dp {
		d.display = nil
	}
}

// struct virtio_gpu_resource_flush: r rect, resource_id u32, padding u32.
func (d *Device) flush(req *request, body []byte) ([]byte, error) {
	r, id := decodeRect(body), binary.LittleEndian.Uint32(body[rectSize:])
	d.mu.Lock()
	res, err := d.resource(id)
	if err == nil && res.renderer != nil {
		d.mu.Unlock()
		return nil, d.flushRendered(req, res)
	}
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if res.image == nil {
		return nil, nil // a 3D resource that is its pages
	}
	if !r.inside(res.image.width, res.image.height) {
		return nil, refuse(respErrParameter, "resource %d: %+v is outside of %dx%d", id, r, res.image.width, res.image.height)
	}
	for i := range d.scanouts {
		if d.scanouts[i].resource == id {
			d.paint(i, r)
		}
	}
	return nil, nil
}

// paint shows the part r of the image that output id shows. Precondition: d.mu is
// held, and the output shows something.
func (d *Device) paint(id int, r rect) {
	s := &d.scanouts[id]
	m := d.resources[s.resource].image
	d.draw(func(dp *display) error {
		whole := s.stale
		s.stale = false
		return dp.show(uint32(id), m, s.area, r, whole)
	})
}

// repaint shows everything on a display that is new.
func (d *Device) repaint(dp *display) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.display != dp {
		return // replaced meanwhile
	}
	for i := range d.scanouts {
		// The content of a renderer's resource comes with its next flush.
		if res := d.resources[d.scanouts[i].resource]; res != nil && res.image != nil && d.display == dp {
			d.paint(i, d.scanouts[i].area)
		}
	}
	if d.cursor.resource != 0 {
		d.showCursor()
	}
}

// cursorSize is the width and the height of a pointer's picture, in pixels.
const cursorSize = 64

// decodeCursor decodes struct virtio_gpu_update_cursor: pos {scanout_id, x, y,
// padding}, resource_id, hot_x, hot_y, padding, all u32.
func decodeCursor(body []byte) (cursor, error) {
	le := binary.LittleEndian
	u := func(i int) uint32 { return le.Uint32(body[4*i:]) }
	c := cursor{scanout: u(0), x: u(1), y: u(2), resource: u(4), hotX: u(5), hotY: u(6)}
	if c.scanout >= MaxScanouts {
		return c, refuse(respErrScanout, "no output %d", c.scanout)
	}
	if c.hotX >= cursorSize || c.hotY >= cursorSize {
		return c, refuse(respErrParameter, "hot spot (%d,%d) of a pointer of %d pixels", c.hotX, c.hotY, cursorSize)
	}
	return c, nil
}

func (d *Device) updateCursor(r *request, body []byte) ([]byte, error) {
	c, err := decodeCursor(body)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if c.resource != 0 {
		res, m, err := d.shown(c.resource)
		if err == nil && (m.width != cursorSize || m.height != cursorSize) {
			err = refuse(respErrParameter, "resource %d: a pointer of %dx%d pixels, want %d each", c.resource, m.width, m.height, cursorSize)
		}
		if err != nil || res.renderer != nil {
			if err == nil {
				d.cursor = c
			}
			d.mu.Unlock()
			if err == nil {
				d.pointRendered(r, res, c, m)
			}
			return nil, err
		}
	}
	defer d.mu.Unlock()
	d.cursor = c
	d.showCursor()
	return nil, nil
}

// showCursor shows or hides the pointer. Precondition: d.mu is held.
func (d *Device) showCursor() {
	c := d.cursor
	d.draw(func(dp *display) error {
		if c.image != nil {
			return dp.cursorShape(c, c.image)
		}
		res := d.resources[c.resource]
		if res == nil || res.image == nil {
			return dp.cursorHide(c)
		}
		return dp.cursorShape(c, res.image)
	})
}

// moveCursor takes the same layout, of which only the position means something.
func (d *Device) moveCursor(_ *request, body []byte) ([]byte, error) {
	c, err := decodeCursor(body)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cursor.scanout, d.cursor.x, d.cursor.y = c.scanout, c.x, c.y
	if d.cursor.resource != 0 {
		d.draw(func(dp *display) error { return dp.cursorMove(c) })
	}
	return nil, nil
}
