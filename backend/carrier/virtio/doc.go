// Package virtio is the carrier of virtual machines: it serves the 3D contexts of a
// virtio-gpu device with sessions. Each DRM file of the guest is a context;
// EXECBUFFER brings doorbells, resources are grants, fences are interrupts.
//
// The device calls a context from one goroutine at a time, and no call waits for a
// session: the goroutine serves the whole machine. Sessions are made and waited for on
// goroutines of their own, at most a few for each context. The session's and the GPU's
// goroutines call Notify. client.mu guards a client; no lock of another package is
// taken while it is held.
package virtio
