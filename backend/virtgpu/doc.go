// Package virtgpu is a virtio-gpu device (virtio 1.2, section 5.7) for guests with
// an unmodified virtio-gpu driver. It keeps the resources of the guest, draws its
// 2D scanouts on QEMU's display, and hands the 3D contexts, one for each DRM file
// of the guest, to a Renderer.
//
// A resource's backing pages are pages of the guest's RAM: that is the grant by
// which a Context reaches the memory of its guest, see Resource.Acquire.
//
// Goroutines. Commands arrive on one goroutine for each virtqueue (control and
// cursor). Pictures that a GL rendered are painted on another, while there are any.
// A Context is called only from the control queue's goroutine, or from the session's
// while the queues are stopped, never from two at once.
//
// Locks, in order: Device.mu (resources, images, scanouts), Resource.mu (the
// backing), display.mu (the socket). No Renderer or Context is called with any of
// them held, so a Context may call a Resource, and a fence, at any time.
package virtgpu
