// Each logical block counts to n, in as many callbacks.
#include "gloop.h"

static __device__ void step(gloop::Loop &loop, unsigned *out, unsigned left) {
    if (threadIdx.x == 0) out[loop.block().x]++;
    if (left > 1) gloop::loop::postTask(loop, [=](gloop::Loop &l) { step(l, out, left - 1); });
}

extern "C" __global__ void throttle(gloop::Launch launch, unsigned *out, unsigned n) {
    gloop::run(launch, [=](gloop::Loop &loop) { step(loop, out, n); });
}
