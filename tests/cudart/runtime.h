// What the tests use of the CUDA runtime API, declared from its public
// documentation for MAJOR 11, 12 or 13, and what nvcc's code calls (crt/host_runtime.h).
#ifndef TESTS_CUDART_RUNTIME_H
#define TESTS_CUDART_RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct { unsigned x, y, z; } dim3;
typedef struct { size_t width, height, depth; } cudaExtent;
typedef struct { size_t x, y, z; } cudaPos;
typedef struct { void *ptr; size_t pitch, xsize, ysize; } cudaPitchedPtr;
typedef struct {
	void *srcArray; cudaPos srcPos; cudaPitchedPtr srcPtr;
	void *dstArray; cudaPos dstPos; cudaPitchedPtr dstPtr;
	cudaExtent extent; int kind;
} cudaMemcpy3DParms;
typedef struct { dim3 grid, block; size_t shared; cudaStream_t stream; void *attrs; unsigned n; } cudaLaunchConfig_t;
typedef struct { int type, device; void *devicePointer, *hostPointer; long reserved[8]; } cudaPointerAttributes;
typedef struct { size_t sharedSizeBytes, constSizeBytes, localSizeBytes; int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, rest[25]; } cudaFuncAttributes;
typedef struct { int x, y, z, w, f; } cudaChannelFormatDesc;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct { int type, id; } cudaMemLocation;
typedef struct { cudaMemLocation location; int flags; } cudaMemAccessDesc;
typedef struct {
	int allocType, handleTypes;
	cudaMemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} cudaMemPoolProps;
_Static_assert(sizeof(cudaMemPoolProps) == 88, "cudaMemPoolProps");

enum { HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default };
enum {
	cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorInitializationError = 3, cudaErrorInvalidPitchValue = 12,
	cudaErrorInvalidSymbol = 13, cudaErrorInvalidMemcpyDirection = 21, cudaErrorMissingConfiguration = 52,
	cudaErrorInvalidDeviceFunction = 98, cudaErrorInvalidDevice = 101, cudaErrorNoKernelImageForDevice = 209,
	cudaErrorPeerAccessNotEnabled = 705, cudaErrorInvalidResourceHandle = 400, cudaErrorSymbolNotFound = 500, cudaErrorNotReady = 600,
	cudaErrorIllegalAddress = 700, cudaErrorNotPermitted = 800, cudaErrorNotSupported = 801,
};

#if MAJOR <= 12
#define UNTIL12(name) int name;
#define ONLY13(name)
enum { PROPERTIES = MAJOR == 11 ? 728 : 1032 };
#else
#define UNTIL12(name)
#define ONLY13(name) int name;
enum { PROPERTIES = 1008 };
#endif
typedef struct {
	char name[256], uuid[16], luid[8];
	unsigned luidDeviceNodeMask;
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
	UNTIL12(clockRate)
	size_t totalConstMem;
	int major, minor;
	size_t textureAlignment, texturePitchAlignment;
	UNTIL12(deviceOverlap)
	int multiProcessorCount;
	UNTIL12(kernelExecTimeoutEnabled)
	int integrated, canMapHostMemory;
	UNTIL12(computeMode)
	int maxTexture1D, maxTexture1DMipmap;
	UNTIL12(maxTexture1DLinear)
	int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3];
	int maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
	int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing;
	UNTIL12(memoryClockRate)
	int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
	UNTIL12(singleToDoublePrecisionPerfRatio)
	int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
	UNTIL12(cooperativeMultiDeviceLaunch)
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
#if MAJOR >= 12
	int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported;
	int memoryPoolsSupported, gpuDirectRDMASupported, gpuDirectRDMAFlushWritesOptions, gpuDirectRDMAWritesOrdering;
	int memoryPoolSupportedHandleTypes, deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
	ONLY13(deviceNumaConfig) ONLY13(deviceNumaId) ONLY13(mpsEnabled) ONLY13(hostNumaId)
	ONLY13(gpuPciDeviceID) ONLY13(gpuPciSubsystemID) ONLY13(hostNumaMultinodeIpcSupported)
	int reserved[MAJOR == 12 ? 63 : 56];
#endif
} cudaDeviceProp;
_Static_assert(sizeof(cudaDeviceProp) == PROPERTIES, "cudaDeviceProp");

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
char __cudaInitModule(void **);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
cudaError_t __cudaGetKernel(void **, const void *);
cudaError_t __cudaLaunchKernel(void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t __cudaLaunchKernel_ptsz(void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaLaunchKernel_ptsz(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **);
cudaError_t cudaGetKernel(void **, const void *);
cudaError_t cudaGetFuncBySymbol(void **, const void *);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *);
cudaError_t cudaFuncSetAttribute(const void *, int, int);
cudaError_t cudaFuncGetName(const char **, const void *);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *, const void *, int, int);

cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaGetDevice(int *);
cudaError_t cudaSetDevice(int);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *, int);
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp *, int);
cudaError_t cudaDeviceGetAttribute(int *, int, int);
cudaError_t cudaDeviceGetLimit(size_t *, int);
cudaError_t cudaDeviceGetPCIBusId(char *, int, int);
cudaError_t cudaDeviceGetByPCIBusId(int *, const char *);
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned);
cudaError_t cudaDeviceDisablePeerAccess(int);
cudaError_t cudaChooseDevice(int *, const void *);
cudaError_t cudaSetValidDevices(int *, int);
cudaError_t cudaSetDeviceFlags(unsigned);
cudaError_t cudaGetDeviceFlags(unsigned *);
cudaError_t cudaDriverGetVersion(int *);
cudaError_t cudaRuntimeGetVersion(int *);
cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, uint64_t, int *);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
cudaChannelFormatDesc cudaCreateChannelDesc(int, int, int, int, int);

cudaError_t cudaMalloc(void *, size_t);
cudaError_t cudaMallocPitch(void *, size_t *, size_t, size_t);
cudaError_t cudaMalloc3D(cudaPitchedPtr *, cudaExtent);
cudaError_t cudaMallocAsync(void *, size_t, cudaStream_t);
cudaError_t cudaMallocFromPoolAsync(void *, size_t, cudaMemPool_t, cudaStream_t);
cudaError_t cudaMallocManaged(void *, size_t, unsigned);
cudaError_t cudaMallocHost(void *, size_t);
cudaError_t cudaHostAlloc(void *, size_t, unsigned);
cudaError_t cudaHostRegister(void *, size_t, unsigned);
cudaError_t cudaHostUnregister(void *);
cudaError_t cudaHostGetDevicePointer(void *, void *, unsigned);
cudaError_t cudaHostGetFlags(unsigned *, void *);
cudaError_t cudaFree(void *);
cudaError_t cudaFreeHost(void *);
cudaError_t cudaFreeAsync(void *, cudaStream_t);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int);
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *, int);
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *, const cudaMemPoolProps *);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, int, void *);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, int, void *);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t);
cudaError_t cudaMemPoolGetAccess(int *, cudaMemPool_t, const cudaMemLocation *);
typedef struct { unsigned char reserved[64]; } cudaMemPoolPtrExportData;
cudaError_t cudaMemPoolExportToShareableHandle(void *, cudaMemPool_t, int, unsigned);
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *, void *, int, unsigned);
cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData *, void *);
cudaError_t cudaMemPoolImportPointer(void *, cudaMemPool_t, cudaMemPoolPtrExportData *);
cudaError_t cudaMemGetInfo(size_t *, size_t *);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *, const void *);
cudaError_t cudaGetSymbolAddress(void **, const void *);
cudaError_t cudaGetSymbolSize(size_t *, const void *);
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void *, size_t, unsigned);

cudaError_t cudaMemcpy(void *, const void *, size_t, int);
cudaError_t cudaMemcpy_ptds(void *, const void *, size_t, int);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, int, cudaStream_t);
cudaError_t cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *);
cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
cudaError_t cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
cudaError_t cudaMemcpyPeer(void *, int, const void *, int, size_t);
cudaError_t cudaMemset(void *, int, size_t);
cudaError_t cudaMemset2D(void *, size_t, int, size_t, size_t);
cudaError_t cudaMemset3D(cudaPitchedPtr, int, cudaExtent);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);

cudaError_t cudaStreamCreate(cudaStream_t *);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaStreamIsCapturing(cudaStream_t, int *);
cudaError_t cudaStreamAddCallback(cudaStream_t, void (*)(cudaStream_t, cudaError_t, void *), void *, unsigned);
cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*)(void *), void *);
cudaError_t cudaEventCreate(cudaEvent_t *);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaImportExternalMemory(void **, const void *);
cudaError_t cudaGraphCreate(void **, unsigned);
cudaError_t cudaMallocArray(void **, const cudaChannelFormatDesc *, size_t, size_t, unsigned);
cudaError_t cudaFreeArray(void *);

#define GIVES(want, call)                                                                                   \
	do {                                                                                                \
		cudaError_t e_ = (call);                                                                    \
		if (e_ != (want)) {                                                                         \
			fprintf(stderr, "%s:%d: %s: %s, not %d\n", __FILE__, __LINE__, #call, cudaGetErrorName(e_), want); \
			exit(1);                                                                            \
		}                                                                                           \
	} while (0)
#define OK(call) GIVES(cudaSuccess, call)
#define REQUIRE(cond)                                                                        \
	do {                                                                                 \
		if (!(cond)) {                                                               \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);   \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

// A fatbin with one plain PTX image.
struct fatbin {
	uint32_t magic;
	uint16_t version, header;
	uint64_t bytes;
	uint16_t kind, entry_version;
	uint32_t entry_header;
	uint64_t entry_bytes;
	uint32_t unused[3], architecture, more[8];
	char ptx[4096];
};
_Static_assert(offsetof(struct fatbin, ptx) == 16 + 64, "the headers of a fatbin and an entry");
struct wrapper { int32_t magic, version; const void *data; void *name; };

static inline void fill_fatbin(struct fatbin *f, struct wrapper *w, const char *ptx)
{
	*f = (struct fatbin){.magic = 0xba55ed50, .version = 1, .header = 16, .bytes = 64 + sizeof f->ptx,
		.kind = 1, .entry_version = 0x101, .entry_header = 64, .entry_bytes = sizeof f->ptx, .architecture = 70};
	strncpy(f->ptx, ptx, sizeof f->ptx - 1);
	*w = (struct wrapper){0x466243b1, 1, f, NULL};
}

#endif
