// Posts one task after another: what a scheduling point costs. Blocks may have 1,024 threads: without the
// bounds a compiler may give a thread more registers than so many can have.
#include "gloop.h"

static __device__ void step(gloop::Loop &loop, unsigned *out, unsigned left) {
    if (threadIdx.x == 0) out[loop.block().x]++;
    if (left > 1) gloop::loop::postTask(loop, [=](gloop::Loop &l) { step(l, out, left - 1); });
}

extern "C" __global__ void __launch_bounds__(1024) throttle(gloop::Launch launch, unsigned *out, unsigned n) {
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

extern "C" __global__ void __launch_bounds__(1024) necessary(gloop::Launch launch, unsigned *out, unsigned n) {
    gloop::run(launch, [=](gloop::Loop &loop) { count(loop, out, n); });
}
