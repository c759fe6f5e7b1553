// vadd adds two vectors on the GPU with bare DRM ioctls: no library but libc.
//
//	make -C examples/ioctl
//	pvdrm run -- pvdrm-run examples/ioctl/vadd                    (on the host)
//	pvdrm up --copy examples/ioctl/vadd -- pvdrm-run /root/vadd   (in a virtual machine)
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drm_core.h"
#include "pvdrm_drm.h"

enum { COUNT = 1000, THREADS = 128 };

static const char ptx[] =
	".version 6.3\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u32 n)\n"
	"{\n"
	"	.reg .pred %out;\n"
	"	.reg .u32 %i, %n, %t, %x, %y;\n"
	"	.reg .u64 %p, %q, %at;\n"
	"	mov.u32 %i, %ctaid.x;\n"
	"	mov.u32 %t, %ntid.x;\n"
	"	mul.lo.u32 %i, %i, %t;\n"
	"	mov.u32 %t, %tid.x;\n"
	"	add.u32 %i, %i, %t;\n"
	"	ld.param.u32 %n, [n];\n"
	"	setp.ge.u32 %out, %i, %n;\n"
	"	@%out bra done;\n"
	"	mul.wide.u32 %at, %i, 4;\n"
	"	ld.param.u64 %p, [a];\n"
	"	add.u64 %q, %p, %at;\n"
	"	ld.global.u32 %x, [%q];\n"
	"	ld.param.u64 %p, [b];\n"
	"	add.u64 %q, %p, %at;\n"
	"	ld.global.u32 %y, [%q];\n"
	"	add.u32 %x, %x, %y;\n"
	"	ld.param.u64 %p, [sum];\n"
	"	add.u64 %q, %p, %at;\n"
	"	st.global.u32 [%q], %x;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

static int drm; // the DRM file

static void die(const char *what)
{
	fprintf(stderr, "vadd: %s: %s\n", what, strerror(errno));
	exit(1);
}

// call makes an ioctl, and ends the program if it fails.
static void call(unsigned long request, void *arg, const char *what)
{
	if (ioctl(drm, request, arg))
		die(what);
}

static uint64_t param(enum drm_pvdrm_param name)
{
	struct drm_pvdrm_getparam p = {.param = name};
	call(DRM_IOCTL_PVDRM_GETPARAM, &p, "GETPARAM");
	return p.value;
}

// user makes the form of a pointer that argument structs have.
static uint64_t user(const void *p) { return (uintptr_t)p; }

static void print_version(void)
{
	char name[32] = "", desc[64] = "";
	struct drm_version v = {.name = name, .name_len = sizeof name - 1, .desc = desc, .desc_len = sizeof desc - 1};
	call(DRM_IOCTL_VERSION, &v, "VERSION");
	if (strcmp(name, PVDRM_DRIVER_NAME)) {
		fprintf(stderr, "vadd: the driver is \"%s\", want \"%s\": run it under pvdrm-run\n", name, PVDRM_DRIVER_NAME);
		exit(1);
	}
	printf("driver %s %d.%d on %s\n", name, v.version_major, v.version_minor, desc);
}

static uint32_t load_kernel(void)
{
	char log[4096] = "";
	static const char name[] = "vadd";
	struct drm_pvdrm_module_load m = {
		.source = user(ptx), .source_bytes = strlen(ptx), .log = user(log), .log_bytes = sizeof log - 1, .name = user("vadd.ptx")};
	if (ioctl(drm, DRM_IOCTL_PVDRM_MODULE_LOAD, &m)) {
		fprintf(stderr, "%s\n", log);
		die("MODULE_LOAD");
	}
	struct drm_pvdrm_module_function f = {.module = m.module, .name = user(name), .name_bytes = strlen(name)};
	call(DRM_IOCTL_PVDRM_MODULE_FUNCTION, &f, "MODULE_FUNCTION");
	return f.function;
}

int main(void)
{
	drm = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
	if (drm < 0)
		die("/dev/dri/renderD128 (is this run by pvdrm-run?)");
	print_version();

	struct drm_pvdrm_channel ch = {0};
	call(DRM_IOCTL_PVDRM_CHANNEL_ALLOC, &ch, "CHANNEL_ALLOC");

	// One object of system memory for all three vectors, seen by both sides.
	size_t bytes = COUNT * sizeof(uint32_t);
	struct drm_pvdrm_gem_new bo = {.size = 3 * bytes, .domain = PVDRM_DOMAIN_SYSTEM};
	call(DRM_IOCTL_PVDRM_GEM_NEW, &bo, "GEM_NEW");
	uint32_t *a = mmap(NULL, bo.size, PROT_READ | PROT_WRITE, MAP_SHARED, drm, bo.map_offset);
	if (a == MAP_FAILED)
		die("mmap");
	uint32_t *b = a + COUNT, *sum = b + COUNT;
	for (uint32_t i = 0; i < COUNT; i++) {
		a[i] = i * i;
		b[i] = 7 * i + 1;
	}

	// The program says where in the GPU's address space it wants the object.
	uint64_t base = param(PVDRM_PARAM_SYSTEM_BASE);
	struct drm_pvdrm_vm_bind_op op = {.op = PVDRM_BIND_MAP, .handle = bo.handle, .addr = base, .range = bo.size};
	struct drm_pvdrm_vm_bind bind = {.count = 1, .ops = user(&op)};
	call(DRM_IOCTL_PVDRM_VM_BIND, &bind, "VM_BIND");

	struct {
		struct drm_pvdrm_cmd_launch launch;
		uint64_t a, b, sum;
		uint32_t n, pad;
	} stream = {
		.launch = {
			.cmd = {.op = PVDRM_CMD_LAUNCH, .units = sizeof stream / 8, .argument = load_kernel()},
			.grid = {(COUNT + THREADS - 1) / THREADS, 1, 1},
			.block = {THREADS, 1, 1},
			.param_bytes = 3 * sizeof(uint64_t) + sizeof(uint32_t),
		},
		.a = base, .b = base + bytes, .sum = base + 2 * bytes, .n = COUNT,
	};
	struct drm_pvdrm_exec exec = {.channel = ch.channel, .commands = user(&stream), .cmd_bytes = sizeof stream};
	call(DRM_IOCTL_PVDRM_EXEC, &exec, "EXEC");
	struct drm_pvdrm_wait wait = {.channel = ch.channel, .seqno = exec.seqno, .timeout_ns = -1};
	call(DRM_IOCTL_PVDRM_WAIT, &wait, "WAIT");

	for (uint32_t i = 0; i < COUNT; i++) {
		if (sum[i] != i * i + 7 * i + 1) {
			fprintf(stderr, "vadd: sum[%u] is %u, want %u\n", i, sum[i], i * i + 7 * i + 1);
			return 1;
		}
	}
	printf("vadd: %d sums are right\n", COUNT);
	return 0;
}
