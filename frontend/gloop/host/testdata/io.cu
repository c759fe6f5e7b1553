// Files and sockets.
#include "gloop.h"

using gloop::i64;
using gloop::Loop;
using gloop::u32;
using gloop::u64;

// Job is a copy of a file through a buffer, and what became of it.
struct Job {
    const char *from, *to;
    unsigned char *buffer;
    u64 chunk;
    i64 size, done, error; // results
};

static __device__ void finish(Loop &loop, Job *job, int in, int out) {
    gloop::fs::close(loop, in, [=](Loop &l, int) {
        gloop::fs::ftruncate(l, out, u64(job->done), [=](Loop &l, int error) {
            if (error && threadIdx.x == 0) job->error = error;
            gloop::fs::close(l, out, [=](Loop &, int error) {
                if (error && threadIdx.x == 0) job->error = error;
            });
        });
    });
}

static __device__ void step(Loop &loop, Job *job, int in, int out, u64 at) {
    gloop::fs::read(loop, in, at, job->chunk, job->buffer, [=](Loop &l, i64 n) {
        if (n <= 0) {
            if (n < 0 && threadIdx.x == 0) job->error = n;
            return finish(l, job, in, out);
        }
        for (u64 i = threadIdx.x; i < u64(n); i += blockDim.x) job->buffer[i] ^= 0x5a; // all threads see what was read
        __syncthreads();
        gloop::fs::write(l, out, at, u64(n), job->buffer, [=](Loop &l, i64 m) {
            if (threadIdx.x == 0) job->done += m;
            step(l, job, in, out, at + u64(n));
        });
    });
}

// Copies a file in each logical block, with all bytes turned.
extern "C" __global__ void copy(gloop::Launch launch, Job *jobs) {
    gloop::run(launch, [=](Loop &loop) {
        Job *job = jobs + loop.block().x;
        gloop::fs::open(loop, job->from, gloop::fs::kReadOnly, [=](Loop &l, int in) {
            if (in < 0) {
                if (threadIdx.x == 0) job->error = in;
                return;
            }
            gloop::fs::fstat(l, in, [=](Loop &l, i64 size) {
                if (threadIdx.x == 0) job->size = size;
                u32 flags = gloop::fs::kWriteOnly | gloop::fs::kCreate;
                gloop::fs::open(l, job->to, flags, [=](Loop &l, int out) {
                    if (out < 0) {
                        if (threadIdx.x == 0) job->error = out;
                        return;
                    }
                    step(l, job, in, out, 0);
                });
            });
        });
    });
}

// Makes any request, and stores its result.
extern "C" __global__ void ask(gloop::Launch launch, const gloop::abi::Request *requests, const char *path, i64 *results) {
    gloop::run(launch, [=](Loop &loop) {
        u32 i = loop.block().x;
        const gloop::abi::Request &r = requests[i];
        loop.request<i64>(r, r.op == gloop::abi::kOpen ? path : nullptr, [=](Loop &, i64 v) {
            if (threadIdx.x == 0) results[i] = v;
        });
    });
}
