// Loads machine code as nvJitLink and NVRTC make it with line information, in the order of Numba's calls (cuLibrary) and
// of CuPy's (cuLink, then a module): an ELF file with the PTX of each unit that it was linked from. A kernel of it
// waits for its grid by libcudadevrt's functions, which have no PTX there.
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

extern CUresult cuLibraryLoadData(void **, const void *, void *, void **, unsigned, void *, void **, unsigned);
extern CUresult cuLibraryGetKernel(void **, void *, const char *);
extern CUresult cuKernelGetFunction(CUfunction *, void *);
extern CUresult cuLibraryUnload(void *);
extern CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);

#define HEADER ".version 7.0\n.target sm_70\n.address_size 64\n"

// Each block notes a number, waits for the grid, and adds what all have noted.
static const char kernel[] = HEADER
	".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);\n"
	".extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);\n"
	".extern .func (.param .b32 r) number(.param .b32 x);\n"
	".visible .entry k(.param .u64 out, .param .u64 notes)\n"
	"{\n.reg .pred %p<1>;\n.reg .b32 %r<8>;\n.reg .b64 %d<6>;\n.param .b32 s, e, f, x, y;\n.param .b64 h, g;\n"
	"ld.param.u64 %d0, [out];\nld.param.u64 %d1, [notes];\n"
	"mov.u32 %r0, %ctaid.x;\nst.param.b32 [x], %r0;\ncall (y), number, (x);\nld.param.b32 %r1, [y];\n"
	"mul.wide.u32 %d2, %r0, 4;\nadd.u64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r1;\n"
	"st.param.b32 [s], 1;\ncall (h), cudaCGGetIntrinsicHandle, (s);\nld.param.b64 %d4, [h];\n"
	"st.param.b64 [g], %d4;\nst.param.b32 [f], 0;\ncall (e), cudaCGSynchronize, (g, f);\nld.param.b32 %r2, [e];\n"
	"mov.u32 %r3, %nctaid.x;\nmov.u32 %r4, 0;\n"
	"more:\nld.volatile.global.u32 %r5, [%d1];\nadd.u32 %r2, %r2, %r5;\nadd.u64 %d1, %d1, 4;\nadd.u32 %r4, %r4, 1;\n"
	"setp.lt.u32 %p0, %r4, %r3;\n@%p0 bra more;\nadd.u64 %d3, %d0, %d2;\nst.global.u32 [%d3], %r2;\nret;\n}\n";
static const char function[] = HEADER
	".visible .func (.param .b32 r) number(.param .b32 x)\n"
	"{\n.reg .b32 %r<2>;\nld.param.b32 %r0, [x];\nmad.lo.u32 %r1, %r0, 10, 1;\nst.param.b32 [r], %r1;\nret;\n}\n";

enum { BLOCKS = 2, RIGHT = 1 + 11 };

static CUdeviceptr out, notes;

// elf makes a file of machine code with the PTX of units, for debuggers.
static size_t elf(char *to, int type, int n, const char *const *units)
{
	static const char names[] = "\0.shstrtab\0.nv_debug_ptx_txt.1130356088\0.nv_debug_ptx_txt.1570012606";
	static const unsigned name[] = {11, 11 + 29};
	Elf64_Ehdr *head = (Elf64_Ehdr *)to;
	Elf64_Shdr section[4] = {{0}};
	size_t at = sizeof *head;
	memset(head, 0, sizeof *head);
	memcpy(head->e_ident, "\177ELF\2\1\1", 7);
	head->e_type = type, head->e_machine = 190, head->e_shentsize = sizeof *section, head->e_shnum = 2 + n, head->e_shstrndx = 1;
	for (int i = 0; i < 1 + n; i++) {
		Elf64_Shdr *s = &section[1 + i];
		const char *text = i ? units[i - 1] : names;
		s->sh_name = i ? name[i - 1] : 1, s->sh_type = i ? SHT_PROGBITS : SHT_STRTAB;
		s->sh_offset = at, s->sh_size = i ? strlen(text) : sizeof names;
		memcpy(to + at, text, s->sh_size);
		for (size_t j = 0; i && j < s->sh_size; j++) // as lines end there
			if (to[at + j] == '\n')
				to[at + j] = 0;
		at += s->sh_size;
	}
	head->e_shoff = at = (at + 7) & -8ul;
	memcpy(to + at, section, (2 + n) * sizeof *section);
	return at + (2 + n) * sizeof *section;
}

static void launch(CUfunction f)
{
	void *params[] = {&out, &notes};
	int got[BLOCKS] = {0};
	CHECK(cuMemsetD32(out, 0, BLOCKS));
	CHECK(cuMemsetD32(notes, 0, BLOCKS));
	CHECK(cuLaunchCooperativeKernel(f, BLOCKS, 1, 1, 32, 1, 1, 0, NULL, params));
	CHECK(cuMemcpyDtoH(got, out, sizeof got));
	for (int i = 0; i < BLOCKS; i++)
		REQUIRE(got[i] == RIGHT);
	// Without the grid there is no handle, and the barrier is cudaErrorUnknown.
	CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(got, out, sizeof got));
	REQUIRE(got[0] == 999 + 1);
}

static void library(void)
{
	static char image[8192];
	void *library, *k;
	CUmodule module;
	CUfunction f;
	elf(image, ET_EXEC, 2, (const char *const[]){kernel, function});
	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel(&k, library, "k"));
	CHECK(cuKernelGetFunction(&f, k));
	launch(f);
	CHECK(cuLibraryUnload(library));
	elf(image, ET_EXEC, 1, (const char *const[]){kernel}); // of a unit without PTX
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, image));
}

static void linked(void)
{
	static char image[8192];
	CUlinkState state;
	CUmodule module;
	CUfunction f;
	void *cubin;
	size_t size, n = elf(image, ET_REL, 1, (const char *const[]){kernel});
	CHECK(cuLinkCreate(0, NULL, NULL, &state));
	CHECK(cuLinkAddData(state, 0, image, n, "cubin", 0, NULL, NULL)); // CU_JIT_INPUT_CUBIN
	CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)function, sizeof function, "ptx", 0, NULL, NULL));
	static const char devrt[] = "\177ELF with __CNPRT_VERSION_NUMBER__"; // stands for libcudadevrt, as in linked.c
	static struct {
		unsigned magic;
		unsigned short version, header;
		unsigned long long bytes;
		unsigned short kind, one;
		unsigned head;
		unsigned long long data;
		unsigned packed[3], architecture;
		unsigned long long names, flags, none, unpacked;
		char code[64];
	} fatbin = {.magic = 0xba55ed50, .version = 1, .header = 16, .bytes = 128, .kind = 2, .one = 0x101, .head = 64, .data = 64, .architecture = 50, .flags = 1};
	memcpy(fatbin.code, devrt, sizeof devrt);
	CHECK(cuLinkAddData(state, 2, &fatbin, sizeof fatbin, "devrt", 0, NULL, NULL)); // CU_JIT_INPUT_FATBINARY
	CHECK(cuLinkComplete(state, &cubin, &size));
	CHECK(cuModuleLoadData(&module, cubin));
	CHECK(cuLinkDestroy(state));
	CHECK(cuModuleGetFunction(&f, module, "k"));
	launch(f);
	CHECK(cuModuleUnload(module));
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuCtxCreate(&context, 0, device));
	CHECK(cuMemAlloc(&out, 4 * BLOCKS));
	CHECK(cuMemAlloc(&notes, 4 * BLOCKS));
	library();
	linked();
	puts("cubins: PASS");
	return 0;
}
