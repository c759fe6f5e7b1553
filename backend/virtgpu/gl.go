package virtgpu

import (
	"encoding/binary"
	"errors"

	"pvdrm/hypercall"
	"pvdrm/internal/hostmem"
)

// GL renders for the guest's own OpenGL driver (virgl): contexts and resources that
// are not PVDRM's. Its methods queue a command and return; the commands of a guest
// run in the order in which they were queued. Each calls done exactly once, at any
// time and from any goroutine, when the command has ended. Ids are the guest's; those
// that exist differ. ReadPixels may be called while another method is.
type GL interface {
	// Capsets returns the capability sets, always the same ones.
	Capsets() []Capset
	CreateContext(id uint32, name string, done func(error))
	DestroyContext(id uint32, done func(error))
	CreateResource(id uint32, a Args, done func(error))
	// DestroyResource also detaches it, and its pages.
	DestroyResource(id uint32, done func(error))
	// AttachBacking takes p over, also when it fails. It releases the pages when they
	// were detached, before it says so.
	AttachBacking(id uint32, p *Pages, done func(error))
	DetachBacking(id uint32, done func(error))
	AttachResource(ctx, id uint32, done func(error))
	DetachResource(ctx, id uint32, done func(error))
	// Transfer has ended when the bytes are there.
	Transfer(ctx uint32, t Transfer, done func(error))
	// Submit takes over cmd. With fenced it has ended when all of it and of what was
	// submitted before is rendered, otherwise when it was looked at.
	Submit(ctx uint32, cmd []byte, fenced bool, done func(error))
	// ReadPixels reads a rectangle of a resource with pixels of 4 bytes, without gaps
	// between rows. The pixels are valid until done returns, which must be soon.
	ReadPixels(id, x, y, width, height uint32, done func(pixels []byte, err error))
	// Reset forgets all that the guest had, and ends its commands with ErrGone. When
	// it returns, no page of the guest is in use. No other method is being called.
	Reset()
}

// ErrGone says that the guest that had sent a command has reset its device since,
// or is gone: nobody waits for an answer.
var ErrGone = errors.New("the guest has reset its device or is gone")

// Transfer is TRANSFER_TO_HOST_3D or TRANSFER_FROM_HOST_3D.
type Transfer struct {
	FromHost                             bool
	Resource, Level, Stride, LayerStride uint32
	Box                                  [6]uint32 // x, y, z, width, height, depth
	Offset                               uint64    // into the backing pages, bytes
}

// isGL reports whether the guest's OpenGL driver made the resource. Frontends of
// PVDRM mark theirs.
func (d *Device) isGL(a *Args) bool {
	return d.gl != nil && a.CreateFlag&hypercall.ResourceFlag == 0
}

// hold keeps a command until the returned function says how it ended.
func (d *Device) hold(r *request, name string) func(error) {
	r.held = true
	if r.moment != nil {
		d.timeline.bind(r.moment)
	}
	h, chain, m := r.header, r.chain, r.moment
	return func(err error) {
		if errors.Is(err, ErrGone) {
			return
		}
		code := uint32(respOK)
		if err != nil {
			code = d.refused(name, err)
		}
		d.complete(chain, m, h.answer(code, nil))
	}
}

// renders makes c a context of the OpenGL driver, if it is not of a kind yet. It
// reports whether it is one.
func (d *Device) renders(c *guestContext) bool {
	if c.kind == kindUnknown {
		c.kind = kindGL
		d.gl.CreateContext(c.id, c.name, func(err error) {
			if err != nil && !errors.Is(err, ErrGone) {
				d.refused("CTX_CREATE", err)
			}
		})
	}
	return c.kind == kindGL
}

// computes makes c a context of PVDRM, if it is not of a kind yet.
func (d *Device) computes(c *guestContext) error {
	switch c.kind {
	case kindCompute:
		return nil
	case kindGL:
		return refuse(respErrContext, "context %d is one of OpenGL, and got a doorbell", c.id)
	}
	made, err := d.renderer.NewContext(c.id, c.name)
	if err != nil {
		return &commandError{respErrUnspec, err}
	}
	c.kind, c.Context = kindCompute, made
	d.mu.Lock()
	attached := make([]*Resource, 0, len(c.attached))
	for id := range c.attached {
		if res := d.resources[id]; res != nil {
			attached = append(attached, res)
		}
	}
	d.mu.Unlock()
	for _, res := range attached {
		c.Attach(res)
	}
	return nil
}

// transferGL passes a transfer on. The body is that of transfer3D.
func (d *Device) transferGL(r *request, c *guestContext, body []byte) {
	le := binary.LittleEndian
	t := Transfer{FromHost: r.typ == cmdTransferFromHost3D, Offset: le.Uint64(body[24:]), Resource: le.Uint32(body[32:]),
		Level: le.Uint32(body[36:]), Stride: le.Uint32(body[40:]), LayerStride: le.Uint32(body[44:])}
	for i := range t.Box {
		t.Box[i] = le.Uint32(body[4*i:])
	}
	d.gl.Transfer(c.id, t, d.hold(r, "TRANSFER_3D"))
}

// Entry is a piece of guest-physical memory.
type Entry struct{ Addr, Len uint64 }

// NewPages takes hold of whole pages of a guest, for tests of a GL.
func NewPages(t *hostmem.Table, entries []Entry) (*Pages, error) {
	b := newBacking(newQuotas(), 0)
	for _, e := range entries {
		if err := b.add(t, e.Addr, e.Len); err != nil {
			b.release()
			return nil, err
		}
	}
	return &Pages{b: b}, nil
}
