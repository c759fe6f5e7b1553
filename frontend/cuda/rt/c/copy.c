// Copies and fills. A synchronous one is the asynchronous one on the default
// stream, and a wait for that stream.
#include "cudart.h"

static int then_wait(int r, CUstream stream, int wait) { return r || !wait ? r : cuStreamSynchronize(stream); }

// kinds turns a cudaMemcpyKind into the CUmemorytype of both ends.
int kinds(int kind, uint32_t *to, uint32_t *from)
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
	if (height > 0 && (to_pitch < width || from_pitch < width))
		return height > 1 ? INVALID_PITCH_VALUE : INVALID_VALUE;
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
	if (!bytes)
		return SUCCESS; // of any kind
	return copy_rows(to, bytes, from, bytes, bytes, 1, kind, stream, wait); // in the program, or a wrong kind
}

_Static_assert(sizeof(struct copy) == 160, "cudaMemcpy3DParms has 160 bytes");

// to_driver gives what the program asks for as the driver has it.
static int to_driver(struct copy3d *c, const struct copy *copy)
{
	struct copy p = *copy;
	int r;
	size_t from_unit = 1, to_unit = 1;
	if (p.to_array && (r = element_bytes(p.to_array, &to_unit)))
		return r;
	if (p.from_array && (r = element_bytes(p.from_array, &from_unit)))
		return r;
	if (p.from_array && p.to_array && from_unit != to_unit)
		return say(INVALID_VALUE, "the arrays have elements of different sizes");
	size_t unit = p.from_array ? from_unit : to_unit; // bytes of what the extent counts
	*c = (struct copy3d){
		.src_x = p.from_pos.x * from_unit, .src_array = p.from_array, .src_y = p.from_pos.y, .src_z = p.from_pos.z,
		.src_host = p.from.ptr, .src_device = p.from.ptr, .src_pitch = p.from.pitch, .src_height = p.from.ysize,
		.dst_x = p.to_pos.x * to_unit, .dst_array = p.to_array, .dst_y = p.to_pos.y, .dst_z = p.to_pos.z,
		.dst_host = p.to.ptr, .dst_device = p.to.ptr, .dst_pitch = p.to.pitch, .dst_height = p.to.ysize,
		.width = p.extent.width * unit, .height = p.extent.height, .depth = p.extent.depth,
	};
	if ((r = kinds(p.kind, &c->dst_kind, &c->src_kind)))
		return r;
	if (p.from_array)
		c->src_kind = MEMORY_ARRAY;
	if (p.to_array)
		c->dst_kind = MEMORY_ARRAY;
	return 0;
}

// as_copy3d reads what the program asks for.
int as_copy3d(struct copy3d *c, const struct copy *copy)
{
	struct copy p;
	int r = fetch(&p, copy, sizeof p);
	return r ? r : to_driver(c, &p);
}

static int copy_3d(const struct copy *copy, CUstream stream, int wait)
{
	struct copy3d c;
	int r = as_copy3d(&c, copy);
	return r ? r : then_wait(cuMemcpy3DAsync_v2(&c, stream), stream, wait);
}

// copy_array copies rows to an array, from one, or between two. X counts bytes.
static int copy_array(struct copy2d c, int kind, CUstream stream, int wait)
{
	int r = kinds(kind, &c.dst_kind, &c.src_kind);
	if (r)
		return r;
	if (c.src_array)
		c.src_kind = MEMORY_ARRAY;
	else if (c.height > 1 && c.src_pitch < c.width)
		return INVALID_PITCH_VALUE;
	if (c.dst_array)
		c.dst_kind = MEMORY_ARRAY;
	else if (c.height > 1 && c.dst_pitch < c.width)
		return INVALID_PITCH_VALUE;
	return then_wait(cuMemcpy2DAsync_v2(&c, stream), stream, wait);
}

static int to_array(void *array, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind, CUstream stream, int wait)
{
	struct copy2d c = {.src_host = from, .src_device = from, .src_pitch = pitch, .dst_array = array, .dst_x = x, .dst_y = y, .width = width, .height = height};
	return array ? copy_array(c, kind, stream, wait) : INVALID_VALUE;
}

static int from_array(void *to, size_t pitch, void *array, size_t x, size_t y, size_t width, size_t height, int kind, CUstream stream, int wait)
{
	struct copy2d c = {.src_array = array, .src_x = x, .src_y = y, .dst_host = to, .dst_device = to, .dst_pitch = pitch, .width = width, .height = height};
	return array ? copy_array(c, kind, stream, wait) : INVALID_VALUE;
}

static int between_arrays(void *to, size_t to_x, size_t to_y, void *from, size_t x, size_t y, size_t width, size_t height, int kind, CUstream stream)
{
	struct copy2d c = {.src_array = from, .src_x = x, .src_y = y, .dst_array = to, .dst_x = to_x, .dst_y = to_y, .width = width, .height = height};
	return to && from ? copy_array(c, kind, stream, 1) : INVALID_VALUE;
}

// copy_wrapped copies bytes that go on in the next row of an array where one ends. Of
// memory either to or from is given.
static int copy_wrapped(void *array, size_t x, size_t y, void *to, const void *from, size_t bytes, int kind, CUstream stream, int wait)
{
	struct array3d d;
	size_t unit, done = 0;
	int r = cuArray3DGetDescriptor_v2(&d, array);
	if (r || (r = element_bytes(array, &unit)))
		return r;
	size_t row = d.width * unit;
	if (!row || x >= row)
		return INVALID_VALUE;
	while (done < bytes && !r) {
		size_t left = bytes - done, width = x || left < row ? (left < row - x ? left : row - x) : row, rows = width == row ? left / row : 1;
		r = to ? from_array((char *)to + done, width, array, x, y, width, rows, kind, stream, 0)
		       : to_array(array, x, y, (const char *)from + done, width, width, rows, kind, stream, 0);
		done += width * rows;
		y += rows;
		x = 0;
	}
	return then_wait(r, stream, wait);
}

// place_in finds where a copy to or from a variable of the device begins.
int place_in(const void *symbol, size_t bytes, size_t offset, void **at)
{
	CUdeviceptr address;
	size_t size;
	int r = symbol_of(symbol, &address, &size);
	if (r)
		return r;
	if (offset > size || bytes > size - offset)
		return say(INVALID_VALUE, "the copy does not lie in the variable");
	*at = (void *)(address + offset);
	return SUCCESS;
}

// copy_symbol copies to or from a variable of the device.
static int copy_symbol(const void *symbol, void *to, const void *from, size_t bytes, size_t offset, int kind, CUstream stream, int wait)
{
	void *at = NULL;
	int r = place_in(symbol, bytes, offset, &at);
	if (r)
		return r;
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
	CUcontext t, f;
	int r;
	if (!bytes) // whichever the devices, as NVIDIA's runtime
		return SUCCESS;
	if ((r = is_device(to_device)) || (r = is_device(from_device)))
		return r;
	if (to_device == from_device)
		return copy_line(to, from, bytes, DEVICE_TO_DEVICE, stream, wait);
	if ((r = primary_of(to_device, &t)) || (r = primary_of(from_device, &f)))
		return r;
	return wait ? cuMemcpyPeer((CUdeviceptr)to, t, (CUdeviceptr)from, f, bytes)
		    : cuMemcpyPeerAsync((CUdeviceptr)to, t, (CUdeviceptr)from, f, bytes, stream);
}

// cudaMemcpy3DPeerParms
struct peers {
	void *from_array;
	struct pos from_pos;
	struct pitched from;
	int from_device;
	void *to_array;
	struct pos to_pos;
	struct pitched to;
	int to_device;
	struct extent extent;
};

_Static_assert(sizeof(struct peers) == 168, "cudaMemcpy3DPeerParms has 168 bytes");

static int copy_peers(const struct peers *copy, CUstream stream, int wait)
{
	struct peers p;
	struct copy3d c;
	int r = fetch(&p, copy, sizeof p);
	if (r || (r = is_device(p.to_device)) || (r = is_device(p.from_device)))
		return r;
	struct copy plain = {.from_array = p.from_array, .from_pos = p.from_pos, .from = p.from, .to_array = p.to_array, .to_pos = p.to_pos, .to = p.to,
	                     .extent = p.extent, .kind = DEVICE_TO_DEVICE};
	if ((r = to_driver(&c, &plain)))
		return r;
	if (p.to_device == p.from_device)
		return then_wait(cuMemcpy3DAsync_v2(&c, stream), stream, wait);
	CUcontext to, from; // for which CUDA_MEMCPY3D_PEER has the reserved fields
	if ((r = primary_of(p.to_device, &to)) || (r = primary_of(p.from_device, &from)))
		return r;
	c.dst_reserved = to;
	c.src_reserved = from;
	return then_wait(cuMemcpy3DPeerAsync(&c, stream), stream, wait);
}

BOTH(cudaMemcpy, _ptds, (void *to, const void *from, size_t bytes, int kind), copy_line(to, from, bytes, kind, ON(NULL), 1))
BOTH(cudaMemcpyAsync, _ptsz, (void *to, const void *from, size_t bytes, int kind, CUstream stream), copy_line(to, from, bytes, kind, ON(stream), 0))
BOTH(cudaMemcpy2D, _ptds, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind),
     copy_rows(to, to_pitch, from, from_pitch, width, height, kind, ON(NULL), 1))
BOTH(cudaMemcpy2DAsync, _ptsz, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, CUstream stream),
     copy_rows(to, to_pitch, from, from_pitch, width, height, kind, ON(stream), 0))
BOTH(cudaMemcpy3D, _ptds, (const struct copy *copy), copy_3d(copy, ON(NULL), 1))
BOTH(cudaMemcpy3DAsync, _ptsz, (const struct copy *copy, CUstream stream), copy_3d(copy, ON(stream), 0))
BOTH(cudaMemcpyToArray, _ptds, (void *array, size_t x, size_t y, const void *from, size_t bytes, int kind),
     from ? copy_wrapped(array, x, y, NULL, from, bytes, kind, ON(NULL), 1) : INVALID_VALUE)
BOTH(cudaMemcpyToArrayAsync, _ptsz, (void *array, size_t x, size_t y, const void *from, size_t bytes, int kind, CUstream stream),
     from ? copy_wrapped(array, x, y, NULL, from, bytes, kind, ON(stream), 0) : INVALID_VALUE)
BOTH(cudaMemcpyFromArray, _ptds, (void *to, void *array, size_t x, size_t y, size_t bytes, int kind),
     to ? copy_wrapped(array, x, y, to, NULL, bytes, kind, ON(NULL), 1) : INVALID_VALUE)
BOTH(cudaMemcpyFromArrayAsync, _ptsz, (void *to, void *array, size_t x, size_t y, size_t bytes, int kind, CUstream stream),
     to ? copy_wrapped(array, x, y, to, NULL, bytes, kind, ON(stream), 0) : INVALID_VALUE)
BOTH(cudaMemcpy2DToArray, _ptds, (void *array, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind),
     to_array(array, x, y, from, pitch, width, height, kind, ON(NULL), 1))
BOTH(cudaMemcpy2DToArrayAsync, _ptsz, (void *array, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind, CUstream stream),
     to_array(array, x, y, from, pitch, width, height, kind, ON(stream), 0))
BOTH(cudaMemcpy2DFromArray, _ptds, (void *to, size_t pitch, void *array, size_t x, size_t y, size_t width, size_t height, int kind),
     from_array(to, pitch, array, x, y, width, height, kind, ON(NULL), 1))
BOTH(cudaMemcpy2DFromArrayAsync, _ptsz, (void *to, size_t pitch, void *array, size_t x, size_t y, size_t width, size_t height, int kind, CUstream stream),
     from_array(to, pitch, array, x, y, width, height, kind, ON(stream), 0))
BOTH(cudaMemcpy2DArrayToArray, _ptds, (void *to, size_t to_x, size_t to_y, void *from, size_t x, size_t y, size_t width, size_t height, int kind),
     between_arrays(to, to_x, to_y, from, x, y, width, height, kind, ON(NULL)))
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

BOTH(cudaMemcpy3DPeer, _ptds, (const struct peers *copy), copy_peers(copy, ON(NULL), 1))
BOTH(cudaMemcpy3DPeerAsync, _ptsz, (const struct peers *copy, CUstream stream), copy_peers(copy, ON(stream), 0))

// Batches have the structures of the driver. CUDA 13 does not say which copy has failed.
#if MAJOR >= 13
#define FAILED
#define WHICH NULL
#else
#define FAILED size_t *failed,
#define WHICH failed
#endif
BOTH(cudaMemcpyBatchAsync, _ptsz, (const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t n, const void *attributes, const size_t *begin, size_t many, FAILED CUstream stream),
     cuMemcpyBatchAsync(to, from, bytes, n, attributes, begin, many, WHICH, ON(stream)))
BOTH(cudaMemcpy3DBatchAsync, _ptsz, (size_t n, const void *copies, FAILED uint64_t flags, CUstream stream), cuMemcpy3DBatchAsync(n, copies, WHICH, flags, ON(stream)))

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
