// Copies and fills. A synchronous one is the asynchronous one on the default
// stream, and a wait for that stream.
#include "cudart.h"

static int then_wait(int r, CUstream stream, int wait) { return r || !wait ? r : cuStreamSynchronize(stream); }

// kinds turns a cudaMemcpyKind into the CUmemorytype of both ends.
static int kinds(int kind, uint32_t *to, uint32_t *from)
{
	static const uint32_t types[][2] = {
		[HOST_TO_HOST] = {MEMORY_HOST, MEMORY_HOST},
		[HOST_TO_DEVICE] = {MEMORY_DEVICE, MEMORY_HOST},
		[DEVICE_TO_HOST] = {MEMORY_HOST, MEMORY_DEVICE},
		[DEVICE_TO_DEVICE] = {MEMORY_DEVICE, MEMORY_DEVICE},
		[BY_ADDRESS] = {MEMORY_UNIFIED, MEMORY_UNIFIED},
	};
	if (kind < HOST_TO_HOST || kind > BY_ADDRESS)
		return INVALID_MEMCPY_DIRECTION;
	*to = types[kind][0];
	*from = types[kind][1];
	return SUCCESS;
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, CUstream stream, int wait)
{
	struct copy2d c = {
		.src_host = from, .src_device = from, .src_pitch = from_pitch,
		.dst_host = to, .dst_device = to, .dst_pitch = to_pitch,
		.width = width, .height = height,
	};
	int r = kinds(kind, &c.dst_kind, &c.src_kind);
	if (r)
		return r;
	if (height > 1 && (to_pitch < width || from_pitch < width))
		return INVALID_PITCH_VALUE;
	return then_wait(cuMemcpy2DAsync_v2(&c, stream), stream, wait);
}

static int copy_line(void *to, const void *from, size_t bytes, int kind, CUstream stream, int wait)
{
	CUdeviceptr t = (CUdeviceptr)to, f = (CUdeviceptr)from;
	if (wait && stream == NULL) { // one call instead of two
		switch (kind) {
		case HOST_TO_DEVICE: return cuMemcpyHtoD_v2(t, from, bytes);
		case DEVICE_TO_HOST: return cuMemcpyDtoH_v2(to, f, bytes);
		case DEVICE_TO_DEVICE: return cuMemcpyDtoD_v2(t, f, bytes);
		case BY_ADDRESS: return cuMemcpy(t, f, bytes);
		}
	}
	switch (kind) {
	case HOST_TO_DEVICE: return then_wait(cuMemcpyHtoDAsync_v2(t, from, bytes, stream), stream, wait);
	case DEVICE_TO_HOST: return then_wait(cuMemcpyDtoHAsync_v2(to, f, bytes, stream), stream, wait);
	case DEVICE_TO_DEVICE: return then_wait(cuMemcpyDtoDAsync_v2(t, f, bytes, stream), stream, wait);
	case BY_ADDRESS: return then_wait(cuMemcpyAsync(t, f, bytes, stream), stream, wait);
	}
	return copy_rows(to, bytes, from, bytes, bytes, 1, kind, stream, wait); // in the program, or a wrong kind
}

// cudaMemcpy3DParms
struct copy {
	void *from_array;
	struct pos from_pos;
	struct pitched from;
	void *to_array;
	struct pos to_pos;
	struct pitched to;
	struct extent extent;
	int kind;
};

_Static_assert(sizeof(struct copy) == 160, "cudaMemcpy3DParms has 160 bytes");

static int copy_3d(const struct copy *copy, CUstream stream, int wait)
{
	struct copy p;
	int r = fetch(&p, copy, sizeof p);
	if (r)
		return r;
	if (p.from_array || p.to_array)
		return say(NOT_SUPPORTED, "there are no CUDA arrays");
	struct copy3d c = {
		.src_x = p.from_pos.x, .src_y = p.from_pos.y, .src_z = p.from_pos.z,
		.src_host = p.from.ptr, .src_device = p.from.ptr, .src_pitch = p.from.pitch, .src_height = p.from.ysize,
		.dst_x = p.to_pos.x, .dst_y = p.to_pos.y, .dst_z = p.to_pos.z,
		.dst_host = p.to.ptr, .dst_device = p.to.ptr, .dst_pitch = p.to.pitch, .dst_height = p.to.ysize,
		.width = p.extent.width, .height = p.extent.height, .depth = p.extent.depth,
	};
	if ((r = kinds(p.kind, &c.dst_kind, &c.src_kind)))
		return r;
	return then_wait(cuMemcpy3DAsync_v2(&c, stream), stream, wait);
}

// copy_symbol copies to or from a variable of the device.
static int copy_symbol(const void *symbol, void *to, const void *from, size_t bytes, size_t offset, int kind, CUstream stream, int wait)
{
	CUdeviceptr address;
	size_t size;
	int r = symbol_of(symbol, &address, &size);
	if (r)
		return r;
	if (offset > size || bytes > size - offset)
		return say(INVALID_VALUE, "the copy does not lie in the variable");
	void *at = (void *)(address + offset);
	int right = to ? DEVICE_TO_HOST : HOST_TO_DEVICE;
	if (kind != right && kind != DEVICE_TO_DEVICE && kind != BY_ADDRESS)
		return INVALID_MEMCPY_DIRECTION;
	return copy_line(to ? to : at, to ? at : from, bytes, kind, stream, wait);
}

static int to_symbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind, CUstream stream, int wait)
{
	return from ? copy_symbol(symbol, NULL, from, bytes, offset, kind, stream, wait) : INVALID_VALUE;
}

static int from_symbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind, CUstream stream, int wait)
{
	return to ? copy_symbol(symbol, to, NULL, bytes, offset, kind, stream, wait) : INVALID_VALUE;
}

static int copy_peer(void *to, int to_device, const void *from, int from_device, size_t bytes, CUstream stream, int wait)
{
	if (to_device || from_device)
		return INVALID_DEVICE;
	return copy_line(to, from, bytes, DEVICE_TO_DEVICE, stream, wait);
}

BOTH(cudaMemcpy, _ptds, (void *to, const void *from, size_t bytes, int kind), copy_line(to, from, bytes, kind, ON(NULL), 1))
BOTH(cudaMemcpyAsync, _ptsz, (void *to, const void *from, size_t bytes, int kind, CUstream stream), copy_line(to, from, bytes, kind, ON(stream), 0))
BOTH(cudaMemcpy2D, _ptds, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind),
     copy_rows(to, to_pitch, from, from_pitch, width, height, kind, ON(NULL), 1))
BOTH(cudaMemcpy2DAsync, _ptsz, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, CUstream stream),
     copy_rows(to, to_pitch, from, from_pitch, width, height, kind, ON(stream), 0))
BOTH(cudaMemcpy3D, _ptds, (const struct copy *copy), copy_3d(copy, ON(NULL), 1))
BOTH(cudaMemcpy3DAsync, _ptsz, (const struct copy *copy, CUstream stream), copy_3d(copy, ON(stream), 0))
BOTH(cudaMemcpyToSymbol, _ptds, (const void *symbol, const void *from, size_t bytes, size_t offset, int kind),
     to_symbol(symbol, from, bytes, offset, kind, ON(NULL), 1))
BOTH(cudaMemcpyToSymbolAsync, _ptsz, (const void *symbol, const void *from, size_t bytes, size_t offset, int kind, CUstream stream),
     to_symbol(symbol, from, bytes, offset, kind, ON(stream), 0))
BOTH(cudaMemcpyFromSymbol, _ptds, (void *to, const void *symbol, size_t bytes, size_t offset, int kind),
     from_symbol(to, symbol, bytes, offset, kind, ON(NULL), 1))
BOTH(cudaMemcpyFromSymbolAsync, _ptsz, (void *to, const void *symbol, size_t bytes, size_t offset, int kind, CUstream stream),
     from_symbol(to, symbol, bytes, offset, kind, ON(stream), 0))
API(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t bytes), copy_peer(to, to_device, from, from_device, bytes, NULL, 1))
API(cudaMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, size_t bytes, CUstream stream),
    copy_peer(to, to_device, from, from_device, bytes, stream, 0))

// Fills of memory of the device need not be waited for; the driver waits for others.

static int fill(void *to, int value, size_t bytes, CUstream stream, int wait)
{
	CUdeviceptr t = (CUdeviceptr)to;
	unsigned char v = (unsigned char)value;
	if (!bytes)
		return SUCCESS;
	if (!wait)
		return cuMemsetD8Async(t, v, bytes, stream);
	return stream == PER_THREAD ? cuMemsetD8_v2_ptds(t, v, bytes) : cuMemsetD8_v2(t, v, bytes);
}

static int fill_rows(void *to, size_t pitch, int value, size_t width, size_t height, CUstream stream, int wait)
{
	CUdeviceptr t = (CUdeviceptr)to;
	unsigned char v = (unsigned char)value;
	if (!width || !height)
		return SUCCESS;
	if (!wait)
		return cuMemsetD2D8Async(t, pitch, v, width, height, stream);
	return stream == PER_THREAD ? cuMemsetD2D8_v2_ptds(t, pitch, v, width, height) : cuMemsetD2D8_v2(t, pitch, v, width, height);
}

static int fill_3d(struct pitched to, int value, struct extent e, CUstream stream, int wait)
{
	size_t slice, all;
	if (!e.width || !e.height || !e.depth)
		return SUCCESS;
	if (e.height > to.ysize || e.width > to.pitch || __builtin_mul_overflow(to.pitch, to.ysize, &slice) ||
	    __builtin_mul_overflow(slice, e.depth, &all) || all > PTRDIFF_MAX)
		return INVALID_VALUE;
	if (e.height == to.ysize) // layers without gaps are rows
		return fill_rows(to.ptr, to.pitch, value, e.width, e.height * e.depth, stream, wait);
	int r = SUCCESS;
	for (size_t z = 0; z < e.depth && !r; z++)
		r = fill_rows((char *)to.ptr + z * slice, to.pitch, value, e.width, e.height, stream, wait);
	return r;
}

BOTH(cudaMemset, _ptds, (void *to, int value, size_t bytes), fill(to, value, bytes, ON(NULL), 1))
BOTH(cudaMemsetAsync, _ptsz, (void *to, int value, size_t bytes, CUstream stream), fill(to, value, bytes, ON(stream), 0))
BOTH(cudaMemset2D, _ptds, (void *to, size_t pitch, int value, size_t width, size_t height), fill_rows(to, pitch, value, width, height, ON(NULL), 1))
BOTH(cudaMemset2DAsync, _ptsz, (void *to, size_t pitch, int value, size_t width, size_t height, CUstream stream),
     fill_rows(to, pitch, value, width, height, ON(stream), 0))
BOTH(cudaMemset3D, _ptds, (struct pitched to, int value, struct extent e), fill_3d(to, value, e, ON(NULL), 1))
BOTH(cudaMemset3DAsync, _ptsz, (struct pitched to, int value, struct extent e, CUstream stream), fill_3d(to, value, e, ON(stream), 0))
