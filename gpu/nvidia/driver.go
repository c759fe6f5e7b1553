package nvidia

import (
	"fmt"
	"structs"
)

// driver is the part of the CUDA driver interface that a worker uses, by the
// names of cuda.h without their prefix and version. Handles and device addresses
// are numbers. It is a table of functions so that tests can put others there.
type driver struct {
	init                     func(flags uint32) result
	driverGetVersion         func(version *int32) result
	deviceGet                func(device *int32, ordinal int32) result
	deviceGetName            func(name *byte, n, device int32) result
	deviceGetAttribute       func(value *int32, attribute, device int32) result
	deviceTotalMem           func(bytes *uint64, device int32) result
	deviceCanAccessPeer      func(can *int32, device, other int32) result
	memGetInfo               func(free, total *uint64) result
	devicePrimaryCtxRetain   func(ctx *uintptr, device int32) result
	ctxSetCurrent            func(ctx uintptr) result
	memAddressReserve        func(at *uint64, size, alignment, want, flags uint64) result
	memCreate                func(handle *uint64, size uint64, prop *allocationProp, flags uint64) result
	memRelease               func(handle uint64) result
	memMap                   func(at, size, offset, handle, flags uint64) result
	memUnmap                 func(at, size uint64) result
	memSetAccess             func(at, size uint64, desc *accessDesc, count uint64) result
	memHostRegister          func(at uintptr, size uint64, flags uint32) result
	memHostUnregister        func(at uintptr) result
	memHostGetDevicePointer  func(at *uint64, host uintptr, flags uint32) result
	linkCreate               func(count uint32, options *int32, values *uintptr, state *uintptr) result
	linkAddData              func(state uintptr, kind int32, data *byte, size uint64, name string, count uint32, options *int32, values *uintptr) result
	linkComplete             func(state uintptr, cubin *uintptr, size *uint64) result
	linkDestroy              func(state uintptr) result
	moduleLoadData           func(module *uintptr, image *byte) result
	moduleUnload             func(module uintptr) result
	moduleGetFunction        func(function *uintptr, module uintptr, name string) result
	moduleGetGlobal          func(at, size *uint64, module uintptr, name string) result
	funcGetAttribute         func(value *int32, attribute int32, function uintptr) result
	funcSetAttribute         func(function uintptr, attribute, value int32) result
	funcGetParamInfo         func(function uintptr, index uint64, offset, size *uint64) result    // nil before CUDA 12.4
	tensorMapTiled           func(m *tensorMap) result                                            // nil before CUDA 12.0
	tensorMapIm2col          func(m *tensorMap) result                                            // likewise
	activeClusters           func(n *int32, function uintptr, l *launchArgs, largest bool) result // nil before CUDA 11.8
	streamCreateWithPriority func(stream *uintptr, flags uint32, priority int32) result
	streamDestroy            func(stream uintptr) result
	streamSynchronize        func(stream uintptr) result
	getErrorName             func(code result, name *uintptr) result
	printTo                  func(output, failures int) result // what the C library, and so the driver, prints

	// Those of the path of a command. The path thread alone calls streamWriteValue32
	// and launchKernel.
	streamQuery        func(stream uintptr) result
	streamWriteValue32 func(stream uintptr, at uint64, value uint32) result
	streamWriteValue64 func(stream uintptr, at, value uint64) result                         // nil on old drivers, as streamWaitValue
	streamWaitValue    func(stream uintptr, at, value uint64, size, condition uint32) result // words of 4 or 8 bytes
	launchKernel       func(function uintptr, l *launchArgs, stream uintptr, extra *[5]uintptr) result
	memcpyAsync        func(dst, src, n uint64, stream uintptr) result
	memcpy2DAsync      func(shape *[16]uint64, stream uintptr) result
	memsetD8Async      func(at uint64, v uint32, n uint64, stream uintptr) result
	memsetD16Async     func(at uint64, v uint32, n uint64, stream uintptr) result
	memsetD32Async     func(at uint64, v uint32, n uint64, stream uintptr) result
	memsetD2D8Async    func(at, pitch uint64, v uint32, width, height uint64, stream uintptr) result
	memsetD2D16Async   func(at, pitch uint64, v uint32, width, height uint64, stream uintptr) result
	memsetD2D32Async   func(at, pitch uint64, v uint32, width, height uint64, stream uintptr) result

	// Graphs. All are nil before CUDA 11.4.
	streamBeginCapture func(stream uintptr, mode int32) result
	streamEndCapture   func(stream uintptr, graph *uintptr) result
	graphInstantiate   func(exec *uintptr, graph uintptr) result
	graphLaunch        func(exec, stream uintptr) result
	graphDestroy       func(graph uintptr) result
	graphExecDestroy   func(exec uintptr) result
}

// allocationProp is CUmemAllocationProp.
type allocationProp struct {
	_            structs.HostLayout
	kind         int32
	_            int32 // requestedHandleTypes: none
	locationKind int32
	location     int32   // the device
	_            uintptr // win32HandleMetaData
	_            [8]byte // allocFlags
}

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	_            structs.HostLayout
	locationKind int32
	location     int32 // the device
	access       int32
}

// tensorMap is what a tensor map is encoded from, and the map. New allocates it with the alignment of its size, and the
// driver wants out aligned to 64 bytes.
type tensorMap struct {
	out              [128]byte
	dims, strides    [5]uint64
	base             uint64
	boxes, steps     [5]uint32
	lower, upper     [3]int32
	kind, rank       uint32
	interleave       uint32
	swizzle          uint32
	promotion, fill  uint32
	channels, pixels uint32
	_                [192]byte // to a size whose allocations are aligned
}

// launchArgs is the shape of a launch.
type launchArgs struct {
	grid, block [3]uint32
	shared      uint32    // bytes
	cluster     [3]uint32 // blocks of a cluster; zero: as the kernel says
	cooperative bool
}

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	_           structs.HostLayout
	grid, block [3]uint32
	shared      uint32 // bytes
	_           uint32
	stream      uintptr
	attributes  uintptr
	count       uint32
	_           uint32
}

// launchAttribute is CUlaunchAttribute.
type launchAttribute struct {
	_     structs.HostLayout
	id    uint32
	_     uint32
	value [16]uint32
}

// Values of CUlaunchAttributeID.
const (
	attributeCooperative = 2
	attributeCluster     = 4
)

// attributes fills list with what the launch has, and returns how many there are.
func (l *launchArgs) attributes(list *[2]launchAttribute) (n uint32) {
	if l.cooperative {
		list[n] = launchAttribute{id: attributeCooperative, value: [16]uint32{1}}
		n++
	}
	if l.cluster != [3]uint32{} {
		list[n] = launchAttribute{id: attributeCluster, value: [16]uint32{l.cluster[0], l.cluster[1], l.cluster[2]}}
		n++
	}
	return n
}

// Values of enumerations in cuda.h.
const (
	attrMaxThreads, attrMaxBlockX, attrMaxGridX                 = 1, 2, 5 // CU_DEVICE_ATTRIBUTE_*
	attrConst, attrWarp                                         = 9, 10
	attrRegsPerBlock, attrClock, attrMultiprocs                 = 12, 13, 16
	attrMemClock, attrBusWidth, attrL2                          = 36, 37, 38
	attrThreadsPerSM, attrMajor, attrMinor                      = 39, 75, 76
	attrSharedOptin, attrVMM, attrReadOnlyHost                  = 97, 102, 113
	attrBlocksPerSM, attrCooperative, attrClusters              = 106, 95, 120
	attrWords64, attrWaitNor                                    = 122, 123
	funcMaxThreads, funcShared, funcConst                       = 0, 1, 2 // CU_FUNC_ATTRIBUTE_*
	funcLocal, funcRegs, funcMaxDynamicShared                   = 3, 4, 8
	funcPTX, funcBinary, funcNeedsCluster, funcClusterX         = 5, 6, 10, 11 // clusters: from CUDA 11.8 on
	funcNotPortable                                             = 14
	jitErrorLog, jitErrorLogBytes, inputPTX                     = 5, 6, 1
	allocationPinned, locationDevice                            = 1, 1
	accessRead, accessReadWrite                                 = 1, 3
	registerDeviceMap, registerReadOnly                         = 2, 8
	streamNonBlocking, memoryUnified                            = 1, 4
	captureRelaxed                                              = 2
	extraBuffer, extraSize                              uintptr = 1, 2 // CU_LAUNCH_PARAM_*
)

// result is a CUresult.
type result int32

// Results that mean something to us.
const (
	resultOperatingSystem result = 304
	resultTaken           result = -1 // of ours: a window is not free in this process; another one may have it
	resultTooLarge        result = -2 // of ours: more machine code than a source may become
	resultOK              result = 0
	resultInvalidValue    result = 1
	resultOutOfMemory     result = 2
	resultInvalidDevice   result = 101
	resultInvalidImage    result = 200
	resultNoBinary        result = 209
	resultInvalidPTX      result = 218
	resultInvalidSource   result = 300
	resultNotFound        result = 500
	resultNotReady        result = 600
	resultIllegalAddress  result = 700
	resultOutOfResources  result = 701
	resultLaunchTimeout   result = 702
	resultGridTooLarge    result = 720
	resultClusterSize     result = 912
	resultAssert          result = 710
	resultStack           result = 714
	resultInstruction     result = 715
	resultMisaligned      result = 716
	resultAddressSpace    result = 717
	resultPC              result = 718
	resultLaunchFailed    result = 719
	resultContained       result = 721
	resultUnknown         result = 999
	resultECC             result = 214
	resultNVLink          result = 220
	resultContextDestroyd result = 709
)

// sticky reports whether no call of the process succeeds any more.
func (r result) sticky() bool {
	switch r {
	case resultIllegalAddress, resultLaunchTimeout, resultAssert, resultStack, resultInstruction, resultMisaligned,
		resultAddressSpace, resultPC, resultLaunchFailed, resultContained, resultUnknown, resultECC, resultNVLink, resultContextDestroyd:
		return true
	}
	return false
}

// driverError is a call that the driver refused.
type driverError struct {
	Call string
	Code result
	Name string // such as "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // further words; may be empty
}

// bounded returns an error that a worker sent without what is longer than any driver's.
func (e *driverError) bounded() *driverError {
	const most = 8 << 10 // bytes, of each text
	cut := func(s string) string { return s[:min(len(s), most)] }
	return &driverError{Call: cut(e.Call), Code: e.Code, Name: cut(e.Name), Text: cut(e.Text)}
}

func (e *driverError) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// check turns a result into an error.
func (d *driver) check(call string, code result) error {
	if code == resultOK {
		return nil
	}
	return &driverError{Call: call, Code: code, Name: d.errorName(code)}
}
