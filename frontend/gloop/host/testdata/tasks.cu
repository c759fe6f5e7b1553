// Trees of tasks, for suspensions at any point, and programs that break rules.
#include "gloop.h"

using gloop::Loop;
using gloop::u32;

// Each task mixes its block's words and posts up to two more, so that many are pending.
static __device__ void grow(Loop &loop, u32 *words, u32 seed, u32 depth) {
    u32 *mine = words + loop.block().x * blockDim.x;
    mine[threadIdx.x] = mine[threadIdx.x] * 1664525u + seed + threadIdx.x * 97u + depth;
    if (depth == 0) return;
    u32 next = seed * 22695477u + 1u;
    gloop::loop::postTask(loop, [=](Loop &l) { grow(l, words, next, depth - 1); });
    if (next >> 31) gloop::loop::yield(loop, [=](Loop &l) { grow(l, words, next ^ depth, depth - 1); });
}

extern "C" __global__ void tree(gloop::Launch launch, u32 *words, u32 depth) {
    gloop::run(launch, [=](Loop &loop) { grow(loop, words, loop.block().x * 7919u + 1u, depth); });
}

// Posts so many tasks at once.
extern "C" __global__ void flood(gloop::Launch launch, u32 *count, u32 n) {
    gloop::run(launch, [=](Loop &loop) {
        for (u32 i = 0; i < n; i++)
            gloop::loop::postTask(loop, [=](Loop &) {
                if (threadIdx.x == 0) ++*count;
            });
    });
}

// The last thread posts once more than the others.
extern "C" __global__ void apart(gloop::Launch launch) {
    gloop::run(launch, [=](Loop &loop) {
        gloop::loop::postTask(loop, [](Loop &) {});
        if (threadIdx.x == blockDim.x - 1) gloop::loop::postTask(loop, [](Loop &) {});
    });
}

struct Large {
    u32 words[128];
};

// A callback of the largest size.
extern "C" __global__ void large(gloop::Launch launch, u32 *sum) {
    gloop::run(launch, [=](Loop &loop) {
        Large v;
        for (u32 i = 0; i < 126; i++) v.words[i] = i;
        *reinterpret_cast<u32 **>(&v.words[126]) = sum;
        gloop::loop::postTask(loop, [v](Loop &) {
            u32 all = 0;
            for (u32 i = 0; i < 126; i++) all += v.words[i];
            **reinterpret_cast<u32 *const *>(&v.words[126]) = all;
        });
    });
}

// Never looks at the signal.
extern "C" __global__ void deaf(gloop::Launch launch, volatile u32 *stop) {
    gloop::run(launch, [=](Loop &) {
        while (*stop == 0) {}
    });
}

// One step without a loop.
extern "C" __global__ void plain(u32 *out) { ++*out; }
