// Posts one task after another: what a scheduling point costs.
#include "gloop.h"

static __device__ void step(gloop::Loop &loop, unsigned *out, unsigned left) {
    if (threadIdx.x == 0) out[loop.block().x]++;
    if (left > 1) gloop::loop::postTask(loop, [=](gloop::Loop &l) { step(l, out, left - 1); });
}

extern "C" __global__ void throttle(gloop::Launch launch, unsigned *out, unsigned n) {
    gloop::run(launch, [=](gloop::Loop &loop) { step(loop, out, n); });
}

// Goes on by itself until a look is due.
static __device__ void count(gloop::Loop &loop, unsigned *out, unsigned left) {
    while (left > 0) {
        if (threadIdx.x == 0) out[loop.block().x]++;
        left--;
        if (gloop::loop::postTaskIfNecessary(loop, [=](gloop::Loop &l) { count(l, out, left); })) return;
    }
}

extern "C" __global__ void necessary(gloop::Launch launch, unsigned *out, unsigned n) {
    gloop::run(launch, [=](gloop::Loop &loop) { count(loop, out, n); });
}
