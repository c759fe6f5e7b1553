package nvidia

import (
	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

// Requests and structures of NVIDIA's resource manager (RM), as its open kernel modules have them:
// nv_escape.h, nvos.h, ctrl2080fifo.h and the headers of classes. All numbers are little-endian.

// Types and numbers of requests. Their arguments have the sizes that 64-bit programs see.
const (
	typeMask    = 0xffff // of a request: type and number
	typeControl = 'F'<<8 | 0x2a
	typeAlloc   = 'F'<<8 | 0x2b
	typeFree    = 'F'<<8 | 0x29

	typeIdle = 'F'<<8 | 0x41
	typeHeap = 'F'<<8 | 0x4a

	// trapMask and trapValue, as mask and value, are these three, and a call that no serving worker may make.
	trapMask  = typeMask &^ 3
	trapValue = typeControl & trapMask

	requestControl = 0xc0000000 | controlBytes<<16 | typeControl // NV_ESC_RM_CONTROL
	requestAlloc   = 0xc0000000 | allocBytes<<16 | typeAlloc     // NV_ESC_RM_ALLOC
	requestFree    = 0xc0000000 | freeBytes<<16 | typeFree       // NV_ESC_RM_FREE
	requestIdle    = 0xc0000000 | idleBytes<<16 | typeIdle       // NV_ESC_RM_IDLE_CHANNELS
	requestHeap    = 0xc0000000 | heapBytes<<16 | typeHeap       // NV_ESC_RM_VID_HEAP_CONTROL
	// requestSeal is none of the driver's, but is trapped like one: a worker has started.
	requestSeal = typeControl
)

// trapped are the requests of a CUDA worker that its keeper sees.
var trapped = []usernotify.Requests{{Mask: trapMask, Value: trapValue}}

// The argument of NV_ESC_RM_CONTROL is an NVOS54_PARAMETERS: client, object, command, flags, address
// and size of parameters, status.
const (
	controlClient  = 0
	controlObject  = 4
	controlCommand = 8
	controlSize    = 24
	controlStatus  = 28
	controlBytes   = 32
)

// The argument of NV_ESC_RM_ALLOC is an NVOS64_PARAMETERS: client, parent, object, class, address of
// parameters, address of rights asked for, size of parameters, flags, status.
const (
	allocClient = 0
	allocParent = 4
	allocObject = 8
	allocClass  = 12
	allocParams = 16
	allocRights = 24
	allocSize   = 32
	allocStatus = 40
	allocBytes  = 48
)

// The argument of NV_ESC_RM_FREE is an NVOS00_PARAMETERS: client, parent, object, status.
const (
	freeClient = 0
	freeObject = 8
	freeStatus = 12
	freeBytes  = 16
)

// paramsAddress is where controls and allocations have the address of their parameters.
const paramsAddress = 16

// maxParams bounds these parameters, in bytes.
const maxParams = 64 << 10

// The parameters of an allocation of memory are an NV_MEMORY_ALLOCATION_PARAMS.
const (
	memoryAttr    = 24
	memoryAttr2   = 28
	memorySize    = 64
	memoryAddress = 96 // of memory of the process; none for VRAM
	memoryParams  = 128
)

// Page sizes of memory: NVOS32_ATTR_PAGE_SIZE of the attributes, and NVOS32_ATTR2_PAGE_SIZE_HUGE of the others.
const (
	pageSizeShift, pageSizeMask = 23, 3
	pageSize4K                  = 1
	pageSizeBig                 = 2 // 64 KiB
	pageSizeHuge                = 3

	hugeSizeShift, hugeSizeMask = 20, 3
	hugeSize512M                = 2
)

// Classes of objects.
const (
	classSubdevice = 0x2080
	classGroup     = 0xa06c // KEPLER_CHANNEL_GROUP_A, on later generations, too
	classMemory    = 0x40   // NV01_MEMORY_LOCAL_USER: VRAM
	// Classes of all generations end alike. On Hopper they are 0xc86f and 0xcbc0.
	classKindMask = 0xff
	classChannel  = 0x6f // a channel
	classCompute  = 0xc0 // an object of a channel that runs kernels
)

// Controls.
const (
	resetChannel    = 0x906f0102 // NV906F_CTRL_CMD_RESET_CHANNEL
	disableChannels = 0x2080110b // NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS
	exportToFD      = 0x3d05     // NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD
	importFromFD    = 0x3d06     // NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD
)

// The parameters of exportToFD and importFromFD (ctrl0000unix.h). An object is its kind, its device,
// its parent and its handle.
const (
	exportObject = 0
	exportFD     = 16
	exportBytes  = 24
	importFD     = 0
	importObject = 4
	importBytes  = 20
)

// The parameters of disableChannels are an NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS.
const (
	disableOff     = 0  // a byte: whether they are to stop, or to go on
	disableCount   = 4  // of the channels
	disableClients = 24 // a list
	disableHandles = 280
	disableMost    = 64 // channels
	disableBytes   = 536
)

// The argument of NV_ESC_RM_IDLE_CHANNELS, which waits until a channel has no work left, is an
// NVOS30_PARAMETERS.
const (
	idleClient  = 0
	idleDevice  = 4
	idleChannel = 8
	idleCount   = 12
	idleLists   = 16 // addresses of lists of clients, devices and channels
	idleFlags   = 40
	idleTimeout = 44 // microseconds
	idleStatus  = 48
	idleBytes   = 56

	idleForceCheck = 3          // NVOS30_FLAGS_BEHAVIOR_FORCE_BUSY_CHECK
	idleSingle     = 1 << 4     // NVOS30_FLAGS_CHANNEL_SINGLE
	idleEngines    = 0x3ff << 8 // NVOS30_FLAGS_IDLE_*, of all engines
)

// The argument of NV_ESC_RM_VID_HEAP_CONTROL is an NVOS32_PARAMETERS, of which the last part depends on the function.
const (
	heapClient   = 0
	heapParent   = 4
	heapFunction = 8
	heapStatus   = 20
	heapMemory   = 44 // the handle
	heapFlags    = 52
	heapAttr     = 56
	heapSize     = 88
	heapAddress  = 120
	heapAttr2    = 144
	heapBytes    = 184

	heapAllocate = 2       // NVOS32_FUNCTION_ALLOC_SIZE
	heapVirtual  = 1 << 19 // NVOS32_ALLOC_FLAGS_VIRTUAL: addresses only

	// NVOS32_ATTR_LOCATION of the attributes.
	locationShift, locationMask = 25, 3
	locationVRAM                = 0
)

// Statuses: NV_ERR_TIMEOUT and NV_ERR_NO_MEMORY.
const (
	statusTimeout  = 0x65
	statusNoMemory = 0x51
)

// rmCall makes a request with an argument, of which the parameters are those.
type rmCall func(fd int, request uint32, argument, params []byte) unix.Errno
