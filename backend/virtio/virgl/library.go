package virgl

import (
	"structs"

	"pvdrm/backend/virtio/virtgpu"
)

type capset = virtgpu.Capset

// library is the part of virglrenderer's interface (virglrenderer.h, stable since
// 0.10) that a worker uses, by its names without their prefix. It is a table of
// functions so that tests can put others there. Results that are not 0 are errnos,
// with either sign. All of it is called from one thread.
type library struct {
	init              func(flags int32, on target) int32
	poll              func()
	pollFD            func() int32 // -1: call poll from time to time
	capset            func(set uint32) (version, size uint32)
	fillCaps          func(set, version uint32, caps *byte)
	contextCreate     func(id, nameLen uint32, name *byte) int32
	contextDestroy    func(id uint32)
	resourceCreate    func(a *resourceArgs, iov uintptr, n uint32) int32
	resourceUnref     func(id uint32)
	resourceAttachIOV func(id uint32, iov uintptr, n int32) int32
	resourceDetachIOV func(id uint32)
	ctxAttach         func(ctx, id uint32)
	ctxDetach         func(ctx, id uint32)
	transferRead      func(id, ctx, level, stride, layer uint32, b *box, off uint64, iov uintptr, n int32) int32
	transferWrite     func(id, ctx uint32, level int32, stride, layer uint32, b *box, off uint64, iov uintptr, n uint32) int32
	submit            func(cmd *byte, ctx, dwords int32) int32
	createFence       func(id int32, ctx uint32) int32

	// retired is the last fence that has signalled: init sets it up, poll changes it.
	retired uint32
}

// target says what renders.
type target struct {
	node    int      // descriptor of a DRM device, which the library takes over; -1 without
	display *display // of a device of EGL's, with flags that name no window system; nil without
}

// Flags of init.
const (
	flagEGL         = 1 << 0
	flagThreadSync  = 1 << 1 // fences are waited for by a thread, which writes to pollFD
	flagSurfaceless = 1 << 3
)

// Capability sets (virtio 1.2, section 5.7.6.8, and virgl_hw.h).
const (
	capsetVirgl  = 1
	capsetVirgl2 = 2
)

// resourceArgs is struct virgl_renderer_resource_create_args.
type resourceArgs struct {
	_      structs.HostLayout
	handle uint32
	virtgpu.Args
}

// box is struct virgl_box: where a transfer begins, and how large it is.
type box struct {
	_                structs.HostLayout
	x, y, z, w, h, d uint32
}
