package session

import "pvdrm/hypercall"

// Attached is what serves a DRM file behind a carrier: a Session, or what else guests attach to.
type Attached interface {
	// Kick and Revoke are as of Session.
	Kick()
	Revoke(id uint32, done func())
	// FrontendAsleep reports whether the frontend that arms still waits; see Session.FrontendAsleep.
	FrontendAsleep() bool
	// End, Ended and Close are as of Session.
	End()
	Ended() <-chan struct{}
	Close()
}

var _ Attached = (*Session)(nil)

// Attacher makes what serves a DRM file; see Attach.
type Attacher func(c Carrier, d hypercall.Doorbell, label string) (Attached, error)
