package cuda

import "pvdrm/drm"

// Attribute is a CUdevice_attribute, with the numbers of cuda.h.
type Attribute int

// Attributes of a device. Sizes are in bytes, clocks in kHz.
const (
	AttributeMaxThreadsPerBlock          Attribute = 1
	AttributeMaxBlockDimX                Attribute = 2
	AttributeMaxBlockDimY                Attribute = 3
	AttributeMaxBlockDimZ                Attribute = 4
	AttributeMaxGridDimX                 Attribute = 5
	AttributeMaxGridDimY                 Attribute = 6
	AttributeMaxGridDimZ                 Attribute = 7
	AttributeMaxSharedMemoryPerBlock     Attribute = 8
	AttributeTotalConstantMemory         Attribute = 9
	AttributeWarpSize                    Attribute = 10
	AttributeMaxPitch                    Attribute = 11
	AttributeMaxRegistersPerBlock        Attribute = 12
	AttributeClockRate                   Attribute = 13
	AttributeGPUOverlap                  Attribute = 15 // copies beside kernels
	AttributeMultiprocessorCount         Attribute = 16
	AttributeKernelExecTimeout           Attribute = 17
	AttributeIntegrated                  Attribute = 18
	AttributeCanMapHostMemory            Attribute = 19
	AttributeComputeMode                 Attribute = 20 // 0: any number of contexts
	AttributeConcurrentKernels           Attribute = 31
	AttributeECCEnabled                  Attribute = 32
	AttributeMemoryClockRate             Attribute = 36
	AttributeGlobalMemoryBusWidth        Attribute = 37 // bits
	AttributeL2CacheSize                 Attribute = 38
	AttributeMaxThreadsPerMultiprocessor Attribute = 39
	AttributeAsyncEngineCount            Attribute = 40
	AttributeUnifiedAddressing           Attribute = 41
	AttributeComputeCapabilityMajor      Attribute = 75
	AttributeComputeCapabilityMinor      Attribute = 76
	AttributeCooperativeLaunch           Attribute = 95
	AttributeMaxBlocksPerMultiprocessor  Attribute = 106
)

var attributeParams = map[Attribute]drm.Param{
	AttributeMaxThreadsPerBlock:          drm.ParamMaxThreads,
	AttributeMaxBlockDimX:                drm.ParamMaxBlockX,
	AttributeMaxBlockDimY:                drm.ParamMaxBlockY,
	AttributeMaxBlockDimZ:                drm.ParamMaxBlockZ,
	AttributeMaxGridDimX:                 drm.ParamMaxGridX,
	AttributeMaxGridDimY:                 drm.ParamMaxGridY,
	AttributeMaxGridDimZ:                 drm.ParamMaxGridZ,
	AttributeMaxSharedMemoryPerBlock:     drm.ParamSharedPerBlock,
	AttributeTotalConstantMemory:         drm.ParamConstBytes,
	AttributeWarpSize:                    drm.ParamWarpSize,
	AttributeMaxRegistersPerBlock:        drm.ParamRegsPerBlock,
	AttributeClockRate:                   drm.ParamClockKHz,
	AttributeMultiprocessorCount:         drm.ParamMultiprocs,
	AttributeMemoryClockRate:             drm.ParamMemClockKHz,
	AttributeGlobalMemoryBusWidth:        drm.ParamMemBusBits,
	AttributeL2CacheSize:                 drm.ParamL2Bytes,
	AttributeMaxThreadsPerMultiprocessor: drm.ParamMaxThreadsSM,
	AttributeComputeCapabilityMajor:      drm.ParamComputeMajor,
	AttributeComputeCapabilityMinor:      drm.ParamComputeMinor,
	AttributeMaxBlocksPerMultiprocessor:  drm.ParamMaxBlocksSM,
	AttributeCooperativeLaunch:           drm.ParamCooperative,
}

// What is the same for every device behind PVDRM: kernels of a device run one
// at a time and for a limited time, copies run beside them, and pinned memory
// has the same address for copies and kernels.
var attributeValues = map[Attribute]int{
	AttributeMaxPitch:          1<<31 - 1,
	AttributeGPUOverlap:        1,
	AttributeKernelExecTimeout: 1,
	AttributeIntegrated:        0,
	AttributeCanMapHostMemory:  1,
	AttributeComputeMode:       0,
	AttributeConcurrentKernels: 0,
	AttributeECCEnabled:        0,
	AttributeAsyncEngineCount:  1,
	AttributeUnifiedAddressing: 1,
}

// Attribute is cuDeviceGetAttribute. It is ErrInvalidValue for one that is not
// among the constants of this package.
func (dev *Device) Attribute(a Attribute) (int, error) {
	if p, ok := attributeParams[a]; ok {
		return dev.param(p), nil
	}
	if v, ok := attributeValues[a]; ok {
		return v, nil
	}
	return 0, errorf("cuDeviceGetAttribute", ErrInvalidValue, "attribute %d is not known", int(a))
}
