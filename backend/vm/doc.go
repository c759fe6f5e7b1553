// Package vm is the carrier of virtual machines: it serves the 3D contexts of a
// virtio-gpu device with sessions. Each DRM file of the guest is a context;
// EXECBUFFER brings doorbells, resources are grants, fences are interrupts.
//
// The device calls a context from one goroutine at a time; the session's and
// the GPU's goroutines call Notify. client.mu guards what both touch: the fence.
package vm
