// Every device that the program sees, by the driver API: each has contexts, memory and kernels of its own,
// memory goes from one to another by copies, and what goes wrong on one leaves the others alone.
#include <pthread.h>

#include "driver.h"

enum { MOST = 8, WORDS = 1 << 20, BYTES = 4 * WORDS, PEER_ACCESS_UNSUPPORTED = 217 };

CUresult cuCtxGetDevice(CUdevice *);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDeviceGetUuid(CUuuid *, CUdevice);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct {
	CUfunction func;
	unsigned grid[3], block[3], shared, pad;
	void **params, **extra;
} kernel_node;
typedef struct {
	size_t x, y, z, lod;
	unsigned kind, pad;
	const void *host;
	CUdeviceptr device;
	void *array, *reserved;
	size_t pitch, height;
} copy_end;
typedef struct {
	copy_end src, dst;
	size_t width, height, depth;
} copy_node;
typedef struct {
	CUdeviceptr dst;
	size_t pitch;
	unsigned value, element;
	size_t width, height;
} fill_node;
CUresult cuGraphCreate(CUgraph *, unsigned);
CUresult cuGraphAddKernelNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const kernel_node *);
CUresult cuGraphAddMemcpyNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const copy_node *, CUcontext);
CUresult cuGraphAddMemsetNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const fill_node *, CUcontext);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);

// Each thread adds what to a word.
static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry add(.param .u64 p, .param .u32 what)\n"
	"{\n.reg .b32 %r<6>;\n.reg .b64 %rd<3>;\n"
	"ld.param.u64 %rd0, [p];\nld.param.u32 %r0, [what];\n"
	"mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %ctaid.x;\nmad.lo.u32 %r1, %r2, %r3, %r1;\n"
	"mul.wide.u32 %rd1, %r1, 4;\nadd.s64 %rd0, %rd0, %rd1;\n"
	"ld.global.u32 %r4, [%rd0];\nadd.u32 %r4, %r4, %r0;\nst.global.u32 [%rd0], %r4;\nret;\n}\n";

static struct device {
	CUcontext ctx;
	CUdeviceptr memory;
	CUfunction add;
	CUstream stream;
	CUevent event;
} devices[MOST];
static int count;
static unsigned host[WORDS];

static CUresult add(struct device *d, CUdeviceptr at, unsigned what, CUstream stream)
{
	void *args[] = {&at, &what};
	return cuLaunchKernel(d->add, WORDS / 256, 1, 1, 256, 1, 1, 0, stream, args, NULL);
}

static void all_are(struct device *d, unsigned want)
{
	memset(host, 0xee, sizeof host);
	CHECK(cuMemcpyDtoH(host, d->memory, BYTES));
	for (int i = 0; i < WORDS; i++)
		REQUIRE(host[i] == want);
}

static void begin(CUdevice dev)
{
	struct device *d = &devices[dev];
	char id[16], expected[16];
	CUmodule mod;
	CUdevice is;
	int bus, where;
	CHECK(cuDevicePrimaryCtxRetain(&d->ctx, dev));
	CHECK(cuCtxSetCurrent(d->ctx));
	CHECK(cuCtxGetDevice(&is));
	REQUIRE(is == dev);
	CHECK(cuDeviceGetAttribute(&bus, (CUdevice_attribute)33, dev));
	CHECK(cuDeviceGetPCIBusId(id, sizeof id, dev));
	snprintf(expected, sizeof expected, "0000:%02x:00.0", bus & 0xff);
	REQUIRE(strcmp(id, expected) == 0);
	CHECK(cuMemAlloc(&d->memory, BYTES));
	CHECK(cuPointerGetAttribute(&where, (CUpointer_attribute)9, d->memory));
	REQUIRE(where == dev);
	CHECK(cuModuleLoadData(&mod, ptx));
	CHECK(cuModuleGetFunction(&d->add, mod, "add"));
	CHECK(cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&d->event, 0));
	CHECK(cuMemsetD32(d->memory, 1000 * (unsigned)dev, WORDS));
	CHECK(cuCtxSynchronize());
	for (CUdevice other = 0; other < dev; other++) {
		CUuuid a, b;
		int can = 7;
		CHECK(cuDeviceGetUuid(&a, dev));
		CHECK(cuDeviceGetUuid(&b, other));
		REQUIRE(memcmp(&a, &b, sizeof a) != 0);
		REQUIRE(devices[other].ctx != d->ctx && devices[other].memory != d->memory);
		CHECK(cuDeviceCanAccessPeer(&can, dev, other));
		REQUIRE(can == 0);
		REQUIRE(cuCtxEnablePeerAccess(devices[other].ctx, 0) == PEER_ACCESS_UNSUPPORTED);
	}
}

// A thread has no current context at first, and takes those of all devices in turn.
static void *in_turn(void *none)
{
	CUcontext ctx;
	CHECK(cuCtxGetCurrent(&ctx));
	REQUIRE(ctx == NULL);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < count; i++) {
			CHECK(cuCtxSetCurrent(devices[i].ctx));
			CHECK(add(&devices[i], devices[i].memory, 1, devices[i].stream));
		}
	for (int i = 0; i < count; i++)
		CHECK(cuStreamSynchronize(devices[i].stream));
	return none;
}

// Each device adds to what it got from the one before it: streams wait for events of the other device.
static void around(void)
{
	CUdeviceptr before = 0;
	for (int i = 0; i < count; i++) {
		struct device *d = &devices[i], *last = &devices[i ? i - 1 : 0];
		CHECK(cuCtxSetCurrent(d->ctx));
		if (i > 0) {
			CHECK(cuStreamWaitEvent(d->stream, last->event, 0));
			CHECK(cuMemcpyPeerAsync(d->memory, d->ctx, before, last->ctx, BYTES, d->stream));
		}
		CHECK(add(d, d->memory, 10, d->stream));
		CHECK(cuEventRecord(d->event, d->stream));
		before = d->memory;
	}
	CHECK(cuEventSynchronize(devices[count - 1].event));
	for (int i = 0; i < count; i++)
		all_are(&devices[i], 3 + 10 * (unsigned)(i + 1));
}

static void between(void)
{
	struct device *a = &devices[0], *b = &devices[1];
	CHECK(cuCtxSetCurrent(a->ctx));
	CHECK(cuMemsetD32(a->memory, 77, WORDS));
	CHECK(cuMemcpyPeer(b->memory, b->ctx, a->memory, a->ctx, BYTES));
	all_are(b, 77);
	CHECK(cuMemsetD32(a->memory, 78, WORDS));
	CHECK(cuMemcpy(b->memory, a->memory, BYTES)); // the addresses tell the devices
	all_are(b, 78);
	CHECK(cuCtxSetCurrent(b->ctx));
	CHECK(cuMemsetD32(b->memory, 79, WORDS));
	CHECK(cuMemcpyDtoD(a->memory, b->memory, BYTES));
	all_are(a, 79);
	REQUIRE(cuMemcpyDtoD(a->memory + 4, b->memory, BYTES) == CUDA_ERROR_INVALID_VALUE);

	// The stream, the event and the kernel have to be of one device.
	REQUIRE(add(b, b->memory, 1, a->stream) == CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(add(a, a->memory, 1, NULL) == CUDA_ERROR_INVALID_HANDLE);
	REQUIRE(cuEventRecord(a->event, b->stream) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(add(a, a->memory, 1, a->stream));
	CHECK(cuStreamSynchronize(a->stream));
	all_are(a, 80);
}

// Pinned and managed memory has one address, on every device and in the program. In a virtual machine
// other devices copy it only.
static void shared(int apart)
{
	CUdeviceptr managed, there;
	void *pinned, *own = calloc(1, BYTES);
	int supported;
	CHECK(cuCtxSetCurrent(devices[0].ctx));
	CHECK(cuDeviceGetAttribute(&supported, (CUdevice_attribute)99, 0)); // HOST_REGISTER_SUPPORTED
	CHECK(cuMemHostRegister(own, BYTES, 1));
	CHECK(cuMemHostAlloc(&pinned, BYTES, 0));
	CHECK(cuMemAllocManaged(&managed, BYTES, 1));
	memset(pinned, 0, BYTES);
	memset((void *)managed, 0, BYTES);
	for (int i = count - 1; apart && i > 0; i--) {
		struct device *d = &devices[i];
		CHECK(cuCtxSetCurrent(d->ctx));
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&there, pinned, 0));
		if (supported)
			EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemHostGetDevicePointer(&there, own, 0));
		memset(pinned, 1, BYTES);
		CHECK(cuMemcpyHtoD(d->memory, pinned, BYTES));
		memset(pinned, 0, BYTES);
		CHECK(add(d, d->memory, 1, NULL));
		CHECK(cuMemcpyDtoH(pinned, d->memory, BYTES));
		REQUIRE(*(unsigned *)pinned == 0x01010102 && ((unsigned *)pinned)[WORDS - 1] == 0x01010102);
	}
	memset(pinned, 0, BYTES);
	int all = apart ? 1 : count;
	for (int i = all - 1; i >= 0; i--) {
		struct device *d = &devices[i];
		CHECK(cuCtxSetCurrent(d->ctx));
		CHECK(cuMemHostGetDevicePointer(&there, pinned, 0));
		REQUIRE(there == (CUdeviceptr)pinned);
		CHECK(cuMemPrefetchAsync(managed, BYTES, i, d->stream));
		CHECK(add(d, there, 1, d->stream));
		CHECK(add(d, managed, 2, d->stream));
		if (supported) {
			CHECK(cuMemHostGetDevicePointer(&there, own, 0));
			CHECK(add(d, there, 3, d->stream));
		}
		CHECK(cuStreamSynchronize(d->stream));
	}
	for (int i = 0; i < WORDS; i++)
		REQUIRE(((unsigned *)pinned)[i] == (unsigned)all && ((unsigned *)managed)[i] == 2 * (unsigned)all);
	CHECK(cuCtxSetCurrent(devices[0].ctx));
	CHECK(cuMemHostUnregister(own));
	for (int i = 0; i < WORDS; i++)
		REQUIRE(((unsigned *)own)[i] == (supported ? 3 * (unsigned)all : 0));
	free(own);
	CHECK(cuCtxSetCurrent(devices[all - 1].ctx));
	CHECK(add(&devices[all - 1], managed, 1, devices[all - 1].stream)); // freeing waits for it
	CHECK(cuCtxSetCurrent(devices[0].ctx));
	CHECK(cuMemFree(managed));
	CHECK(cuMemFreeHost(pinned));
}

static CUgraphNode adds_in(CUgraph g, struct device *d, unsigned what, CUgraphNode after)
{
	CUgraphNode n;
	void *params[] = {&d->memory, &what};
	kernel_node k = {.func = d->add, .grid = {WORDS / 256, 1, 1}, .block = {256, 1, 1}, .params = params};
	CHECK(cuGraphAddKernelNode(&n, g, &after, after != NULL, &k));
	return n;
}

// copies_in copies from one device to another, in a row or in two layers of rows.
static CUgraphNode copies_in(CUgraph g, struct device *to, struct device *from, int rows, CUgraphNode after)
{
	CUgraphNode n;
	copy_node c = {.src = {.kind = CU_MEMORYTYPE_DEVICE, .device = from->memory}, .dst = {.kind = CU_MEMORYTYPE_DEVICE, .device = to->memory},
		.width = BYTES, .height = 1, .depth = 1};
	if (rows) {
		c.src.pitch = c.dst.pitch = c.width = 1 << 10, c.height = BYTES >> 11, c.depth = 2;
		c.src.height = c.dst.height = c.height;
	}
	CHECK(cuGraphAddMemcpyNode(&n, g, &after, 1, &c, devices[0].ctx));
	return n;
}

// A graph has nodes on several devices, in the order of its edges, and may be launched on any of them.
static void in_graphs(void)
{
	struct device *a = &devices[0], *b = &devices[1];
	CUgraph g;
	CUgraphNode n;
	CUgraphExec e;
	fill_node f = {.dst = a->memory, .value = 3, .element = 4, .width = WORDS, .height = 1};
	CHECK(cuCtxSetCurrent(a->ctx));
	CHECK(cuGraphCreate(&g, 0));
	CHECK(cuGraphAddMemsetNode(&n, g, NULL, 0, &f, b->ctx));
	n = adds_in(g, a, 4, n);
	n = copies_in(g, b, a, 0, n);
	n = adds_in(g, b, 5, n);
	n = adds_in(g, a, 1000, n); // the next copy overwrites it
	n = copies_in(g, a, b, 1, n);
	n = adds_in(g, a, 6, n);
	CHECK(cuGraphInstantiateWithFlags(&e, g, 0));
	for (int i = 0; i < 4; i++) {
		struct device *on = i % 2 ? b : a;
		CHECK(cuCtxSetCurrent(on->ctx));
		CHECK(cuGraphLaunch(e, on->stream));
		CHECK(add(on, on->memory, 1, on->stream)); // comes behind it
		CHECK(cuStreamSynchronize(on->stream));
		all_are(a, 18 + (on == a));
		all_are(b, 12 + (on == b));
	}
	CHECK(cuGraphExecDestroy(e));
	CHECK(cuGraphDestroy(g));
	CHECK(cuCtxSetCurrent(b->ctx));
	CHECK(cuMemsetD32(b->memory, 79, WORDS));
}

// A kernel that goes for memory of another device ends its own context, and that only.
static void astray(void)
{
	struct device *a = &devices[0], *b = &devices[1];
	CHECK(cuCtxSetCurrent(a->ctx));
	CHECK(add(a, b->memory, 1, a->stream));
	REQUIRE(cuStreamSynchronize(a->stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(cuCtxSetCurrent(b->ctx));
	all_are(b, 79);
	CHECK(add(b, b->memory, 1, b->stream));
	CHECK(cuStreamSynchronize(b->stream));
	all_are(b, 80);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&count));
	REQUIRE(count > 0 && count <= MOST);
	for (int i = 0; i < count; i++)
		begin(i);
	REQUIRE(pthread_create(&thread, NULL, in_turn, NULL) == 0 && pthread_join(thread, NULL) == 0);
	for (int i = 0; i < count; i++)
		all_are(&devices[i], 1000 * (unsigned)i + 3);
	around();
	shared(argc > 1 && strcmp(argv[1], "apart") == 0);
	if (count > 1) {
		between();
		in_graphs();
		astray();
	}
	for (int i = 0; i < count; i++)
		CHECK(cuDevicePrimaryCtxRelease(i));
	printf("%d devices\ndevices: PASS\n", count);
	return 0;
}
