package virtgpu

import (
	"encoding/binary"
	"io"
)

// struct virtio_gpu_get_capset_info: capset_index u32, padding u32.
func (d *Device) getCapsetInfo(_ *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	i := le.Uint32(body)
	if int64(i) >= int64(len(d.capsets)) {
		return nil, refuse(respErrParameter, "capability set number %d of %d", i, len(d.capsets))
	}
	cs := d.capsets[i]
	b := le.AppendUint32(nil, cs.ID)
	b = le.AppendUint32(b, cs.Version)
	b = le.AppendUint32(b, uint32(len(cs.Data)))
	return le.AppendUint32(b, 0), nil
}

// struct virtio_gpu_get_capset: capset_id u32, capset_version u32.
func (d *Device) getCapset(_ *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	id, version := le.Uint32(body), le.Uint32(body[4:])
	for _, cs := range d.capsets {
		if cs.ID == id && version <= cs.Version {
			return cs.Data, nil
		}
	}
	return nil, refuse(respErrParameter, "no capability set %d of version %d", id, version)
}

// struct virtio_gpu_ctx_create: nlen u32, context_init u32, debug_name char[64].
func (d *Device) ctxCreate(r *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	name := body[8:]
	if n := le.Uint32(body); int64(n) < int64(len(name)) {
		name = name[:n]
	}
	if r.ctx == 0 || d.contexts[r.ctx] != nil {
		return nil, refuse(respErrContext, "context %d is in use", r.ctx)
	}
	if len(d.contexts) >= MaxContexts {
		return nil, refuse(respErrNoMemory, "%d contexts exist, no more are allowed", MaxContexts)
	}
	c, err := d.renderer.NewContext(r.ctx, cleanName(name))
	if err != nil {
		return nil, &commandError{respErrUnspec, err}
	}
	d.contexts[r.ctx] = &guestContext{c, make(map[uint32]bool)}
	return nil, nil
}

// context finds the context that a command is about.
func (d *Device) context(r *request) (*guestContext, error) {
	c := d.contexts[r.ctx]
	if c == nil {
		return nil, refuse(respErrContext, "no context %d", r.ctx)
	}
	return c, nil
}

func (d *Device) ctxDestroy(r *request, _ []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	delete(d.contexts, r.ctx)
	c.Close()
	return nil, nil
}

// struct virtio_gpu_ctx_resource: resource_id u32, padding u32.
func (d *Device) ctxAttach(r *request, body []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	id := binary.LittleEndian.Uint32(body)
	d.mu.Lock()
	res, err := d.resource(id)
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !c.attached[id] { // opening an object twice attaches it twice
		c.attached[id] = true
		c.Attach(res)
	}
	return nil, nil
}

func (d *Device) ctxDetach(r *request, body []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	id := binary.LittleEndian.Uint32(body)
	if !c.attached[id] {
		return nil, refuse(respErrResource, "resource %d is not attached to context %d", id, r.ctx)
	}
	delete(c.attached, id)
	c.Detach(id)
	return nil, nil
}

// struct virtio_gpu_resource_create_3d: resource_id, target, format, bind, width,
// height, depth, array_size, last_level, nr_samples, flags, padding, all u32.
func (d *Device) create3D(_ *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	u := func(i int) uint32 { return le.Uint32(body[4*i:]) }
	return nil, d.addResource(&Resource{
		id: u(0),
		args: Args{
			Target: u(1), Format: u(2), Bind: u(3), Width: u(4), Height: u(5), Depth: u(6),
			ArraySize: u(7), LastLevel: u(8), Samples: u(9), CreateFlag: u(10),
		},
	})
}

// transfer3D has nothing to move: contexts work on the guest's own pages.
// struct virtio_gpu_transfer_host_3d: box u32[6], offset u64, resource_id, level,
// stride, layer_stride, all u32.
func (d *Device) transfer3D(r *request, body []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	if id := binary.LittleEndian.Uint32(body[32:]); !c.attached[id] {
		return nil, refuse(respErrResource, "resource %d is not attached to context %d", id, r.ctx)
	}
	return nil, nil
}

// struct virtio_gpu_cmd_submit: size u32, padding u32; the bytes follow.
func (d *Device) submit(r *request, body []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(body)
	if size > MaxSubmit {
		return nil, refuse(respErrParameter, "%d bytes, at most %d", size, MaxSubmit)
	}
	if int64(size) > int64(r.chain.Len()) {
		return nil, refuse(respErrParameter, "says %d bytes and has %d", size, r.chain.Len())
	}
	cmd := make([]byte, size)
	if _, err := io.ReadFull(r.chain, cmd); err != nil {
		return nil, &commandError{respErrParameter, err}
	}
	if r.flags&flagFence == 0 {
		return nil, c.Submit(cmd, nil)
	}
	// From here on the fence may complete the chain at any time; only the first
	// completion counts.
	h, chain := r.header, r.chain
	if err := c.Submit(cmd, func() { chain.Complete(h.answer(respOK, nil)) }); err != nil {
		return nil, err
	}
	r.held = true
	return nil, nil
}
