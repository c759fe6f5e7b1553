package virtgpu_test

import (
	"testing"

	"pvdrm/backend/virtio/virtgpu"
)

// A pointer that is drawn into the picture covers it, lets it through, moves, leaves it as it was,
// and may lie outside in part.
func TestDrawnPointer(t *testing.T) {
	g := newGPUWith(t, nil, virtgpu.Config{Width: 640, Height: 480, DrawPointer: true})
	d := g.plug(640, 480)
	s := g.screen(1, 2, 640, 480) // B8G8R8X8
	fill := func(px ...byte) {
		for y := range uint32(480) {
			for x := range uint32(640) {
				s.set(x, y, px...)
			}
		}
		s.transfer(0, 0, 640, 480)
		s.flush(0, 0, 640, 480)
	}
	p := g.screen(2, 2, 64, 64) // B8G8R8X8, as Linux has its pointers, and yet they have alpha
	p.set(0, 0, 10, 20, 30, 255)
	p.set(63, 63, 40, 50, 60, 128)
	p.set(1, 0, 255, 255, 255, 200) // brighter than its alpha allows
	p.transfer(0, 0, 64, 64)
	cursor := func(typ, x, y, id uint32) {
		g.cursor.Do(append(header(typ, 0, 0), words(0, x, y, 0, id, 3, 4, 0)...), 0)
	}
	under := []byte{100, 100, 100, 255}
	through := []byte{40 + 50, 50 + 50, 60 + 50, 255}

	cursor(updateCursor, 100, 50, 2) // before there is a picture
	s.show(0, 0, 0, 640, 480)
	fill(100, 100, 100, 0)
	d.pixel(0, 100, 50, 10, 20, 30, 255)
	d.pixel(0, 101, 50, 255, 255, 255, 255)
	d.pixel(0, 163, 113, through...)
	d.pixel(0, 102, 50, under...)

	cursor(moveCursor, 110, 50, 0)
	d.pixel(0, 110, 50, 10, 20, 30, 255)
	d.pixel(0, 100, 50, under...)
	d.pixel(0, 173, 113, through...)
	fill(0, 0, 0, 0) // what is under it changes
	d.pixel(0, 110, 50, 10, 20, 30, 255)
	d.pixel(0, 173, 113, 40, 50, 60, 255)
	d.pixel(0, 111, 50, 255, 255, 255, 255)

	cursor(moveCursor, ^uint32(0)-62, ^uint32(0)-62, 0) // -63, -63
	d.pixel(0, 0, 0, 40, 50, 60, 255)
	d.pixel(0, 110, 50, 0, 0, 0, 255)
	cursor(moveCursor, 639, 479, 0)
	d.pixel(0, 639, 479, 10, 20, 30, 255)
	d.pixel(0, 0, 0, 0, 0, 0, 255)
	for _, outside := range [][2]uint32{{640, 0}, {1 << 31, 1 << 31}, {^uint32(0) - 63, 0}, {1<<31 - 1, 1<<31 - 1}} {
		cursor(moveCursor, outside[0], outside[1], 0)
		d.pixel(0, 639, 479, 0, 0, 0, 255)
		cursor(moveCursor, 639, 479, 0)
		d.pixel(0, 639, 479, 10, 20, 30, 255)
	}

	again := g.plug(640, 480) // QEMU's display comes back
	again.pixel(0, 639, 479, 10, 20, 30, 255)
	cursor(updateCursor, 0, 0, 0)
	again.pixel(0, 639, 479, 0, 0, 0, 255)
	again.until("QEMU knows nothing of a pointer", func() bool { return again.count[4]+again.count[5]+again.count[6] == 0 })

	// On a smaller picture it is where it was, as far as that is there.
	cursor(updateCursor, 30, 30, 2)
	again.pixel(0, 30, 30, 10, 20, 30, 255)
	s.show(0, 0, 0, 31, 31)
	s.flush(0, 0, 640, 480)
	again.pixel(0, 30, 30, 10, 20, 30, 255)
	again.until("the size", func() bool { return again.sizes[0] == [2]uint32{31, 31} })
	g.ok(setScanout, 0, words(0, 0, 0, 0, 0, 0))
	cursor(moveCursor, 0, 0, 0)
	again.until("off", func() bool { return again.sizes[0] == [2]uint32{} })
}
