package libcuda

// family groups entry points as the manual of the driver API does.
type family struct {
	title   string
	entries []entry
}

// Notes that several rows share.
const (
	noteHint       = "accepted, without effect"
	noteSyncPaged  = "with memory that is not pinned the call waits for the copy"
	noteOverlap    = "source and destination must not overlap"
	noteArrays     = "no CUDA arrays; " + noteSyncPaged
	noteHostFuncs  = "later calls for the stream wait in the program until the function has run"
	noteOneDevice  = "there is one device, which is no peer"
	noteNoPools    = "memory of the context; allocated at once, freed after the work of the context"
	noteNoCapture  = "nothing is ever captured"
	noteLibrary    = "loaded into a context at its first use there; options are not looked at"
	noteLink       = "one PTX input, which is also the result; options: logs only"
	noteStays      = "checked, without effect: managed memory does not move"
	noteVirtual    = "of the current context, not of the process; memory of the device, not for other processes"
	noteNewNumbers = "attributes of features that PVDRM lacks are 0"
)

// families is every entry point.
var families = []family{
	{"Initialization, errors, entry points", []entry{
		{name: "cuInit", args: 1, do: initDriver, early: true},
		{name: "cuDriverGetVersion", args: 1, do: driverGetVersion, early: true},
		{name: "cuGetErrorName", args: 2, do: getErrorName, early: true},
		{name: "cuGetErrorString", args: 2, do: getErrorString, early: true},
		{name: "cuGetProcAddress", since: 11030, args: 4, do: getProcAddress, early: true, perThread: "_ptsz"},
		{name: "cuGetProcAddress_v2", since: 12000, args: 5, do: getProcAddressV2, early: true, perThread: "_ptsz"},
		{name: "cuGetExportTable", args: 2, do: getExportTable, early: true, note: "CUDA_ERROR_NOT_FOUND for every table; see above"},
		{name: "cuLogsRegisterCallback", args: 3},
		{name: "cuLogsUnregisterCallback", args: 1},
		{name: "cuLogsCurrent", args: 2},
		{name: "cuLogsDumpToFile", args: 3},
		{name: "cuLogsDumpToMemory", args: 4},
		{name: "cuProfilerInitialize", args: 3, do: nothing, note: noteHint},
		{name: "cuProfilerStart", args: 0, do: nothing, note: noteHint},
		{name: "cuProfilerStop", args: 0, do: nothing, note: noteHint},
	}},
	{"Devices", []entry{
		{name: "cuDeviceGet", args: 2, do: deviceGet},
		{name: "cuDeviceGetCount", args: 1, do: deviceGetCount},
		{name: "cuDeviceGetName", args: 3, do: deviceGetName},
		{name: "cuDeviceGetUuid", args: 2, do: deviceGetUUID, note: "made of the device's name and size: equal devices have equal ones"},
		{name: "cuDeviceGetUuid_v2", since: 11040, args: 2, do: deviceGetUUID, note: "as cuDeviceGetUuid"},
		{name: "cuDeviceTotalMem_v2", since: 3020, args: 2, do: deviceTotalMem, others: "cuDeviceTotalMem"},
		{name: "cuDeviceGetAttribute", args: 3, do: deviceGetAttribute, note: noteNewNumbers},
		{name: "cuDeviceComputeCapability", args: 3, do: deviceComputeCapability},
		{name: "cuDeviceGetProperties", args: 2, do: deviceGetProperties},
		{name: "cuDeviceGetPCIBusId", args: 3, do: deviceGetPCIBusID, note: "always 0000:00:00.0"},
		{name: "cuDeviceGetByPCIBusId", args: 2, do: deviceGetByPCIBusID},
		{name: "cuDeviceCanAccessPeer", args: 3, do: deviceCanAccessPeer, note: noteOneDevice},
		{name: "cuCtxEnablePeerAccess", args: 2, do: peerUnsupported, note: noteOneDevice},
		{name: "cuCtxDisablePeerAccess", args: 1, do: peerUnsupported, note: noteOneDevice},
		{name: "cuDeviceGetLuid", args: 3},
		{name: "cuDeviceGetP2PAttribute", args: 4},
		{name: "cuDeviceGetTexture1DLinearMaxWidth", args: 4},
		{name: "cuDeviceGetHostAtomicCapabilities", args: 4},
		{name: "cuDeviceGetP2PAtomicCapabilities", args: 5},
		{name: "cuDeviceGetNvSciSyncAttributes", args: 3},
		{name: "cuDeviceGetExecAffinitySupport", args: 3},
		{name: "cuDeviceGetGraphMemAttribute", args: 3},
		{name: "cuDeviceSetGraphMemAttribute", args: 3},
		{name: "cuDeviceGraphMemTrim", args: 1},
		{name: "cuDeviceGetDefaultMemPool", args: 2},
		{name: "cuDeviceGetMemPool", args: 2},
		{name: "cuDeviceSetMemPool", args: 2},
		{name: "cuDeviceRegisterAsyncNotification", args: 4},
		{name: "cuDeviceUnregisterAsyncNotification", args: 2},
		{name: "cuFlushGPUDirectRDMAWrites", args: 2},
	}},
	{"Primary context", []entry{
		{name: "cuDevicePrimaryCtxRetain", args: 2, do: primaryRetain},
		{name: "cuDevicePrimaryCtxRelease_v2", since: 11000, args: 1, do: primaryRelease, others: "cuDevicePrimaryCtxRelease"},
		{name: "cuDevicePrimaryCtxReset_v2", since: 11000, args: 1, do: primaryReset, others: "cuDevicePrimaryCtxReset"},
		{name: "cuDevicePrimaryCtxGetState", args: 3, do: primaryGetState},
		{name: "cuDevicePrimaryCtxSetFlags_v2", since: 11000, args: 2, do: primarySetFlags, others: "cuDevicePrimaryCtxSetFlags"},
	}},
	{"Contexts", []entry{
		{name: "cuCtxCreate_v2", since: 3020, args: 3, do: ctxCreate, others: "cuCtxCreate"},
		{name: "cuCtxCreate_v3", since: 11040, args: 5, do: ctxCreateAffinity, note: "no execution affinity"},
		{name: "cuCtxCreate_v4", since: 12050, args: 4, do: ctxCreateParams, note: "no execution affinity, no sharing with a graphics queue"},
		{name: "cuCtxDestroy_v2", since: 4000, args: 1, do: ctxDestroy, others: "cuCtxDestroy"},
		{name: "cuCtxAttach", args: 2, do: ctxAttach},
		{name: "cuCtxDetach", args: 1, do: ctxDetach},
		{name: "cuCtxPushCurrent_v2", since: 4000, args: 1, do: ctxPushCurrent, others: "cuCtxPushCurrent"},
		{name: "cuCtxPopCurrent_v2", since: 4000, args: 1, do: ctxPopCurrent, others: "cuCtxPopCurrent"},
		{name: "cuCtxSetCurrent", args: 1, do: ctxSetCurrent},
		{name: "cuCtxGetCurrent", args: 1, do: ctxGetCurrent},
		{name: "cuCtxGetDevice", args: 1, do: ctxGetDevice},
		{name: "cuCtxGetDevice_v2", since: 13000, args: 2, do: ctxGetDeviceOf},
		{name: "cuCtxSynchronize", args: 0, do: ctxSynchronize},
		{name: "cuCtxSynchronize_v2", since: 13000, args: 1, do: ctxSynchronizeOf},
		{name: "cuCtxGetFlags", args: 1, do: ctxGetFlags},
		{name: "cuCtxSetFlags", args: 1, do: ctxSetFlags, note: noteHint},
		{name: "cuCtxGetId", args: 2, do: ctxGetID},
		{name: "cuCtxGetApiVersion", args: 2, do: ctxGetAPIVersion},
		{name: "cuCtxSetLimit", args: 2, do: ctxSetLimit, note: noteHint},
		{name: "cuCtxGetLimit", args: 2, do: ctxGetLimit},
		{name: "cuCtxSetCacheConfig", args: 1, do: ctxSetCacheConfig, note: noteHint},
		{name: "cuCtxGetCacheConfig", args: 1, do: ctxGetCacheConfig},
		{name: "cuCtxSetSharedMemConfig", args: 1, do: ctxSetSharedMemConfig, note: noteHint},
		{name: "cuCtxGetSharedMemConfig", args: 1, do: ctxGetSharedMemConfig},
		{name: "cuCtxGetStreamPriorityRange", args: 2, do: priorityRange, note: "there is one priority, 0"},
		{name: "cuCtxResetPersistingL2Cache", args: 0, do: nothing, note: noteHint},
		{name: "cuCtxGetExecAffinity", args: 2},
		{name: "cuCtxRecordEvent", args: 2},
		{name: "cuCtxWaitEvent", args: 2},
		{name: "cuGreenCtxCreate", args: 4},
		{name: "cuGreenCtxDestroy", args: 1},
		{name: "cuCtxFromGreenCtx", args: 2},
		{name: "cuDeviceGetDevResource", args: 3},
		{name: "cuCtxGetDevResource", args: 3},
		{name: "cuGreenCtxGetDevResource", args: 3},
		{name: "cuDevSmResourceSplitByCount", args: 7},
		{name: "cuDevResourceGenerateDesc", args: 3},
		{name: "cuGreenCtxGetId", args: 2},
		{name: "cuGreenCtxRecordEvent", args: 2},
		{name: "cuGreenCtxWaitEvent", args: 2},
		{name: "cuGreenCtxStreamCreate", args: 4},
		{name: "cuStreamGetGreenCtx", args: 2},
	}},
	{"Modules and libraries", []entry{
		{name: "cuModuleLoad", args: 2, do: moduleLoad},
		{name: "cuModuleLoadData", args: 2, do: moduleLoadData},
		{name: "cuModuleLoadDataEx", args: 5, do: moduleLoadDataEx, note: "options: the logs, their sizes and the time; the others have no effect"},
		{name: "cuModuleLoadFatBinary", args: 2, do: moduleLoadData},
		{name: "cuModuleUnload", args: 1, do: moduleUnload},
		{name: "cuModuleGetLoadingMode", args: 1, do: moduleGetLoadingMode},
		{name: "cuModuleGetFunction", args: 3, do: moduleGetFunction},
		{name: "cuModuleGetGlobal_v2", since: 3020, args: 4, do: moduleGetGlobal, others: "cuModuleGetGlobal"},
		{name: "cuModuleGetFunctionCount", args: 2},
		{name: "cuModuleEnumerateFunctions", args: 3},
		{name: "cuModuleGetTexRef", args: 3},
		{name: "cuModuleGetSurfRef", args: 3},
		{name: "cuLinkCreate_v2", since: 6050, args: 4, do: linkCreate, others: "cuLinkCreate", note: noteLink},
		{name: "cuLinkAddData_v2", since: 6050, args: 8, do: linkAddData, others: "cuLinkAddData", note: noteLink},
		{name: "cuLinkAddFile_v2", since: 6050, args: 6, do: linkAddFile, others: "cuLinkAddFile", note: noteLink},
		{name: "cuLinkComplete", args: 3, do: linkComplete, note: noteLink},
		{name: "cuLinkDestroy", args: 1, do: linkDestroy},
		{name: "cuLibraryLoadData", args: 8, do: libraryLoadData, note: noteLibrary},
		{name: "cuLibraryLoadFromFile", args: 8, do: libraryLoadFromFile, note: noteLibrary},
		{name: "cuLibraryUnload", args: 1, do: libraryUnload},
		{name: "cuLibraryGetKernel", args: 3, do: libraryGetKernel},
		{name: "cuLibraryGetModule", args: 2, do: libraryGetModule},
		{name: "cuLibraryGetGlobal", args: 4, do: libraryGetGlobal},
		{name: "cuKernelGetFunction", args: 2, do: kernelGetFunction},
		{name: "cuKernelGetAttribute", args: 4, do: kernelGetAttribute},
		{name: "cuKernelSetAttribute", args: 4, do: kernelSetAttribute},
		{name: "cuKernelSetCacheConfig", args: 3, do: funcSetHint, note: noteHint},
		{name: "cuKernelGetName", args: 2, do: funcGetName},
		{name: "cuKernelGetParamInfo", args: 4, do: funcGetParamInfo},
		{name: "cuKernelGetLibrary", args: 2},
		{name: "cuLibraryGetManaged", args: 4},
		{name: "cuLibraryGetUnifiedFunction", args: 3},
		{name: "cuLibraryGetKernelCount", args: 2},
		{name: "cuLibraryEnumerateKernels", args: 3},
	}},
	{"Memory", []entry{
		{name: "cuMemGetInfo_v2", since: 3020, args: 2, do: memGetInfo, others: "cuMemGetInfo"},
		{name: "cuMemAlloc_v2", since: 3020, args: 2, do: memAlloc, others: "cuMemAlloc"},
		{name: "cuMemAllocPitch_v2", since: 3020, args: 5, do: memAllocPitch, others: "cuMemAllocPitch"},
		{name: "cuMemFree_v2", since: 3020, args: 1, do: memFree, others: "cuMemFree"},
		{name: "cuMemGetAddressRange_v2", since: 3020, args: 3, do: memGetAddressRange, others: "cuMemGetAddressRange"},
		{name: "cuMemAllocHost_v2", since: 3020, args: 2, do: memAllocHost, others: "cuMemAllocHost"},
		{name: "cuMemFreeHost", args: 1, do: memFreeHost},
		{name: "cuMemHostAlloc", args: 3, do: memHostAlloc},
		{name: "cuMemHostGetDevicePointer_v2", since: 3020, args: 3, do: memHostGetDevicePointer, others: "cuMemHostGetDevicePointer"},
		{name: "cuMemHostGetFlags", args: 2, do: memHostGetFlags},
		{name: "cuMemHostRegister_v2", since: 6050, args: 3, do: memHostRegister, others: "cuMemHostRegister", note: "noted only: copies are as from memory that is not pinned, and the device cannot map it"},
		{name: "cuMemHostUnregister", args: 1, do: memHostUnregister},
		{name: "cuMemAllocAsync", args: 3, do: memAllocAsync, perThread: "_ptsz", note: noteNoPools},
		{name: "cuMemFreeAsync", args: 2, do: memFreeAsync, perThread: "_ptsz", note: noteNoPools},
		{name: "cuMemAllocManaged", args: 3, do: memAllocManaged, note: "pinned memory with one address for the program and the device; it does not move"},
		{name: "cuPointerGetAttribute", args: 3, do: pointerGetAttribute, note: "context, type, pointers, range, ordinal, buffer, managed, mapped"},
		{name: "cuPointerGetAttributes", args: 4, do: pointerGetAttributes, note: "as cuPointerGetAttribute"},
		{name: "cuPointerSetAttribute", args: 3},
		{name: "cuMemPrefetchAsync", args: 4, do: memPrefetchAsync, perThread: "_ptsz", note: noteStays},
		{name: "cuMemPrefetchAsync_v2", since: 12020, args: 5, do: memPrefetchAsyncV2, perThread: "_ptsz", note: noteStays},
		{name: "cuMemAdvise", args: 4, do: memAdvise, note: noteStays},
		{name: "cuMemAdvise_v2", since: 12020, args: 4, do: memAdvise, note: noteStays},
		{name: "cuMemPrefetchBatchAsync", args: 8, perThread: "_ptsz"},
		{name: "cuMemDiscardBatchAsync", args: 5, perThread: "_ptsz"},
		{name: "cuMemDiscardAndPrefetchBatchAsync", args: 8, perThread: "_ptsz"},
		{name: "cuMemRangeGetAttribute", args: 5},
		{name: "cuMemRangeGetAttributes", args: 6},
		{name: "cuMemAllocFromPoolAsync", args: 4, perThread: "_ptsz"},
		{name: "cuMemGetDefaultMemPool", args: 3},
		{name: "cuMemGetMemPool", args: 3},
		{name: "cuMemSetMemPool", args: 3},
		{name: "cuMemPoolCreate", args: 2},
		{name: "cuMemPoolDestroy", args: 1},
		{name: "cuMemPoolTrimTo", args: 2},
		{name: "cuMemPoolSetAttribute", args: 3},
		{name: "cuMemPoolGetAttribute", args: 3},
		{name: "cuMemPoolSetAccess", args: 3},
		{name: "cuMemPoolGetAccess", args: 3},
		{name: "cuMemPoolExportToShareableHandle", args: 4},
		{name: "cuMemPoolImportFromShareableHandle", args: 4},
		{name: "cuMemPoolExportPointer", args: 2},
		{name: "cuMemPoolImportPointer", args: 3},
		{name: "cuMemAddressReserve", args: 5, do: memAddressReserve, note: noteVirtual},
		{name: "cuMemAddressFree", args: 2, do: memAddressFree},
		{name: "cuMemCreate", args: 4, do: memCreate, note: noteVirtual},
		{name: "cuMemRelease", args: 1, do: memRelease},
		{name: "cuMemMap", args: 5, do: memMap},
		{name: "cuMemMapArrayAsync", args: 3, perThread: "_ptsz"},
		{name: "cuMemUnmap", args: 2, do: memUnmap},
		{name: "cuMemSetAccess", args: 4, do: memSetAccess},
		{name: "cuMemGetAccess", args: 3, do: memGetAccess},
		{name: "cuMemExportToShareableHandle", args: 4},
		{name: "cuMemImportFromShareableHandle", args: 3},
		{name: "cuMemGetAllocationGranularity", args: 3, do: memGetAllocationGranularity, note: "needs a current context"},
		{name: "cuMemGetAllocationPropertiesFromHandle", args: 2, do: memGetAllocationProperties},
		{name: "cuMemRetainAllocationHandle", args: 2},
		{name: "cuMemGetHandleForAddressRange", args: 5},
		{name: "cuIpcGetEventHandle", args: 2},
		{name: "cuIpcOpenEventHandle", args: 9},
		{name: "cuIpcGetMemHandle", args: 2},
		{name: "cuIpcOpenMemHandle_v2", since: 11000, args: 10, others: "cuIpcOpenMemHandle"},
		{name: "cuIpcCloseMemHandle", args: 1},
		{name: "cuMulticastCreate", args: 2},
		{name: "cuMulticastAddDevice", args: 2},
		{name: "cuMulticastBindMem", args: 6},
		{name: "cuMulticastBindAddr", args: 5},
		{name: "cuMulticastUnbind", args: 4},
		{name: "cuMulticastGetGranularity", args: 3},
	}},
	{"Copies", []entry{
		{name: "cuMemcpy", args: 3, do: memcpy, perThread: "_ptds"},
		{name: "cuMemcpyAsync", args: 4, do: memcpyAsync, perThread: "_ptsz", note: noteSyncPaged},
		{name: "cuMemcpyHtoD_v2", since: 3020, args: 3, do: memcpyHtoD, perThread: "_ptds", others: "cuMemcpyHtoD"},
		{name: "cuMemcpyDtoH_v2", since: 3020, args: 3, do: memcpyDtoH, perThread: "_ptds", others: "cuMemcpyDtoH"},
		{name: "cuMemcpyDtoD_v2", since: 3020, args: 3, do: memcpyDtoD, perThread: "_ptds", others: "cuMemcpyDtoD", note: noteOverlap},
		{name: "cuMemcpyHtoDAsync_v2", since: 3020, args: 4, do: memcpyHtoDAsync, perThread: "_ptsz", others: "cuMemcpyHtoDAsync", note: noteSyncPaged},
		{name: "cuMemcpyDtoHAsync_v2", since: 3020, args: 4, do: memcpyDtoHAsync, perThread: "_ptsz", others: "cuMemcpyDtoHAsync", note: noteSyncPaged},
		{name: "cuMemcpyDtoDAsync_v2", since: 3020, args: 4, do: memcpyDtoDAsync, perThread: "_ptsz", others: "cuMemcpyDtoDAsync", note: noteOverlap},
		{name: "cuMemcpy2D_v2", since: 3020, args: 1, do: memcpy2D, perThread: "_ptds", others: "cuMemcpy2D", note: noteArrays},
		{name: "cuMemcpy2DUnaligned_v2", since: 3020, args: 1, do: memcpy2D, perThread: "_ptds", others: "cuMemcpy2DUnaligned", note: noteArrays},
		{name: "cuMemcpy2DAsync_v2", since: 3020, args: 2, do: memcpy2DAsync, perThread: "_ptsz", others: "cuMemcpy2DAsync", note: noteArrays},
		{name: "cuMemcpy3D_v2", since: 3020, args: 1, do: memcpy3D, perThread: "_ptds", others: "cuMemcpy3D", note: noteArrays},
		{name: "cuMemcpy3DAsync_v2", since: 3020, args: 2, do: memcpy3DAsync, perThread: "_ptsz", others: "cuMemcpy3DAsync", note: noteArrays},
		{name: "cuMemcpyPeer", args: 5, perThread: "_ptds"},
		{name: "cuMemcpyPeerAsync", args: 6, perThread: "_ptsz"},
		{name: "cuMemcpy3DPeer", args: 1, perThread: "_ptds"},
		{name: "cuMemcpy3DPeerAsync", args: 2, perThread: "_ptsz"},
		{name: "cuMemcpyDtoA_v2", since: 3020, args: 4, perThread: "_ptds", others: "cuMemcpyDtoA"},
		{name: "cuMemcpyAtoD_v2", since: 3020, args: 4, perThread: "_ptds", others: "cuMemcpyAtoD"},
		{name: "cuMemcpyHtoA_v2", since: 3020, args: 4, perThread: "_ptds", others: "cuMemcpyHtoA"},
		{name: "cuMemcpyAtoH_v2", since: 3020, args: 4, perThread: "_ptds", others: "cuMemcpyAtoH"},
		{name: "cuMemcpyAtoA_v2", since: 3020, args: 5, perThread: "_ptds", others: "cuMemcpyAtoA"},
		{name: "cuMemcpyHtoAAsync_v2", since: 3020, args: 5, perThread: "_ptsz", others: "cuMemcpyHtoAAsync"},
		{name: "cuMemcpyAtoHAsync_v2", since: 3020, args: 5, perThread: "_ptsz", others: "cuMemcpyAtoHAsync"},
		{name: "cuMemcpyBatchAsync", args: 9, perThread: "_ptsz"},
		{name: "cuMemcpyBatchAsync_v2", since: 13000, args: 8, perThread: "_ptsz"},
		{name: "cuMemcpy3DBatchAsync", args: 5, perThread: "_ptsz"},
		{name: "cuMemcpy3DBatchAsync_v2", since: 13000, args: 4, perThread: "_ptsz"},
		{name: "cuMemBatchDecompressAsync", args: 5, perThread: "_ptsz"},
		{name: "cuMemsetD8_v2", since: 3020, args: 3, do: memsetD8, perThread: "_ptds", others: "cuMemsetD8"},
		{name: "cuMemsetD16_v2", since: 3020, args: 3, do: memsetD16, perThread: "_ptds", others: "cuMemsetD16"},
		{name: "cuMemsetD32_v2", since: 3020, args: 3, do: memsetD32, perThread: "_ptds", others: "cuMemsetD32"},
		{name: "cuMemsetD2D8_v2", since: 3020, args: 5, do: memsetD2D8, perThread: "_ptds", others: "cuMemsetD2D8"},
		{name: "cuMemsetD2D16_v2", since: 3020, args: 5, do: memsetD2D16, perThread: "_ptds", others: "cuMemsetD2D16"},
		{name: "cuMemsetD2D32_v2", since: 3020, args: 5, do: memsetD2D32, perThread: "_ptds", others: "cuMemsetD2D32"},
		{name: "cuMemsetD8Async", args: 4, do: memsetD8Async, perThread: "_ptsz"},
		{name: "cuMemsetD16Async", args: 4, do: memsetD16Async, perThread: "_ptsz"},
		{name: "cuMemsetD32Async", args: 4, do: memsetD32Async, perThread: "_ptsz"},
		{name: "cuMemsetD2D8Async", args: 6, do: memsetD2D8Async, perThread: "_ptsz"},
		{name: "cuMemsetD2D16Async", args: 6, do: memsetD2D16Async, perThread: "_ptsz"},
		{name: "cuMemsetD2D32Async", args: 6, do: memsetD2D32Async, perThread: "_ptsz"},
	}},
	{"Kernels", []entry{
		{name: "cuLaunchKernel", args: 11, do: launchKernel, perThread: "_ptsz"},
		{name: "cuLaunchKernelEx", args: 4, do: launchKernelEx, perThread: "_ptsz", note: "no clusters, no cooperative launches, no events of a launch"},
		{name: "cuFuncGetAttribute", args: 3, do: funcGetAttribute},
		{name: "cuFuncSetAttribute", args: 3, do: funcSetAttribute, note: "the most dynamic shared memory; the carve-out has no effect"},
		{name: "cuFuncSetCacheConfig", args: 2, do: funcSetHint, note: noteHint},
		{name: "cuFuncSetSharedMemConfig", args: 2, do: funcSetHint, note: noteHint},
		{name: "cuFuncGetModule", args: 2, do: funcGetModule},
		{name: "cuFuncGetName", args: 2, do: funcGetName},
		{name: "cuFuncGetParamInfo", args: 4, do: funcGetParamInfo},
		{name: "cuFuncSetBlockShape", args: 4, do: funcSetBlockShape},
		{name: "cuFuncSetSharedSize", args: 2, do: funcSetSharedSize},
		{name: "cuParamSetSize", args: 2, do: paramSetSize},
		{name: "cuParamSeti", args: 3, do: paramSetWord},
		{name: "cuParamSetf", args: 3, do: paramSetWord},
		{name: "cuParamSetv", args: 4, do: paramSetVector},
		{name: "cuLaunch", args: 1, do: launchOnce},
		{name: "cuLaunchGrid", args: 3, do: launchGrid},
		{name: "cuLaunchGridAsync", args: 4, do: launchGridAsync},
		{name: "cuFuncIsLoaded", args: 2, do: funcIsLoaded},
		{name: "cuFuncLoad", args: 1, do: funcSetHint},
		{name: "cuParamSetTexRef", args: 3},
		{name: "cuLaunchCooperativeKernel", args: 10, perThread: "_ptsz"},
		{name: "cuLaunchCooperativeKernelMultiDevice", args: 3},
		{name: "cuOccupancyMaxActiveBlocksPerMultiprocessor", args: 4, do: occupancyBlocks},
		{name: "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", args: 5, do: occupancyBlocks},
		{name: "cuOccupancyMaxPotentialBlockSize", args: 6, do: occupancyBlockSize},
		{name: "cuOccupancyMaxPotentialBlockSizeWithFlags", args: 7, do: occupancyBlockSize},
		{name: "cuOccupancyAvailableDynamicSMemPerBlock", args: 4, do: occupancyDynamicShared},
		{name: "cuOccupancyMaxPotentialClusterSize", args: 3},
		{name: "cuOccupancyMaxActiveClusters", args: 3},
	}},
	{"Streams and events", []entry{
		{name: "cuStreamCreate", args: 2, do: streamCreate},
		{name: "cuStreamCreateWithPriority", args: 3, do: streamCreate, note: "there is one priority, 0"},
		{name: "cuStreamDestroy_v2", since: 4000, args: 1, do: streamDestroy, others: "cuStreamDestroy", note: "waits for the work of the stream"},
		{name: "cuStreamSynchronize", args: 1, do: streamSynchronize, perThread: "_ptsz"},
		{name: "cuStreamQuery", args: 1, do: streamQuery, perThread: "_ptsz"},
		{name: "cuStreamWaitEvent", args: 3, do: streamWaitEvent, perThread: "_ptsz"},
		{name: "cuStreamGetFlags", args: 2, do: streamGetFlags, perThread: "_ptsz"},
		{name: "cuStreamGetPriority", args: 2, do: streamGetZero, perThread: "_ptsz"},
		{name: "cuStreamGetCtx", args: 2, do: streamGetCtx, perThread: "_ptsz"},
		{name: "cuStreamGetCtx_v2", since: 12050, args: 3, do: streamGetCtxV2, perThread: "_ptsz", note: "there are no green contexts"},
		{name: "cuStreamGetDevice", args: 2, do: streamGetZero, perThread: "_ptsz"},
		{name: "cuStreamGetId", args: 2, do: streamGetID, perThread: "_ptsz"},
		{name: "cuStreamAddCallback", args: 4, do: streamAddCallback, perThread: "_ptsz", note: noteHostFuncs},
		{name: "cuLaunchHostFunc", args: 3, do: launchHostFunc, perThread: "_ptsz", note: noteHostFuncs},
		{name: "cuStreamIsCapturing", args: 2, do: streamIsCapturing, perThread: "_ptsz", note: noteNoCapture},
		{name: "cuThreadExchangeStreamCaptureMode", args: 1, do: exchangeCaptureMode, note: noteNoCapture},
		{name: "cuStreamBeginCapture_v2", since: 10010, args: 2, perThread: "_ptsz", others: "cuStreamBeginCapture cuStreamBeginCapture_ptsz"},
		{name: "cuStreamBeginCaptureToGraph", args: 6, perThread: "_ptsz"},
		{name: "cuStreamEndCapture", args: 2, perThread: "_ptsz"},
		{name: "cuStreamGetCaptureInfo", args: 3, do: streamIsCapturing, note: noteNoCapture, perThread: "_ptsz"},
		{name: "cuStreamGetCaptureInfo_v2", since: 11030, args: 6, do: streamIsCapturing, note: noteNoCapture, perThread: "_ptsz"},
		{name: "cuStreamGetCaptureInfo_v3", since: 12030, args: 7, do: streamIsCapturing, note: noteNoCapture, perThread: "_ptsz"},
		{name: "cuStreamUpdateCaptureDependencies", args: 4, perThread: "_ptsz"},
		{name: "cuStreamUpdateCaptureDependencies_v2", since: 12030, args: 5, perThread: "_ptsz"},
		{name: "cuStreamAttachMemAsync", args: 4, do: streamAttachMemAsync, perThread: "_ptsz", note: noteStays},
		{name: "cuStreamCopyAttributes", args: 2, perThread: "_ptsz"},
		{name: "cuStreamGetAttribute", args: 3, perThread: "_ptsz"},
		{name: "cuStreamSetAttribute", args: 3, perThread: "_ptsz"},
		{name: "cuStreamWaitValue32_v2", since: 11070, args: 4, perThread: "_ptsz", others: "cuStreamWaitValue32 cuStreamWaitValue32_ptsz"},
		{name: "cuStreamWaitValue64_v2", since: 11070, args: 4, perThread: "_ptsz", others: "cuStreamWaitValue64 cuStreamWaitValue64_ptsz"},
		{name: "cuStreamWriteValue32_v2", since: 11070, args: 4, perThread: "_ptsz", others: "cuStreamWriteValue32 cuStreamWriteValue32_ptsz"},
		{name: "cuStreamWriteValue64_v2", since: 11070, args: 4, perThread: "_ptsz", others: "cuStreamWriteValue64 cuStreamWriteValue64_ptsz"},
		{name: "cuStreamBatchMemOp_v2", since: 11070, args: 4, perThread: "_ptsz", others: "cuStreamBatchMemOp cuStreamBatchMemOp_ptsz"},
		{name: "cuEventCreate", args: 2, do: eventCreate, note: "not for other processes"},
		{name: "cuEventRecord", args: 2, do: eventRecord, perThread: "_ptsz"},
		{name: "cuEventRecordWithFlags", args: 3, do: eventRecord, perThread: "_ptsz"},
		{name: "cuEventQuery", args: 1, do: eventQuery},
		{name: "cuEventSynchronize", args: 1, do: eventSynchronize},
		{name: "cuEventDestroy_v2", since: 4000, args: 1, do: eventDestroy, others: "cuEventDestroy"},
		{name: "cuEventElapsedTime", args: 3, do: eventElapsedTime, others: "cuEventElapsedTime_v2"},
	}},
	{"Arrays, textures, surfaces", unsupported(`
		cuArrayCreate_v2/2 cuArrayCreate/2 cuArrayGetDescriptor_v2/2 cuArrayGetDescriptor/2 cuArrayDestroy/1 cuArray3DCreate_v2/2 cuArray3DCreate/2
		cuArray3DGetDescriptor_v2/2 cuArray3DGetDescriptor/2 cuArrayGetSparseProperties/2 cuArrayGetMemoryRequirements/3 cuArrayGetPlane/3
		cuMipmappedArrayCreate/3 cuMipmappedArrayDestroy/1 cuMipmappedArrayGetLevel/3 cuMipmappedArrayGetSparseProperties/2 cuMipmappedArrayGetMemoryRequirements/3
		cuTexObjectCreate/4 cuTexObjectDestroy/1 cuTexObjectGetResourceDesc/2 cuTexObjectGetTextureDesc/2 cuTexObjectGetResourceViewDesc/2
		cuSurfObjectCreate/2 cuSurfObjectDestroy/1 cuSurfObjectGetResourceDesc/2 cuTexRefCreate/1 cuTexRefDestroy/1 cuTexRefSetArray/3
		cuTexRefSetMipmappedArray/3 cuTexRefSetAddress_v2/4 cuTexRefSetAddress/4 cuTexRefSetAddress2D_v3/4 cuTexRefSetAddress2D_v2/4 cuTexRefSetAddress2D/4
		cuTexRefSetFormat/3 cuTexRefSetAddressMode/3 cuTexRefSetFilterMode/2 cuTexRefSetFlags/2 cuTexRefSetMipmapFilterMode/2 cuTexRefSetMipmapLevelBias/1
		cuTexRefSetMipmapLevelClamp/1 cuTexRefSetMaxAnisotropy/2 cuTexRefSetBorderColor/2 cuTexRefGetAddress_v2/2 cuTexRefGetAddress/2 cuTexRefGetArray/2
		cuTexRefGetMipmappedArray/2 cuTexRefGetAddressMode/3 cuTexRefGetFilterMode/2 cuTexRefGetFormat/3 cuTexRefGetMipmapFilterMode/2
		cuTexRefGetMipmapLevelBias/2 cuTexRefGetMipmapLevelClamp/3 cuTexRefGetMaxAnisotropy/2 cuTexRefGetBorderColor/2 cuTexRefGetFlags/2
		cuSurfRefSetArray/3 cuSurfRefGetArray/2 cuTensorMapEncodeTiled/12 cuTensorMapEncodeIm2col/12 cuTensorMapEncodeIm2colWide/12 cuTensorMapReplaceAddress/2`)},
	{"Graphs", unsupported(`
		cuGraphCreate/2 cuGraphDestroy/1 cuGraphClone/2 cuGraphInstantiate/5 cuGraphInstantiate_v2/5 cuGraphInstantiateWithFlags/3
		cuGraphInstantiateWithParams/3 cuGraphInstantiateWithParams_ptsz/3 cuGraphExecGetFlags/2 cuGraphUpload/2 cuGraphUpload_ptsz/2 cuGraphLaunch/2
		cuGraphLaunch_ptsz/2 cuGraphExecDestroy/1 cuGraphExecUpdate/4 cuGraphExecUpdate_v2/3 cuGraphAddKernelNode/5 cuGraphAddKernelNode_v2/5
		cuGraphKernelNodeGetParams/2 cuGraphKernelNodeGetParams_v2/2 cuGraphKernelNodeSetParams/2 cuGraphKernelNodeSetParams_v2/2 cuGraphAddMemcpyNode/6
		cuGraphMemcpyNodeGetParams/2 cuGraphMemcpyNodeSetParams/2 cuGraphAddMemsetNode/6 cuGraphMemsetNodeGetParams/2 cuGraphMemsetNodeSetParams/2
		cuGraphAddHostNode/5 cuGraphHostNodeGetParams/2 cuGraphHostNodeSetParams/2 cuGraphAddChildGraphNode/5 cuGraphChildGraphNodeGetGraph/2
		cuGraphAddEmptyNode/4 cuGraphAddEventRecordNode/5 cuGraphEventRecordNodeGetEvent/2 cuGraphEventRecordNodeSetEvent/2 cuGraphAddEventWaitNode/5
		cuGraphEventWaitNodeGetEvent/2 cuGraphEventWaitNodeSetEvent/2 cuGraphAddMemAllocNode/5 cuGraphMemAllocNodeGetParams/2 cuGraphAddMemFreeNode/5
		cuGraphMemFreeNodeGetParams/2 cuGraphAddNode/5 cuGraphAddNode_v2/6 cuGraphNodeSetParams/2 cuGraphExecNodeSetParams/3 cuGraphNodeFindInClone/3
		cuGraphNodeGetType/2 cuGraphGetNodes/3 cuGraphGetRootNodes/3 cuGraphGetEdges/4 cuGraphGetEdges_v2/5 cuGraphNodeGetDependencies/3
		cuGraphNodeGetDependencies_v2/4 cuGraphNodeGetDependentNodes/3 cuGraphNodeGetDependentNodes_v2/4 cuGraphAddDependencies/4
		cuGraphAddDependencies_v2/5 cuGraphRemoveDependencies/4 cuGraphRemoveDependencies_v2/5 cuGraphDestroyNode/1 cuGraphExecKernelNodeSetParams/3
		cuGraphExecKernelNodeSetParams_v2/3 cuGraphExecMemcpyNodeSetParams/4 cuGraphExecMemsetNodeSetParams/4 cuGraphExecHostNodeSetParams/3
		cuGraphExecChildGraphNodeSetParams/3 cuGraphExecEventRecordNodeSetEvent/3 cuGraphExecEventWaitNodeSetEvent/3 cuGraphKernelNodeCopyAttributes/2
		cuGraphKernelNodeGetAttribute/3 cuGraphKernelNodeSetAttribute/3 cuGraphDebugDotPrint/3 cuUserObjectCreate/5 cuUserObjectRetain/2
		cuUserObjectRelease/2 cuGraphRetainUserObject/4 cuGraphReleaseUserObject/3 cuGraphNodeSetEnabled/3 cuGraphNodeGetEnabled/3
		cuGraphConditionalHandleCreate/5 cuGraphAddBatchMemOpNode/5 cuGraphBatchMemOpNodeGetParams/2 cuGraphBatchMemOpNodeSetParams/2
		cuGraphExecBatchMemOpNodeSetParams/3 cuGraphAddExternalSemaphoresSignalNode/5 cuGraphAddExternalSemaphoresWaitNode/5
		cuGraphExternalSemaphoresSignalNodeGetParams/2 cuGraphExternalSemaphoresSignalNodeSetParams/2 cuGraphExternalSemaphoresWaitNodeGetParams/2
		cuGraphExternalSemaphoresWaitNodeSetParams/2 cuGraphExecExternalSemaphoresSignalNodeSetParams/3 cuGraphExecExternalSemaphoresWaitNodeSetParams/3`)},
	{"Graphics, other devices and processes, debugging", unsupported(`
		cuGraphicsUnregisterResource/1 cuGraphicsSubResourceGetMappedArray/4 cuGraphicsResourceGetMappedMipmappedArray/2
		cuGraphicsResourceGetMappedPointer_v2/3 cuGraphicsResourceGetMappedPointer/3 cuGraphicsResourceSetMapFlags_v2/2 cuGraphicsResourceSetMapFlags/2
		cuGraphicsMapResources/3 cuGraphicsMapResources_ptsz/3 cuGraphicsUnmapResources/3 cuGraphicsUnmapResources_ptsz/3
		cuGraphicsGLRegisterBuffer/3 cuGraphicsGLRegisterImage/4 cuGLGetDevices_v2/4 cuGLGetDevices/4 cuGLCtxCreate_v2/3 cuGLCtxCreate/3 cuGLInit/0
		cuGLRegisterBufferObject/1 cuGLUnregisterBufferObject/1 cuGLSetBufferObjectMapFlags/2 cuGLMapBufferObject/3 cuGLMapBufferObject_v2/3
		cuGLMapBufferObject_v2_ptds/3 cuGLUnmapBufferObject/1 cuGLMapBufferObjectAsync/4 cuGLMapBufferObjectAsync_v2/4 cuGLMapBufferObjectAsync_v2_ptsz/4
		cuGLUnmapBufferObjectAsync/2
		cuGraphicsEGLRegisterImage/3 cuEGLStreamConsumerConnect/2 cuEGLStreamConsumerDisconnect/1
		cuImportExternalMemory/2 cuExternalMemoryGetMappedBuffer/3 cuExternalMemoryGetMappedMipmappedArray/3 cuDestroyExternalMemory/1
		cuImportExternalSemaphore/2 cuSignalExternalSemaphoresAsync/4 cuSignalExternalSemaphoresAsync_ptsz/4 cuWaitExternalSemaphoresAsync/4
		cuWaitExternalSemaphoresAsync_ptsz/4 cuDestroyExternalSemaphore/1 cuCoredumpGetAttribute/3 cuCoredumpGetAttributeGlobal/3
		cuCoredumpSetAttribute/3 cuCoredumpSetAttributeGlobal/3 cuCheckpointProcessGetRestoreThreadId/2 cuCheckpointProcessGetState/2
		cuCheckpointProcessLock/2 cuCheckpointProcessCheckpoint/2 cuCheckpointProcessRestore/2 cuCheckpointProcessUnlock/2`)},
}
