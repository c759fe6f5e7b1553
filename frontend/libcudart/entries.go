package libcudart

import "slices"

//go:generate go run pvdrm/cmd/libcudart/generate

// Endings of names whose default stream is that of the thread.
const (
	ptsz = "_ptsz"
	ptds = "_ptds"
)

// Notes that several rows share.
const (
	noteHint      = "accepted, without effect"
	noteOneDevice = "there is one device, which is no peer"
	notePaged     = "with memory that is not pinned the call waits for the copy"
	noteArrays    = "no CUDA arrays"
	noteStays     = "checked, without effect: managed memory does not move"
	noteNoCapture = "nothing is ever captured"
	noteHostFuncs = "later calls for the stream wait in the program until the function has run"
	noteNoPool    = "allocated at once, freed after the work of the context"
)

// families is every entry point.
var families = []family{
	{"What nvcc's code calls", []entry{
		{name: "__cudaRegisterFatBinary"},
		{name: "__cudaRegisterFatBinaryEnd"},
		{name: "__cudaUnregisterFatBinary"},
		{name: "__cudaRegisterFunction"},
		{name: "__cudaRegisterVar"},
		{name: "__cudaRegisterManagedVar", note: "no kernel or variable of a module with one can be used: cudaErrorNotSupported"},
		{name: "__cudaRegisterHostVar", note: noteHint},
		{name: "__cudaRegisterUnifiedTable", note: noteHint},
		{name: "__cudaInitModule"},
		{name: "__cudaPushCallConfiguration", note: "at most 64 launches within the arguments of launches"},
		{name: "__cudaPopCallConfiguration"},
		{name: "__cudaGetKernel"},
		{name: "__cudaLaunchKernel", perThread: ptsz},
	}},
	{"Devices", slices.Concat([]entry{
		{name: "cudaGetDeviceCount"},
		{name: "cudaGetDevice"},
		{name: "cudaSetDevice"},
		{name: "cudaInitDevice"},
		{name: "cudaSetValidDevices"},
		{name: "cudaChooseDevice", note: "there is one device"},
		{name: "cudaGetDeviceProperties", note: "features that PVDRM lacks are 0"},
		{name: "cudaGetDeviceProperties_v2", note: "as cudaGetDeviceProperties"},
		{name: "cudaDeviceGetAttribute", note: "attributes of features that PVDRM lacks are 0"},
		{name: "cudaSetDeviceFlags", note: noteHint},
		{name: "cudaGetDeviceFlags"},
		{name: "cudaDeviceReset"},
		{name: "cudaDeviceSynchronize"},
		{name: "cudaDeviceSetLimit", note: noteHint},
		{name: "cudaDeviceGetLimit"},
		{name: "cudaDeviceSetCacheConfig", note: noteHint},
		{name: "cudaDeviceGetCacheConfig"},
		{name: "cudaDeviceSetSharedMemConfig", note: noteHint},
		{name: "cudaDeviceGetSharedMemConfig"},
		{name: "cudaDeviceGetStreamPriorityRange", note: "there is one priority, 0"},
		{name: "cudaDeviceGetPCIBusId", note: "always 0000:00:00.0"},
		{name: "cudaDeviceGetByPCIBusId"},
		{name: "cudaDeviceCanAccessPeer", note: noteOneDevice},
		{name: "cudaDeviceEnablePeerAccess", note: noteOneDevice},
		{name: "cudaDeviceDisablePeerAccess", note: noteOneDevice},
		{name: "cudaCtxResetPersistingL2Cache", note: noteHint},
		{name: "cudaProfilerStart", note: noteHint},
		{name: "cudaProfilerStop", note: noteHint},
		{name: "cudaThreadSynchronize"},
		{name: "cudaThreadExit"},
		{name: "cudaThreadSetLimit", note: noteHint},
		{name: "cudaThreadGetLimit"},
		{name: "cudaThreadSetCacheConfig", note: noteHint},
		{name: "cudaThreadGetCacheConfig"},
	}, missing(`
		cudaDeviceGetP2PAttribute cudaDeviceFlushGPUDirectRDMAWrites cudaDeviceGetNvSciSyncAttributes cudaDeviceGetTexture1DLinearMaxWidth
		cudaDeviceRegisterAsyncNotification cudaDeviceUnregisterAsyncNotification cudaDeviceGetHostAtomicCapabilities cudaDeviceGetP2PAtomicCapabilities
		cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool cudaDeviceSetMemPool cudaDeviceGetGraphMemAttribute cudaDeviceSetGraphMemAttribute cudaDeviceGraphMemTrim
		cudaIpcGetEventHandle cudaIpcOpenEventHandle cudaIpcGetMemHandle cudaIpcOpenMemHandle cudaIpcCloseMemHandle`))},
	{"Errors and versions", slices.Concat([]entry{
		{name: "cudaGetLastError"},
		{name: "cudaPeekAtLastError"},
		{name: "cudaGetErrorName"},
		{name: "cudaGetErrorString"},
		{name: "cudaDriverGetVersion", note: "that of libcuda.so.1, which is 12.8 for libcudart.so.13, too"},
		{name: "cudaRuntimeGetVersion"},
		{name: "cudaGetDriverEntryPoint", perThread: ptsz},
		{name: "cudaGetDriverEntryPointByVersion", perThread: ptsz},
	}, missing(`cudaGetExportTable cudaLogsRegisterCallback cudaLogsUnregisterCallback cudaLogsCurrent cudaLogsDumpToFile cudaLogsDumpToMemory`))},
	{"Kernels", slices.Concat([]entry{
		{name: "cudaLaunchKernel", perThread: ptsz},
		{name: "cudaLaunchKernelExC", perThread: ptsz, note: "no clusters, no cooperative launches, no events of a launch"},
		{name: "cudaLaunchHostFunc", perThread: ptsz, note: noteHostFuncs},
		{name: "cudaFuncGetAttributes"},
		{name: "cudaFuncSetAttribute", note: "the most dynamic shared memory; the carve-out has no effect"},
		{name: "cudaFuncSetCacheConfig", note: noteHint},
		{name: "cudaFuncSetSharedMemConfig", note: noteHint},
		{name: "cudaFuncGetName"},
		{name: "cudaFuncGetParamInfo"},
		{name: "cudaGetKernel"},
		{name: "cudaGetFuncBySymbol"},
		{name: "cudaKernelSetAttributeForDevice", note: "as cudaFuncSetAttribute"},
		{name: "cudaLibraryLoadData", note: "loaded into a context at its first use there; options are not looked at"},
		{name: "cudaLibraryLoadFromFile", note: "as cudaLibraryLoadData"},
		{name: "cudaLibraryUnload"},
		{name: "cudaLibraryGetKernel"},
		{name: "cudaLibraryGetGlobal"},
		{name: "cudaOccupancyMaxActiveBlocksPerMultiprocessor"},
		{name: "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"},
		{name: "cudaOccupancyAvailableDynamicSMemPerBlock"},
	}, missing(`
		cudaLaunchCooperativeKernel/_ptsz cudaLaunchCooperativeKernelMultiDevice cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize
		cudaLibraryGetManaged cudaLibraryGetUnifiedFunction cudaLibraryGetKernelCount cudaLibraryEnumerateKernels cudaSetDoubleForDevice cudaSetDoubleForHost`))},
	{"Memory", slices.Concat([]entry{
		{name: "cudaMalloc"},
		{name: "cudaMallocPitch"},
		{name: "cudaMalloc3D"},
		{name: "cudaMallocAsync", perThread: ptsz, note: noteNoPool},
		{name: "cudaFreeAsync", perThread: ptsz, note: noteNoPool},
		{name: "cudaMallocManaged", note: "pinned memory with one address for the program and the device; it does not move"},
		{name: "cudaMallocHost"},
		{name: "cudaHostAlloc"},
		{name: "cudaHostRegister", note: "noted only: copies are as from memory that is not pinned, and the device cannot map it"},
		{name: "cudaHostUnregister"},
		{name: "cudaHostGetDevicePointer"},
		{name: "cudaHostGetFlags"},
		{name: "cudaFree"},
		{name: "cudaFreeHost"},
		{name: "cudaMemGetInfo"},
		{name: "cudaPointerGetAttributes"},
		{name: "cudaGetSymbolAddress"},
		{name: "cudaGetSymbolSize"},
		{name: "cudaMemAdvise", note: noteStays},
		{name: "cudaMemAdvise_v2", note: noteStays},
		{name: "cudaMemPrefetchAsync", perThread: ptsz, note: noteStays},
		{name: "cudaMemPrefetchAsync_v2", perThread: ptsz, note: noteStays},
		{name: "cudaStreamAttachMemAsync", perThread: ptsz, note: noteStays},
	}, missing(`
		cudaMallocFromPoolAsync/_ptsz cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolTrimTo cudaMemPoolSetAttribute cudaMemPoolGetAttribute
		cudaMemPoolSetAccess cudaMemPoolGetAccess cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle cudaMemPoolExportPointer
		cudaMemPoolImportPointer cudaMemGetDefaultMemPool cudaMemGetMemPool cudaMemSetMemPool cudaMemRangeGetAttribute cudaMemRangeGetAttributes
		cudaMemPrefetchBatchAsync/_ptsz cudaMemDiscardBatchAsync/_ptsz cudaMemDiscardAndPrefetchBatchAsync/_ptsz`))},
	{"Copies", slices.Concat([]entry{
		{name: "cudaMemcpy", perThread: ptds},
		{name: "cudaMemcpyAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpy2D", perThread: ptds},
		{name: "cudaMemcpy2DAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpy3D", perThread: ptds, note: noteArrays},
		{name: "cudaMemcpy3DAsync", perThread: ptsz, note: noteArrays + "; " + notePaged},
		{name: "cudaMemcpyToSymbol", perThread: ptds},
		{name: "cudaMemcpyToSymbolAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpyFromSymbol", perThread: ptds},
		{name: "cudaMemcpyFromSymbolAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpyPeer", note: "there is one device"},
		{name: "cudaMemcpyPeerAsync", note: "there is one device"},
		{name: "cudaMemset", perThread: ptds},
		{name: "cudaMemsetAsync", perThread: ptsz},
		{name: "cudaMemset2D", perThread: ptds},
		{name: "cudaMemset2DAsync", perThread: ptsz},
		{name: "cudaMemset3D", perThread: ptds},
		{name: "cudaMemset3DAsync", perThread: ptsz},
	}, missing(`
		cudaMemcpy3DPeer/_ptds cudaMemcpy3DPeerAsync/_ptsz cudaMemcpyBatchAsync/_ptsz cudaMemcpy3DBatchAsync/_ptsz cudaMemcpyToArray/_ptds
		cudaMemcpyToArrayAsync/_ptsz cudaMemcpyFromArray/_ptds cudaMemcpyFromArrayAsync/_ptsz cudaMemcpyArrayToArray/_ptds cudaMemcpy2DToArray/_ptds
		cudaMemcpy2DToArrayAsync/_ptsz cudaMemcpy2DFromArray/_ptds cudaMemcpy2DFromArrayAsync/_ptsz cudaMemcpy2DArrayToArray/_ptds`))},
	{"Streams and events", slices.Concat([]entry{
		{name: "cudaStreamCreate"},
		{name: "cudaStreamCreateWithFlags"},
		{name: "cudaStreamCreateWithPriority", note: "there is one priority, 0"},
		{name: "cudaStreamDestroy", note: "waits for the work of the stream"},
		{name: "cudaStreamSynchronize", perThread: ptsz},
		{name: "cudaStreamQuery", perThread: ptsz},
		{name: "cudaStreamWaitEvent", perThread: ptsz},
		{name: "cudaStreamAddCallback", perThread: ptsz, note: noteHostFuncs},
		{name: "cudaStreamGetFlags", perThread: ptsz},
		{name: "cudaStreamGetPriority", perThread: ptsz},
		{name: "cudaStreamGetId", perThread: ptsz},
		{name: "cudaStreamGetDevice", perThread: ptsz},
		{name: "cudaStreamIsCapturing", perThread: ptsz, note: noteNoCapture},
		{name: "cudaStreamGetCaptureInfo", perThread: ptsz, note: noteNoCapture},
		{name: "cudaStreamGetCaptureInfo_v2", perThread: ptsz, note: noteNoCapture},
		{name: "cudaStreamGetCaptureInfo_v3", perThread: ptsz, note: noteNoCapture},
		{name: "cudaThreadExchangeStreamCaptureMode", note: noteNoCapture},
		{name: "cudaEventCreate"},
		{name: "cudaEventCreateWithFlags", note: "not for other processes"},
		{name: "cudaEventRecord", perThread: ptsz},
		{name: "cudaEventRecordWithFlags", perThread: ptsz},
		{name: "cudaEventQuery"},
		{name: "cudaEventSynchronize"},
		{name: "cudaEventElapsedTime"},
		{name: "cudaEventElapsedTime_v2"},
		{name: "cudaEventDestroy"},
	}, missing(`
		cudaStreamBeginCapture/_ptsz cudaStreamBeginCaptureToGraph/_ptsz cudaStreamEndCapture/_ptsz cudaStreamUpdateCaptureDependencies/_ptsz
		cudaStreamUpdateCaptureDependencies_v2/_ptsz cudaStreamCopyAttributes/_ptsz cudaStreamGetAttribute/_ptsz cudaStreamSetAttribute/_ptsz`))},
	{"Arrays, textures, surfaces", slices.Concat([]entry{{name: "cudaCreateChannelDesc"}}, missing(`
		cudaMallocArray cudaMalloc3DArray cudaMallocMipmappedArray cudaFreeArray cudaFreeMipmappedArray cudaGetMipmappedArrayLevel cudaArrayGetInfo
		cudaArrayGetPlane cudaArrayGetMemoryRequirements cudaArrayGetSparseProperties cudaMipmappedArrayGetMemoryRequirements
		cudaMipmappedArrayGetSparseProperties cudaGetChannelDesc cudaCreateTextureObject cudaDestroyTextureObject cudaGetTextureObjectResourceDesc
		cudaGetTextureObjectTextureDesc cudaGetTextureObjectResourceViewDesc cudaCreateSurfaceObject cudaDestroySurfaceObject cudaGetSurfaceObjectResourceDesc`))},
	{"Graphs", missing(`
		cudaGraphCreate cudaGraphDestroy cudaGraphClone cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaGraphInstantiateWithParams/_ptsz
		cudaGraphLaunch/_ptsz cudaGraphUpload/_ptsz cudaGraphExecDestroy cudaGraphExecGetFlags cudaGraphExecUpdate cudaGraphDebugDotPrint
		cudaGraphAddNode cudaGraphAddNode_v2 cudaGraphAddKernelNode cudaGraphAddMemcpyNode cudaGraphAddMemcpyNode1D cudaGraphAddMemcpyNodeToSymbol
		cudaGraphAddMemcpyNodeFromSymbol cudaGraphAddMemsetNode cudaGraphAddHostNode cudaGraphAddChildGraphNode cudaGraphAddEmptyNode
		cudaGraphAddEventRecordNode cudaGraphAddEventWaitNode cudaGraphAddMemAllocNode cudaGraphAddMemFreeNode
		cudaGraphAddExternalSemaphoresSignalNode cudaGraphAddExternalSemaphoresWaitNode cudaGraphAddDependencies cudaGraphAddDependencies_v2
		cudaGraphRemoveDependencies cudaGraphRemoveDependencies_v2 cudaGraphDestroyNode cudaGraphGetNodes cudaGraphGetRootNodes cudaGraphGetEdges
		cudaGraphGetEdges_v2 cudaGraphGetId cudaGraphExecGetId cudaGraphNodeGetType cudaGraphNodeFindInClone cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
		cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2 cudaGraphNodeGetEnabled cudaGraphNodeSetEnabled cudaGraphNodeSetParams
		cudaGraphNodeGetContainingGraph cudaGraphNodeGetLocalId cudaGraphNodeGetToolsId
		cudaGraphKernelNodeGetParams cudaGraphKernelNodeSetParams cudaGraphKernelNodeGetAttribute cudaGraphKernelNodeSetAttribute
		cudaGraphKernelNodeCopyAttributes cudaGraphMemcpyNodeGetParams cudaGraphMemcpyNodeSetParams cudaGraphMemcpyNodeSetParams1D
		cudaGraphMemcpyNodeSetParamsToSymbol cudaGraphMemcpyNodeSetParamsFromSymbol cudaGraphMemsetNodeGetParams cudaGraphMemsetNodeSetParams
		cudaGraphHostNodeGetParams cudaGraphHostNodeSetParams cudaGraphChildGraphNodeGetGraph cudaGraphEventRecordNodeGetEvent
		cudaGraphEventRecordNodeSetEvent cudaGraphEventWaitNodeGetEvent cudaGraphEventWaitNodeSetEvent cudaGraphMemAllocNodeGetParams
		cudaGraphMemFreeNodeGetParams cudaGraphExternalSemaphoresSignalNodeGetParams cudaGraphExternalSemaphoresSignalNodeSetParams
		cudaGraphExternalSemaphoresWaitNodeGetParams cudaGraphExternalSemaphoresWaitNodeSetParams cudaGraphExecNodeSetParams
		cudaGraphExecKernelNodeSetParams cudaGraphExecMemcpyNodeSetParams cudaGraphExecMemcpyNodeSetParams1D
		cudaGraphExecMemcpyNodeSetParamsToSymbol cudaGraphExecMemcpyNodeSetParamsFromSymbol cudaGraphExecMemsetNodeSetParams
		cudaGraphExecHostNodeSetParams cudaGraphExecChildGraphNodeSetParams cudaGraphExecEventRecordNodeSetEvent cudaGraphExecEventWaitNodeSetEvent
		cudaGraphExecExternalSemaphoresSignalNodeSetParams cudaGraphExecExternalSemaphoresWaitNodeSetParams cudaGraphConditionalHandleCreate
		cudaGraphConditionalHandleCreate_v2 cudaUserObjectCreate cudaUserObjectRetain cudaUserObjectRelease cudaGraphRetainUserObject cudaGraphReleaseUserObject`)},
	{"Graphics, other processes", missing(`
		cudaGraphicsMapResources cudaGraphicsUnmapResources cudaGraphicsUnregisterResource cudaGraphicsResourceSetMapFlags
		cudaGraphicsResourceGetMappedPointer cudaGraphicsSubResourceGetMappedArray cudaGraphicsResourceGetMappedMipmappedArray
		cudaGraphicsResourceGetMappedEglFrame cudaGraphicsEGLRegisterImage cudaGraphicsGLRegisterBuffer cudaGraphicsGLRegisterImage
		cudaGraphicsVDPAURegisterOutputSurface cudaGraphicsVDPAURegisterVideoSurface cudaGLGetDevices cudaGLSetGLDevice cudaGLRegisterBufferObject
		cudaGLMapBufferObject cudaGLMapBufferObjectAsync cudaGLUnmapBufferObject cudaGLUnmapBufferObjectAsync cudaGLUnregisterBufferObject
		cudaGLSetBufferObjectMapFlags cudaVDPAUGetDevice cudaVDPAUSetVDPAUDevice cudaEventCreateFromEGLSync cudaEGLStreamConsumerConnect
		cudaEGLStreamConsumerConnectWithFlags cudaEGLStreamConsumerDisconnect cudaEGLStreamConsumerAcquireFrame cudaEGLStreamConsumerReleaseFrame
		cudaEGLStreamProducerConnect cudaEGLStreamProducerDisconnect cudaEGLStreamProducerPresentFrame cudaEGLStreamProducerReturnFrame
		cudaImportExternalMemory cudaExternalMemoryGetMappedBuffer cudaExternalMemoryGetMappedMipmappedArray cudaDestroyExternalMemory
		cudaImportExternalSemaphore cudaDestroyExternalSemaphore cudaSignalExternalSemaphoresAsync/_ptsz cudaSignalExternalSemaphoresAsync_v2/_ptsz
		cudaWaitExternalSemaphoresAsync/_ptsz cudaWaitExternalSemaphoresAsync_v2/_ptsz`)},
}
