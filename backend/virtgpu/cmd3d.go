package virtgpu

import (
	"encoding/binary"
	"io"

	"pvdrm/hypercall"
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
	c := &guestContext{id: r.ctx, name: cleanName(name), attached: make(map[uint32]bool)}
	if d.gl == nil {
		if err := d.computes(c); err != nil {
			return nil, err
		}
	}
	d.contexts[r.ctx] = c
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
	switch c.kind {
	case kindCompute:
		c.Close()
	case kindGL:
		d.gl.DestroyContext(c.id, d.hold(r, "CTX_DESTROY"))
	}
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
	if c.attached[id] { // opening an object twice attaches it twice
		return nil, nil
	}
	if res.gl {
		if !d.renders(c) {
			return nil, refuse(respErrContext, "context %d is PVDRM's, and resource %d is not", r.ctx, id)
		}
		c.attached[id] = true
		d.gl.AttachResource(c.id, id, d.hold(r, "CTX_ATTACH_RESOURCE"))
		return nil, nil
	}
	c.attached[id] = true
	if c.kind == kindCompute {
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
	switch c.kind {
	case kindCompute:
		c.Detach(id)
	case kindGL:
		d.gl.DetachResource(c.id, id, d.hold(r, "CTX_DETACH_RESOURCE"))
	}
	return nil, nil
}

// struct virtio_gpu_resource_create_3d: resource_id, target, format, bind, width,
// height, depth, array_size, last_level, nr_samples, flags, padding, all u32.
func (d *Device) create3D(r *request, body []byte) ([]byte, error) {
	le := binary.LittleEndian
	u := func(i int) uint32 { return le.Uint32(body[4*i:]) }
	res := &Resource{
		id: u(0),
		args: Args{
			Target: u(1), Format: u(2), Bind: u(3), Width: u(4), Height: u(5), Depth: u(6),
			ArraySize: u(7), LastLevel: u(8), Samples: u(9), CreateFlag: u(10),
		},
	}
	res.gl = d.isGL(&res.args)
	if err := d.addResource(res); err != nil {
		return nil, err
	}
	if res.gl {
		d.gl.CreateResource(res.id, res.args, d.hold(r, "RESOURCE_CREATE_3D"))
	}
	return nil, nil
}

// transfer3D has nothing to move for a context of PVDRM, which works on the guest's
// own pages.
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
	if c.kind == kindGL {
		d.transferGL(r, c, body)
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
	if c.kind == kindGL || c.kind == kindUnknown && !hypercall.IsDoorbell(cmd) {
		d.renders(c)
		d.gl.Submit(c.id, cmd, r.flags&flagFence != 0, d.hold(r, "SUBMIT_3D"))
		return nil, nil
	}
	if err := d.computes(c); err != nil {
		return nil, err
	}
	if r.flags&flagFence == 0 {
		return nil, c.Submit(cmd, nil)
	}
	// From here on the fence may complete the chain at any time; only the first
	// completion counts.
	h, chain, m := r.header, r.chain, r.moment
	if err := c.Submit(cmd, func() { d.complete(chain, m, h.answer(respOK, nil)) }); err != nil {
		return nil, err
	}
	r.held = true
	return nil, nil
}
