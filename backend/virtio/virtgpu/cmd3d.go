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
	c := &guestContext{id: r.ctx, name: cleanName(name), attached: make(map[uint32]*Resource)}
	if len(d.components) == 1 {
		if err := d.serve(c, d.components[0]); err != nil {
			return nil, err
		}
	}
	d.contexts[r.ctx] = c
	return nil, nil
}

// context finds the context of a command.
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
	d.attached -= len(c.attached)
	if c.component == nil {
		return nil, nil
	}
	if c.component.renderer != nil {
		c.Close(d.hold(r))
		return nil, nil
	}
	claims := []claim{{subject: subject{ctx: c.id}, alone: true}}
	for id := range c.attached { // it uses their pages until it has ended
		claims = append(claims, claim{subject: subject{resource: id}})
	}
	c.Close(d.operate(r, claims...))
	return nil, nil
}

// struct virtio_gpu_ctx_resource: resource_id u32, padding u32.
func (d *Device) ctxAttach(r *request, body []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	id, res, err := d.named(body)
	if err != nil {
		return nil, err
	}
	if c.attached[id] != nil { // opening an object twice attaches it twice
		return nil, nil
	}
	if d.attached >= MaxAttached {
		return nil, refuse(respErrNoMemory, "%d resources are attached to contexts, no more are allowed", MaxAttached)
	}
	if res.renderer != nil {
		if c.component == nil {
			err = d.serve(c, res.owner)
		} else if !c.takes(res) {
			err = refuse(respErrContext, "context %d and resource %d belong to different components", r.ctx, id)
		}
		if err != nil {
			return nil, err
		}
	}
	c.attached[id] = res
	d.attached++
	if c.takes(res) {
		c.Attach(res, d.hold(r))
	}
	return nil, nil
}

func (d *Device) ctxDetach(r *request, body []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	id := binary.LittleEndian.Uint32(body)
	res := c.attached[id]
	if res == nil {
		return nil, refuse(respErrResource, "resource %d is not attached to context %d", id, r.ctx)
	}
	delete(c.attached, id)
	d.attached--
	switch {
	case !c.takes(res):
	case res.renderer != nil:
		c.Detach(id, d.hold(r))
	default:
		c.Detach(id, d.operate(r, claim{subject: subject{resource: id}}, claim{subject: subject{ctx: c.id, resource: id}, alone: true}))
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
	res.owner = d.choose(func(c Component) bool { return c.Owns(&res.args) })
	res.renderer = res.owner.renderer
	if err := d.addResource(res); err != nil {
		return nil, err
	}
	if res.renderer != nil {
		res.renderer.CreateResource(res.id, res.args, d.hold(r))
	}
	return nil, nil
}

// struct virtio_gpu_transfer_host_3d: box u32[6], offset u64, resource_id, level,
// stride, layer_stride, all u32.
func (d *Device) transfer3D(r *request, body []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	t := Transfer{FromHost: r.typ == cmdTransferFromHost3D, Offset: le.Uint64(body[24:]), Resource: le.Uint32(body[32:]),
		Level: le.Uint32(body[36:]), Stride: le.Uint32(body[40:]), LayerStride: le.Uint32(body[44:])}
	for i := range t.Box {
		t.Box[i] = le.Uint32(body[4*i:])
	}
	if c.attached[t.Resource] == nil {
		return nil, refuse(respErrResource, "resource %d is not attached to context %d", t.Resource, r.ctx)
	}
	if c.component != nil {
		c.Transfer(t, d.hold(r))
	}
	return nil, nil
}

// readSubmit reads the bytes of a SUBMIT_3D, once.
func (d *Device) readSubmit(r *request) error {
	if r.rest != nil {
		return nil
	}
	size := binary.LittleEndian.Uint32(r.body[:])
	if size > MaxSubmit {
		return refuse(respErrParameter, "%d bytes, at most %d", size, MaxSubmit)
	}
	if int64(size) > int64(r.chain.Len()) {
		return refuse(respErrParameter, "says %d bytes and has %d", size, r.chain.Len())
	}
	rest := make([]byte, size)
	if _, err := io.ReadFull(r.chain, rest); err != nil {
		return &commandError{respErrParameter, err}
	}
	r.rest = rest
	return nil
}

// struct virtio_gpu_cmd_submit: size u32, padding u32; the bytes follow.
func (d *Device) submit(r *request, _ []byte) ([]byte, error) {
	c, err := d.context(r)
	if err != nil {
		return nil, err
	}
	if err := d.readSubmit(r); err != nil {
		return nil, err
	}
	if c.component == nil {
		if err := d.serve(c, d.choose(func(p Component) bool { return p.Recognizes(r.rest) })); err != nil {
			return nil, err
		}
	}
	if !c.component.Hints() {
		d.bind(r)
	}
	c.Submit(r.rest, r.flags&flagFence != 0, d.later(r))
	return nil, nil
}
