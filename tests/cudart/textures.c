// Texture and surface references as CUDA 11 has them, mipmapped arrays, what objects
// tell of themselves, and copies of arrays in graphs. nvcc would embed and register the kernel and the references so.
#include "runtime.h"

static const char kernels[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .global .texref words;\n.visible .global .texref smooth;\n.visible .global .surfref picture;\n"
	".visible .entry look(.param .u64 to, .param .u64 levels)\n{\n"
	"	.reg .b32 %r<16>;\n	.reg .f32 %f<16>;\n	.reg .b64 %rd<4>;\n"
	"	ld.param.u64 %rd1, [to];\n	ld.param.u64 %rd2, [levels];\n	mov.u32 %r1, %tid.x;\n"
	"	cvt.rn.f32.u32 %f1, %r1;\n	mov.f32 %f2, 0f3F000000;\n	mov.f32 %f3, 0f3E800000;\n	shl.b32 %r2, %r1, 2;\n	mov.u32 %r3, 0;\n"
	"	tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [words, {%r1}];\n"
	"	tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [smooth, {%f1, %f2}];\n"
	"	tex.level.2d.v4.f32.f32 {%f8, %f9, %f10, %f11}, [%rd2, {%f3, %f3}], %f1;\n"
	"	suld.b.2d.b32.trap {%r8}, [picture, {%r2, %r3}];\n"
	"	mad.wide.u32 %rd1, %r1, 16, %rd1;\n	mov.b32 %r5, %f4;\n	mov.b32 %r6, %f8;\n"
	"	st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r8};\n	ret;\n}\n";

// textureReference
typedef struct {
	int normalized, filter, address[3];
	cudaChannelFormatDesc channel;
	int srgb;
	unsigned anisotropy;
	int mipFilter;
	float bias, min, max;
	int rest[15];
} textureReference;
typedef struct { int kind; void *array; long rest[24]; } cudaResourceDesc; // room for every version
typedef struct {
	int address[3], filter, read, srgb;
	float border[4];
	int normalized;
	unsigned anisotropy;
	int mipFilter;
	float bias, min, max;
	int noTrilinear, seamless;
} cudaTextureDesc;
typedef struct { int format; size_t width, height, depth; unsigned firstLevel, lastLevel, firstLayer, lastLayer; long reserved[8]; } cudaResourceViewDesc;
_Static_assert(sizeof(textureReference) == 124, "textureReference");
enum { cudaErrorInvalidTexture = 18, cudaErrorInvalidTextureBinding = 19, UNSIGNED = 1, FLOATING = 2, THREADS = 4 };

void __cudaRegisterTexture(void **, const void *, const void **, const char *, int, int, int);
void __cudaRegisterSurface(void **, const void *, const void **, const char *, int, int);
cudaError_t cudaBindTexture(size_t *, const textureReference *, const void *, const cudaChannelFormatDesc *, size_t);
cudaError_t cudaBindTextureToArray(const textureReference *, const void *, const cudaChannelFormatDesc *);
cudaError_t cudaBindSurfaceToArray(const void *, const void *, const cudaChannelFormatDesc *);
cudaError_t cudaUnbindTexture(const textureReference *);
cudaError_t cudaGetTextureAlignmentOffset(size_t *, const textureReference *);
cudaError_t cudaGetTextureReference(const textureReference **, const void *);
cudaError_t cudaMallocMipmappedArray(void **, const cudaChannelFormatDesc *, cudaExtent, unsigned, unsigned);
cudaError_t cudaMalloc3DArray(void **, const cudaChannelFormatDesc *, cudaExtent, unsigned);
cudaError_t cudaGetMipmappedArrayLevel(void **, const void *, unsigned);
cudaError_t cudaFreeMipmappedArray(void *);
cudaError_t cudaFreeArray(void *);
cudaError_t cudaMemcpy2DToArray(void *, size_t, size_t, const void *, size_t, size_t, size_t, int);
cudaError_t cudaMemcpy2DFromArray(void *, size_t, void *, size_t, size_t, size_t, size_t, int);
cudaError_t cudaGraphAddMemcpyNode(void **, void *, void *const *, size_t, const cudaMemcpy3DParms *);
cudaError_t cudaGraphMemcpyNodeGetParams(void *, cudaMemcpy3DParms *);
cudaError_t cudaGraphInstantiateWithFlags(void **, void *, unsigned long long);
cudaError_t cudaGraphLaunch(void *, cudaStream_t);
cudaError_t cudaCreateTextureObject(uint64_t *, const cudaResourceDesc *, const cudaTextureDesc *, const cudaResourceViewDesc *);
cudaError_t cudaDestroyTextureObject(uint64_t);
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *, uint64_t);
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *, uint64_t);
cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *, uint64_t);

static struct fatbin image;
static struct wrapper wrapper;
static void **module;
static textureReference words = {.address = {1, 1, 1}, .channel = {32, 0, 0, 0, UNSIGNED}};
static textureReference smooth = {.filter = 1, .address = {1, 1, 1}, .channel = {32, 0, 0, 0, FLOATING}};
static struct { cudaChannelFormatDesc channel; } picture;

static void look(void) {} // the stub is not called

__attribute__((constructor)) static void register_kernels(void)
{
	fill_fatbin(&image, &wrapper, kernels);
	module = __cudaRegisterFatBinary(&wrapper);
	__cudaRegisterFunction(module, (const char *)look, "look", "look", -1, NULL, NULL, NULL, NULL, NULL);
	// nvcc gives the name in PTX and that of C++, which are not the same.
	__cudaRegisterTexture(module, &words, (void *)"words", "::words", 1, 0, 0);
	__cudaRegisterTexture(module, &smooth, (void *)"smooth", "::smooth", 2, 0, 0);
	__cudaRegisterSurface(module, &picture, (void *)"picture", "::picture", 2, 0);
	__cudaRegisterFatBinaryEnd(module);
}

__attribute__((destructor)) static void unregister_kernels(void) { __cudaUnregisterFatBinary(module); }

// told checks what an object tells of itself.
static void told(uint64_t texture, void *mipmapped, const cudaTextureDesc *t, const cudaResourceViewDesc *v)
{
	cudaResourceDesc r = {.kind = 9};
	cudaTextureDesc s = {.seamless = 77};
	cudaResourceViewDesc back = {.format = 9};
	OK(cudaGetTextureObjectResourceDesc(&r, texture));
	REQUIRE(r.kind == 1 && r.array == mipmapped);
	OK(cudaGetTextureObjectTextureDesc(&s, texture));
	REQUIRE((s.seamless == 77) == (MAJOR == 11)); // which has no such field
	s.seamless = 0;
	REQUIRE(memcmp(&s, t, sizeof s) == 0);
	OK(cudaGetTextureObjectResourceViewDesc(&back, texture));
	REQUIRE(memcmp(&back, v, 48) == 0);
}

// on_cubes makes a filter that looks beyond the faces of a cube; other arrays have none.
static void on_cubes(const cudaChannelFormatDesc *format)
{
	cudaResourceDesc r = {0};
	cudaTextureDesc t = {.filter = 1, .normalized = 1, .seamless = 1}, back = {0};
	uint64_t texture;
	OK(cudaMalloc3DArray(&r.array, format, (cudaExtent){4, 4, 6}, 4));
	OK(cudaCreateTextureObject(&texture, &r, &t, NULL));
	OK(cudaGetTextureObjectTextureDesc(&back, texture));
	REQUIRE(back.seamless == (MAJOR > 11));
	OK(cudaDestroyTextureObject(texture));
	OK(cudaFreeArray(r.array));
	OK(cudaMallocArray(&r.array, format, 4, 4, 0));
	GIVES(MAJOR > 11 ? cudaErrorInvalidValue : cudaSuccess, cudaCreateTextureObject(&texture, &r, &t, NULL));
	OK(cudaFreeArray(r.array));
}

// by_graphs copies from the array and to it by nodes, which give back what they were made of.
static void by_graphs(void *array, const float *row)
{
	float host[16] = {0}, others[2] = {-1, -2}, all[8];
	void *graph, *down, *up, *exec;
	cudaMemcpy3DParms back;
	cudaMemcpy3DParms from = {.srcArray = array, .srcPos = {2, 0, 0}, .dstPtr = {host, 12, 12, 1}, .extent = {3, 1, 1}, .kind = DeviceToHost};
	cudaMemcpy3DParms into = {.srcPtr = {others, 8, 8, 1}, .dstArray = array, .dstPos = {6, 0, 0}, .extent = {2, 1, 1}, .kind = HostToDevice};
	OK(cudaGraphCreate(&graph, 0));
	OK(cudaGraphAddMemcpyNode(&down, graph, NULL, 0, &from));
	OK(cudaGraphAddMemcpyNode(&up, graph, &down, 1, &into));
	OK(cudaGraphMemcpyNodeGetParams(down, &back));
	REQUIRE(memcmp(&back, &from, sizeof back) == 0);
	OK(cudaGraphMemcpyNodeGetParams(up, &back));
	REQUIRE(memcmp(&back, &into, sizeof back) == 0);
	OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cudaGraphLaunch(exec, NULL));
	OK(cudaStreamSynchronize(NULL));
	REQUIRE(memcmp(host, row + 2, 12) == 0 && host[3] == 0);
	OK(cudaMemcpy2DFromArray(all, sizeof all, array, 0, 0, sizeof all, 1, DeviceToHost));
	REQUIRE(memcmp(all, row, 24) == 0 && memcmp(&all[6], others, sizeof others) == 0);
	OK(cudaMemcpy2DToArray(array, 0, 0, row, sizeof all, sizeof all, 1, HostToDevice));
}

int main(void)
{
	cudaChannelFormatDesc format = {32, 0, 0, 0, FLOATING};
	uint32_t numbers[64], got[4 * THREADS], *memory, *to;
	float row[8] = {10, 20, 30, 40, 50, 60, 70, 80};
	void *array, *mipmapped, *level;
	const textureReference *found = NULL;
	size_t offset = 99;
	for (unsigned i = 0; i < 64; i++)
		numbers[i] = 1000 + i;
	OK(cudaMalloc(&memory, sizeof numbers));
	OK(cudaMemcpy(memory, numbers, sizeof numbers, HostToDevice));
	OK(cudaMalloc(&to, sizeof got));
	GIVES(cudaErrorInvalidTextureBinding, cudaGetTextureAlignmentOffset(&offset, &words));
	GIVES(cudaErrorInvalidTexture, cudaBindTextureToArray((const textureReference *)&format, NULL, &format));
	GIVES(cudaErrorInvalidValue, cudaBindTexture(NULL, &words, memory + 3, &words.channel, 8));
	OK(cudaBindTexture(&offset, &words, memory + 3, &words.channel, 4096)); // more than there is
	REQUIRE(offset == 12);
	OK(cudaBindTexture(NULL, &words, memory, &words.channel, sizeof numbers)); // again, of its beginning
	OK(cudaGetTextureAlignmentOffset(&offset, &words));
	REQUIRE(offset == 0);
	OK(cudaGetTextureReference(&found, &words));
	REQUIRE(found == &words);
	OK(cudaMallocArray(&array, &format, 8, 1, 2));
	OK(cudaMemcpy2DToArray(array, 0, 0, row, sizeof row, sizeof row, 1, HostToDevice));
	OK(cudaBindTextureToArray(&smooth, array, &format));
	OK(cudaBindSurfaceToArray(&picture, array, &format));
	by_graphs(array, row);
	on_cubes(&format);

	// Levels of 4, 2 and 1 texels; the view leaves out the first. Coordinates are normalized.
	OK(cudaMallocMipmappedArray(&mipmapped, &format, (cudaExtent){4, 4, 0}, 3, 0));
	for (unsigned n = 0; n < 3; n++) {
		OK(cudaGetMipmappedArrayLevel(&level, mipmapped, n));
		OK(cudaMemcpy2DToArray(level, 0, 0, &row[n], 4, 4, 1, HostToDevice));
	}
	GIVES(cudaErrorInvalidValue, cudaGetMipmappedArrayLevel(&level, mipmapped, 3));
	cudaResourceDesc r = {.kind = 1, .array = mipmapped};
	cudaTextureDesc t = {.address = {1, 1, 1}, .mipFilter = 1, .max = 9};
	cudaResourceViewDesc v = {.format = 22, .width = 4, .height = 4, .firstLevel = 1, .lastLevel = 2};
	uint64_t texture;
	OK(cudaCreateTextureObject(&texture, &r, &t, &v));
	told(texture, mipmapped, &t, &v);

	void *arguments[] = {&to, &texture};
	OK(cudaLaunchKernel((const void *)look, (dim3){1, 1, 1}, (dim3){THREADS, 1, 1}, arguments, 0, NULL));
	OK(cudaMemcpy(got, to, sizeof got, DeviceToHost));
	for (unsigned i = 0; i < THREADS; i++) {
		float filtered, mip, stored;
		memcpy(&filtered, &got[4 * i + 1], 4);
		memcpy(&mip, &got[4 * i + 2], 4);
		memcpy(&stored, &got[4 * i + 3], 4);
		REQUIRE(got[4 * i] == 1000 + i);
		REQUIRE(filtered == (i ? 10 * (float)i + 5 : 10));
		REQUIRE(mip == (i ? 30 : 20));
		REQUIRE(stored == row[i]);
	}
	OK(cudaDestroyTextureObject(texture));
	OK(cudaFreeMipmappedArray(mipmapped));
	OK(cudaFreeArray(array));
	OK(cudaUnbindTexture(&words));
	OK(cudaUnbindTexture(&words)); // of nothing
	OK(cudaLaunchKernel((const void *)look, (dim3){1, 1, 1}, (dim3){THREADS, 1, 1}, arguments, 0, NULL));
	GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize()); // nothing is bound
	puts("textures: PASS");
	return 0;
}
