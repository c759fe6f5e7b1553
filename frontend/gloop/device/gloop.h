// GLoop: event-driven GPU programs. A kernel runs an event loop in each block. Everything but
// computation is an event: a call names a callback, returns at once, and the callback runs when the
// event has ended. Between callbacks the loop can leave the GPU and go on later.
//
//     extern "C" __global__ void count(gloop::Launch launch, unsigned *out, unsigned n) {
//         gloop::run(launch, [=](gloop::Loop &loop) { step(loop, out, n); });
//     }
//
// Rules of a program:
//  * All threads of a block make the same calls, at the same place, with the same arguments. The
//    first thread's arguments and captures are the ones that count.
//  * A callback is a lambda that captures by value at most 512 bytes of plain data. What threads
//    have of their own, they compute from threadIdx or keep in device memory.
//  * Shared memory, local variables and registers do not outlive a callback; device memory does.
//  * Blocks are logical: loop.block() and loop.grid() take the place of blockIdx and gridDim.
//  * A result below 0 is a negative errno of Linux.
//
// GLOOP_SHARED=0 keeps loops out of shared memory, which then belongs to the program alone.
#ifndef GLOOP_H
#define GLOOP_H

#include "gloop_loop.h"
#include "gloop_io.h"

namespace gloop {
namespace loop {

// postTask runs a callback (Loop &) later, as one of those that are ready.
template <class F> __device__ inline void postTask(Loop &loop, const F &f) {
    loop.post(f);
}

// postTaskIfNecessary posts the callback and returns true when a look at the signal is due: the
// caller returns then. Otherwise it returns false, and the caller goes on itself.
template <class F> __device__ inline bool postTaskIfNecessary(Loop &loop, const F &f) {
    if (!loop.due()) return false;
    postTask(loop, f);
    return true;
}

// yield is postTask with a look at the signal before the next callback.
template <class F> __device__ inline void yield(Loop &loop, const F &f) {
    postTask(loop, f);
    loop.lookSoon();
}

} // namespace loop
} // namespace gloop

#endif
