// What the files of the library share.
#ifndef GLOOP_PROGRAM_H
#define GLOOP_PROGRAM_H

#include "../device/gloop_abi.h"
#include "gloop_host.h"

#include <poll.h>
#include <pthread.h>

// The part of the CUDA driver API that the library uses, from its public documentation.
extern "C" {
typedef int CUresult;
typedef struct CUstream_st *CUstream;
typedef struct CUctx_st *CUcontext;
struct LaunchAttribute {
	int id, pad;
	unsigned long long value[8];
};
struct LaunchConfig {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	LaunchAttribute *attributes;
	unsigned count;
};
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxGetDevice(int *);
CUresult cuCtxSynchronize(void);
CUresult cuDeviceGetAttribute(int *, int, int);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, void *, int, size_t);
CUresult cuStreamCreate(CUstream *, unsigned);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamQuery(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemFreeHost(void *);
CUresult cuMemHostGetDevicePointer_v2(unsigned long long *, void *, unsigned);
CUresult cuMemAlloc_v2(unsigned long long *, size_t);
CUresult cuMemFree_v2(unsigned long long);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemcpyHtoD_v2(unsigned long long, const void *, size_t);
CUresult cuMemcpyHtoDAsync_v2(unsigned long long, const void *, size_t, CUstream);
CUresult cuMemcpyDtoHAsync_v2(void *, unsigned long long, size_t, CUstream);
CUresult cuLaunchKernelEx(const LaunchConfig *, void *, void **, void **);
}

namespace gloop {

enum Kind { kFile = 1, kServer, kConnection };

// Handle is a file or a socket. Its number is the program's own.
struct Handle {
	Kind kind;
	int fd;
	int users; // requests that use it
	bool gone; // closed by the kernel: the last user closes fd
};

// Operation is a request that is served. There is one for each slot.
struct Operation {
	abi::Request request;
	unsigned block, slot;
	Operation *next; // in the queue
	Handle *handle;  // that it uses
	int fd;          // of a connection that is not made yet
	u64 deadline;    // 0: none
	u64 done;        // bytes
	short events;    // that it waits for
	bool waits, late;
};

// Bounce is a thread's way to device memory.
struct Bounce {
	CUstream stream;
	unsigned char *bytes;
};

static const size_t kBounceBytes = 512 << 10;

// kLater is the result of an operation that waits for its socket.
static const i64 kLater = i64(1) << 62;

// Kit is what a run allocates. A pool keeps it for the next one.
struct Kit {
	Kit *next;
	unsigned blocks; // that it has room for
	size_t bytes;    // of granted
	CUstream stream;
	unsigned char *granted; // the signal word in a page of its own, blocks, paths
	u64 base;               // its address for the device
	u64 device;             // the queue, contexts
	u64 *words;             // three of each block
	Operation *operations;
	Operation **waiting; // for sockets
	pollfd *polled;      // by the thread that polls
	Operation **polls;   // which those are of
	Bounce *bounces;     // of threads
	unsigned threads;
};

struct Program {
	gloop_config config;
	gloop_stats stats;
	CUcontext context;
	Kit *kit;
	abi::Launch launch;

	volatile u32 *signal;
	abi::Block *blocks;
	char *texts;

	// The main thread's own.
	u64 *taken;

	pthread_mutex_t mu;
	pthread_cond_t work, ended;
	u64 *under, *done; // by block
	Operation *first, *last;
	unsigned waits; // of the kit's waiting
	Handle **handles;
	unsigned open;
	u64 events; // requests that have ended
	u64 active; // when a request was taken or has ended: atomic
	volatile bool over;
	int wake; // an eventfd, for the thread that polls
	pthread_t *threads;
	unsigned started;
	unsigned workers; // that have taken their buffer
};

u64 nanoseconds();

// attend has the main thread look for requests without naps for a while.
inline void attend(Program *p) { __atomic_store_n(&p->active, nanoseconds(), __ATOMIC_RELAXED); }

// serve does the work of a request: its result, a negative errno, or kLater.
i64 serve(Program *p, Operation *o, Bounce *b);
// finish drops what the operation holds.
void finish(Program *p, Operation *o);
// check is what is wrong with a request, as errno; 0 if nothing is.
int check(const Program *p, const abi::Request *r);
// closeAll closes what the kernel has left open, when no operation is left.
void closeAll(Program *p);

// takeKit takes a kit of the pool or makes one, and prepares it for a run; giveKit gives it back, to keep if it is whole.
int takeKit(Program *p, u64 logical);
void giveKit(Program *p, bool whole);

bool startThreads(Program *p);
void stopThreads(Program *p);
// enqueue gives an operation to the threads.
void enqueue(Program *p, Operation *o);
void complete(Program *p, Operation *o, i64 value);

} // namespace gloop

#endif
