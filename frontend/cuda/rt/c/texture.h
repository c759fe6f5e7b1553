// The structures of textures and surfaces, in the runtime API and in the driver API.
#ifndef PVDRM_CUDART_TEXTURE_H
#define PVDRM_CUDART_TEXTURE_H

#include "cudart.h"

enum { FLAG_INTEGER = 1, FLAG_NORMALIZED = 2, FLAG_SRGB = 0x10, FLAG_NO_TRILINEAR = 0x20, FLAG_SEAMLESS = 0x40 }; // CU_TRSF_…
enum { RESOURCE_ARRAY, RESOURCE_MIPMAPPED, RESOURCE_LINEAR, RESOURCE_PITCH }; // cudaResourceType

// cudaResourceDesc; in memory it may be longer.
struct resource {
	int kind;
	union {
		void *array;
		CUdeviceptr address;
	};
	struct channel channel;
	size_t width, height, pitch; // of linear memory the first is its size in bytes
};

_Static_assert(sizeof(struct resource) == 64, "cudaResourceDesc has 64 bytes in use");

// CUDA_RESOURCE_DESC
struct driver_resource {
	int kind;
	union {
		void *array;
		CUdeviceptr address;
	};
	uint32_t format, channels;
	size_t width, height, pitch;
	uint32_t reserved[22], flags;
};

_Static_assert(sizeof(struct driver_resource) == 144, "CUDA_RESOURCE_DESC has 144 bytes");

// cudaTextureDesc
struct sampler {
	int address[3], filter, normalized_read, srgb;
	float border[4];
	int normalized;
	unsigned anisotropy;
	int mip_filter;
	float mip_bias, mip_min, mip_max;
	int no_trilinear;
	int seamless; // not in CUDA 11, but for functions of version 2
};

// CUDA_TEXTURE_DESC
struct driver_sampler {
	int address[3], filter;
	unsigned flags, anisotropy;
	int mip_filter;
	float mip_bias, mip_min, mip_max;
	float border[4];
	int reserved[12];
};

_Static_assert(sizeof(struct sampler) == 72, "cudaTextureDesc has 72 bytes");
_Static_assert(sizeof(struct driver_sampler) == 104, "CUDA_TEXTURE_DESC has 104 bytes");

// cudaResourceViewDesc; in memory it may be longer.
struct view {
	int format;
	size_t width, height, depth;
	uint32_t first_level, last_level, first_layer, last_layer;
};

// textureReference
struct texture_reference {
	int normalized, filter, address[3];
	struct channel channel;
	int srgb;
	unsigned anisotropy;
	int mip_filter;
	float mip_bias, mip_min, mip_max;
	int no_trilinear, reserved[14];
};

_Static_assert(sizeof(struct texture_reference) == 124, "textureReference has 124 bytes");

// texture.c
int format_of(const struct channel *c, uint32_t *format, uint32_t *channels);

#endif
