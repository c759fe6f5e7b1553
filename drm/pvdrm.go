package drm

import "structs"

// DriverName is what VERSION returns as the driver's name.
const DriverName = "pvdrm"

// Version of the user API in this package.
const (
	DriverMajor = 1
	DriverMinor = 0
	DriverDate  = "20261120"
)

// Ioctls of PVDRM's driver. The shape follows nouveau's API: buffers have
// handles per DRM file, one GPU address space belongs to each file, mappings
// are lists of operations, channels take work in order.
var (
	IoctlGetParam       = iowr(commandBase+0x00, 16)
	IoctlChannelAlloc   = iowr(commandBase+0x01, 8)
	IoctlChannelFree    = iow(commandBase+0x02, 8)
	IoctlGemNew         = iowr(commandBase+0x03, 32)
	IoctlGemInfo        = iowr(commandBase+0x04, 24)
	IoctlGemCPUPrep     = iow(commandBase+0x05, 16)
	IoctlGemCPUFini     = iow(commandBase+0x06, 8)
	IoctlVMBind         = iowr(commandBase+0x07, 16)
	IoctlExec           = iowr(commandBase+0x08, 56)
	IoctlWait           = iow(commandBase+0x09, 24)
	IoctlModuleLoad     = iowr(commandBase+0x0a, 40)
	IoctlModuleUnload   = iow(commandBase+0x0b, 8)
	IoctlModuleFunction = iowr(commandBase+0x0c, 80)
	IoctlModuleGlobal   = iowr(commandBase+0x0d, 32)
	IoctlStatus         = iowr(commandBase+0x0e, 16)
	IoctlReadOutput     = iowr(commandBase+0x0f, 16)
)

// Param names a property of the device or of the file. Values are uint64.
type Param uint64

// Parameters of GETPARAM. Sizes are in bytes, clocks in kHz.
const (
	ParamComputeMajor   Param = iota + 1 // compute capability
	ParamComputeMinor                    // and its second number
	ParamMultiprocs                      // streaming multiprocessors
	ParamWarpSize                        // threads
	ParamMaxThreads                      // per block
	ParamMaxBlockX                       // largest block, x
	ParamMaxBlockY                       // and y
	ParamMaxBlockZ                       // and z
	ParamMaxGridX                        // largest grid, x
	ParamMaxGridY                        // and y
	ParamMaxGridZ                        // and z
	ParamSharedPerBlock                  // .shared, static and dynamic together
	ParamRegsPerBlock                    // 32-bit registers
	ParamMaxThreadsSM                    // per streaming multiprocessor
	ParamConstBytes                      // .const per module
	ParamClockKHz                        // of the multiprocessors
	ParamMemClockKHz                     // of VRAM
	ParamMemBusBits                      // width of the bus to VRAM
	ParamL2Bytes                         // second-level cache
	ParamVRAMBytes                       // VRAM of the device
	ParamMaxChannels                     // of this file
	ParamMaxParamBytes                   // kernel parameters
	ParamVRAMBase                        // window of addresses for VRAM: first address
	ParamVRAMSize                        // and its size
	ParamVRAMPage                        // and the granularity of mappings in it
	ParamSystemBase                      // window of addresses for granted pages: first address
	ParamSystemSize                      // and its size
	ParamSystemPage                      // and the granularity of mappings in it
	ParamVRAMUsed                        // of the device, now; asks the backend
	ParamMaxBlocksSM                     // blocks that run together on a streaming multiprocessor
	ParamDevice                          // number of the device among those of its implementation, from 0
	ParamTextures                        // 1: kernels may use textures and surfaces whose descriptors lie in VRAM
	ParamCooperative                     // 1: launches may be cooperative
	ParamWords                           // 1: channels may write words and wait for them (WORD)
	ParamShares                          // 1: other files of the guest may open memory and events of this one; 2: memory that is mapped, and events
	ParamMaxCluster                      // blocks of a cluster (CLUSTER); 0: there are none
	ParamImages                          // 1: modules may be machine code: cubins, and fatbins of them
	ParamLibraries                       // a bit for each of the host's CUDA libraries that channels may call (CALL)
	ParamPeers                           // a bit for each device of the guest, by its place among them, whose shared VRAM files of this one can open

	NumParams = int(ParamPeers)
)

// Values of ParamShares.
const (
	SharesAll    = 1
	SharesMapped = 2 // memory of which each page has been mapped by its file
)

// GetParam is struct drm_pvdrm_getparam.
type GetParam struct {
	_     structs.HostLayout
	Param uint64 // ParamComputeMajor …
	Value uint64 // out
}

// Channel is struct drm_pvdrm_channel, the argument of CHANNEL_ALLOC and CHANNEL_FREE.
type Channel struct {
	_       structs.HostLayout
	Channel uint32 // out of CHANNEL_ALLOC
	Pad     uint32
}

// Domain says where a GEM object lies.
type Domain uint32

// Domains.
const (
	DomainVRAM   Domain = 1 // device memory, reached by copies only
	DomainSystem Domain = 2 // granted guest pages, can be mapped by the program
)

// GemFlags modify GEM_NEW.
type GemFlags uint32

// Flags of GEM_NEW.
const (
	// GemNoShare makes an object that PRIME does not export. It may lie in one
	// grant with other such objects of the file.
	GemNoShare GemFlags = 1 << 0
	// GemDirty makes an object whose content is whatever it was in an earlier
	// object of the same file, instead of zero.
	GemDirty GemFlags = 1 << 1
)

// GemNew is struct drm_pvdrm_gem_new.
type GemNew struct {
	_         structs.HostLayout
	Size      uint64 // bytes; rounded up to the domain's page
	Domain    Domain // DomainVRAM or DomainSystem
	Flags     GemFlags
	Handle    uint32 // out
	Pad       uint32
	MapOffset uint64 // out: for mmap of the DRM file; 0 for VRAM
}

// Offsets for mmap of the DRM file: the handle in units of 16 TiB, above all
// offsets that maps of ordinary files have, so that a filter that sees numbers
// only knows them (see frontend/interpose).
const (
	MapBase  = 1 << 60 // the least of them
	mapShift = 44      // handles have 16 bits at most
)

// MapOffset is the offset at which mmap of the DRM file maps an object.
func MapOffset(handle uint32) uint64 { return MapBase | uint64(handle)<<mapShift }

// MapHandle is the object at an offset for mmap, and where in it that is. ok
// tells whether it is one that MapOffset can give.
func MapHandle(offset uint64) (handle uint32, at uint64, ok bool) {
	const handles = 1 << 16
	h := (offset - MapBase) >> mapShift
	return uint32(h), offset & (1<<mapShift - 1), offset >= MapBase && h < handles
}

// GemInfo is struct drm_pvdrm_gem_info.
type GemInfo struct {
	_         structs.HostLayout
	Handle    uint32
	Domain    Domain // out
	Size      uint64 // out, bytes
	MapOffset uint64 // out
}

// NewGemInfo describes an object. Only those with pages have an offset for mmap.
func NewGemInfo(handle uint32, d Domain, size uint64, pages bool) GemInfo {
	info := GemInfo{Handle: handle, Domain: d, Size: size}
	if pages {
		info.MapOffset = MapOffset(handle)
	}
	return info
}

// GemCPUPrep is struct drm_pvdrm_gem_cpu_prep: wait until no submitted work
// uses the address space the object is mapped in.
type GemCPUPrep struct {
	_         structs.HostLayout
	Handle    uint32
	Flags     uint32 // CPUPrepNoWait
	TimeoutNS int64  // relative; negative waits without limit
}

// CPUPrepNoWait makes GEM_CPU_PREP fail with EBUSY instead of waiting.
const CPUPrepNoWait = 1

// GemCPUFini is struct drm_pvdrm_gem_cpu_fini.
type GemCPUFini struct {
	_      structs.HostLayout
	Handle uint32
	Pad    uint32
}

// Operations and flags of a BindOp.
const (
	BindMap      = 1 // Op: maps a range of an object
	BindUnmap    = 2 // Op: unmaps all there is in a range
	BindReadOnly = 1 // Flags, of BindMap: without the right to write
)

// BindOp is struct drm_pvdrm_vm_bind_op.
type BindOp struct {
	_        structs.HostLayout
	Op       uint32 // BindMap or BindUnmap
	Flags    uint32 // BindReadOnly
	Handle   uint32 // 0 for BindUnmap
	Pad      uint32
	Addr     uint64 // GPU virtual address, inside the window of the object's domain
	BOOffset uint64 // bytes into the object; 0 for BindUnmap
	Range    uint64 // bytes
}

// BindOpSize is the size of a BindOp in bytes.
const BindOpSize = 40

// VMBind is struct drm_pvdrm_vm_bind. The operations take effect in order,
// before any EXEC that is called later. Each is done whole or not at all; the
// first that fails ends the list.
type VMBind struct {
	_     structs.HostLayout
	Count uint32 // of Ops
	Flags uint32 // VMBindAsync
	Ops   uint64 // user address of BindOp[]
}

// VMBindAsync returns without an answer. What went wrong is returned by the
// next call on the file that waits.
const VMBindAsync = 1

// Exec is struct drm_pvdrm_exec: work for a channel, to run after the points
// in Waits, to signal the sync objects in Signals when done.
type Exec struct {
	_           structs.HostLayout
	Channel     uint32
	Flags       uint32 // must be 0
	WaitCount   uint32 // of Waits
	SignalCount uint32 // of Signals
	Waits       uint64 // user address of uint32[] sync object handles
	Signals     uint64 // user address of uint32[] sync object handles
	Commands    uint64 // user address of the command stream
	CmdBytes    uint32 // of Commands, at most MaxExecBytes
	Pad         uint32
	Seqno       uint64 // out: the point of this channel that WAIT takes
}

// Wait is struct drm_pvdrm_wait.
type Wait struct {
	_         structs.HostLayout
	Channel   uint32
	Pad       uint32
	Seqno     uint64 // out of EXEC
	TimeoutNS int64  // relative; 0 asks, negative waits without limit
}

// ModuleLoad is struct drm_pvdrm_module_load.
type ModuleLoad struct {
	_           structs.HostLayout
	Source      uint64 // user address of PTX text, or of machine code (ParamImages)
	SourceBytes uint64 // of Source
	Log         uint64 // user address, may be 0
	LogBytes    uint32 // in: room, out: length of the log
	Module      uint32 // out
	Name        uint64 // user address of the file name used in messages, may be 0
}

// ModuleNameBytes is the longest module file name used in messages, with its
// terminating zero.
const ModuleNameBytes = 64

// ModuleUnload is struct drm_pvdrm_module_unload.
type ModuleUnload struct {
	_      structs.HostLayout
	Module uint32
	Pad    uint32
}

// ModuleFunction is struct drm_pvdrm_module_function: finds a kernel by name.
type ModuleFunction struct {
	_           structs.HostLayout
	Module      uint32
	Function    uint32 // out; 0 is never a function
	Name        uint64 // user address
	NameBytes   uint32 // of Name
	ParamCount  uint32 // in: room in Params, out: parameters of the kernel
	Params      uint64 // user address of FunctionParam[], may be 0
	ParamBytes  uint32 // out: of the parameter block
	SharedBytes uint32 // out: static .shared
	LocalBytes  uint32 // out: .local of one thread
	ConstBytes  uint32 // out: .const of its module
	Regs        uint32 // out: 32-bit registers of one thread
	MaxThreads  uint32 // out: of the largest block
	PTX         uint32 // out: virtual architecture that it was compiled for, compute capability × 10; 0: as its PTX says
	Binary      uint32 // out: architecture of its machine code, × 10; 0: the device's
	ClusterX    uint32 // out: blocks of a cluster that it requires; zero: none, or as its PTX says
	ClusterY    uint32 // out: and y
	ClusterZ    uint32 // out: and z
	NeedsSize   uint32 // out: 1: each launch must name the size of its clusters
}

// FunctionParam is struct drm_pvdrm_function_param.
type FunctionParam struct {
	_      structs.HostLayout
	Offset uint32 // bytes into the parameter block
	Size   uint32 // bytes
}

// FunctionAttributes describes a kernel, as MODULE_FUNCTION returns it.
type FunctionAttributes struct {
	ParamBytes  uint32          // of the parameter block
	SharedBytes uint32          // static .shared
	LocalBytes  uint32          // .local of one thread
	ConstBytes  uint32          // .const of its module
	Regs        uint32          // 32-bit registers of one thread
	MaxThreads  uint32          // of the largest block
	PTXVersion  uint32          // virtual architecture that it was compiled for, compute capability × 10; 0: as its PTX says
	Binary      uint32          // architecture of its machine code, × 10; 0: the device's
	ClusterX    uint32          // blocks of a cluster that it requires; zero: none, or as its PTX says
	ClusterY    uint32          // and y
	ClusterZ    uint32          // and z
	NeedsSize   uint32          // 1: each launch must name the size of its clusters
	Params      []FunctionParam // at most MaxParams
}

// ModuleGlobal is struct drm_pvdrm_module_global: finds a variable by name.
type ModuleGlobal struct {
	_         structs.HostLayout
	Module    uint32
	NameBytes uint32 // of Name
	Name      uint64 // user address
	Addr      uint64 // out, GPU virtual address
	Size      uint64 // out, bytes
}

// Status is struct drm_pvdrm_status: why the file's GPU context was lost.
type Status struct {
	_         structs.HostLayout
	Cause     uint32 // out: 0 while it lives, else a value of gpu.LostCause
	TextBytes uint32 // in: room, out: length
	Text      uint64 // user address, may be 0
}

// ReadOutput is struct drm_pvdrm_read_output: takes the oldest part of what
// kernels printed. What there is no room for is lost.
type ReadOutput struct {
	_         structs.HostLayout
	TextBytes uint32 // in: room, 12288 is enough; out: length, 0 when there is nothing
	Pad       uint32
	Text      uint64 // user address
}
