// Package pvdrm is the component of PVDRM's own contexts in a virtio-gpu device: its capability set,
// and how its commands and resources are told from those of other components. The contexts
// themselves are those of the carrier (package backend/carrier/virtio).
package pvdrm

import (
	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/hypercall"
)

// Component serves the contexts in which a guest uses PVDRM.
type Component struct{ *virtio.Guest }

var _ virtgpu.Component = Component{}

// Capsets is part of virtgpu.Component.
func (c Component) Capsets() []virtgpu.Capset {
	announced := c.Capset()
	return []virtgpu.Capset{{ID: hypercall.CapsetID, Version: hypercall.VersionMajor, Data: announced.Encode()}}
}

// Recognizes is part of virtgpu.Component: commands are doorbells.
func (Component) Recognizes(cmd []byte) bool { return hypercall.IsDoorbell(cmd) }

// Owns is part of virtgpu.Component: frontends mark their resources.
func (Component) Owns(a *virtgpu.Args) bool { return a.CreateFlag&hypercall.ResourceFlag != 0 }

// Hints is part of virtgpu.Component: the session that is woken looks into the ring.
func (Component) Hints() bool { return true }
