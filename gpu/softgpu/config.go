package softgpu

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/gpu/softgpu/internal/heap"
)

// Config says what device to make. The zero value is a sound choice.
type Config struct {
	// Number tells the software GPUs of a host apart (gpu.Properties): 0 to 63.
	Number int
	// VRAMBytes is the size of device memory, a multiple of 2 MiB between
	// 4 MiB and 256 GiB. 0 stands for 1 GiB. The host gives memory only for
	// what is used.
	VRAMBytes uint64
	// SMs is the number of streaming multiprocessors: CPU cores that a kernel
	// may keep busy, at most 1024. 0 stands for all that the process has.
	SMs int
	// Capability is the compute capability that the device reports, times ten: one of
	// Capabilities. 0 stands for 90. The instructions that the device runs do not follow
	// from it: it runs all that it knows, and refuses modules with others.
	Capability int
	// MaxChannels is the number of channels of the whole device, at most 4096.
	// 0 stands for 64.
	MaxChannels int
	// LaunchLimit is the time after which a running kernel is stopped and its
	// context lost (gpu.LostTimeout). 0 stands for 60 s; there is no limit when
	// it is negative.
	LaunchLimit time.Duration
	// LimitWaiting makes LaunchLimit count only the time in which another context waits
	// for the engine, or, at Gate, another process. Time is the host's then, also where
	// it is modelled.
	LimitWaiting bool
	// ModelTime makes the device's clock and all times that it reports modelled
	// ones: cycles by instruction class (exec.Model) at 1 GHz, and copies at
	// copyBytesPerNS. They depend on what runs and not on the host, which is for
	// tests and for comparing schedulers; LaunchLimit counts them, too.
	ModelTime bool
	// Divide makes kernels give way between blocks only, as where a scheduler divides them into
	// groups of blocks, and not at loop heads: see exec.Control.Divide.
	Divide bool
	// SaveBytes bounds what is saved of VRAM before launches that write what they read, so that they
	// can be revoked (gpu.Revoker), for all that run together. 0: nothing, and they cannot be revoked.
	SaveBytes int64
	// Report gets what ran as native code, by kernels, and why the rest did not, when the device is
	// closed. nil: nothing is counted.
	Report func([]exec.Tallied)
	// Gate is asked before an engine is used; nil for a device of one process.
	Gate gpu.Gate
}

// Defaults and bounds of Config.
const (
	defaultVRAM     = 1 << 30
	minVRAM         = 4 << 20
	maxVRAM         = 256 << 30
	maxSMs          = 1024
	maxNumber       = 63
	defaultChannels = 64
	maxChannels     = 4096
	defaultLimit    = 60 * time.Second
)

// Capabilities are the compute capabilities that a device may report, times ten: those of
// NVIDIA's GPUs since Maxwell (PTX ISA, "PTX Module Directives: .target").
var Capabilities = []int{50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121}

// DefaultCapability is what a zero Config.Capability stands for.
const DefaultCapability = 90

// copyBytesPerNS is the speed of the copy engine where time is modelled: 16 GB/s.
const copyBytesPerNS = 16

// withDefaults fills in what is zero and checks the rest.
func (c Config) withDefaults() (Config, error) {
	if c.VRAMBytes == 0 {
		c.VRAMBytes = defaultVRAM
	}
	if c.SMs == 0 {
		c.SMs = min(runtime.GOMAXPROCS(0), maxSMs)
	}
	if c.Capability == 0 {
		c.Capability = DefaultCapability
	}
	if c.MaxChannels == 0 {
		c.MaxChannels = defaultChannels
	}
	if c.LaunchLimit == 0 {
		c.LaunchLimit = defaultLimit
	}
	switch {
	case c.Number < 0 || c.Number > maxNumber:
		return c, fmt.Errorf("%w: there is no software GPU %d, only 0 to %d", gpu.ErrInvalid, c.Number, maxNumber)
	case c.VRAMBytes < minVRAM || c.VRAMBytes > maxVRAM || c.VRAMBytes%hw.LargePage != 0:
		return c, fmt.Errorf("%w: VRAM of %d bytes; choose a multiple of 2 MiB from 4 MiB to 256 GiB", gpu.ErrInvalid, c.VRAMBytes)
	case c.SMs < 0 || c.SMs > maxSMs:
		return c, fmt.Errorf("%w: %d multiprocessors; choose 1 to %d", gpu.ErrInvalid, c.SMs, maxSMs)
	case !slices.Contains(Capabilities, c.Capability):
		return c, fmt.Errorf("%w: no GPU has compute capability %d.%d", gpu.ErrInvalid, c.Capability/10, c.Capability%10)
	case c.MaxChannels < 0 || c.MaxChannels > maxChannels:
		return c, fmt.Errorf("%w: %d channels; choose 1 to %d", gpu.ErrInvalid, c.MaxChannels, maxChannels)
	case uint64(c.MaxChannels)*hw.DescBytes > c.VRAMBytes/2:
		return c, fmt.Errorf("%w: the descriptors of %d channels leave too little of %d bytes of VRAM", gpu.ErrInvalid, c.MaxChannels, c.VRAMBytes)
	}
	return c, nil
}

// Windows of the address space. What lies below is never mapped, so that null
// pointers fault. The VRAM window follows the size of VRAM, and no window is
// larger than needed, because each 128 MiB of addresses in use costs a table.
const (
	vramBase     = 64 << 30
	vramFactor   = 4 // addresses for each byte of VRAM, between
	vramWindow   = 4 << 30
	vramLargest  = 512 << 30
	systemBase   = 0xe0 << 32
	systemWindow = 64 << 30
	moduleBase   = 0xf0 << 32
	moduleWindow = 1 << 30
)

var modules = gpu.Window{Base: moduleBase, Size: moduleWindow, Page: hw.SmallPage}

// heaps is where a heap lies that would take much of the window of modules; others lie there, and
// need no page tables of their own.
var heaps = gpu.Window{Base: moduleBase + moduleWindow, Size: heap.MaxBytes, Page: hw.SmallPage}

// Limits of modules that exec.Limits does not have.
const (
	constBytes   = 64 << 10 // .const of a module
	paramBytes   = 4352     // parameters of a kernel
	volta        = 70       // the capability, times ten, from which they may be more
	paramLarge   = 32764    // as PTX allows (7.1)
	regsPerBlock = 64 << 10
)

// limits are what the device allows one block.
func (c Config) limits() exec.Limits {
	l := exec.DefaultLimits()
	l.SharedBytes = c.sharedBytes()
	return l
}

// maxCluster is the most blocks of a cluster, which capability 9.0 began.
func (c Config) maxCluster(limits exec.Limits) int {
	if c.Capability < 90 {
		return 0
	}
	return limits.MaxCluster
}

// sharedBytes is the shared memory of a block on NVIDIA's GPUs of the capability ("Technical
// Specifications per Compute Capability" of the CUDA programming guide): programs size their tiles
// by it.
func (c Config) sharedBytes() int {
	switch c.Capability {
	case 70, 72:
		return 96 << 10
	case 75:
		return 64 << 10
	case 80, 87:
		return 163 << 10
	case 86, 88, 89, 120, 121:
		return 99 << 10
	case 90, 100, 103, 110:
		return 227 << 10
	}
	return 48 << 10
}

// properties describes the device. What is not a limit of this device, such as
// the clocks and the bus, are round numbers: code that models performance by
// them gets no sensible answer from a software device.
func (c Config) properties(limits exec.Limits) gpu.Properties {
	return gpu.Properties{
		Name:           "PVDRM softgpu",
		Driver:         "softgpu",
		Number:         c.Number,
		OnHost:         true,
		Textures:       true,
		Cooperative:    true,
		Words:          true,
		Shares:         true,
		MaxCluster:     c.maxCluster(limits),
		ComputeMajor:   c.Capability / 10,
		ComputeMinor:   c.Capability % 10,
		Multiprocs:     c.SMs,
		WarpSize:       32,
		MaxThreads:     limits.MaxThreads,
		MaxBlockDim:    dims(limits.MaxBlock),
		MaxGridDim:     dims(limits.MaxGrid),
		SharedPerBlock: limits.SharedBytes,
		RegsPerBlock:   regsPerBlock,
		MaxThreadsSM:   limits.MaxThreads,
		MaxBlocksSM:    1,
		ConstBytes:     constBytes,
		ClockKHz:       1_000_000,
		MemClockKHz:    1_000_000,
		MemBusBits:     128,
		L2Bytes:        1 << 20,
		VRAMBytes:      c.VRAMBytes,
		MaxChannels:    c.MaxChannels,
		MaxParamBytes:  c.paramBytes(),
		VRAM:           gpu.Window{Base: vramBase, Size: min(max(vramFactor*c.VRAMBytes, vramWindow), vramLargest), Page: hw.SmallPage},
		System:         gpu.Window{Base: systemBase, Size: systemWindow, Page: hw.SmallPage},
	}
}

// paramBytes is what the parameters of a kernel may take.
func (c Config) paramBytes() int {
	if c.Capability < volta {
		return paramBytes
	}
	return paramLarge
}

func dims(d [3]uint32) [3]int { return [3]int{int(d[0]), int(d[1]), int(d[2])} }
