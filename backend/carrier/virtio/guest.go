package virtio

import (
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"pvdrm/backend/file"
	"pvdrm/backend/session"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// Guest is a virtual machine that is served on one GPU.
type Guest struct {
	Device gpu.Device // nil with Attach
	// Attach serves contexts in place of sessions on Device; may be nil.
	Attach   session.Attacher
	Features uint64 // of the capset; 0: those of a backend with sessions
	Log      *zap.Logger
	// Counts returns the doorbells and interrupts of the guest so far; may be nil.
	Counts func() (doorbells, interrupts uint64)

	open  atomic.Int64
	group session.Group
}

// Files returns what the files of all contexts have in common.
func (g *Guest) Files() *file.Guest { return &g.group.Guest }

// NewContext makes the context of a DRM file (virtgpu.Component).
func (g *Guest) NewContext(id uint32, name string) (virtgpu.Context, error) {
	g.open.Add(1)
	return &client{guest: g, label: fmt.Sprintf("%s#%d", name, id), resources: map[uint32]*virtgpu.Resource{}}, nil
}

// attach serves a context that has attached.
func (g *Guest) attach(c *client, d hypercall.Doorbell, log *zap.Logger) (session.Attached, error) {
	if g.Attach != nil {
		return g.Attach(c, d, c.label)
	}
	s, err := session.Attach(g.Device, c, &g.group, d, c.label, log)
	if err != nil {
		return nil, err // not a nil *session.Session in an interface
	}
	return s, nil
}

// Capset is what the guest's device announces.
func (g *Guest) Capset() hypercall.Capset {
	number := 0
	if g.Device != nil {
		number = g.Device.Properties().Number
	}
	c := hypercall.NewCapset(number)
	if g.Features != 0 {
		c.Features = g.Features
	}
	return c
}

// SetLimits bounds what the guest may have. It must be called before the guest connects.
func (g *Guest) SetLimits(l quota.Limits) { g.group.SetLimits(l) }

// Quotas returns the quotas of the guest.
func (g *Guest) Quotas() *quota.Set { return &g.group.Set }

// Sessions returns the counters of the guest's sessions.
func (g *Guest) Sessions() session.GuestStats {
	st := g.group.Stats()
	if g.Counts != nil {
		st.Total.Doorbells, st.Total.Interrupts = g.Counts()
	}
	return st
}

// Open returns the number of contexts that are open.
func (g *Guest) Open() int { return int(g.open.Load()) }
