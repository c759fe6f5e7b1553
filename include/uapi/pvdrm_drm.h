/*
 * The user API of PVDRM's DRM driver: the driver's own ioctls with their argument
 * structs, and the command stream that EXEC takes. The ioctls of the DRM core that
 * the driver serves are those of libdrm's drm.h, or of drm_core.h beside this file.
 * docs/interpose.md tells how they are used.
 *
 * All structs are padded explicitly; pads are 0. Pointers are 64-bit user addresses.
 * Errors are those of errno: ENOENT for an id that is not there, EINVAL for wrong
 * arguments, EFAULT for wrong pointers, ENOMEM and ENOSPC where memory or room ran
 * out, ETIME for a wait that ran out, EIO once the file's GPU context was lost
 * (STATUS says why), ENODEV once the backend is gone, ENOTTY for another ioctl.
 */
#ifndef PVDRM_DRM_H
#define PVDRM_DRM_H

#include <linux/ioctl.h>
#include <linux/types.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* What DRM_IOCTL_VERSION returns as the driver's name. */
#define PVDRM_DRIVER_NAME "pvdrm"

#define PVDRM_COMMAND_BASE 0x40 /* DRM_COMMAND_BASE */

#define DRM_PVDRM_GETPARAM        0x00
#define DRM_PVDRM_CHANNEL_ALLOC   0x01
#define DRM_PVDRM_CHANNEL_FREE    0x02
#define DRM_PVDRM_GEM_NEW         0x03
#define DRM_PVDRM_GEM_INFO        0x04
#define DRM_PVDRM_GEM_CPU_PREP    0x05
#define DRM_PVDRM_GEM_CPU_FINI    0x06
#define DRM_PVDRM_VM_BIND         0x07
#define DRM_PVDRM_EXEC            0x08
#define DRM_PVDRM_WAIT            0x09
#define DRM_PVDRM_MODULE_LOAD     0x0a
#define DRM_PVDRM_MODULE_UNLOAD   0x0b
#define DRM_PVDRM_MODULE_FUNCTION 0x0c
#define DRM_PVDRM_MODULE_GLOBAL   0x0d
#define DRM_PVDRM_STATUS          0x0e
#define DRM_PVDRM_READ_OUTPUT     0x0f

/* Properties of the device or of the file. Sizes are in bytes, clocks in kHz. */
enum drm_pvdrm_param {
	PVDRM_PARAM_COMPUTE_MAJOR = 1, /* compute capability */
	PVDRM_PARAM_COMPUTE_MINOR,     /* and its second number */
	PVDRM_PARAM_MULTIPROCS,        /* streaming multiprocessors */
	PVDRM_PARAM_WARP_SIZE,         /* threads */
	PVDRM_PARAM_MAX_THREADS,       /* per block */
	PVDRM_PARAM_MAX_BLOCK_X,       /* largest block */
	PVDRM_PARAM_MAX_BLOCK_Y,
	PVDRM_PARAM_MAX_BLOCK_Z,
	PVDRM_PARAM_MAX_GRID_X,        /* largest grid */
	PVDRM_PARAM_MAX_GRID_Y,
	PVDRM_PARAM_MAX_GRID_Z,
	PVDRM_PARAM_SHARED_PER_BLOCK,  /* .shared, static and dynamic together */
	PVDRM_PARAM_REGS_PER_BLOCK,    /* 32-bit registers */
	PVDRM_PARAM_MAX_THREADS_SM,    /* per streaming multiprocessor */
	PVDRM_PARAM_CONST_BYTES,       /* .const per module */
	PVDRM_PARAM_CLOCK_KHZ,         /* of the multiprocessors */
	PVDRM_PARAM_MEM_CLOCK_KHZ,     /* of VRAM */
	PVDRM_PARAM_MEM_BUS_BITS,      /* width of the bus to VRAM */
	PVDRM_PARAM_L2_BYTES,          /* second-level cache */
	PVDRM_PARAM_VRAM_BYTES,        /* VRAM of the device */
	PVDRM_PARAM_MAX_CHANNELS,      /* of this file */
	PVDRM_PARAM_MAX_PARAM_BYTES,   /* kernel parameters */
	PVDRM_PARAM_VRAM_BASE,         /* GPU addresses for VRAM: the first */
	PVDRM_PARAM_VRAM_SIZE,         /* how many */
	PVDRM_PARAM_VRAM_PAGE,         /* granularity of mappings there */
	PVDRM_PARAM_SYSTEM_BASE,       /* GPU addresses for system memory: the first */
	PVDRM_PARAM_SYSTEM_SIZE,       /* how many */
	PVDRM_PARAM_SYSTEM_PAGE,       /* granularity of mappings there */
	PVDRM_PARAM_VRAM_USED,         /* of the device, now */
	PVDRM_PARAM_MAX_BLOCKS_SM,     /* blocks that run together on a multiprocessor */
	PVDRM_PARAM_DEVICE,            /* number of the device among those of its implementation */
	PVDRM_PARAM_TEXTURES,          /* 1: kernels may use textures and surfaces whose descriptors lie in VRAM */
	PVDRM_PARAM_COOPERATIVE,       /* 1: there is COOPERATIVE */
	PVDRM_PARAM_WORDS,             /* 1: there is WORD */
	PVDRM_PARAM_SHARES,            /* 1: other files of the guest may open memory and events of this one; 2: memory that is mapped, and events */
	PVDRM_PARAM_MAX_CLUSTER,       /* the most blocks of a cluster; 0: there is no CLUSTER */
	PVDRM_PARAM_IMAGES,            /* 1: modules may be machine code: cubins, and fatbins of them */
	PVDRM_PARAM_LIBRARIES,         /* a bit for each of the host's CUDA libraries that CALL reaches */
	PVDRM_PARAM_PEERS,             /* a bit for each device of the guest, by its place, whose shared VRAM GEM_OPEN takes */
};

struct drm_pvdrm_getparam {
	__u64 param; /* enum drm_pvdrm_param */
	__u64 value; /* out */
};

/* CHANNEL_ALLOC and CHANNEL_FREE. A channel runs its work in order. */
struct drm_pvdrm_channel {
	__u32 channel; /* out of CHANNEL_ALLOC */
	__u32 pad;
};

/* Where an object lies. */
#define PVDRM_DOMAIN_VRAM   1 /* device memory, reached by copies only */
#define PVDRM_DOMAIN_SYSTEM 2 /* memory that both the program and the GPU can map */

#define PVDRM_GEM_NO_SHARE (1 << 0) /* not to be exported by PRIME */
#define PVDRM_GEM_DIRTY    (1 << 1) /* not zeroed: may hold what an earlier object of this file held */

struct drm_pvdrm_gem_new {
	__u64 size;   /* bytes; out: rounded up to the domain's page */
	__u32 domain; /* PVDRM_DOMAIN_* */
	__u32 flags;  /* PVDRM_GEM_* */
	__u32 handle; /* out */
	__u32 pad;
	__u64 map_offset; /* out: for mmap of the DRM file; 0 for VRAM */
};

struct drm_pvdrm_gem_info {
	__u32 handle;
	__u32 domain;     /* out: PVDRM_DOMAIN_* */
	__u64 size;       /* out, bytes */
	__u64 map_offset; /* out */
};

#define PVDRM_CPU_PREP_NOWAIT 1 /* EBUSY instead of waiting */

/* Waits until no submitted work can use the object. */
struct drm_pvdrm_gem_cpu_prep {
	__u32 handle;
	__u32 flags;
	__s64 timeout_ns; /* relative; negative waits without limit */
};

struct drm_pvdrm_gem_cpu_fini {
	__u32 handle;
	__u32 pad;
};

#define PVDRM_BIND_MAP   1
#define PVDRM_BIND_UNMAP 2

#define PVDRM_BIND_READ_ONLY 1 /* flag: the GPU may not write */

struct drm_pvdrm_vm_bind_op {
	__u32 op; /* PVDRM_BIND_* */
	__u32 flags;
	__u32 handle; /* 0 to unmap */
	__u32 pad;
	__u64 addr;      /* GPU virtual address, in the window of the object's domain */
	__u64 bo_offset; /* bytes into the object; 0 to unmap */
	__u64 range;     /* bytes */
};

#define PVDRM_VM_BIND_ASYNC 1 /* return at once; the next call that waits returns what went wrong */

/*
 * Maps and unmaps objects in the file's GPU address space, in order, before any
 * EXEC that is called later. The first operation that fails ends the list.
 */
struct drm_pvdrm_vm_bind {
	__u32 count; /* of ops, at most 65536 */
	__u32 flags;
	__u64 ops; /* struct drm_pvdrm_vm_bind_op[] */
};

#define PVDRM_MAX_EXEC_BYTES 36864
#define PVDRM_MAX_WAITS      64

/* Queues a command stream on a channel. */
struct drm_pvdrm_exec {
	__u32 channel;
	__u32 flags;        /* 0 */
	__u32 wait_count;   /* at most PVDRM_MAX_WAITS */
	__u32 signal_count; /* at most PVDRM_MAX_WAITS */
	__u64 waits;        /* __u32[]: sync objects to wait for */
	__u64 signals;      /* __u32[]: sync objects to signal when done */
	__u64 commands;     /* the command stream */
	__u32 cmd_bytes;    /* at most PVDRM_MAX_EXEC_BYTES */
	__u32 pad;
	__u64 seqno; /* out: the point of this channel that WAIT takes */
};

/* Waits for a point of a channel. EIO and the like: what the work failed with. */
struct drm_pvdrm_wait {
	__u32 channel;
	__u32 pad;
	__u64 seqno;
	__s64 timeout_ns; /* relative; 0 asks, negative waits without limit */
};

#define PVDRM_MODULE_NAME_BYTES 64 /* the longest, with its terminating zero */

/* Loads PTX. ENOEXEC: it was refused, and the log says why. */
struct drm_pvdrm_module_load {
	__u64 source; /* PTX text */
	__u64 source_bytes;
	__u64 log;       /* char[], may be 0 */
	__u32 log_bytes; /* in: room; out: length of the log */
	__u32 module;    /* out */
	__u64 name;      /* file name used in messages, zero-terminated; may be 0 */
};

struct drm_pvdrm_module_unload {
	__u32 module;
	__u32 pad;
};

struct drm_pvdrm_function_param {
	__u32 offset; /* bytes into the parameter block */
	__u32 size;   /* bytes */
};

/* Finds a kernel by name. */
struct drm_pvdrm_module_function {
	__u32 module;
	__u32 function; /* out; 0 is never a function */
	__u64 name;     /* not zero-terminated */
	__u32 name_bytes;
	__u32 param_count; /* in: room in params; out: parameters of the kernel */
	__u64 params;      /* struct drm_pvdrm_function_param[], may be 0 */
	__u32 param_bytes; /* out: of the parameter block */
	__u32 shared_bytes; /* out: static .shared */
	__u32 local_bytes; /* out: .local of one thread */
	__u32 const_bytes; /* out: .const of its module */
	__u32 regs;        /* out: 32-bit registers of one thread */
	__u32 max_threads; /* out: of the largest block */
	__u32 ptx;         /* out: virtual architecture of machine code, compute capability * 10; 0: as its PTX says */
	__u32 binary;      /* out: architecture of machine code, * 10; 0: the device's */
	__u32 cluster_x;   /* out: blocks of a cluster that it requires; 0: none, or as its PTX says */
	__u32 cluster_y;   /* out */
	__u32 cluster_z;   /* out */
	__u32 needs_size;  /* out: 1: each launch must name the size of its clusters */
};

/* Finds a variable by name. */
struct drm_pvdrm_module_global {
	__u32 module;
	__u32 name_bytes;
	__u64 name; /* not zero-terminated */
	__u64 addr; /* out: GPU virtual address */
	__u64 size; /* out, bytes */
};

/* Why the file's GPU context was lost. */
struct drm_pvdrm_status {
	__u32 cause;      /* out: 0 while it lives */
	__u32 text_bytes; /* in: room; out: length */
	__u64 text;       /* char[], may be 0 */
};

/* Takes the oldest part of what kernels printed. What there is no room for is lost. */
struct drm_pvdrm_read_output {
	__u32 text_bytes; /* in: room, 12288 is enough; out: length, 0 when there is nothing */
	__u32 pad;
	__u64 text; /* char[] */
};

/*
 * The command stream of EXEC: commands in a row, each a header and a body. Widths
 * and pitches are in bytes, heights in rows, addresses are GPU virtual addresses.
 */
#define PVDRM_CMD_COPY      1
#define PVDRM_CMD_FILL      2
#define PVDRM_CMD_LAUNCH    3
#define PVDRM_CMD_TIMESTAMP 4
/*
 * As the first command, with no body: what follows may be run again from its start,
 * in a context whose VRAM is zero again, and then leaves the same in system memory.
 */
#define PVDRM_CMD_TASK      5
/* As LAUNCH, but all blocks run at the same time, and may wait for each other. */
#define PVDRM_CMD_COOPERATIVE 6
#define PVDRM_CMD_WORD      7
/*
 * __u32 cluster[3], flags (1: also COOPERATIVE), then as LAUNCH: a grid in clusters of so many blocks,
 * which divide it.
 */
#define PVDRM_CMD_CLUSTER   8
/*
 * __u64 signal, then as CLUSTER, where cluster may be zero: a kernel that gives the GPU away on its own. While
 * it runs the device stores 1 to the signal, a __u32 in a writable mapping of granted memory, when others
 * want the GPU or half of the launch limit is over. The kernel is then to end soon; the program launches
 * it again. The device stores nothing once the command has ended, and never clears the word.
 */
#define PVDRM_CMD_YIELDING  9
/*
 * Calls of a library of the host: __u64 results, __u64 arguments, __u32 bytes of results, __u32 bytes
 * of arguments; and the arguments, at most PVDRM_MAX_INLINE_CALL bytes, unless they lie at an address.
 */
#define PVDRM_CMD_CALL      10
#define PVDRM_MAX_INLINE_CALL 4096
#define PVDRM_MAX_CALL (64 << 20) /* bytes of arguments, or of results, at an address */

struct drm_pvdrm_cmd {
	__u16 op;       /* PVDRM_CMD_* */
	__u16 units;    /* length of the whole command in units of 8 bytes */
	__u32 argument; /* FILL: bytes of the pattern; LAUNCH, COOPERATIVE, CLUSTER, YIELDING: the function; WORD: bytes | operation << 8; else 0 */
};

/* Copies between any two addresses. Pitches do not matter where height is 1. */
struct drm_pvdrm_cmd_copy {
	struct drm_pvdrm_cmd cmd;
	__u64 dst, src;
	__u64 width, height;
	__u64 dst_pitch, src_pitch;
};

/* Fills with a pattern of 1, 2 or 4 bytes. */
struct drm_pvdrm_cmd_fill {
	struct drm_pvdrm_cmd cmd;
	__u64 dst;
	__u64 width, height, pitch;
	__u64 pattern;
};

/* Runs a kernel. Its parameters follow, padded with zeroes to a multiple of 8 bytes. */
struct drm_pvdrm_cmd_launch {
	struct drm_pvdrm_cmd cmd;
	__u32 grid[3];
	__u32 block[3];
	__u32 shared_bytes; /* dynamic .shared */
	__u32 param_bytes;
};

/* Writes the device's time in ns as a __u64. */
struct drm_pvdrm_cmd_timestamp {
	struct drm_pvdrm_cmd cmd;
	__u64 addr;
};

#define DRM_IOCTL_PVDRM_GETPARAM        _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_GETPARAM, struct drm_pvdrm_getparam)
#define DRM_IOCTL_PVDRM_CHANNEL_ALLOC   _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_CHANNEL_ALLOC, struct drm_pvdrm_channel)
#define DRM_IOCTL_PVDRM_CHANNEL_FREE    _IOW('d', PVDRM_COMMAND_BASE + DRM_PVDRM_CHANNEL_FREE, struct drm_pvdrm_channel)
#define DRM_IOCTL_PVDRM_GEM_NEW         _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_GEM_NEW, struct drm_pvdrm_gem_new)
#define DRM_IOCTL_PVDRM_GEM_INFO        _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_GEM_INFO, struct drm_pvdrm_gem_info)
#define DRM_IOCTL_PVDRM_GEM_CPU_PREP    _IOW('d', PVDRM_COMMAND_BASE + DRM_PVDRM_GEM_CPU_PREP, struct drm_pvdrm_gem_cpu_prep)
#define DRM_IOCTL_PVDRM_GEM_CPU_FINI    _IOW('d', PVDRM_COMMAND_BASE + DRM_PVDRM_GEM_CPU_FINI, struct drm_pvdrm_gem_cpu_fini)
#define DRM_IOCTL_PVDRM_VM_BIND         _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_VM_BIND, struct drm_pvdrm_vm_bind)
#define DRM_IOCTL_PVDRM_EXEC            _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_EXEC, struct drm_pvdrm_exec)
#define DRM_IOCTL_PVDRM_WAIT            _IOW('d', PVDRM_COMMAND_BASE + DRM_PVDRM_WAIT, struct drm_pvdrm_wait)
#define DRM_IOCTL_PVDRM_MODULE_LOAD     _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_MODULE_LOAD, struct drm_pvdrm_module_load)
#define DRM_IOCTL_PVDRM_MODULE_UNLOAD   _IOW('d', PVDRM_COMMAND_BASE + DRM_PVDRM_MODULE_UNLOAD, struct drm_pvdrm_module_unload)
#define DRM_IOCTL_PVDRM_MODULE_FUNCTION _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_MODULE_FUNCTION, struct drm_pvdrm_module_function)
#define DRM_IOCTL_PVDRM_MODULE_GLOBAL   _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_MODULE_GLOBAL, struct drm_pvdrm_module_global)
#define DRM_IOCTL_PVDRM_STATUS          _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_STATUS, struct drm_pvdrm_status)
#define DRM_IOCTL_PVDRM_READ_OUTPUT     _IOWR('d', PVDRM_COMMAND_BASE + DRM_PVDRM_READ_OUTPUT, struct drm_pvdrm_read_output)

#if defined(__cplusplus)
}
#endif

#endif /* PVDRM_DRM_H */
