package virtgpu

import (
	"errors"

	"pvdrm/internal/hostmem"
)

// Capset is a capability set: what the guest reads with DRM_VIRTGPU_GET_CAPS.
type Capset struct {
	ID      uint32 // below 64
	Version uint32
	Data    []byte // at most 4096 bytes
}

// Component serves the 3D contexts of one guest that use its capability sets: it gives meaning to
// the commands that they submit. The device knows nothing of them.
//
// A guest does not tell which capability set a context is for, unless the device offers
// VIRTIO_GPU_F_CONTEXT_INIT, and this one does not. So where there are several components, the first
// use of a context decides: a submission that a component recognizes, or a resource of its own that
// is attached.
type Component interface {
	// Capsets returns the capability sets, always the same ones.
	Capsets() []Capset
	// Recognizes reports whether a submission has the form of this component's commands. It is
	// not asked where a context is known to be the component's.
	Recognizes(cmd []byte) bool
	// Owns reports whether the guest has marked a resource as one for this component's contexts.
	Owns(a *Args) bool
	// Hints reports that the fences of submissions only wake the guest up, and may signal early.
	// The guest's driver has all fences on one timeline, where one that signals also signals
	// those that were submitted before. Fences of other components, which must not signal early,
	// hold back all that follow; hints hold back nothing.
	Hints() bool
	// NewContext makes a context. The guest chose the id, which no other living context has, and
	// the name, which is printable ASCII of at most 63 bytes and means nothing. It and the
	// methods of Context are not called concurrently.
	NewContext(id uint32, name string) (Context, error)
}

// Context is one DRM file of the guest. Its methods must not wait for the GPU: all other files of the
// guest, and its display, wait for them.
//
// Each method calls done exactly once, at any time and from any goroutine, when it has ended; then
// the command is answered. An error answers it with an error.
type Context interface {
	// Submit takes the bytes of one SUBMIT_3D, at most MaxSubmit of them, which become the
	// context's. With fenced the end is the fence that the guest asked for: all of it, and of
	// earlier submissions, has run, or, of a hint, the guest is to be woken. Otherwise it means that
	// the command was looked at.
	Submit(cmd []byte, fenced bool, done func(error))
	// Attach lets the context use a resource. The guest may give it its pages later.
	Attach(r *Resource, done func(error))
	// Detach takes that back. It has ended when neither the context nor the GPU uses the pages
	// that the resource had. The resource may be attached again before, without pages.
	Detach(id uint32, done func(error))
	// Transfer moves bytes between an attached resource and its pages.
	Transfer(t Transfer, done func(error))
	// Close ends the context: the file was closed, the driver was reset, or the guest is gone.
	// Its resources are not detached one by one. It aborts the work that runs, and ends the
	// submissions that are still out, for their commands take up room in the queue of the whole
	// guest. It has ended as Detach has, for all resources. No other method is called any more.
	Close(done func(error))
}

// Renderer is a Component that keeps resources of its own, such as textures, whose contents can be
// shown. Its methods and those of its contexts queue a command and return, and the commands run in
// the order in which they were queued. So the device need not keep a command back because an earlier
// one has not ended, as it does for other components. ReadPixels may be called while another method
// is.
type Renderer interface {
	Component
	CreateResource(id uint32, a Args, done func(error))
	// DestroyResource also detaches the resource, and its pages.
	DestroyResource(id uint32, done func(error))
	// AttachBacking takes p over, also when it fails. It releases the pages when they were
	// detached, before done is called.
	AttachBacking(id uint32, p *Pages, done func(error))
	DetachBacking(id uint32, done func(error))
	// ReadPixels reads a rectangle of a resource with pixels of 4 bytes, without gaps between
	// rows. The pixels are valid until done returns, which must be soon.
	ReadPixels(id, x, y, width, height uint32, done func(pixels []byte, err error))
	// Reset forgets all resources of the guest, and ends its commands with ErrGone. When it
	// returns, no page of the guest is in use. The contexts were closed before. No other method
	// is being called.
	Reset()
}

// ErrGone is the error of a command whose guest has reset its device since, or is gone: it is not
// answered.
var ErrGone = errors.New("the guest has reset its device or is gone")

// Transfer is TRANSFER_TO_HOST_3D or TRANSFER_FROM_HOST_3D.
type Transfer struct {
	FromHost                             bool
	Resource, Level, Stride, LayerStride uint32
	Box                                  [6]uint32 // x, y, z, width, height, depth
	Offset                               uint64    // into the backing pages, bytes
}

// component is a Component of a device.
type component struct {
	Component
	renderer Renderer // the same, if it is one
}

func newComponents(list []Component) (all []*component) {
	for _, c := range list {
		renderer, _ := c.(Renderer)
		all = append(all, &component{Component: c, renderer: renderer})
	}
	return all
}

// choose returns the first component for which ok holds, or the last one.
func (d *Device) choose(ok func(Component) bool) *component {
	last := len(d.components) - 1
	for _, c := range d.components[:last] {
		if ok(c) {
			return c
		}
	}
	return d.components[last]
}

// hint reports whether a submission, whose context may not be there yet, is one whose fence is a
// hint.
func (d *Device) hint(cmd []byte) bool {
	for _, c := range d.components {
		if c.Recognizes(cmd) {
			return c.Hints()
		}
	}
	return false
}

// guestContext is a context with the resources attached to it.
type guestContext struct {
	Context   // nil until it is known which component serves it
	component *component
	id        uint32
	name      string
	attached  map[uint32]*Resource
}

// takes reports whether the component of a context uses a resource: those of a renderer only in the
// contexts of that renderer, and all others only in the contexts of other components.
func (c *guestContext) takes(r *Resource) bool {
	return c.component != nil && c.component.renderer == r.renderer
}

// serve has a component serve a context that none serves yet.
func (d *Device) serve(c *guestContext, by *component) error {
	made, err := by.NewContext(c.id, c.name)
	if err != nil {
		return &commandError{respErrUnspec, err}
	}
	c.Context, c.component = made, by
	for _, res := range c.attached {
		if c.takes(res) {
			c.Attach(res, ignore)
		}
	}
	return nil
}

// ignore ends a call that no command of the guest waits for.
func ignore(error) {}

// bind has the answers to later commands wait for the fence of r, if it has one: that it has
// signalled means something.
func (d *Device) bind(r *request) {
	if r.moment != nil {
		d.timeline.bind(r.moment)
	}
}

// hold keeps a command, and the answers to later ones, until the returned function is called with
// its result.
func (d *Device) hold(r *request) func(error) {
	d.bind(r)
	return d.later(r)
}

// later keeps a command until the returned function is called with its result.
func (d *Device) later(r *request) func(error) {
	r.held = true
	h, chain, m, name := r.header, r.chain, r.moment, r.cmd.name
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

// operate begins an operation for a command, which is answered when the returned function is
// called: at once or later, from any goroutine. The operation holds its claims until after the
// answer.
func (d *Device) operate(r *request, claims ...claim) (done func(error)) {
	end, answer := d.order.begin(claims...), d.hold(r)
	return func(err error) {
		answer(err)
		end()
	}
}

// Entry is a piece of guest-physical memory.
type Entry struct{ Addr, Len uint64 }

// NewPages takes hold of whole pages of a guest, for tests of components.
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
