package rt

import "slices"

//go:generate go run ./generate

// Endings of names whose default stream is the thread's.
const (
	ptsz = "_ptsz"
	ptds = "_ptds"
)

// Notes that several rows share.
const (
	noteHint      = "accepted, without effect"
	noteIPC       = "between processes of one guest; not on NVIDIA GPUs"
	noteNoPeers   = "devices do not reach each other's memory"
	notePeers     = "between devices the call waits for the copy"
	notePaged     = "with memory that is not pinned the call waits for the copy"
	noteTextures  = "not on NVIDIA GPUs"
	noteTogether  = noteTextures
	noteStays     = "checked, without effect: managed memory does not move"
	noteShareable = "file descriptors, between processes of one guest; not on NVIDIA GPUs"
	notePools     = "memory of the device only"
	noteHostFuncs = "later calls for the stream wait in the program until the function has run"
)

// families is every entry point.
var families = []family{
	{"What nvcc's code calls", []entry{
		{name: "__cudaRegisterFatBinary"},
		{name: "__cudaRegisterFatBinaryEnd"},
		{name: "__cudaUnregisterFatBinary"},
		{name: "__cudaRegisterFunction"},
		{name: "__cudaRegisterVar"},
		{name: "__cudaRegisterManagedVar", note: "managed memory with one address for the program and the device; of one context, the first that uses the module"},
		{name: "__cudaRegisterHostVar", note: noteHint},
		{name: "__cudaRegisterTexture"},
		{name: "__cudaRegisterSurface"},
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
		{name: "cudaChooseDevice", note: "always device 0"},
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
		{name: "cudaDeviceGetStreamPriorityRange", note: notePriority},
		{name: "cudaDeviceGetPCIBusId", note: "always 0000:00:00.0"},
		{name: "cudaDeviceGetByPCIBusId"},
		{name: "cudaDeviceCanAccessPeer", note: noteNoPeers},
		{name: "cudaDeviceGetP2PAttribute", note: noteNoPeers},
		{name: "cudaDeviceEnablePeerAccess", note: noteNoPeers},
		{name: "cudaDeviceDisablePeerAccess", note: noteNoPeers},
		{name: "cudaCtxResetPersistingL2Cache", note: noteHint},
		{name: "cudaProfilerStart", note: noteHint},
		{name: "cudaProfilerStop", note: noteHint},
		{name: "cudaThreadSynchronize"},
		{name: "cudaThreadExit"},
		{name: "cudaThreadSetLimit", note: noteHint},
		{name: "cudaThreadGetLimit"},
		{name: "cudaThreadSetCacheConfig", note: noteHint},
		{name: "cudaThreadGetCacheConfig"},
		{name: "cudaDeviceGetGraphMemAttribute"},
		{name: "cudaDeviceSetGraphMemAttribute"},
		{name: "cudaDeviceGraphMemTrim"},
		{name: "cudaIpcGetEventHandle", note: noteIPC},
		{name: "cudaIpcOpenEventHandle", note: noteIPC},
		{name: "cudaIpcGetMemHandle", note: noteIPC},
		{name: "cudaIpcOpenMemHandle", note: noteIPC},
		{name: "cudaIpcCloseMemHandle"},
	}, missing(`
		cudaDeviceFlushGPUDirectRDMAWrites cudaDeviceGetNvSciSyncAttributes cudaDeviceGetTexture1DLinearMaxWidth
		cudaDeviceRegisterAsyncNotification cudaDeviceUnregisterAsyncNotification cudaDeviceGetHostAtomicCapabilities cudaDeviceGetP2PAtomicCapabilities`))},
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
		{name: "cudaLaunchKernelExC", perThread: ptsz, note: "no events of a launch; cooperative ones and clusters not on NVIDIA GPUs"},
		{name: "cudaLaunchCooperativeKernel", perThread: ptsz, note: noteTogether},
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
		{name: "cudaLibraryGetKernelCount"},
		{name: "cudaLibraryEnumerateKernels"},
		{name: "cudaLibraryGetKernel"},
		{name: "cudaLibraryGetGlobal"},
		{name: "cudaLibraryGetManaged"},
		{name: "cudaOccupancyMaxActiveBlocksPerMultiprocessor"},
		{name: "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"},
		{name: "cudaOccupancyMaxActiveClusters"},
		{name: "cudaOccupancyMaxPotentialClusterSize"},
		{name: "cudaOccupancyAvailableDynamicSMemPerBlock"},
	}, missing(`
		cudaLaunchCooperativeKernelMultiDevice cudaLibraryGetUnifiedFunction cudaSetDoubleForDevice cudaSetDoubleForHost`))},
	{"Memory", slices.Concat([]entry{
		{name: "cudaMalloc"},
		{name: "cudaMallocPitch"},
		{name: "cudaMalloc3D"},
		{name: "cudaMallocAsync", perThread: ptsz},
		{name: "cudaMallocFromPoolAsync", perThread: ptsz},
		{name: "cudaFreeAsync", perThread: ptsz, note: "managed memory is freed after the work of the context"},
		{name: "cudaDeviceGetDefaultMemPool"},
		{name: "cudaDeviceGetMemPool"},
		{name: "cudaDeviceSetMemPool"},
		{name: "cudaMemPoolCreate", note: notePools},
		{name: "cudaMemPoolDestroy"},
		{name: "cudaMemPoolTrimTo"},
		{name: "cudaMemPoolSetAttribute"},
		{name: "cudaMemPoolGetAttribute"},
		{name: "cudaMemPoolSetAccess", note: noteNoPeers},
		{name: "cudaMemPoolGetAccess", note: noteNoPeers},
		{name: "cudaMemPoolExportToShareableHandle", note: noteShareable},
		{name: "cudaMemPoolImportFromShareableHandle", note: noteShareable},
		{name: "cudaMemPoolExportPointer", note: noteIPC},
		{name: "cudaMemPoolImportPointer", note: noteIPC},
		{name: "cudaMemGetDefaultMemPool", note: notePools},
		{name: "cudaMemGetMemPool", note: notePools},
		{name: "cudaMemSetMemPool", note: notePools},
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
		cudaMemRangeGetAttribute cudaMemRangeGetAttributes
		cudaMemPrefetchBatchAsync/_ptsz cudaMemDiscardBatchAsync/_ptsz cudaMemDiscardAndPrefetchBatchAsync/_ptsz`))},
	{"Copies", slices.Concat([]entry{
		{name: "cudaMemcpy", perThread: ptds},
		{name: "cudaMemcpyAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpy2D", perThread: ptds},
		{name: "cudaMemcpy2DAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpy3D", perThread: ptds},
		{name: "cudaMemcpyToArray", perThread: ptds},
		{name: "cudaMemcpyToArrayAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpyFromArray", perThread: ptds},
		{name: "cudaMemcpyFromArrayAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpy2DToArray", perThread: ptds},
		{name: "cudaMemcpy2DToArrayAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpy2DFromArray", perThread: ptds},
		{name: "cudaMemcpy2DFromArrayAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpy2DArrayToArray", perThread: ptds},
		{name: "cudaMemcpy3DAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpyToSymbol", perThread: ptds},
		{name: "cudaMemcpyToSymbolAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpyFromSymbol", perThread: ptds},
		{name: "cudaMemcpyFromSymbolAsync", perThread: ptsz, note: notePaged},
		{name: "cudaMemcpyPeer", note: notePeers},
		{name: "cudaMemcpyPeerAsync", note: notePeers},
		{name: "cudaMemset", perThread: ptds},
		{name: "cudaMemsetAsync", perThread: ptsz},
		{name: "cudaMemset2D", perThread: ptds},
		{name: "cudaMemset2DAsync", perThread: ptsz},
		{name: "cudaMemset3D", perThread: ptds},
		{name: "cudaMemset3DAsync", perThread: ptsz},
	}, missing(`
		cudaMemcpy3DPeer/_ptds cudaMemcpy3DPeerAsync/_ptsz cudaMemcpyBatchAsync/_ptsz cudaMemcpy3DBatchAsync/_ptsz cudaMemcpyArrayToArray/_ptds`))},
	{"Streams and events", slices.Concat([]entry{
		{name: "cudaStreamCreate"},
		{name: "cudaStreamCreateWithFlags"},
		{name: "cudaStreamCreateWithPriority", note: notePriority},
		{name: "cudaStreamDestroy", note: "waits for the work of the stream"},
		{name: "cudaStreamSynchronize", perThread: ptsz},
		{name: "cudaStreamQuery", perThread: ptsz},
		{name: "cudaStreamWaitEvent", perThread: ptsz},
		{name: "cudaStreamAddCallback", perThread: ptsz, note: noteHostFuncs},
		{name: "cudaStreamGetFlags", perThread: ptsz},
		{name: "cudaStreamGetPriority", perThread: ptsz},
		{name: "cudaStreamGetId", perThread: ptsz},
		{name: "cudaStreamGetDevice", perThread: ptsz},
		{name: "cudaStreamBeginCapture", perThread: ptsz},
		{name: "cudaStreamBeginCaptureToGraph", perThread: ptsz},
		{name: "cudaStreamEndCapture", perThread: ptsz},
		{name: "cudaStreamIsCapturing", perThread: ptsz},
		{name: "cudaStreamGetCaptureInfo", perThread: ptsz},
		{name: "cudaStreamGetCaptureInfo_v2", perThread: ptsz},
		{name: "cudaStreamGetCaptureInfo_v3", perThread: ptsz},
		{name: "cudaStreamUpdateCaptureDependencies", perThread: ptsz},
		{name: "cudaStreamUpdateCaptureDependencies_v2", perThread: ptsz},
		{name: "cudaThreadExchangeStreamCaptureMode"},
		{name: "cudaEventCreate"},
		{name: "cudaEventCreateWithFlags", note: "not for other processes"},
		{name: "cudaEventRecord", perThread: ptsz},
		{name: "cudaEventRecordWithFlags", perThread: ptsz},
		{name: "cudaEventQuery"},
		{name: "cudaEventSynchronize"},
		{name: "cudaEventElapsedTime"},
		{name: "cudaEventElapsedTime_v2"},
		{name: "cudaEventDestroy"},
		{name: "cudaStreamGetAttribute", perThread: ptsz},
		{name: "cudaStreamSetAttribute", perThread: ptsz, note: "kept, without effect"},
		{name: "cudaStreamCopyAttributes", perThread: ptsz},
	})},
	{"Arrays, textures, surfaces", slices.Concat([]entry{
		{name: "cudaCreateChannelDesc"},
		{name: "cudaMallocArray", note: noteTextures},
		{name: "cudaMalloc3DArray", note: noteTextures + "; no sparse or deferred arrays"},
		{name: "cudaFreeArray"},
		{name: "cudaArrayGetInfo"},
		{name: "cudaGetChannelDesc"},
		{name: "cudaCreateTextureObject", note: noteTextures + "; no seamless cubes, no compressed views; sRGB of bytes"},
		{name: "cudaDestroyTextureObject"},
		{name: "cudaCreateSurfaceObject", note: noteTextures},
		{name: "cudaDestroySurfaceObject"},
		{name: "cudaMallocMipmappedArray", note: noteTextures + "; no sparse or deferred arrays"},
		{name: "cudaGetMipmappedArrayLevel"},
		{name: "cudaFreeMipmappedArray"},
		{name: "cudaGetTextureObjectResourceDesc"},
		{name: "cudaGetTextureObjectTextureDesc"},
		{name: "cudaGetTextureObjectResourceViewDesc"},
		{name: "cudaGetSurfaceObjectResourceDesc"},
	}, missing(`
		cudaArrayGetPlane cudaArrayGetMemoryRequirements cudaArrayGetSparseProperties cudaMipmappedArrayGetMemoryRequirements
		cudaMipmappedArrayGetSparseProperties`))},
	{"CUDA 11 only", slices.Concat([]entry{
		{name: "cudaBindTexture", note: noteTextures},
		{name: "cudaBindTexture2D", note: noteTextures},
		{name: "cudaBindTextureToArray", note: noteTextures},
		{name: "cudaBindTextureToMipmappedArray", note: noteTextures},
		{name: "cudaUnbindTexture"},
		{name: "cudaGetTextureAlignmentOffset"},
		{name: "cudaGetTextureReference"},
		{name: "cudaBindSurfaceToArray", note: noteTextures},
		{name: "cudaGetSurfaceReference"},
		{name: "cudaCreateTextureObject_v2", note: "as cudaCreateTextureObject"},
		{name: "cudaGetTextureObjectTextureDesc_v2"},
	}, missing(`cudaProfilerInitialize`))},
	{"Graphs", graphEntries},
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
