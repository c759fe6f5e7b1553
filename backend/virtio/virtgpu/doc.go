// Package virtgpu is a virtio-gpu device (virtio 1.2, section 5.7) for guests with
// an unmodified virtio-gpu driver. It keeps the resources of the guest, draws its
// 2D scanouts on QEMU's display, and hands the 3D contexts, one for each DRM file
// of the guest, to components:
//
//	virtqueues ──► Device ──┬─► Component: contexts that work on the guest's pages
//	                        └─► Renderer: a Component with resources of its own
//
// A component serves the contexts of its capability sets. The device knows no
// command of any: package component/pvdrm recognizes PVDRM's doorbells, and a
// Renderer such as package virgl takes the streams of a graphics driver.
//
// A resource's backing pages are pages of the guest's RAM: that is the grant by
// which a Context reaches the memory of its guest, see Resource.Acquire.
//
// Goroutines. Commands arrive on one goroutine for each virtqueue (control and
// cursor). Commands that had to wait run on another while there are any (order), and
// so do pictures of a renderer that are painted. A Context is called from one
// goroutine at a time, with Device.turn held.
//
// Locks, in order: Device.turn (contexts), Device.mu (resources, images, scanouts),
// Resource.mu (the backing), display.mu (the socket). No Component or Context is
// called with any but the first of them held, so it may call a Resource, and end a
// command, at any time.
package virtgpu
