package drm

import "structs"

// DRM core ioctls (include/uapi/drm/drm.h).
var (
	IoctlVersion         = iowr(0x00, 64)
	IoctlGemClose        = iow(0x09, 8)
	IoctlGetCap          = iowr(0x0c, 16)
	IoctlPrimeHandleToFD = iowr(0x2d, 12)
	IoctlPrimeFDToHandle = iowr(0x2e, 12)
	IoctlSyncobjCreate   = iowr(0xbf, 8)
	IoctlSyncobjDestroy  = iowr(0xc0, 8)
	IoctlSyncobjWait     = iowr(0xc3, 40)
	IoctlSyncobjReset    = iowr(0xc4, 16)
	IoctlSyncobjSignal   = iowr(0xc5, 16)
)

// Capabilities that GET_CAP knows (DRM_CAP_*).
const (
	CapDumbBuffer      = 0x1  // buffers for a display: 0, there is none
	CapPrime           = 0x5  // sharing of objects: PrimeCapImport | PrimeCapExport
	CapTimestampMono   = 0x6  // times are of CLOCK_MONOTONIC: 1
	CapSyncobj         = 0x13 // sync objects: 1
	CapSyncobjTimeline = 0x14 // sync objects with points: 0

	PrimeCapImport = 1 // bit of CapPrime: descriptors become objects
	PrimeCapExport = 2 // bit of CapPrime: objects become descriptors
)

// Version is struct drm_version.
type Version struct {
	_                   structs.HostLayout
	Major, Minor, Patch int32  // out
	_                   uint32 // the C struct's padding
	NameLen             uint64 // in: room, out: length
	Name                uint64 // user address
	DateLen             uint64 // in: room, out: length
	Date                uint64 // user address
	DescLen             uint64 // in: room, out: length
	Desc                uint64 // user address
}

// GemClose is struct drm_gem_close.
type GemClose struct {
	_      structs.HostLayout
	Handle uint32
	Pad    uint32
}

// GetCap is struct drm_get_cap.
type GetCap struct {
	_          structs.HostLayout
	Capability uint64 // CapDumbBuffer …
	Value      uint64 // out
}

// PrimeHandle is struct drm_prime_handle.
type PrimeHandle struct {
	_      structs.HostLayout
	Handle uint32 // out of PRIME_FD_TO_HANDLE
	Flags  uint32 // of open(2): O_CLOEXEC, O_RDWR
	FD     int32  // out of PRIME_HANDLE_TO_FD
}

// SyncobjCreate is struct drm_syncobj_create.
type SyncobjCreate struct {
	_      structs.HostLayout
	Handle uint32 // out
	Flags  uint32 // SyncobjCreateSignaled
}

// SyncobjCreateSignaled makes the new object signalled (DRM_SYNCOBJ_CREATE_SIGNALED).
const SyncobjCreateSignaled = 1

// SyncobjDestroy is struct drm_syncobj_destroy.
type SyncobjDestroy struct {
	_      structs.HostLayout
	Handle uint32
	Pad    uint32
}

// SyncobjWait is struct drm_syncobj_wait.
type SyncobjWait struct {
	_             structs.HostLayout
	Handles       uint64 // user address of uint32[]
	TimeoutNS     int64  // absolute, CLOCK_MONOTONIC
	Count         uint32 // of Handles
	Flags         uint32 // SyncobjWaitAll, SyncobjWaitForSubmit
	FirstSignaled uint32 // out: index of one that is signalled
	Pad           uint32
	DeadlineNS    uint64 // ignored
}

// Flags of SyncobjWait.
const (
	SyncobjWaitAll       = 1 << 0 // for all of them, not for one
	SyncobjWaitForSubmit = 1 << 1 // for a fence, too, where there is none yet; without it that is EINVAL
)

// SyncobjArray is struct drm_syncobj_array, the argument of reset and signal.
type SyncobjArray struct {
	_       structs.HostLayout
	Handles uint64 // user address of uint32[]
	Count   uint32 // of Handles
	Pad     uint32
}
