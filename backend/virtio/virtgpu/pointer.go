package virtgpu

import "slices"

// Pictures do not contain the pointer: it is an image of its own, which a window puts
// over them. Where nobody has a window, but pictures are taken of the screen, it is drawn
// into what is sent, on the first output. What is under it is kept for when it moves.

// canvas is the picture of the first output without the pointer, and the pointer. Its
// display's mutex guards it.
type canvas struct {
	w, h  uint32
	pix   []byte // blue, green, red, unused
	place rect   // where the pointer is drawn; empty where it is not
	shape []byte // of cursorSize by cursorSize pixels, as the guest gave it
	x, y  int32  // of its upper left corner; it may lie outside in part
}

// maxCanvas bounds the pixels of a canvas in bytes. A larger screen has no pointer drawn.
const maxCanvas = 4 * MaxDisplay * MaxDisplay

// resize begins a picture of another size, which is to be put in whole. The memory serves again: a guest
// can change the size as often as it likes.
func (c *canvas) resize(w, h uint32) {
	c.w, c.h = w, h
	if size := uint64(w) * uint64(h) * pixelSize; size <= maxCanvas {
		c.pix = slices.Grow(c.pix[:0], int(size))[:size]
	} else {
		c.pix = nil
	}
	c.move()
}

// row returns n pixels of row y from x on.
func (c *canvas) row(x, y, n uint32) []byte {
	return c.pix[(uint64(y)*uint64(c.w)+uint64(x))*pixelSize:][:uint64(n)*pixelSize]
}

// put takes the pixels of r, and draws what lies there of the pointer over them.
func (c *canvas) put(r rect, pix []byte) {
	if c.pix == nil {
		return
	}
	for y := range r.h {
		copy(c.row(r.x, r.y+y, r.w), pix[y*r.w*pixelSize:])
	}
	c.blend(r, pix)
}

// get appends the pixels of r with the pointer.
func (c *canvas) get(b []byte, r rect) []byte {
	start := len(b)
	for y := range r.h {
		b = append(b, c.row(r.x, r.y+y, r.w)...)
	}
	c.blend(r, b[start:])
	return b
}

// move puts the pointer somewhere, or hides it, and returns what of the picture is to be
// sent anew: where it was, and where it is.
func (c *canvas) move() (was, is rect) {
	was = c.place
	c.place = rect{}
	if c.shape != nil && c.pix != nil {
		left, top := max(int64(c.x), 0), max(int64(c.y), 0)
		right, bottom := min(int64(c.x)+cursorSize, int64(c.w)), min(int64(c.y)+cursorSize, int64(c.h))
		if left < right && top < bottom {
			c.place = rect{uint32(left), uint32(top), uint32(right - left), uint32(bottom - top)}
		}
	}
	return was, c.place
}

// blend draws the pointer over pixels of r. Colours of pointers are multiplied with
// their alpha already (Linux, DRM plane property "pixel blend mode", the default).
func (c *canvas) blend(r rect, pix []byte) {
	part := c.place.intersect(r)
	for y := part.y; y < part.y+part.h; y++ {
		src := c.shape[(uint32(int64(y)-int64(c.y))*cursorSize+uint32(int64(part.x)-int64(c.x)))*pixelSize:][:part.w*pixelSize]
		dst := pix[((y-r.y)*r.w+part.x-r.x)*pixelSize:]
		for i := 0; i < len(src); i += pixelSize {
			through := 255 - uint32(src[i+3])
			for k := i; k < i+3; k++ {
				dst[k] = byte(min(uint32(src[k])+(uint32(dst[k])*through+127)/255, 255))
			}
		}
	}
}

// painted is the canvas of an output, if it has one.
func (p *display) painted(id uint32) *canvas {
	if id != 0 {
		return nil
	}
	return p.canvas
}

// point draws the pointer where it is now, if that is on the first output, and what it was over
// without it. Precondition: p.mu is held, and there is a canvas.
func (p *display) point(c cursor) error {
	if p.canvas.x, p.canvas.y = int32(c.x), int32(c.y); c.scanout != 0 {
		p.canvas.shape = nil
	}
	was, is := p.canvas.move()
	for _, r := range []rect{was, is} {
		if r.empty() {
			continue
		}
		p.buf = p.canvas.get(append(p.buf[:0], words(0, r.x, r.y, r.w, r.h)...), r)
		if err := p.say(gpuUpdate, p.buf); err != nil {
			return err
		}
	}
	return nil
}
