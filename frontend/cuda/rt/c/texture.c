// CUDA arrays, texture objects and surface objects.
#include "cudart.h"
#include "texture.h"


// formats are those of CUarray_format by the logarithm of the bytes of a channel and
// cudaChannelFormatKind: signed, unsigned, float.
static const uint32_t formats[3][3] = {{8, 1, 0}, {9, 2, 0x10}, {10, 3, 0x20}};

// format_of finds the format and the number of channels of a cudaChannelFormatDesc.
int format_of(const struct channel *c, uint32_t *format, uint32_t *channels)
{
	uint32_t n = 0;
	while (n < 4 && c->bits[n])
		n++;
	for (uint32_t k = 0; k < 4; k++)
		if (c->bits[k] != (k < n ? c->bits[0] : 0))
			return INVALID_CHANNEL_DESCRIPTOR;
	int size = c->bits[0] == 8 ? 0 : c->bits[0] == 16 ? 1 : c->bits[0] == 32 ? 2 : -1;
	if (size < 0 || n == 3 || c->kind < 0 || c->kind > 2 || !formats[size][c->kind])
		return INVALID_CHANNEL_DESCRIPTOR;
	*format = formats[size][c->kind];
	*channels = n;
	return SUCCESS;
}

static struct channel channel_of(const struct array3d *d)
{
	struct channel c = {.kind = 3};
	for (int size = 0; size < 3; size++)
		for (int kind = 0; kind < 3; kind++)
			if (formats[size][kind] == d->format) {
				c.kind = kind;
				for (uint32_t n = 0; n < d->channels && n < 4; n++)
					c.bits[n] = 8 << size;
			}
	return c;
}

// element_bytes is the size of an array's elements.
int element_bytes(void *array, size_t *bytes)
{
	struct array3d d;
	int r = cuArray3DGetDescriptor_v2(&d, array);
	if (r)
		return r;
	*bytes = (size_t)channel_of(&d).bits[0] / 8 * d.channels;
	return SUCCESS;
}

static int make_array(void **array, const struct channel *channel, struct extent e, unsigned flags)
{
	struct channel c;
	struct array3d d = {.width = e.width, .height = e.height, .depth = e.depth, .flags = flags};
	int r = fetch(&c, channel, sizeof c);
	if (r || (r = format_of(&c, &d.format, &d.channels)))
		return r;
	return cuArray3DCreate_v2(array, &d);
}

static int array_info(struct channel *channel, struct extent *extent, unsigned *flags, void *array)
{
	struct array3d d;
	int r = cuArray3DGetDescriptor_v2(&d, array);
	if (r)
		return r;
	struct channel c = channel_of(&d);
	struct extent e = {d.width, d.height, d.depth};
	if (channel && (r = store(channel, &c, sizeof c)))
		return r;
	if (extent && (r = store(extent, &e, sizeof e)))
		return r;
	return flags ? store(flags, &d.flags, sizeof d.flags) : SUCCESS;
}

static int linear_width(size_t *elements, const struct channel *channel, int device)
{
	struct channel c;
	uint32_t format, channels;
	int r = fetch(&c, channel, sizeof c);
	if (r || (r = format_of(&c, &format, &channels)))
		return r;
	return cuDeviceGetTexture1DLinearMaxWidth(elements, format, channels, device);
}

WITH_DEVICES(cudaDeviceGetTexture1DLinearMaxWidth, (size_t *elements, const struct channel *channel, int device), linear_width(elements, channel, device))

API(cudaMallocArray, (void **array, const struct channel *channel, size_t width, size_t height, unsigned flags),
    make_array(array, channel, (struct extent){width, height, 0}, flags))
API(cudaMalloc3DArray, (void **array, const struct channel *channel, struct extent extent, unsigned flags), make_array(array, channel, extent, flags))
API(cudaFreeArray, (void *array), array ? cuArrayDestroy(array) : SUCCESS)
API(cudaArrayGetInfo, (struct channel *channel, struct extent *extent, unsigned *flags, void *array), array_info(channel, extent, flags, array))
API(cudaGetChannelDesc, (struct channel *channel, void *array), channel ? array_info(channel, NULL, NULL, array) : INVALID_VALUE)

static int resource_of(const struct resource *from, struct driver_resource *to)
{
	struct resource s;
	int r = fetch(&s, from, sizeof s);
	if (r)
		return r;
	*to = (struct driver_resource){.kind = s.kind, .array = s.array};
	if (s.kind != RESOURCE_LINEAR && s.kind != RESOURCE_PITCH)
		return SUCCESS;
	to->width = s.width;
	to->height = s.height;
	to->pitch = s.pitch;
	return format_of(&s.channel, &to->format, &to->channels);
}

// driver_view is CUDA_RESOURCE_VIEW_DESC, which is longer than cudaResourceViewDesc.
struct driver_view {
	struct view seen;
	uint32_t reserved[16];
};

_Static_assert(sizeof(struct view) == 48, "cudaResourceViewDesc has 48 bytes in use");
_Static_assert(sizeof(struct driver_view) == 112, "CUDA_RESOURCE_VIEW_DESC has 112 bytes");

static int make_texture(uint64_t *texture, const struct resource *resource, const struct sampler *sampler, const struct view *view, int has_seamless)
{
	struct driver_resource res;
	struct driver_view v = {0};
	struct sampler s = {0};
	int seamless = 0;
	int r = resource_of(resource, &res);
	if (r || (r = fetch(&s, sampler, sizeof s - sizeof s.seamless)))
		return r;
	if (has_seamless && (r = fetch(&seamless, &sampler->seamless, sizeof seamless)))
		return r;
	if (view && (r = fetch(&v.seen, view, sizeof v.seen)))
		return r;
	struct driver_sampler d = {
		.address = {s.address[0], s.address[1], s.address[2]}, .filter = s.filter,
		.flags = (s.normalized_read ? 0 : FLAG_INTEGER) | (s.normalized ? FLAG_NORMALIZED : 0) | (s.srgb ? FLAG_SRGB : 0) |
			 (s.no_trilinear ? FLAG_NO_TRILINEAR : 0) | (seamless ? FLAG_SEAMLESS : 0),
		.anisotropy = s.anisotropy, .mip_filter = s.mip_filter, .mip_bias = s.mip_bias, .mip_min = s.mip_min, .mip_max = s.mip_max,
		.border = {s.border[0], s.border[1], s.border[2], s.border[3]},
	};
	return cuTexObjectCreate(texture, &res, &d, view ? &v : NULL);
}

static int make_surface(uint64_t *surface, const struct resource *resource)
{
	struct driver_resource res;
	int r = resource_of(resource, &res);
	return r ? r : cuSurfObjectCreate(surface, &res);
}

API(cudaCreateTextureObject, (uint64_t *texture, const struct resource *resource, const struct sampler *sampler, const struct view *view),
    make_texture(texture, resource, sampler, view, MAJOR > 11))
API(cudaCreateTextureObject_v2, (uint64_t *texture, const struct resource *resource, const struct sampler *sampler, const struct view *view),
    make_texture(texture, resource, sampler, view, 1))
API(cudaDestroyTextureObject, (uint64_t texture), texture ? cuTexObjectDestroy(texture) : SUCCESS)
API(cudaCreateSurfaceObject, (uint64_t *surface, const struct resource *resource), make_surface(surface, resource))
API(cudaDestroySurfaceObject, (uint64_t surface), surface ? cuSurfObjectDestroy(surface) : SUCCESS)

// The descriptions of objects, back from the driver's.

static int resource_desc(struct resource *to, const struct driver_resource *d)
{
	struct array3d as = {.format = d->format, .channels = d->channels};
	struct resource s = {.kind = d->kind, .array = d->array};
	if (d->kind == RESOURCE_LINEAR || d->kind == RESOURCE_PITCH) {
		s.channel = channel_of(&as);
		s.width = d->width;
		s.height = d->height;
		s.pitch = d->pitch;
	}
	return store(to, &s, sizeof s);
}

static int texture_resource(struct resource *to, uint64_t texture)
{
	struct driver_resource d;
	int r = cuTexObjectGetResourceDesc(&d, texture);
	return r ? r : resource_desc(to, &d);
}

static int surface_resource(struct resource *to, uint64_t surface)
{
	struct driver_resource d;
	int r = cuSurfObjectGetResourceDesc(&d, surface);
	return r ? r : resource_desc(to, &d);
}

static int sampler_desc(struct sampler *to, uint64_t texture, int has_seamless)
{
	struct driver_sampler d;
	int r = cuTexObjectGetTextureDesc(&d, texture);
	if (r)
		return r;
	struct sampler s = {
		.address = {d.address[0], d.address[1], d.address[2]}, .filter = d.filter, .normalized_read = !(d.flags & FLAG_INTEGER),
		.srgb = !!(d.flags & FLAG_SRGB), .border = {d.border[0], d.border[1], d.border[2], d.border[3]},
		.normalized = !!(d.flags & FLAG_NORMALIZED), .anisotropy = d.anisotropy, .mip_filter = d.mip_filter,
		.mip_bias = d.mip_bias, .mip_min = d.mip_min, .mip_max = d.mip_max, .no_trilinear = !!(d.flags & FLAG_NO_TRILINEAR),
		.seamless = !!(d.flags & FLAG_SEAMLESS),
	};
	return store(to, &s, sizeof s - (has_seamless ? 0 : sizeof s.seamless));
}

static int view_desc(struct view *to, uint64_t texture)
{
	struct driver_view d;
	int r = cuTexObjectGetResourceViewDesc(&d, texture);
	return r ? r : store(to, &d.seen, sizeof d.seen);
}

API(cudaGetTextureObjectResourceDesc, (struct resource *to, uint64_t texture), texture_resource(to, texture))
API(cudaGetTextureObjectTextureDesc, (struct sampler *to, uint64_t texture), sampler_desc(to, texture, MAJOR > 11))
API(cudaGetTextureObjectTextureDesc_v2, (struct sampler *to, uint64_t texture), sampler_desc(to, texture, 1))
API(cudaGetTextureObjectResourceViewDesc, (struct view *to, uint64_t texture), view_desc(to, texture))
API(cudaGetSurfaceObjectResourceDesc, (struct resource *to, uint64_t surface), surface_resource(to, surface))

static int make_mipmapped(void **array, const struct channel *channel, struct extent e, unsigned levels, unsigned flags)
{
	struct channel c;
	struct array3d d = {.width = e.width, .height = e.height, .depth = e.depth, .flags = flags};
	int r = fetch(&c, channel, sizeof c);
	if (r || (r = format_of(&c, &d.format, &d.channels)))
		return r;
	return cuMipmappedArrayCreate(array, &d, levels);
}

API(cudaMallocMipmappedArray, (void **array, const struct channel *channel, struct extent e, unsigned levels, unsigned flags),
    make_mipmapped(array, channel, e, levels, flags))
API(cudaGetMipmappedArrayLevel, (void **array, void *mipmapped, unsigned level), cuMipmappedArrayGetLevel(array, mipmapped, level))
API(cudaFreeMipmappedArray, (void *array), array ? cuMipmappedArrayDestroy(array) : SUCCESS)
