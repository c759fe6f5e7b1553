// What libcudart uses of the driver API. PVDRM's libcuda.so.1 checks every pointer
// that it gets, so the pointers of a program go there as they came. Results and
// handles are words of the x86-64 calling convention; names, arguments and layouts
// are those of the CUDA driver API's manual.
#ifndef PVDRM_CUDART_DRIVER_H
#define PVDRM_CUDART_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult; // the same numbers as cudaError_t
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUlib_st *CUlibrary;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3, MEMORY_UNIFIED = 4 }; // CUmemorytype

// CUDA_MEMCPY2D
struct copy2d {
	size_t src_x, src_y;
	uint32_t src_kind;
	const void *src_host;
	const void *src_device;
	void *src_array;
	size_t src_pitch;
	size_t dst_x, dst_y;
	uint32_t dst_kind;
	void *dst_host;
	void *dst_device;
	void *dst_array;
	size_t dst_pitch;
	size_t width, height;
};

// CUDA_MEMCPY3D
struct copy3d {
	size_t src_x, src_y, src_z, src_level;
	uint32_t src_kind;
	const void *src_host;
	const void *src_device;
	void *src_array, *src_reserved;
	size_t src_pitch, src_height;
	size_t dst_x, dst_y, dst_z, dst_level;
	uint32_t dst_kind;
	void *dst_host;
	void *dst_device;
	void *dst_array, *dst_reserved;
	size_t dst_pitch, dst_height;
	size_t width, height, depth;
};

_Static_assert(sizeof(struct copy2d) == 128, "CUDA_MEMCPY2D has 128 bytes");
_Static_assert(sizeof(struct copy3d) == 200, "CUDA_MEMCPY3D has 200 bytes");

// CUDA_ARRAY3D_DESCRIPTOR
struct array3d {
	size_t width, height, depth;
	uint32_t format, channels, flags;
};

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetName(char *name, int room, CUdevice device);
CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDeviceGetPCIBusId(char *id, int room, CUdevice device);
CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);
CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer);

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxGetFlags(unsigned *flags);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSetLimit(int limit, size_t value);
CUresult cuCtxGetLimit(size_t *value, int limit);
CUresult cuCtxSetCacheConfig(int config);
CUresult cuCtxGetCacheConfig(int *config);
CUresult cuCtxSetSharedMemConfig(int config);
CUresult cuCtxGetSharedMemConfig(int *config);
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
CUresult cuCtxResetPersistingL2Cache(void);

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, int *options, void **values, unsigned n,
			   int *library_options, void **library_values, unsigned library_n);
CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *options, void **values, unsigned n,
			       int *library_options, void **library_values, unsigned library_n);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name);
CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name);
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel);

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function);
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value);
CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device);
CUresult cuFuncSetCacheConfig(CUfunction function, int config);
CUresult cuFuncSetSharedMemConfig(CUfunction function, int config);
CUresult cuFuncGetName(const char **name, CUfunction function);
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
			unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments, void **extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
				   unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments);
CUresult cuLaunchKernelEx(const void *config, CUfunction function, void **arguments, void **extra);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads, size_t dynamic, unsigned flags);
struct driver_launch_config;
CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const struct driver_launch_config *config);
CUresult cuOccupancyMaxPotentialClusterSize(int *blocks, CUfunction function, const struct driver_launch_config *config);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads);

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element);
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags);
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult cuMemPoolExportToShareableHandle(void *to, CUmemoryPool pool, int kind, unsigned long long flags);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *from, int kind, unsigned long long flags);
CUresult cuMemPoolExportPointer(void *to, CUdeviceptr p);
CUresult cuMemPoolImportPointer(CUdeviceptr *p, CUmemoryPool pool, const void *from);
CUresult cuMemPoolCreate(CUmemoryPool *pool, const void *properties);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const void *access, size_t count);
CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, void *location);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value);
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value);
CUresult cuDeviceGraphMemTrim(CUdevice device);
CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *address);
CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *address);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags);
CUresult cuMemHostGetFlags(unsigned *flags, void *address);
CUresult cuMemGetInfo_v2(size_t *available, size_t *total);
CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device);
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int advice, uint64_t location);
CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, uint64_t location, unsigned flags, CUstream stream);
CUresult cuMemRangeGetAttribute(void *to, size_t room, int attribute, CUdeviceptr address, size_t bytes);
CUresult cuMemRangeGetAttributes(void **to, size_t *room, int *attributes, size_t n, CUdeviceptr address, size_t bytes);
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *elements, uint32_t format, uint32_t channels, CUdevice device);
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags);
// CUipcMemHandle and CUipcEventHandle
struct ipc_handle {
	char bytes[64];
};

CUresult cuIpcGetMemHandle(struct ipc_handle *handle, CUdeviceptr address);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, struct ipc_handle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr address);
CUresult cuIpcGetEventHandle(struct ipc_handle *handle, CUevent event);
CUresult cuIpcOpenEventHandle(CUevent *event, struct ipc_handle handle);

CUresult cuPointerGetAttributes(unsigned n, const int *attributes, void **values, CUdeviceptr address);

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext of_to, CUdeviceptr from, CUcontext of_from, size_t bytes);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext of_to, CUdeviceptr from, CUcontext of_from, size_t bytes, CUstream stream);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpy2DAsync_v2(const struct copy2d *copy, CUstream stream);
CUresult cuMemcpyBatchAsync(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t n, const void *attributes, const size_t *begin, size_t many, size_t *failed, CUstream stream);
CUresult cuMemcpy3DBatchAsync(size_t n, const void *copies, size_t *failed, uint64_t flags, CUstream stream);
CUresult cuMemcpy3DPeerAsync(const struct copy3d *copy, CUstream stream);
CUresult cuMemcpy3DAsync_v2(const struct copy3d *copy, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t bytes);
CUresult cuMemsetD8_v2_ptds(CUdeviceptr address, unsigned char value, size_t bytes);
CUresult cuMemsetD2D8_v2(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height);
CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height);
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream);
CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream);

CUresult cuArray3DCreate_v2(void **array, const struct array3d *description);
CUresult cuArray3DGetDescriptor_v2(struct array3d *description, void *array);
CUresult cuArrayDestroy(void *array);
CUresult cuMipmappedArrayCreate(void **array, const struct array3d *description, unsigned levels);
CUresult cuMipmappedArrayGetLevel(void **array, void *mipmapped, unsigned level);
CUresult cuMipmappedArrayDestroy(void *array);
CUresult cuTexObjectGetResourceDesc(void *resource, uint64_t texture);
CUresult cuTexObjectGetTextureDesc(void *sampler, uint64_t texture);
CUresult cuTexObjectGetResourceViewDesc(void *view, uint64_t texture);
CUresult cuSurfObjectGetResourceDesc(void *resource, uint64_t surface);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
CUresult cuTexObjectCreate(uint64_t *texture, const void *resource, const void *sampler, const void *view);
CUresult cuTexObjectDestroy(uint64_t texture);
CUresult cuSurfObjectCreate(uint64_t *surface, const void *resource);
CUresult cuSurfObjectDestroy(uint64_t surface);

CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamGetDevice(CUstream stream, CUdevice *device);
CUresult cuStreamGetFlags(CUstream stream, unsigned *flags);
CUresult cuStreamGetPriority(CUstream stream, int *priority);
CUresult cuStreamGetAttribute(CUstream stream, unsigned attribute, void *value);
CUresult cuStreamSetAttribute(CUstream stream, unsigned attribute, const void *value);
CUresult cuStreamCopyAttributes(CUstream to, CUstream from);
CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library);
CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned room, CUlibrary library);
CUresult cuStreamGetId(CUstream stream, uint64_t *id);
CUresult cuStreamAddCallback(CUstream stream, void *function, void *data, unsigned flags);
CUresult cuLaunchHostFunc(CUstream stream, void *function, void *data);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

#endif
