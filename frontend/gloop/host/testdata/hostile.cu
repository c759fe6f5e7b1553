// Kernels that do not keep to the protocol: they write what they like to all that they share with the
// host.
#include "gloop.h"

using namespace gloop;

enum Attack : u32 {
    kTwice,    // posts a slot while its request is under way
    kGarbage,  // posts all slots with any words, and takes no result
    kState,    // reports a state that does not exist
    kNothing,  // ends without a report
    kHostWords // writes the host's words, then reports that it waits for what has ended
};

extern "C" __global__ void hostile(Launch launch, u32 attack, u32 seed) {
    abi::Block *b = reinterpret_cast<abi::Block *>(launch.blocks);
    volatile abi::Report *r = &b->report;
    u64 x = seed | 1;
    switch (attack) {
    case kTwice: {
        abi::Request accept = {};
        accept.op = abi::kBind;
        accept.ip = 0x7f000001;
        b->requests[0] = accept;
        platform::fence();
        platform::store(&b->posted, 1);
        while (platform::load(&b->done) != 1) platform::doze(1000);
        accept.op = abi::kAccept;
        accept.handle = u32(b->results[0]);
        b->requests[0] = accept;
        platform::fence();
        platform::store(&b->posted, 0);
        for (u32 i = 0; platform::load(reinterpret_cast<u32 *>(launch.signal)) == 0; i++) {
            platform::store(&b->posted, i / 64 & 1);
            platform::doze(1000);
        }
        r->state = abi::kWaiting;
        break;
    }
    case kGarbage: {
        volatile u64 *words = reinterpret_cast<volatile u64 *>(&b->requests[0]);
        for (u32 i = 0; i < sizeof(b->requests) / 8; i++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            words[i] = x >> (i % 40);
            if (i % 8 == 0) words[i] = x >> 33 & ~0xf0ull; // an operation that may exist
        }
        platform::fence();
        platform::store(&b->posted, ~0ull);
        r->state = abi::kDone;
        break;
    }
    case kState: r->state = 77; break;
    case kNothing: return;
    case kHostWords:
        for (u32 i = 0; i < abi::kSlots; i++) b->results[i] = i64(x);
        b->done = ~0ull;
        r->state = launch.sequence < 3 ? abi::kWaiting : abi::kDone;
        r->seen = 5;
        break;
    }
    platform::fence();
    r->sequence = launch.sequence;
}
