// Runs kernels that launch kernels: a program of nvcc -rdc=true with NVIDIA's device runtime among its
// units, in whose place PVDRM's own comes. The log is written in the order in which kernels run.
#include <string.h>

#include "driver.h"

#define HEADER ".version 7.0\n.target sm_50\n.address_size 64\n"
#define DECLARED(result, name, params) ".extern .func (.param ." result " r) __cudaCDP2" name params ";\n"

// A launch as nvcc writes it, of a kernel that has the parameters log and number.
#define LAUNCH(kernel, blocks, threads, stream, number)                                                              \
	"mov.u64 %d2, " kernel ";\nst.param.b64 [k], %d2;\n"                                                         \
	"st.param.b32 [g], " blocks ";\nst.param.b32 [g+4], 1;\nst.param.b32 [g+8], 1;\n"                            \
	"st.param.b32 [b], " threads ";\nst.param.b32 [b+4], 1;\nst.param.b32 [b+8], 1;\nst.param.b32 [z], 0;\n"     \
	"call (at), __cudaCDP2GetParameterBufferV2, (k, g, b, z);\nld.param.b64 %d3, [at];\n"                        \
	"st.u64 [%d3], %d0;\nst.u32 [%d3+8], " number ";\n"                                                          \
	"st.param.b64 [s], " stream ";\ncall (e), __cudaCDP2LaunchDeviceV2, (at, s);\nld.param.b32 %r4, [e];\n"
#define NOTE(value) "atom.add.u32 %r1, [%d0], 1;\nmad.wide.u32 %d1, %r1, 4, %d0;\nmov.u32 %r2, " value ";\nst.u32 [%d1+4], %r2;\n"
#define KERNEL(name)                                                                                                 \
	".visible .entry " name "(.param .u64 log, .param .u32 number)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .pred %p<2>;\n" \
	".param .b64 k;\n.param .align 4 .b8 g[12];\n.param .align 4 .b8 b[12];\n.param .b32 z;\n.param .b64 at;\n.param .b64 s;\n.param .b32 e;\n" \
	".param .b64 a0;\n.param .b64 a1;\n.param .b64 a2;\n.param .b32 a3;\n.param .b32 a4;\n.param .b64 text;\n.local .align 8 .b8 room[160];\n" \
	"ld.param.u64 %d0, [log];\nld.param.u32 %r0, [number];\n"
#define PUT(param, value) "st.param.b64 [" param "], " value ";\n"
#define GOT NOTE("%r4")
#define PUT32(param, value) "st.param.b32 [" param "], " value ";\n"
#define ASK(call_) "st.u64 [%d5], 7;\ncall (e), __cudaCDP2" call_ ";\nld.param.b32 %r4, [e];\n" GOT "ld.u32 %r4, [%d5];\n" GOT

static const char parents[] = HEADER
	DECLARED("b64", "GetParameterBufferV2", "(.param .b64 k, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s)")
	DECLARED("b32", "LaunchDeviceV2", "(.param .b64 b, .param .b64 s)")
	DECLARED("b32", "GetLastError", "()")
	DECLARED("b32", "PeekAtLastError", "()")
	DECLARED("b64", "GetErrorString", "(.param .b32 e)")
	DECLARED("b64", "GetErrorName", "(.param .b32 e)")
	DECLARED("b32", "MemcpyAsync_ptsz", "(.param .b64 t, .param .b64 f, .param .b64 n, .param .b32 k, .param .b64 s)")
	DECLARED("b32", "MemsetAsync", "(.param .b64 t, .param .b32 v, .param .b64 n, .param .b64 s)")
	DECLARED("b32", "Malloc", "(.param .b64 t, .param .b64 n)")
	DECLARED("b32", "Free", "(.param .b64 p)")
	DECLARED("b32", "StreamCreateWithFlags", "(.param .b64 t, .param .b32 f)")
	DECLARED("b32", "StreamDestroy", "(.param .b64 s)")
	DECLARED("b32", "EventCreateWithFlags", "(.param .b64 t, .param .b32 f)")
	DECLARED("b32", "EventRecord", "(.param .b64 v, .param .b64 s)")
	DECLARED("b32", "EventRecordWithFlags", "(.param .b64 v, .param .b64 s, .param .b32 f)")
	DECLARED("b32", "StreamWaitEvent", "(.param .b64 s, .param .b64 v, .param .b32 f)")
	DECLARED("b32", "EventDestroy", "(.param .b64 v)")
	DECLARED("b32", "GetDevice", "(.param .b64 t)")
	DECLARED("b32", "GetDeviceCount", "(.param .b64 t)")
	DECLARED("b32", "RuntimeGetVersion", "(.param .b64 t)")
	DECLARED("b32", "DeviceGetCacheConfig", "(.param .b64 t)")
	DECLARED("b32", "DeviceGetSharedMemConfig", "(.param .b64 t)")
	DECLARED("b32", "DeviceGetAttribute", "(.param .b64 t, .param .b32 a, .param .b32 d)")
	DECLARED("b32", "DeviceGetLimit", "(.param .b64 t, .param .b32 l)")
	DECLARED("b32", "Memcpy2DAsync", "(.param .b64 t, .param .b64 tp, .param .b64 f, .param .b64 fp, .param .b64 w, .param .b64 h, .param .b32 k, .param .b64 s)")
	DECLARED("b32", "Memset2DAsync_ptsz", "(.param .b64 t, .param .b64 p, .param .b32 v, .param .b64 w, .param .b64 h, .param .b64 s)")
	DECLARED("b32", "Memcpy3DAsync", "(.param .b64 p, .param .b64 s)")
	DECLARED("b32", "Memset3DAsync", "(.param .align 8 .b8 p[32], .param .b32 v, .param .align 8 .b8 e[24], .param .b64 s)")
	DECLARED("b32", "FuncGetAttributes", "(.param .b64 a, .param .b64 f)")
	DECLARED("b32", "OccupancyMaxActiveBlocksPerMultiprocessor", "(.param .b64 t, .param .b64 f, .param .b32 b, .param .b64 d)")
	DECLARED("b32", "OccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "(.param .b64 t, .param .b64 f, .param .b32 b, .param .b64 d, .param .b32 l)")
	DECLARED("b64", "GetParameterBuffer", "(.param .b64 a, .param .b64 s)")
	DECLARED("b32", "LaunchDevice", "(.param .b64 k, .param .b64 p, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 z, .param .b64 s)")
	".extern .entry child(.param .u64 log, .param .u32 number);\n"
	KERNEL("order")
	LAUNCH("child", "1", "1", "3", "9") // a tail launch
	LAUNCH("child", "2", "1", "0", "1")
	NOTE("0")
	LAUNCH("child", "1", "1", "4", "2") // fire and forget
	"ret;\n}\n"
	KERNEL("errors")
	LAUNCH("child", "1", "2000", "0", "7") GOT
	"call (e), __cudaCDP2PeekAtLastError, ();\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2GetLastError, ();\nld.param.b32 %r4, [e];\n" GOT
	"call (text), __cudaCDP2GetErrorString, (e);\nld.param.b64 %d4, [text];\nld.u8 %r4, [%d4+8];\n" GOT
	"call (text), __cudaCDP2GetErrorName, (e);\nld.param.b64 %d4, [text];\nld.u8 %r4, [%d4+9];\n" GOT
	"call (e), __cudaCDP2GetLastError, ();\nld.param.b32 %r4, [e];\n" GOT
	"call (text), __cudaCDP2GetErrorString, (e);\nld.param.b64 %d4, [text];\nld.u8 %r4, [%d4];\n" GOT
	"ret;\n}\n"
	KERNEL("memory") // fills words 20 to 23 of the log, and copies them to 30, and 5 bytes of them to byte 171
	"add.u64 %d5, %d0, 80;\nadd.u64 %d6, %d0, 120;\n"
	PUT("a0", "%d5") "st.param.b32 [a3], 0x41;\n" PUT("a1", "16") PUT("s", "0")
	"call (e), __cudaCDP2MemsetAsync, (a0, a3, a1, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a1", "%d6") PUT("a2", "16") "st.param.b32 [a3], 3;\n"
	"call (e), __cudaCDP2MemcpyAsync_ptsz, (a1, a0, a2, a3, s);\nld.param.b32 %r4, [e];\n" GOT
	"add.u64 %d6, %d0, 171;\n" PUT("a0", "%d5") PUT("a1", "%d6") PUT("a2", "5")
	"call (e), __cudaCDP2MemcpyAsync_ptsz, (a1, a0, a2, a3, s);\nld.param.b32 %r4, [e];\n" GOT
	"st.param.b32 [a3], 7;\n"
	"call (e), __cudaCDP2MemcpyAsync_ptsz, (a1, a0, a2, a3, s);\nld.param.b32 %r4, [e];\n" GOT
	"mov.u64 %d5, room;\ncvta.local.u64 %d5, %d5;\n" PUT("a0", "%d5") PUT("a1", "100")
	"call (e), __cudaCDP2Malloc, (a0, a1);\nld.param.b32 %r4, [e];\n" GOT
	"ld.u64 %d6, [%d5];\nst.u32 [%d6+96], 5;\n" PUT("a1", "%d6")
	"call (e), __cudaCDP2Free, (a1);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a1", "0x100000000000")
	"call (e), __cudaCDP2Malloc, (a0, a1);\nld.param.b32 %r4, [e];\n" GOT
	"ret;\n}\n"
	KERNEL("streams")
	"mov.u64 %d5, room;\ncvta.local.u64 %d5, %d5;\n" PUT("a0", "%d5") "st.param.b32 [a3], 1;\n"
	"call (e), __cudaCDP2StreamCreateWithFlags, (a0, a3);\nld.param.b32 %r4, [e];\n" GOT
	"ld.u64 %d6, [%d5];\n" LAUNCH("child", "1", "1", "%d6", "1")
	"st.param.b32 [a3], 2;\ncall (e), __cudaCDP2EventCreateWithFlags, (a0, a3);\nld.param.b32 %r4, [e];\n" GOT
	"ld.u64 %d7, [%d5];\n" PUT("a0", "%d7") PUT("s", "%d6") "st.param.b32 [a3], 0;\n"
	"call (e), __cudaCDP2EventRecord, (a0, s);\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2EventRecordWithFlags, (a0, s, a3);\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2StreamWaitEvent, (s, a0, a3);\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2EventDestroy, (a0);\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2StreamDestroy, (s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("s", "0") "call (e), __cudaCDP2StreamDestroy, (s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a0", "%d5") "call (e), __cudaCDP2StreamCreateWithFlags, (a0, a3);\nld.param.b32 %r4, [e];\n" GOT
	"ret;\n}\n"
	KERNEL("device")
	"mov.u64 %d5, room;\ncvta.local.u64 %d5, %d5;\n" PUT("a0", "%d5") PUT("a1", "0")
	ASK("GetDevice, (a0)") ASK("GetDeviceCount, (a0)") ASK("RuntimeGetVersion, (a0)") ASK("DeviceGetCacheConfig, (a0)") ASK("DeviceGetSharedMemConfig, (a0)")
	PUT32("a3", "10") PUT32("a4", "0") ASK("DeviceGetAttribute, (a0, a3, a4)") // the threads of a warp
	PUT32("a3", "2") ASK("DeviceGetLimit, (a0, a3)")
	PUT32("a3", "9") "call (e), __cudaCDP2DeviceGetLimit, (a0, a3);\nld.param.b32 %r4, [e];\n" GOT
	PUT32("a3", "4000000000") "call (e), __cudaCDP2DeviceGetLimit, (a0, a3);\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2DeviceGetAttribute, (a0, a3, a4);\nld.param.b32 %r4, [e];\n" GOT
	PUT32("a4", "1") "call (e), __cudaCDP2DeviceGetAttribute, (a0, a3, a4);\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2GetDevice, (a1);\nld.param.b32 %r4, [e];\n" GOT
	"call (e), __cudaCDP2GetLastError, ();\nld.param.b32 %r4, [e];\n" GOT
	"ret;\n}\n"
	KERNEL("planes") // sets 6 bytes of 3 rows that are 16 apart from byte 80 on, and copies 2 rows to byte 160
	".param .b64 a5;\n.param .b64 a6;\n"
	"add.u64 %d5, %d0, 80;\nadd.u64 %d6, %d0, 160;\n"
	PUT("a0", "%d5") PUT("a1", "16") PUT32("a3", "0x142") PUT("a2", "6") PUT("a5", "3") PUT("s", "0")
	"call (e), __cudaCDP2Memset2DAsync_ptsz, (a0, a1, a3, a2, a5, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a1", "5") "call (e), __cudaCDP2Memset2DAsync_ptsz, (a0, a1, a3, a2, a5, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a0", "%d6") PUT("a1", "8") PUT("a2", "%d5") PUT("text", "16") PUT("a5", "4") PUT("a6", "2") PUT32("a3", "3")
	"call (e), __cudaCDP2Memcpy2DAsync, (a0, a1, a2, text, a5, a6, a3, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT32("a3", "1") "call (e), __cudaCDP2Memcpy2DAsync, (a0, a1, a2, text, a5, a6, a3, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT32("a3", "4") PUT("a1", "3") "call (e), __cudaCDP2Memcpy2DAsync, (a0, a1, a2, text, a5, a6, a3, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a6", "0") "call (e), __cudaCDP2Memcpy2DAsync, (a0, a1, a2, text, a5, a6, a3, s);\nld.param.b32 %r4, [e];\n" GOT
	"ret;\n}\n"
	KERNEL("boxes") // sets 4 bytes of 2 rows of 2 layers from byte 80 on, and copies a part of them to byte 160
	".param .align 8 .b8 place[32];\n.param .align 8 .b8 extent[24];\n"
	"add.u64 %d5, %d0, 80;\nadd.u64 %d6, %d0, 160;\n"
	PUT("place", "%d5") PUT("place+8", "8") PUT("place+16", "8") PUT("place+24", "3") PUT32("a3", "0x43") PUT("s", "0")
	PUT("extent", "4") PUT("extent+8", "2") PUT("extent+16", "2")
	"call (e), __cudaCDP2Memset3DAsync, (place, a3, extent, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("extent+8", "4") "call (e), __cudaCDP2Memset3DAsync, (place, a3, extent, s);\nld.param.b32 %r4, [e];\n" GOT
	"mov.u64 %d7, room;\ncvta.local.u64 %d7, %d7;\nmov.u64 %d1, 0;\nmov.u32 %r5, 0;\n"
	"clear:\ncvt.u64.u32 %d2, %r5;\nadd.u64 %d2, %d2, %d7;\nst.u64 [%d2], %d1;\nadd.u32 %r5, %r5, 8;\nsetp.lt.u32 %p0, %r5, 160;\n@%p0 bra clear;\n"
	"st.u64 [%d7+32], %d5;\nst.u64 [%d7+96], %d6;\nmov.u64 %d1, 8;\nst.u64 [%d7+40], %d1;\nst.u64 [%d7+104], %d1;\n" // pitches
	"mov.u64 %d1, 3;\nst.u64 [%d7+56], %d1;\nst.u64 [%d7+128], %d1;\nmov.u64 %d1, 2;\nst.u64 [%d7+120], %d1;\nst.u64 [%d7+144], %d1;\n"
	"mov.u64 %d1, 1;\nst.u64 [%d7+136], %d1;\nst.u64 [%d7+8], %d1;\nst.u64 [%d7+16], %d1;\nmov.u32 %r5, 4;\nst.u32 [%d7+152], %r5;\n"
	PUT("a0", "%d7") "call (e), __cudaCDP2Memcpy3DAsync, (a0, s);\nld.param.b32 %r4, [e];\n" GOT
	"mov.u64 %d1, 3;\nst.u64 [%d7+136], %d1;\n" "call (e), __cudaCDP2Memcpy3DAsync, (a0, s);\nld.param.b32 %r4, [e];\n" GOT
	"st.u64 [%d7], %d1;\n" "call (e), __cudaCDP2Memcpy3DAsync, (a0, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a0", "0") "call (e), __cudaCDP2Memcpy3DAsync, (a0, s);\nld.param.b32 %r4, [e];\n" GOT
	"ret;\n}\n"
	".visible .entry few()\n.maxntid 64, 1, 1\n{\n.shared .align 4 .b8 some[400];\n.reg .b32 %r<1>;\nld.shared.u32 %r0, [some];\nst.shared.u32 [some], %r0;\nret;\n}\n"
	KERNEL("kernels")
	"mov.u64 %d5, room;\ncvta.local.u64 %d5, %d5;\nmov.u64 %d6, few;\n" PUT("a0", "%d5") PUT("a1", "%d6")
	"call (e), __cudaCDP2FuncGetAttributes, (a0, a1);\nld.param.b32 %r4, [e];\n" GOT
	"ld.u64 %d7, [%d5];\ncvt.u32.u64 %r4, %d7;\n" GOT "ld.u32 %r4, [%d5+24];\n" GOT "ld.u32 %r4, [%d5+32];\n" GOT
	PUT("a1", "%d0") "call (e), __cudaCDP2FuncGetAttributes, (a0, a1);\nld.param.b32 %r4, [e];\n" GOT
	PUT("a1", "%d6") PUT32("a3", "64") PUT("a2", "0") ASK("OccupancyMaxActiveBlocksPerMultiprocessor, (a0, a1, a3, a2)")
	PUT32("a3", "65") ASK("OccupancyMaxActiveBlocksPerMultiprocessor, (a0, a1, a3, a2)")
	PUT32("a3", "0") PUT32("a4", "1") ASK("OccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (a0, a1, a3, a2, a4)")
	PUT32("a3", "64") PUT("a2", "49152") ASK("OccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (a0, a1, a3, a2, a4)")
	"ret;\n}\n"
	KERNEL("buffer") // the interface in which the launch names the kernel
	PUT("a0", "8") PUT("a1", "16") "call (at), __cudaCDP2GetParameterBuffer, (a0, a1);\nld.param.b64 %d3, [at];\n"
	"st.u64 [%d3], %d0;\nmov.u32 %r5, 4;\nst.u32 [%d3+8], %r5;\nmov.u64 %d2, child;\n" PUT("k", "%d2")
	PUT32("g", "2") PUT32("g+4", "1") PUT32("g+8", "1") PUT32("b", "1") PUT32("b+4", "1") PUT32("b+8", "1") PUT32("z", "0") PUT("s", "0")
	"call (e), __cudaCDP2LaunchDevice, (k, at, g, b, z, s);\nld.param.b32 %r4, [e];\n" GOT
	PUT("s", "0x5000") "call (at), __cudaCDP2GetParameterBuffer, (a0, a1);\ncall (e), __cudaCDP2LaunchDevice, (k, at, g, b, z, s);\nld.param.b32 %r4, [e];\n" GOT
	"ret;\n}\n";
// child notes its number and launches grandchild, which notes ten times the number. waiter launches that twice, with
// number 1, and waits each time; deeper launches waiter and itself so that the last of them may not wait.
#define OLD_LAUNCH(kernel, number)                                                                                   \
	"mov.u64 %d2, " kernel ";\nst.param.b64 [k], %d2;\n"                                                         \
	"st.param.b32 [g], 1;\nst.param.b32 [g+4], 1;\nst.param.b32 [g+8], 1;\n"                                     \
	"st.param.b32 [b], 1;\nst.param.b32 [b+4], 1;\nst.param.b32 [b+8], 1;\nst.param.b32 [z], 0;\n"              \
	"call (at), cudaGetParameterBufferV2, (k, g, b, z);\nld.param.b64 %d3, [at];\nst.u64 [%d3], %d0;\nst.u32 [%d3+8], " number ";\n" \
	PUT("s", "0") "call (e), cudaLaunchDeviceV2_ptsz, (at, s);\n"
#define WAIT "call (e), cudaDeviceSynchronize, ();\nld.param.b32 %r4, [e];\n" GOT
static const char children[] = HEADER
	".extern .func (.param .b64 r) cudaGetParameterBufferV2(.param .b64 k, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n"
	".extern .func (.param .b32 r) cudaLaunchDeviceV2_ptsz(.param .b64 b, .param .b64 s);\n"
	".visible .entry grandchild(.param .u64 log, .param .u32 number)\n{\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\n"
	"ld.param.u64 %d0, [log];\nld.param.u32 %r0, [number];\nmul.lo.u32 %r0, %r0, 10;\n" NOTE("%r0") "ret;\n}\n"
	".extern .func (.param .b32 r) cudaDeviceSynchronize();\n"
	KERNEL("child") NOTE("%r0") OLD_LAUNCH("grandchild", "%r0") "ret;\n}\n"
	KERNEL("waiter") WAIT "mov.u32 %r0, 1;\n" OLD_LAUNCH("grandchild", "%r0") WAIT "mov.u32 %r0, 2;\n" OLD_LAUNCH("grandchild", "%r0") NOTE("5") WAIT "ret;\n}\n"
	KERNEL("deeper") "setp.eq.u32 %p0, %r0, 3;\n@%p0 ret;\nadd.u32 %r0, %r0, 1;\n" OLD_LAUNCH("deeper", "%r0") WAIT "ret;\n}\n";

struct fatbin {
	unsigned magic;
	unsigned short version, header;
	unsigned long long bytes;
	struct {
		unsigned short kind, version;
		unsigned header;
		unsigned long long bytes;
		unsigned packed[3], architecture;
		unsigned long long names, flags, none, unpacked;
	} image;
	char data[40000];
};

static void make(struct fatbin *f, int kind, const char *data, size_t n)
{
	memset(f, 0, sizeof *f);
	f->magic = 0xba55ed50, f->version = 1, f->header = 16, f->bytes = sizeof f->image + sizeof f->data;
	f->image.kind = kind, f->image.version = 0x101, f->image.header = sizeof f->image, f->image.bytes = sizeof f->data;
	f->image.architecture = 50, f->image.flags = 1;
	REQUIRE(n <= sizeof f->data);
	memcpy(f->data, data, n);
}

static CUmodule module;
static CUdeviceptr out;
static unsigned words[64]; // of the log

static void run(const char *name, unsigned n, const unsigned *want)
{
	CUfunction f;
	unsigned number = 0;
	void *params[] = {&out, &number};
	CHECK(cuModuleGetFunction(&f, module, name));
	CHECK(cuMemsetD8(out, 0, sizeof words));
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoH(words, out, sizeof words));
	for (unsigned i = 0; i < n; i++)
		if (words[0] != n || words[1 + i] != want[i]) {
			fprintf(stderr, "%s: %u words, word %u is %u, not %u\n", name, words[0], i, words[1 + i], want[i]);
			exit(1);
		}
}
#define RUN(name, ...) run(name, sizeof (unsigned[]){__VA_ARGS__} / 4, (unsigned[]){__VA_ARGS__})

int main(void)
{
	static struct fatbin machine, first, second, runtime;
	static const char mark[] = "\177ELF with __CNPRT_VERSION_NUMBER__";
	const void *parts[] = {&first, &second, &runtime, NULL};
	struct {
		unsigned magic, version;
		const void *fatbin, *const *units;
	} wrapper = {0x466243b1, 2, &machine, parts};
	CUdevice device;
	CUcontext context;
	make(&machine, 2, "\177ELF", 4);
	make(&first, 1, parents, sizeof parents);
	make(&second, 1, children, sizeof children);
	make(&runtime, 2, mark, sizeof mark);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuCtxCreate(&context, 0, device));
	CHECK(cuMemAlloc(&out, sizeof words));
	CHECK(cuModuleLoadData(&module, &wrapper));
	RUN("order", 0, 1, 1, 10, 10, 2, 20, 9, 90);
	RUN("errors", 9, 9, 9, 'c', 'I', 0, 'n');
	RUN("memory", 0, 0, 0, 21, 0, 0, 2);
	for (int i = 20; i < 24; i++)
		REQUIRE(words[i] == 0x41414141 && words[i + 10] == 0x41414141);
	REQUIRE(words[42] == 0x41000000 && words[43] == 0x41414141);
	RUN("streams", 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 10);
	RUN("device", 0, 0, 0, 1, 0, 6000, 0, 0, 0, 1, 0, 32, 0, 8 << 20, 215, 1, 1, 101, 1, 1);
	RUN("planes", 0, 1, 0, 21, 12, 0);
	for (int row = 0; row < 3; row++)
		REQUIRE(words[20 + 4 * row] == 0x42424242 && words[21 + 4 * row] == 0x4242);
	REQUIRE(words[40] == 0x42424242 && words[41] == 0 && words[42] == 0x42424242 && words[43] == 0);
	RUN("boxes", 0, 1, 0, 12, 1, 1);
	REQUIRE(words[20] == 0x43434343 && words[22] == 0x43434343 && words[24] == 0 && words[26] == 0x43434343 && words[28] == 0x43434343 && words[30] == 0);
	REQUIRE(words[40] == 0x434343 && words[42] == 0 && words[44] == 0x434343);
	RUN("kernels", 0, 400, 64, 50, 98, 0, 1, 0, 0, 1, 0, 0, 0);
	RUN("buffer", 0, 1, 4, 4, 40, 40);
	RUN("waiter", 0, 10, 0, 5, 20, 0);
	RUN("deeper", 68, 0, 0);
	parts[2] = NULL; // without the device runtime its functions are missing
	EXPECT(300, cuModuleLoadData(&module, &wrapper));
	puts("launches: PASS");
	return 0;
}
