package drm

import "structs"

// Ioctls of Linux's virtio-gpu driver (include/uapi/drm/virtgpu_drm.h).
var (
	IoctlVirtgpuMap            = iowr(commandBase+0x01, 16)
	IoctlVirtgpuExecbuffer     = iowr(commandBase+0x02, 40)
	IoctlVirtgpuResourceCreate = iowr(commandBase+0x04, 56)
	IoctlVirtgpuResourceInfo   = iowr(commandBase+0x05, 16)
	IoctlVirtgpuFromHost       = iowr(commandBase+0x06, 44)
	IoctlVirtgpuWait           = iowr(commandBase+0x08, 8)
	IoctlVirtgpuGetCaps        = iowr(commandBase+0x09, 24)
)

// VirtgpuMap is struct drm_virtgpu_map.
type VirtgpuMap struct {
	_      structs.HostLayout
	Offset uint64 // out: for mmap of the DRM file
	Handle uint32
	Pad    uint32
}

// VirtgpuExecbuffer is struct drm_virtgpu_execbuffer as of Linux 5.0 (40 bytes
// with the ring index of 5.17, which is left 0).
type VirtgpuExecbuffer struct {
	_             structs.HostLayout
	Flags         uint32
	Size          uint32
	Command       uint64 // user address
	BOHandles     uint64 // user address of uint32[]
	NumBOHandles  uint32
	FenceFD       int32
	RingIdx       uint32
	SyncobjStride uint32
}

// Flags of VirtgpuExecbuffer.
const VirtgpuExecFenceFDOut = 0x02

// VirtgpuResourceCreate is struct drm_virtgpu_resource_create.
type VirtgpuResourceCreate struct {
	_         structs.HostLayout
	Target    uint32
	Format    uint32
	Bind      uint32
	Width     uint32
	Height    uint32
	Depth     uint32
	ArraySize uint32
	LastLevel uint32
	NrSamples uint32
	Flags     uint32
	BOHandle  uint32 // out
	ResHandle uint32 // out
	Size      uint32 // bytes
	Stride    uint32
}

// What PVDRM asks for: a linear buffer of bytes (gallium's PIPE_BUFFER,
// virgl's R8_UNORM, a custom binding).
const (
	VirtgpuTargetBuffer = 0
	VirtgpuFormatR8     = 64
	VirtgpuBindCustom   = 1 << 17
)

// VirtgpuResourceInfo is struct drm_virtgpu_resource_info.
type VirtgpuResourceInfo struct {
	_         structs.HostLayout
	BOHandle  uint32
	ResHandle uint32
	Size      uint32
	BlobMem   uint32
}

// VirtgpuTransfer is struct drm_virtgpu_3d_transfer_from_host.
type VirtgpuTransfer struct {
	_           structs.HostLayout
	BOHandle    uint32
	X, Y, Z     uint32
	Width       uint32
	Height      uint32
	Depth       uint32
	Level       uint32
	Offset      uint32 // into the object, bytes
	Stride      uint32
	LayerStride uint32
}

// VirtgpuWait is struct drm_virtgpu_3d_wait.
type VirtgpuWait struct {
	_      structs.HostLayout
	Handle uint32
	Flags  uint32
}

// VirtgpuGetCaps is struct drm_virtgpu_get_caps.
type VirtgpuGetCaps struct {
	_         structs.HostLayout
	CapsetID  uint32
	CapsetVer uint32
	Addr      uint64 // user address
	Size      uint32
	Pad       uint32
}
