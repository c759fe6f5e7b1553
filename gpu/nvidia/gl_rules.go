package nvidia

import "pvdrm/internal/usernotify"

// glRule is something that NVIDIA's OpenGL was seen to ask for while it drew (H200, driver 580.159.04, 2026-11-28: the
// scenes of cmd/glscene through virglrenderer 0.10.4), and why a guest may have it.
type glRule struct {
	Number uint32
	Size   uint32 // of its parameters
	Client bool   // they begin with a client, which has to be one of the worker's
	Name   string
	Why    string
}

// glTrapped are the requests that the keeper sees.
var glTrapped = []usernotify.Requests{
	{Mask: trapMask, Value: trapValue}, // NV_ESC_RM_FREE, _CONTROL and _ALLOC
	{Mask: typeMask, Value: typeIdle},
	{Mask: typeMask, Value: typeHeap},
}

// glAnswered are the requests that the keeper makes in place of a serving worker, with copies of the arguments.
var glAnswered = []glRule{
	{Number: 0x29, Name: "NV_ESC_RM_FREE", Why: "frees objects of clients that the worker had when it started"},
	{Number: 0x2a, Name: "NV_ESC_RM_CONTROL", Why: "the controls below"},
	{Number: 0x2b, Name: "NV_ESC_RM_ALLOC", Why: "objects of the classes below"},
	{Number: 0x41, Name: "NV_ESC_RM_IDLE_CHANNELS", Why: "waits for channels of its clients; the keeper waits in short parts, since the driver is locked meanwhile"},
	{Number: 0x4a, Name: "NV_ESC_RM_VID_HEAP_CONTROL", Why: "function 2 only: memory, of which the keeper counts the VRAM"},
}

// glUntrapped are the requests that a serving worker makes itself. They act on handles, of which the driver knows by
// which descriptor they came about, and on the worker's own addresses and descriptors.
var glUntrapped = []glRule{
	{Number: 0x4e, Name: "NV_ESC_RM_MAP_MEMORY", Why: "maps its own memory into the worker"},
	{Number: 0x4f, Name: "NV_ESC_RM_UNMAP_MEMORY", Why: "ends that"},
	{Number: 0x54, Name: "NV_ESC_RM_ALLOC_CONTEXT_DMA2", Why: "a view of its own memory"},
	{Number: 0x57, Name: "NV_ESC_RM_MAP_MEMORY_DMA", Why: "maps its own memory into its own address space of the GPU"},
	{Number: 0x58, Name: "NV_ESC_RM_UNMAP_MEMORY_DMA", Why: "ends that"},
	{Number: 0x5e, Name: "NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO", Why: "tells where the worker has mapped its own memory"},
	{Number: 0xc9, Name: "NV_ESC_REGISTER_FD", Why: "ties a descriptor of the GPU to its own control descriptor"},
	{Number: 0xce, Name: "NV_ESC_ALLOC_OS_EVENT", Why: "an event on its own descriptor"},
	{Number: 0xcf, Name: "NV_ESC_FREE_OS_EVENT", Why: "ends that"},
}

// glControls are the controls that a serving worker may have. None has an address in its parameters.
var glControls = []glRule{
	{Number: 0xd01, Size: 12, Name: "NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE", Why: "tells of its own memory where it lies"},
	{Number: 0xda0002, Size: 40, Name: "NV_SEMAPHORE_SURFACE_CTRL_CMD_BIND_CHANNEL", Why: "binds its own channel to its own semaphores"},
	{Number: 0x20800110, Size: 132, Name: "NV2080_CTRL_CMD_GPU_GET_NAME_STRING", Why: "tells the name of the GPU"},
	{Number: 0x20800147, Size: 144, Name: "NV2080_CTRL_CMD_GPU_GET_ENGINE_PARTNERLIST", Why: "tells what the GPU has"},
	{Number: 0x20800170, Size: 340, Name: "NV2080_CTRL_CMD_GPU_GET_ENGINES_V2", Why: "tells what the GPU has"},
	{Number: 0x20801208, Size: 24, Client: true, Name: "NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND", Why: "sets up its own channel; the client in the parameters has to be its own"},
	{Number: 0x20801210, Size: 32, Name: "NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE", Why: "how its own group of channels is preempted"},
	{Number: 0x2080200a, Size: 8, Name: "NV2080_CTRL_CMD_PERF_BOOST", Why: "asks for higher clocks for a while, for everybody"},
	{Number: 0x20802a02, Size: 8, Name: "NV2080_CTRL_CMD_CE_GET_CE_PCE_MASK", Why: "tells what the GPU has"},
	{Number: 0x20802a03, Size: 8, Name: "NV2080_CTRL_CMD_CE_GET_CAPS_V2", Why: "tells what the GPU has"},
	{Number: 0x906f0101, Size: 16, Name: "NV906F_CTRL_GET_CLASS_ENGINEID", Why: "tells of its own channel what it has"},
	{Number: 0x90960101, Size: 40, Name: "NV9096_CTRL_CMD_SET_ZBC_COLOR_CLEAR", Why: "adds a colour to the GPU's table for fast clearing, which all share: it is small, and when it is full clearing is slower"},
	{Number: 0x90960106, Size: 12, Name: "NV9096_CTRL_CMD_GET_ZBC_CLEAR_TABLE_SIZE", Why: "reads that table, and so colours that others cleared with"},
	{Number: 0x90960107, Size: 56, Name: "NV9096_CTRL_CMD_GET_ZBC_CLEAR_TABLE_ENTRY", Why: "reads that table"},
	{Number: 0xa06f0103, Size: 3, Name: "NVA06F_CTRL_CMD_GPFIFO_SCHEDULE", Why: "starts its own channel"},
	{Number: 0xa06f0104, Size: 4, Name: "NVA06F_CTRL_CMD_BIND", Why: "binds its own channel to an engine"},
	{Number: 0xc36f0108, Size: 4, Name: "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN", Why: "the doorbell of its own channel"},
	{Number: 0xc36f010a, Size: 4, Name: "NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX", Why: "the same"},
}

// classGLChannel is the class of the channels of NVIDIA's OpenGL, and channelBytes what one of them counts: the driver has
// VRAM for it that no request names, and a GPU has some thousand channels.
const (
	classGLChannel = 0xc56f
	channelBytes   = 8 << 20
)

// glClasses are the classes of objects that a serving worker may make, in clients that it had when it started. Each
// context of OpenGL has channels of its own. Parameters have handles of the same client and no addresses.
var glClasses = []glRule{
	{Number: 0x79, Size: 24, Client: true, Name: "NV01_EVENT_OS_EVENT", Why: "an event of its own objects; the client in the parameters has to be its own"},
	{Number: 0xfe, Size: 24, Name: "NV_MEMORY_MAPPER", Why: "maps its own memory when its own semaphore has a value"},
	{Number: 0x902d, Name: "FERMI_TWOD_A", Why: "draws, in its own channel"},
	{Number: 0x9067, Size: 12, Name: "FERMI_CONTEXT_SHARE_A", Why: "its own address space, for its own group of channels"},
	{Number: 0xa06c, Size: 20, Name: "KEPLER_CHANNEL_GROUP_A", Why: "a group of channels, which has the time slice of any context"},
	{Number: 0xa140, Name: "KEPLER_INLINE_TO_MEMORY_B", Why: "copies, in its own channel"},
	{Number: classGLChannel, Size: 368, Name: "AMPERE_CHANNEL_GPFIFO_A", Why: "a channel, in its own address space; each counts as 8 MiB of VRAM, so their number is bounded, too"},
	{Number: 0xc8b5, Size: 8, Name: "HOPPER_DMA_COPY_A", Why: "copies, in its own channel"},
	{Number: 0xcb97, Name: "HOPPER_A", Why: "draws, in its own channel"},
}
