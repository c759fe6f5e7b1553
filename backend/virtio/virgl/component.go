package virgl

import (
	"errors"

	"go.uber.org/zap"

	"pvdrm/backend/virtio/virtgpu"
)

// Recognizes is part of virtgpu.Renderer. Streams of virgl carry no mark, so a device asks other
// components first and takes this one for the rest.
func (r *Renderer) Recognizes([]byte) bool { return false }

// Owns is part of virtgpu.Renderer. Mesa does not mark its resources.
func (r *Renderer) Owns(*virtgpu.Args) bool { return false }

// Hints is part of virtgpu.Renderer: a fence stands for pictures that are drawn.
func (r *Renderer) Hints() bool { return false }

// NewContext is part of virtgpu.Renderer. If the worker cannot make the context, the commands that
// use it fail.
func (r *Renderer) NewContext(id uint32, name string) (virtgpu.Context, error) {
	r.CreateContext(id, name, func(err error) {
		if err != nil && !errors.Is(err, virtgpu.ErrGone) {
			r.cfg.Log.Warn("cannot make a context of a guest", zap.Uint32("context", id), zap.Error(err))
		}
	})
	return guestContext{r, id}, nil
}

// guestContext is a context as a device sees it.
type guestContext struct {
	*Renderer
	id uint32
}

func (c guestContext) Submit(cmd []byte, fenced bool, done func(error)) {
	c.Renderer.Submit(c.id, cmd, fenced, done)
}

func (c guestContext) Attach(res *virtgpu.Resource, done func(error)) {
	c.AttachResource(c.id, res.ID(), done)
}

func (c guestContext) Detach(id uint32, done func(error)) { c.DetachResource(c.id, id, done) }

func (c guestContext) Transfer(t virtgpu.Transfer, done func(error)) {
	c.Renderer.Transfer(c.id, t, done)
}

func (c guestContext) Close(done func(error)) { c.DestroyContext(c.id, done) }
