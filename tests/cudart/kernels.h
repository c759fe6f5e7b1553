// Two kernels and two variables, as nvcc would embed and register them. add is
// launched as nvcc 12 does, scale as nvcc 13 does.
#include "runtime.h"

static const char kernels[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .const .align 4 .f32 factor;\n"
	".visible .global .align 4 .b8 table[16];\n"
	".visible .entry add(.param .u64 to, .param .u32 what, .param .u32 n)\n{\n"
	"	.reg .pred %p;\n	.reg .b32 %r<8>;\n	.reg .b64 %rd<4>;\n"
	"	mov.u32 %r1, %ctaid.x;\n	mov.u32 %r2, %ntid.x;\n	mov.u32 %r3, %tid.x;\n"
	"	mad.lo.u32 %r4, %r1, %r2, %r3;\n	ld.param.u32 %r5, [n];\n"
	"	setp.ge.u32 %p, %r4, %r5;\n	@%p ret;\n"
	"	ld.param.u64 %rd1, [to];\n	ld.param.u32 %r6, [what];\n"
	"	mad.wide.u32 %rd2, %r4, 4, %rd1;\n	ld.global.u32 %r7, [%rd2];\n"
	"	add.u32 %r7, %r7, %r6;\n	st.global.u32 [%rd2], %r7;\n	ret;\n}\n"
	".visible .entry scale(.param .u64 to)\n{\n"
	"	.reg .b32 %r<2>;\n	.reg .f32 %f<3>;\n	.reg .b64 %rd<3>;\n"
	"	ld.param.u64 %rd1, [to];\n	mov.u32 %r1, %tid.x;\n	mad.wide.u32 %rd2, %r1, 4, %rd1;\n"
	"	ld.const.f32 %f1, [factor];\n	ld.global.f32 %f2, [%rd2];\n"
	"	mul.f32 %f2, %f1, %f2;\n	st.global.f32 [%rd2], %f2;\n	ret;\n}\n";

static struct fatbin image;
static struct wrapper wrapper;
static void **module;
static float factor;
static char table[16];

// The stub of a kernel takes the configuration of the launch and goes on.
static void add(uint32_t *to, unsigned what, unsigned n)
{
	void *args[] = {&to, &what, &n};
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
	if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == 0)
		(void)cudaLaunchKernel((const void *)add, grid, block, args, shared, stream);
}

static void scale(float *to)
{
	static void *kernel;
	void *args[] = {&to};
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
	if (kernel == NULL)
		OK(__cudaGetKernel(&kernel, (const void *)scale));
	if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == 0)
		(void)__cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

static inline void no_kernel(void) {} // registered, but not in the image
static inline void stranger(void) { printf("not registered\n"); }

__attribute__((constructor)) static void register_kernels(void)
{
	fill_fatbin(&image, &wrapper, kernels);
	module = __cudaRegisterFatBinary(&wrapper);
	__cudaRegisterFunction(module, (const char *)add, "add", "add", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(module, (const char *)scale, "scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(module, (const char *)no_kernel, "none", "none", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterVar(module, (char *)&factor, "factor", "factor", 0, sizeof factor, 1, 0);
	__cudaRegisterVar(module, table, "table", "table", 0, sizeof table, 0, 0);
	__cudaRegisterFatBinaryEnd(module);
}

__attribute__((destructor)) static void unregister_kernels(void) { __cudaUnregisterFatBinary(module); }

// LAUNCH is kernel<<<grid, block, shared, stream>>>.
#define LAUNCH(grid, block, shared, stream) \
	if (__cudaPushCallConfiguration((dim3){grid, 1, 1}, (dim3){block, 1, 1}, shared, stream) == 0)
