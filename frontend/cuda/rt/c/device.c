// What a device is like.
#include <string.h>

#include "cudart.h"

// A field of cudaDeviceProp behind totalGlobalMem: a CUdevice_attribute, as an int
// or a size_t. The order and the padding of driver_types.h give the offsets.
struct field { uint8_t attribute, bytes; };

#define I(attribute) {attribute, sizeof(int)}
#define S(attribute) {attribute, sizeof(size_t)}
#if MAJOR <= 12
#define UNTIL12(attribute) I(attribute),
#define ONLY13(attribute)
#else
#define UNTIL12(attribute)
#define ONLY13(attribute) I(attribute),
#endif

static const struct field fields[] = {
	S(8), I(12), I(10), S(11), I(1), // shared memory of a block, registers, warp, pitch, threads
	I(2), I(3), I(4), I(5), I(6), I(7), // block, grid
	UNTIL12(13) // clock
	S(9), I(75), I(76), S(14), S(51), // constant memory, compute capability, alignment of textures
	UNTIL12(15) // overlap
	I(16), // multiprocessors
	UNTIL12(17) // time limit of kernels
	I(18), I(19), // integrated, maps host memory
	UNTIL12(20) // compute mode
	I(21), I(77), // 1D textures
	UNTIL12(69) // 1D linear
	I(22), I(23), I(73), I(74), I(70), I(71), I(72), I(45), I(46), // 2D textures
	I(24), I(25), I(26), I(47), I(48), I(49), I(52), // 3D and cube textures
	I(42), I(43), I(27), I(28), I(29), I(53), I(54), // layered textures
	I(55), I(56), I(57), I(58), I(59), I(60), I(61), I(62), I(63), I(64), I(65), I(66), I(67), I(68), // surfaces
	S(30), I(31), I(32), I(33), I(34), I(50), I(35), I(40), I(41), // alignment of surfaces … unified addressing
	UNTIL12(36) // clock of memory
	I(37), I(38), I(108), I(39), I(78), I(79), I(80), // bus, caches, threads of a multiprocessor
	S(81), I(82), I(83), I(84), I(85), I(86), // of a multiprocessor; managed memory … atomics on host memory
	UNTIL12(87) // single to double precision
	I(88), I(89), I(90), I(91), I(95), // pageable memory … cooperative launch
	UNTIL12(96) // of several devices
	S(97), I(100), I(101), I(106), I(109), S(111), // shared memory by opting in … reserved shared memory
#if MAJOR >= 12
	I(99), I(112), I(113), I(114), I(115), I(116), I(117), I(118), I(119), I(121), I(125), I(120), I(129), // host registration … unified functions
	ONLY13(130) ONLY13(131) ONLY13(133) ONLY13(134) ONLY13(139) ONLY13(140) ONLY13(143) // NUMA, MPS, PCI
#endif
};

enum {
	PROPERTIES11 = 728, // sizeof(struct cudaDeviceProp) of CUDA 11
	PROPERTIES13 = 784, // of 1008: NVIDIA's runtime does not write the reserved words at the end, either
	PROPERTIES = MAJOR == 11 ? PROPERTIES11 : MAJOR == 12 ? 1032 : PROPERTIES13,
	NAME = 256,
	UUID = 256,         // offset, after the name
	TOTAL = 288,        // after uuid, luid and luidDeviceNodeMask
	FIRST = TOTAL + 8,
};

static int get_properties(void *to, int device, size_t bytes)
{
	char p[PROPERTIES] = {0};
	CUdevice d;
	int r = initialize();
	if (r || (r = cuDeviceGet(&d, device)) || (r = cuDeviceGetName(p, NAME, d)) || (r = cuDeviceGetUuid_v2(p + UUID, d)) ||
	    (r = cuDeviceTotalMem_v2((size_t *)(p + TOTAL), d)))
		return r;
	size_t at = FIRST;
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		int value;
		if ((r = cuDeviceGetAttribute(&value, fields[i].attribute, d)))
			return r;
		int64_t wide = value;
		at = (at + fields[i].bytes - 1) & -(size_t)fields[i].bytes;
		memcpy(p + at, &wide, fields[i].bytes);
		at += fields[i].bytes;
	}
	return store(to, p, bytes);
}

// CUDA 12 made the struct longer, and its headers call _v2. The name without it is for callers
// that know the struct of CUDA 11, where the same fields lie first.
FREE(cudaGetDeviceProperties, (void *properties, int device), get_properties(properties, device, MAJOR == 12 ? PROPERTIES11 : PROPERTIES))
FREE(cudaGetDeviceProperties_v2, (void *properties, int device), get_properties(properties, device, PROPERTIES))
WITH_DEVICES(cudaDeviceGetAttribute, (int *value, int attribute, int device), cuDeviceGetAttribute(value, attribute, device))
WITH_DEVICES(cudaDeviceGetPCIBusId, (char *id, int room, int device), cuDeviceGetPCIBusId(id, room, device))
WITH_DEVICES(cudaDeviceGetByPCIBusId, (int *device, const char *id), cuDeviceGetByPCIBusId(device, id))
WITH_DEVICES(cudaDeviceGetP2PAttribute, (int *value, int attribute, int device, int peer), cuDeviceGetP2PAttribute(value, attribute, device, peer))
WITH_DEVICES(cudaDeviceCanAccessPeer, (int *can, int device, int peer), cuDeviceCanAccessPeer(can, device, peer))

// newer finds a function of the driver API of CUDA 13.
int newer(const char *name, void **function)
{
	int status;
	return cuGetProcAddress_v2(name, function, 13000, 0, &status);
}

static int host_atomics(unsigned *can, const int *operations, unsigned n, int device)
{
	void *call;
	int r = newer("cuDeviceGetHostAtomicCapabilities", &call);
	return r ? r : ((int (*)(unsigned *, const int *, unsigned, CUdevice))call)(can, operations, n, device);
}

WITH_DEVICES(cudaDeviceGetHostAtomicCapabilities, (unsigned *can, const int *operations, unsigned n, int device), host_atomics(can, operations, n, device))

// Primary contexts have the access to memory of other devices.
enum { INCOMPATIBLE_DRIVER_CONTEXT = 49 };

static int peer(int device, CUcontext *of)
{
	int r = is_device(device);
	if (r)
		return r;
	return in_primary() ? primary_of(device, of) : INCOMPATIBLE_DRIVER_CONTEXT;
}

static int enable_peer(int device, unsigned flags)
{
	CUcontext of;
	int r = flags ? INVALID_VALUE : peer(device, &of);
	return r ? r : cuCtxEnablePeerAccess(of, 0);
}

static int disable_peer(int device)
{
	CUcontext of;
	int r = peer(device, &of);
	return r ? r : cuCtxDisablePeerAccess(of);
}

API(cudaDeviceEnablePeerAccess, (int device, unsigned flags), enable_peer(device, flags))
API(cudaDeviceDisablePeerAccess, (int device), disable_peer(device))

PUBLIC struct channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind)
{
	return (struct channel){{x, y, z, w}, kind};
}
