// References to textures and surfaces, which programs of CUDA 11 have. A reference is a
// variable of the device that holds the handle of an object, which is made when the program
// binds the reference.
#include "texture.h"

// bind makes an object of a resource, as the reference says how to read it, and binds it.
static int bind(const struct texture_reference *reference, const struct driver_resource *resource, size_t offset)
{
	struct reference now;
	struct texture_reference t;
	uint64_t object, before = 0;
	int r = reference_of(reference, &now);
	if (r || (r = fetch(&t, reference, sizeof t)))
		return r;
	struct driver_sampler d = {
		.address = {t.address[0], t.address[1], t.address[2]}, .filter = t.filter,
		.flags = (now.normalized ? 0 : FLAG_INTEGER) | (t.normalized ? FLAG_NORMALIZED : 0) | (t.srgb ? FLAG_SRGB : 0) |
			 (t.no_trilinear ? FLAG_NO_TRILINEAR : 0),
		.anisotropy = t.anisotropy, .mip_filter = t.mip_filter, .mip_bias = t.mip_bias, .mip_min = t.mip_min, .mip_max = t.mip_max,
	};
	if ((r = cuTexObjectCreate(&object, resource, &d, NULL)))
		return r;
	if ((r = bind_reference(reference, object, offset, &before)))
		(void)cuTexObjectDestroy(object);
	else if (before)
		r = cuTexObjectDestroy(before);
	return r;
}

// bind_memory binds memory, from the multiple of 256 on that lies before it.
static int bind_memory(size_t *offset, const struct texture_reference *reference, CUdeviceptr address, const struct channel *channel,
		       struct driver_resource resource)
{
	struct channel c;
	size_t off = address % 256;
	int r = fetch(&c, channel, sizeof c);
	if (r || (r = format_of(&c, &resource.format, &resource.channels)))
		return r;
	if (off && !offset)
		return say(INVALID_VALUE, "memory that is not aligned to 256 bytes needs an offset");
	resource.address = address - off;
	if (resource.kind == RESOURCE_LINEAR) { // the program need not say how much there is
		CUdeviceptr base;
		size_t bytes;
		if ((r = cuMemGetAddressRange_v2(&base, &bytes, address)))
			return r;
		size_t rest = base + bytes - resource.address;
		resource.width = resource.width > rest - off ? rest : resource.width + off;
	}
	if ((r = bind(reference, &resource, off)))
		return r;
	return offset ? store(offset, &off, sizeof off) : SUCCESS;
}

static int bind_array(const struct texture_reference *reference, void *array, int kind)
{
	struct driver_resource resource = {.kind = kind, .array = array};
	return bind(reference, &resource, 0);
}

static int unbind(const void *reference)
{
	struct reference now;
	uint64_t before = 0;
	int r = reference_of(reference, &now);
	if (r || !now.object || (r = bind_reference(reference, 0, 0, &before)))
		return r;
	return before ? cuTexObjectDestroy(before) : SUCCESS;
}

static int alignment_offset(size_t *offset, const void *reference)
{
	struct reference now;
	int r = reference_of(reference, &now);
	if (!r && !now.object)
		r = INVALID_TEXTURE_BINDING;
	return r ? r : store(offset, &now.offset, sizeof now.offset);
}

static int bind_surface(const void *reference, void *array)
{
	struct driver_resource resource = {.kind = RESOURCE_ARRAY, .array = array};
	struct reference now;
	uint64_t object, before = 0;
	int r = reference_of(reference, &now);
	if (r || (r = cuSurfObjectCreate(&object, &resource)))
		return r == INVALID_TEXTURE ? INVALID_SURFACE : r;
	if ((r = bind_reference(reference, object, 0, &before)))
		(void)cuSurfObjectDestroy(object);
	else if (before)
		r = cuSurfObjectDestroy(before);
	return r;
}

// reference_at writes the reference that a variable of the program is.
static int reference_at(const void **to, const void *symbol, int missing)
{
	struct reference now;
	return reference_of(symbol, &now) ? missing : store(to, &symbol, sizeof symbol);
}

API(cudaBindTexture, (size_t *offset, const struct texture_reference *reference, CUdeviceptr address, const struct channel *channel, size_t bytes),
    bind_memory(offset, reference, address, channel, (struct driver_resource){.kind = RESOURCE_LINEAR, .width = bytes}))
API(cudaBindTexture2D, (size_t *offset, const struct texture_reference *reference, CUdeviceptr address, const struct channel *channel, size_t width, size_t height, size_t pitch),
    bind_memory(offset, reference, address, channel, (struct driver_resource){.kind = RESOURCE_PITCH, .width = width, .height = height, .pitch = pitch}))
API(cudaBindTextureToArray, (const struct texture_reference *reference, void *array, const struct channel *channel),
    channel ? bind_array(reference, array, RESOURCE_ARRAY) : INVALID_VALUE)
API(cudaBindTextureToMipmappedArray, (const struct texture_reference *reference, void *array, const struct channel *channel),
    channel ? bind_array(reference, array, RESOURCE_MIPMAPPED) : INVALID_VALUE)
API(cudaUnbindTexture, (const void *reference), unbind(reference))
API(cudaGetTextureAlignmentOffset, (size_t *offset, const void *reference), alignment_offset(offset, reference))
API(cudaGetTextureReference, (const void **reference, const void *symbol), reference_at(reference, symbol, INVALID_TEXTURE))
API(cudaBindSurfaceToArray, (const void *reference, void *array, const struct channel *channel),
    channel ? bind_surface(reference, array) : INVALID_VALUE)
API(cudaGetSurfaceReference, (const void **reference, const void *symbol), reference_at(reference, symbol, INVALID_SURFACE))
