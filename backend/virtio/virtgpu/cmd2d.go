package virtgpu

import (
	"encoding/binary"
	"io"
	"sync/atomic"
)

// resource finds a resource. Precondition: d.mu is held.
func (d *Device) resource(id uint32) (*Resource, error) {
	r := d.resources[id]
	if r == nil {
		return nil, refuse(respErrResource, "no resource %d", id)
	}
	return r, nil
}

// named finds the resource that a body begins with the id of.
func (d *Device) named(body []byte) (id uint32, res *Resource, err error) {
	id = binary.LittleEndian.Uint32(body)
	d.mu.Lock()
	defer d.mu.Unlock()
	res, err = d.resource(id)
	return id, res, err
}

// resource2D finds a resource that has an image. Precondition: d.mu is held.
func (d *Device) resource2D(id uint32) (*Resource, error) {
	r, err := d.resource(id)
	if err == nil && r.image == nil {
		err = refuse(respErrResource, "resource %d is not a 2D resource", id)
	}
	return r, err
}

// addResource makes a resource known.
func (d *Device) addResource(r *Resource) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.id == 0 || d.resources[r.id] != nil {
		return refuse(respErrResource, "resource %d is in use", r.id)
	}
	if len(d.resources) >= MaxResources {
		return refuse(respErrNoMemory, "%d resources exist, no more are allowed", MaxResources)
	}
	d.resources[r.id] = r
	return nil
}

// struct virtio_gpu_resource_create_2d: resource_id, format, width, height, all u32.
func (d *Device) create2D(_ *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	id, w, h := le.Uint32(body), le.Uint32(body[8:]), le.Uint32(body[12:])
	f, ok := formats[le.Uint32(body[4:])]
	if !ok {
		return nil, refuse(respErrParameter, "resource %d: no pixel format %d", id, le.Uint32(body[4:]))
	}
	if w == 0 || h == 0 || w > MaxDimension || h > MaxDimension {
		return nil, refuse(respErrParameter, "resource %d: %dx%d pixels, at most %d each", id, w, h, MaxDimension)
	}
	size := int64(w) * int64(h) * pixelSize
	if !d.quotas.image.take(size) {
		return nil, refuse(respErrNoMemory, "resource %d: images of more than %d bytes in all", id, MaxImageBytes)
	}
	r := &Resource{id: id, image: &image{width: w, height: h, format: f, pix: make([]byte, size)}}
	if err := d.addResource(r); err != nil {
		d.quotas.image.give(size)
		return nil, err
	}
	return nil, nil
}

// struct virtio_gpu_resource_unref: resource_id u32, padding u32.
func (d *Device) unref(r *request, body []byte) ([]byte, error) {
	id := binary.LittleEndian.Uint32(body)
	d.mu.Lock()
	if _, err := d.resource(id); err != nil {
		d.mu.Unlock()
		return nil, err
	}
	for i := range d.scanouts {
		if d.scanouts[i].resource == id {
			d.disable(i)
		}
	}
	res := d.resources[id]
	d.dropResource(id)
	d.mu.Unlock()
	var users []*guestContext
	for _, c := range d.contexts {
		if c.attached[id] != nil {
			delete(c.attached, id)
			d.attached--
			if c.takes(res) {
				users = append(users, c)
			}
		}
	}
	if res.renderer != nil {
		res.renderer.DestroyResource(id, d.hold(r))
	} else {
		d.takePages(r, id, users)
	}
	return nil, nil
}

// takePages has contexts detach a resource, and answers the command when all are done with its
// pages.
func (d *Device) takePages(r *request, id uint32, users []*guestContext) {
	if len(users) == 0 {
		return
	}
	done := d.operate(r, claim{subject: subject{resource: id}, alone: true})
	var left atomic.Int64
	left.Store(int64(len(users)))
	for _, c := range users {
		c.Detach(id, func(err error) {
			if left.Add(-1) == 0 {
				done(err)
			}
		})
	}
}

// readBacking reads the entries of a RESOURCE_ATTACH_BACKING, once.
// struct virtio_gpu_resource_attach_backing: resource_id u32, nr_entries u32; then
// the entries: addr u64, length u32, padding u32.
func (d *Device) readBacking(r *request) error {
	if r.backing != nil {
		return nil
	}
	const entrySize = 16
	le := binary.LittleEndian
	id, n := le.Uint32(r.body[:]), int64(le.Uint32(r.body[4:]))
	if n == 0 || n > MaxResourceEntries {
		return refuse(respErrParameter, "resource %d: %d backing entries, want 1 to %d", id, n, MaxResourceEntries)
	}
	if int64(r.chain.Len()) < n*entrySize {
		return refuse(respErrParameter, "resource %d: says %d backing entries and has %d bytes", id, n, r.chain.Len())
	}
	if !d.quotas.entries.take(n) {
		return refuse(respErrNoMemory, "resource %d: more than %d backing entries in all", id, MaxEntries)
	}
	b := newBacking(d.quotas, n)
	var buf [256 * entrySize]byte
	for n > 0 {
		part := buf[:min(n, 256)*entrySize]
		if _, err := io.ReadFull(r.chain, part); err != nil {
			b.release()
			return &commandError{respErrParameter, err}
		}
		for ; len(part) > 0; part = part[entrySize:] {
			if err := b.add(r.chain.Memory(), le.Uint64(part), uint64(le.Uint32(part[8:]))); err != nil {
				b.release()
				return err
			}
			n--
		}
	}
	r.backing = b
	return nil
}

func (d *Device) attachBacking(r *request, body []byte) ([]byte, error) {
	id, res, err := d.named(body)
	if err == nil {
		err = d.readBacking(r)
	}
	if err == nil {
		err = res.attach(r.backing)
	}
	if err != nil {
		if r.backing != nil {
			r.backing.release()
		}
		return nil, err
	}
	if res.renderer == nil {
		return nil, nil
	}
	pages, err := res.Acquire()
	if err != nil {
		return nil, &commandError{respErrParameter, err}
	}
	res.renderer.AttachBacking(id, pages, d.hold(r))
	return nil, nil
}

// detachBacking takes the pages of a resource away, also from those that use it: the guest may
// give them to another process once it has the answer.
// struct virtio_gpu_resource_detach_backing: resource_id u32, padding u32.
func (d *Device) detachBacking(r *request, body []byte) ([]byte, error) {
	id, res, err := d.named(body)
	if err != nil {
		return nil, err
	}
	if !res.detach() {
		return nil, refuse(respErrUnspec, "resource %d has no backing pages", id)
	}
	if res.renderer != nil {
		res.renderer.DetachBacking(id, d.hold(r))
		return nil, nil
	}
	var users []*guestContext
	for _, c := range d.contexts {
		if c.attached[id] == res && c.takes(res) {
			users = append(users, c)
		}
	}
	d.takePages(r, id, users)
	for _, c := range users {
		c.Attach(res, ignore) // without pages, until there are others
	}
	return nil, nil
}

// struct virtio_gpu_transfer_to_host_2d: r rect, offset u64, resource_id u32,
// padding u32. The offset is where the rectangle's first pixel lies in the backing.
func (d *Device) transfer2D(_ *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	r, off, id := decodeRect(body), le.Uint64(body[rectSize:]), le.Uint32(body[rectSize+8:])
	d.mu.Lock()
	defer d.mu.Unlock()
	res, err := d.resource2D(id)
	if err != nil {
		return nil, err
	}
	m := res.image
	if !r.inside(m.width, m.height) {
		return nil, refuse(respErrParameter, "resource %d: %+v is outside of %dx%d", id, r, m.width, m.height)
	}
	res.mu.Lock()
	defer res.mu.Unlock()
	if res.backing == nil {
		return nil, refuse(respErrUnspec, "resource %d has no backing pages", id)
	}
	stride := uint64(m.width) * pixelSize
	for y := uint32(0); y < r.h; y++ {
		at := off + uint64(y)*stride
		if at < off || !res.backing.copyOut(m.row(r.x, r.y+y, r.w), at) {
			return nil, refuse(respErrParameter, "resource %d: row %d at %#x lies outside of its %d bytes",
				id, r.y+y, at, res.backing.size)
		}
	}
	return nil, nil
}
