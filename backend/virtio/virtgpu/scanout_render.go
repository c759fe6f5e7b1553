package virtgpu

import "sync/atomic"

// Pictures of outputs that show a renderer's resource are read from it at each flush, in the order
// of the guest's commands, so that a whole frame is shown. They go to the display from a goroutine
// of their own: neither the guest's commands nor the renderer wait for QEMU. Where QEMU is slower
// than the guest, only the newest picture is shown.

// frame is a picture on its way to the display.
type frame struct {
	output   uint32
	resource uint32
	area     rect // of the resource
	image    image
}

// shows reports whether the output still shows what the frame is a picture of.
func (s *scanout) shows(f *frame) bool { return s.resource == f.resource && s.area == f.area }

// picture is the image that a renderer's resource is shown as, without its pixels.
func (r *Resource) picture() (m image, err error) {
	f, ok := formats[r.args.Format]
	if !ok {
		return m, refuse(respErrParameter, "resource %d: format %d cannot be shown", r.id, r.args.Format)
	}
	return image{width: r.args.Width, height: r.args.Height, format: f}, nil
}

// flushRendered has the outputs read that show a resource of the renderer.
func (d *Device) flushRendered(r *request, res *Resource) error {
	m, err := res.picture()
	if err != nil {
		return err
	}
	var frames []*frame
	d.mu.Lock()
	if d.display != nil {
		for i := range d.scanouts {
			if s := &d.scanouts[i]; s.resource == res.id {
				frames = append(frames, &frame{output: uint32(i), resource: res.id, area: s.area,
					image: image{width: s.area.w, height: s.area.h, format: m.format}})
			}
		}
	}
	d.mu.Unlock()
	if len(frames) == 0 {
		return nil
	}
	end := d.hold(r)
	var left atomic.Int64
	left.Store(int64(len(frames)))
	for _, f := range frames {
		res.renderer.ReadPixels(res.id, f.area.x, f.area.y, f.area.w, f.area.h, func(pixels []byte, err error) {
			if err == nil {
				d.show(f, pixels)
			}
			if left.Add(-1) == 0 {
				end(err)
			}
		})
	}
	return nil
}

// show takes a copy of the pixels and has it painted.
func (d *Device) show(f *frame, pixels []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.frames[f.output]; old != nil { // not shown yet
		d.frames[f.output] = nil
		d.dropFrame(old)
	}
	if !d.scanouts[f.output].shows(f) || d.display == nil || !d.quotas.image.take(int64(len(pixels))) {
		return
	}
	f.image.pix = append(d.spare[:0], pixels...)
	d.spare = nil
	d.frames[f.output] = f
	if !d.painting {
		d.painting = true
		go d.paintFrames()
	}
}

// paintFrames paints until no frame is left.
func (d *Device) paintFrames() {
	for {
		d.mu.Lock()
		f, dp := d.nextFrame(), d.display
		if f == nil {
			d.painting = false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		var err error
		if dp != nil {
			err = dp.show(f.output, &f.image, rect{0, 0, f.area.w, f.area.h}, rect{}, true)
		}
		d.mu.Lock()
		d.dropFrame(f)
		if err != nil {
			d.lose(dp, err)
		} else if !d.scanouts[f.output].shows(f) {
			d.correct(int(f.output))
		}
		d.mu.Unlock()
	}
}

// correct shows what an output shows by now, after a frame that came too late. The content of a
// renderer's resource comes with its next flush. Precondition: d.mu is held.
func (d *Device) correct(output int) {
	s := &d.scanouts[output]
	res := d.resources[s.resource]
	switch {
	case res == nil:
		d.disable(output)
	case res.image != nil:
		s.stale = true
		d.paint(output, s.area)
	}
}

// nextFrame takes a frame that is to be painted. Precondition: d.mu is held.
func (d *Device) nextFrame() *frame {
	for i, f := range d.frames {
		d.frames[i] = nil
		if f == nil {
			continue
		}
		if d.scanouts[i].shows(f) {
			return f
		}
		d.dropFrame(f)
	}
	return nil
}

// dropFrame keeps the memory of a frame for the next one. Precondition: d.mu is held.
func (d *Device) dropFrame(f *frame) {
	d.quotas.image.give(int64(len(f.image.pix)))
	d.spare = f.image.pix
}

// pointRendered reads the pointer's picture from a resource of the renderer, and then shows it.
func (d *Device) pointRendered(r *request, res *Resource, c cursor, m image) {
	end := d.hold(r)
	res.renderer.ReadPixels(res.id, 0, 0, cursorSize, cursorSize, func(pixels []byte, err error) {
		if err == nil {
			m.pix = append(m.pix, pixels...)
			d.mu.Lock()
			if d.cursor.resource == c.resource {
				d.cursor.image = &m
				d.showCursor()
			}
			d.mu.Unlock()
		}
		end(err)
	})
}
