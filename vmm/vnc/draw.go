package vnc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// errSize reports that a viewer cannot follow the screen's size.
var errSize = errors.New("the screen changed its size, which this viewer does not understand")

// draw sends updates for as long as the viewer asks for them.
func (v *viewer) draw(ctx context.Context) error {
	for {
		v.mu.Lock()
		waits, whole, format, resizes, keys := v.waits, v.whole, v.format, v.resizes, v.keys
		v.keys = false
		v.mu.Unlock()
		var again <-chan time.Time
		if keys { // an empty rectangle says that it may tell where keys lie
			if err := v.send(appendRect([]byte{0, 0, 0, 1}, 0, 0, 0, encodingKeys)); err != nil {
				return err
			}
		}
		if waits {
			p, err := v.screen(ctx)
			if err != nil {
				return err
			}
			update, err := v.update(p, format, whole, resizes)
			if err != nil {
				return err
			}
			if update != nil {
				v.mu.Lock()
				v.waits, v.whole = false, v.format != format // which may have changed meanwhile
				v.width, v.height = p.Width, p.Height
				v.mu.Unlock()
				if err := v.send(update); err != nil {
					return err
				}
			}
			again = time.After(interval)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		case <-v.wake:
		}
	}
}

// update is a FramebufferUpdate for what p shows and the viewer does not have yet;
// nil where that is nothing.
func (v *viewer) update(p *Picture, format pixelFormat, whole, resizes bool) ([]byte, error) {
	if p.Width < 1 || p.Height < 1 || p.Width > maxSide || p.Height > maxSide || len(p.Pix) != 3*p.Width*p.Height {
		return nil, fmt.Errorf("a picture of %dx%d pixels with %d bytes", p.Width, p.Height, len(p.Pix))
	}
	resized := p.Width != v.shown.Width || p.Height != v.shown.Height
	first, last := 0, p.Height
	if !whole && !resized && v.shown.Pix != nil {
		first, last = v.changed(p)
		if first == last {
			return nil, nil
		}
	}
	b := []byte{0, 0, 0, 1}
	if resized {
		if !resizes {
			return nil, errSize
		}
		b[3] = 2
		b = appendRect(b, 0, p.Width, p.Height, encodingSize)
	}
	b = appendRect(b, first, p.Width, last-first, encodingRaw)
	v.shown = p
	return format.appendPixels(b, p.Pix[3*first*p.Width:3*last*p.Width]), nil
}

// appendRect appends the header of a rectangle that begins at the left edge.
func appendRect(b []byte, y, w, h int, encoding int32) []byte {
	for _, n := range []int{0, y, w, h} {
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	}
	return binary.BigEndian.AppendUint32(b, uint32(encoding))
}

// send sends an update to a viewer that takes it in time.
func (v *viewer) send(update []byte) error {
	if err := v.conn.SetWriteDeadline(time.Now().Add(sayTimeout)); err != nil {
		return err
	}
	_, err := v.conn.Write(update)
	return err
}

// changed returns the first row that differs, and the one after the last.
func (v *viewer) changed(p *Picture) (first, last int) {
	row := 3 * p.Width
	same := func(y int) bool { return bytes.Equal(p.Pix[y*row:(y+1)*row], v.shown.Pix[y*row:(y+1)*row]) }
	last = p.Height
	for first < last && same(first) {
		first++
	}
	for last > first && same(last-1) {
		last--
	}
	return first, last
}

// pixelFormat is PIXEL_FORMAT (section 7.4) with colours of their own bits.
type pixelFormat struct {
	size      int // bytes of a pixel: 1, 2 or 4
	bigEndian bool
	max       [3]uint16 // of red, green and blue
	shift     [3]byte
}

// trueColor is the default pixel format of viewers.
var trueColor = pixelFormat{size: 4, max: [3]uint16{255, 255, 255}, shift: [3]byte{16, 8, 0}}

// encode encodes bits-per-pixel, depth, big-endian, true-colour, the largest values,
// the shifts, and padding.
func (f pixelFormat) encode() []byte {
	b := []byte{byte(8 * f.size), 24, 0, 1}
	for _, m := range f.max {
		b = binary.BigEndian.AppendUint16(b, m)
	}
	b = append(b, f.shift[:]...)
	return append(b, make([]byte, pixelFormatBytes-len(b))...)
}

func decodePixelFormat(b []byte) (pixelFormat, error) {
	f := pixelFormat{size: int(b[0]) / 8, bigEndian: b[2] != 0}
	if b[3] == 0 || b[0] != 8 && b[0] != 16 && b[0] != 32 {
		return f, fmt.Errorf("the viewer wants %d bits for a pixel, true colour: %d", b[0], b[3])
	}
	for i := range 3 {
		f.max[i] = binary.BigEndian.Uint16(b[4+2*i:])
		if f.shift[i] = b[10+i]; f.shift[i] > 31 {
			return f, fmt.Errorf("the viewer shifts a colour by %d bits", f.shift[i])
		}
	}
	return f, nil
}

// appendPixels appends pixels of 3 bytes in the format.
func (f pixelFormat) appendPixels(b, rgb []byte) []byte {
	for ; len(rgb) >= 3; rgb = rgb[3:] {
		var v uint32
		for i := range 3 {
			v |= (uint32(rgb[i])*uint32(f.max[i]) + 127) / 255 << f.shift[i]
		}
		switch {
		case f.size == 1:
			b = append(b, byte(v))
		case f.size == 2 && f.bigEndian:
			b = binary.BigEndian.AppendUint16(b, uint16(v))
		case f.size == 2:
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		case f.bigEndian:
			b = binary.BigEndian.AppendUint32(b, v)
		default:
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	return b
}
