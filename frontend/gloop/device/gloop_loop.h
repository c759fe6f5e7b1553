// The event loop of a block. The first thread decides; the others wait at a barrier.
#ifndef GLOOP_LOOP_H
#define GLOOP_LOOP_H

#include "gloop_platform.h"

#ifndef GLOOP_SHARED
#define GLOOP_SHARED 1
#endif

namespace gloop {

using abi::Launch;

struct Dim {
    u32 x, y, z;
};

class Loop {
  public:
    typedef void (*Call)(Loop &, void *, i64);

    // block is the logical block, grid how many there are.
    __device__ Dim block() const {
        u64 n = control->logical;
        u64 x = control->launch.grid[0], y = control->launch.grid[1];
        return Dim{u32(n % x), u32(n / x % y), u32(n / x / y)};
    }
    __device__ Dim grid() const {
        return Dim{control->launch.grid[0], control->launch.grid[1], control->launch.grid[2]};
    }

    template <class F> static constexpr u32 sizeOf() {
        static_assert(sizeof(F) <= abi::kCallbackBytes, "gloop: a callback captures more than 512 bytes");
        static_assert(alignof(F) <= 16, "gloop: a callback is aligned to more than 16 bytes");
        static_assert(__is_trivially_copyable(F), "gloop: a callback captures what memory cannot be copied of");
        return sizeof(F);
    }
    template <class F> static __device__ void task(Loop &loop, void *data, i64) { (*static_cast<F *>(data))(loop); }
    template <class F, class R> static __device__ void event(Loop &loop, void *data, i64 value) {
        (*static_cast<F *>(data))(loop, R(value));
    }

    // post makes f ready, which task runs.
    template <class F> GLOOP_METHOD void post(const F &f) {
        posts++;
        if (!leader) return;
        abi::Slot *s = place(&Loop::task<F>);
        if (s) platform::copy(__builtin_assume_aligned(s->data, 16), &f, sizeOf<F>());
    }
    // request hands an operation to the host; event runs f with the result.
    template <class R, class F> GLOOP_METHOD void request(const abi::Request &r, const char *text, const F &f) {
        posts++;
        if (!leader) return;
        u32 i = take(&Loop::event<F, R>);
        if (i == abi::kNone) return;
        platform::copy(__builtin_assume_aligned(context->slots[i].data, 16), &f, sizeOf<F>());
        hand(i, r, text);
    }
    __device__ bool due();
    __device__ void lookSoon() {
        if (leader) control->looked = 0;
    }

    // The steps of run.
    __device__ Loop(const Launch &launch, abi::Control *sharedControl, abi::Slot *sharedSlots);
    __device__ bool decide();  // whether there is something to run
    __device__ bool body() const { return control->run == abi::kNone; }
    __device__ void callback();
    __device__ void after();
    __device__ void exit();

  private:
    __device__ void enter(const Launch &launch);
    __device__ abi::Block *shared() const;
    __device__ abi::Slot *slot(u32 i) const { return i < abi::kSlots ? &context->slots[i] : &fast[i - abi::kSlots]; }
    GLOOP_METHOD abi::Slot *place(Call call);
    GLOOP_METHOD u32 take(Call call);
    __device__ void hand(u32 i, const abi::Request &r, const char *text);
    __device__ void choose();
    __device__ void fetch();
    __device__ void leave(u32 state);
    __device__ void fault(u32 error);
    __device__ void poll();
    __device__ bool idle();
    __device__ bool signalled();
    __device__ bool pending() const { return control->ready != 0 || control->fast != abi::kNone; }
    __device__ void sync() const {
        if (many) GLOOP_SYNC();
    }

    abi::Control *control; // in shared memory if GLOOP_SHARED
    abi::Context *context;
    abi::Slot *fast; // kFast slots in shared memory; null without them
    u32 posts;       // calls of this thread in this callback
    bool leader;     // the first thread
    bool many;       // there are others
};

// anchor is a function of the module. Callbacks are kept relative to it, so that they stay right when
// the module is loaded again somewhere else.
static __device__ __attribute__((noinline, used)) void anchor(Loop &, void *, i64) {}

__device__ inline Loop::Loop(const Launch &launch, abi::Control *sharedControl, abi::Slot *sharedSlots) {
    context = reinterpret_cast<abi::Context *>(launch.contexts) + platform::physicalBlock();
    control = sharedControl ? sharedControl : &context->control;
    fast = sharedSlots;
    posts = 0;
    leader = platform::thread() == 0;
    many = platform::threads() > 1;
    if (leader) enter(launch);
    sync();
}

// enter starts the loop, or goes on with what its context holds.
__device__ inline void Loop::enter(const Launch &launch) {
    abi::Control *c = control;
    if (launch.sequence == 1) {
        *c = abi::Control{};
        c->free = ~0ull;
        c->fast = abi::kNone;
    } else if (fast) {
        *c = context->control;
        if (c->fast != abi::kNone) {
            c->fast = abi::kSlots;
            fast[0] = context->saved;
        }
    }
    c->launch = launch;
    c->run = abi::kNone;
    c->posts = 0;
    c->count = 0;
    c->leave = 0;
    c->looked = platform::now();
    if (launch.version != abi::kVersion) fault(abi::kFaultVersion);
    platform::add(&reinterpret_cast<abi::Queue *>(launch.queue)->busy, 1u);
}

__device__ inline abi::Block *Loop::shared() const {
    return reinterpret_cast<abi::Block *>(control->launch.blocks) + platform::physicalBlock();
}

// decide lets the first thread choose what runs next.
__device__ inline bool Loop::decide() {
    if (leader) choose();
    sync();
    if (posts != control->posts) fault(abi::kFaultCoalesced); // found at the next decision, or at the exit
    posts = 0;
    return control->leave == 0;
}

__device__ inline void Loop::callback() {
    u32 i = control->run;
    abi::Slot *s = slot(i);
    Call call = reinterpret_cast<Call>(reinterpret_cast<u64>(&anchor) + s->call);
    call(*this, s->data, control->value);
}

// after frees what has run.
__device__ inline void Loop::after() {
    sync();
    if (!leader) return;
    abi::Control *c = control;
    c->posts = posts;
    c->callbacks++;
    c->count++;
    if (c->run < abi::kSlots) c->free |= 1ull << c->run;
}

// relative is a callback's function as a slot keeps it.
GLOOP_INLINE u64 relative(Loop::Call call) { return reinterpret_cast<u64>(call) - reinterpret_cast<u64>(&anchor); }

// take finds a free slot in device memory for a callback.
__device__ inline u32 Loop::take(Call call) {
    if (control->free == 0) {
        fault(abi::kFaultSlots);
        return abi::kNone;
    }
    u32 i = platform::lowest(control->free);
    control->free &= ~(1ull << i);
    context->slots[i].call = relative(call);
    return i;
}

// place finds a slot for a callback that is ready: in shared memory, or else in device memory.
__device__ inline abi::Slot *Loop::place(Call call) {
    if (fast && control->fast == abi::kNone) {
        u32 i = control->run == abi::kSlots ? abi::kSlots + 1 : u32(abi::kSlots);
        control->fast = i;
        abi::Slot *s = &fast[i - abi::kSlots];
        s->call = relative(call);
        return s;
    }
    u32 i = take(call);
    if (i == abi::kNone) return nullptr;
    control->ready |= 1ull << i;
    return &context->slots[i];
}

// hand writes a request. The bit of posted, which hands it over, is written last.
__device__ __attribute__((noinline)) inline void Loop::hand(u32 i, const abi::Request &r, const char *text) {
    u64 bit = 1ull << i;
    abi::Block *b = shared();
    volatile u64 *to = reinterpret_cast<volatile u64 *>(&b->requests[i]);
    const u64 *from = reinterpret_cast<const u64 *>(&r);
    for (u32 w = 0; w < sizeof(r) / 8; w++) to[w] = from[w];
    if (text) {
        u64 at = (u64(platform::physicalBlock()) * abi::kSlots + i) * control->launch.textBytes;
        volatile char *path = reinterpret_cast<volatile char *>(control->launch.texts + at);
        u32 n = 0;
        for (; n < control->launch.textBytes && text[n]; n++) path[n] = text[n];
        *const_cast<volatile u32 *>(&b->requests[i].text) = n;
    }
    platform::fence();
    control->posted ^= bit;
    platform::store(&b->posted, control->posted);
    control->wait |= bit;
    control->remote |= bit;
}

// due reports whether a look at the signal word is due, alike to all threads.
__device__ inline bool Loop::due() {
    bool now = leader && (platform::now() - control->looked >= control->launch.look || control->launch.every != 0);
    return many ? GLOOP_SYNC_OR(now) != 0 : now;
}

__device__ inline void Loop::fault(u32 error) {
    if (control->error == 0) control->error = error;
}

__device__ inline void Loop::leave(u32 state) {
    control->state = state;
    control->leave = 1;
}

__device__ inline bool Loop::signalled() {
    control->looked = platform::now();
    control->looks++;
    return platform::load(reinterpret_cast<const u32 *>(control->launch.signal)) != 0;
}

// poll makes the callbacks ready whose requests have ended.
__device__ inline void Loop::poll() {
    u64 changed = (platform::load(&shared()->done) ^ control->seen) & control->wait;
    control->seen ^= changed;
    control->wait ^= changed;
    control->ready |= changed;
}

// idle waits for an event. False means that the loop leaves.
__device__ inline bool Loop::idle() {
    abi::Queue *q = reinterpret_cast<abi::Queue *>(control->launch.queue);
    platform::add(&q->busy, ~0u);
    u64 start = platform::now();
    u32 nap = 500;
    for (;;) {
        poll();
        if (pending()) break;
        bool alone = platform::now() - start >= control->launch.spin && platform::add(&q->busy, 0u) == 0;
        if (alone || signalled()) break;
        platform::doze(nap);
        if (nap < 16000) nap *= 2;
    }
    platform::add(&q->busy, 1u);
    return pending();
}

// fetch takes the next logical block.
__device__ inline void Loop::fetch() {
    abi::Queue *q = reinterpret_cast<abi::Queue *>(control->launch.queue);
    u64 n = platform::add(&q->next, 1ull);
    control->inside = n < q->total;
    control->logical = n;
    control->run = abi::kNone;
    control->turn = 0; // a logical block runs alike wherever it does
    control->last = 0;
    if (!control->inside) leave(abi::kDone);
}

// choose decides what runs next, or that the loop leaves.
__device__ inline void Loop::choose() {
    abi::Control *c = control;
    if (c->error) return leave(abi::kFailed);
    if (c->state == abi::kDone) return leave(abi::kDone);
    bool stop = c->launch.every != 0 && c->count >= c->launch.every;
    if (platform::now() - c->looked >= c->launch.look && signalled()) stop = true;
    if (stop) return leave(pending() || !c->wait ? abi::kSuspended : abi::kWaiting);

    c->turn++;
    if (c->wait && c->turn % 16 == 0) poll();
    bool others = c->ready != 0 && c->turn % 8 == 0; // the slot in shared memory does not starve them
    if (c->fast != abi::kNone && !others) {
        c->run = c->fast;
        c->fast = abi::kNone;
        return;
    }
    if (!c->ready) {
        if (!c->wait) return fetch();
        if (!idle()) return leave(abi::kWaiting);
    }
    u64 later = c->ready & (~1ull << c->last); // in turn, so that none starves
    u32 i = platform::lowest(later ? later : c->ready);
    u64 bit = 1ull << i;
    c->last = i;
    c->run = i;
    c->ready ^= bit;
    if (c->remote & bit) {
        c->remote ^= bit;
        c->value = i64(platform::load(reinterpret_cast<const u64 *>(&shared()->results[i])));
    }
}

// exit saves the loop and tells the host.
__device__ inline void Loop::exit() {
    sync();
    if (!leader) return;
    abi::Control *c = control;
    if (c->error) c->state = abi::kFailed;
    if (fast) {
        context->control = *c;
        if (c->fast != abi::kNone) context->saved = *slot(c->fast);
    }
    volatile abi::Report *r = &shared()->report;
    r->state = c->state;
    r->error = c->error;
    r->callbacks = c->callbacks;
    r->looks = c->looks;
    r->seen = c->seen;
    r->logical = c->logical;
    platform::fence();
    r->sequence = c->launch.sequence;
    platform::add(&reinterpret_cast<abi::Queue *>(c->launch.queue)->busy, ~0u);
}

// run is the whole of a kernel: body starts each logical block.
template <class Body> __device__ inline void run(const Launch &launch, const Body &body) {
#if GLOOP_SHARED
    __shared__ abi::Control control;
    __shared__ abi::Slot slots[abi::kFast];
    Loop loop(launch, &control, slots);
#else
    Loop loop(launch, nullptr, nullptr);
#endif
    while (loop.decide()) {
        if (loop.body())
            body(loop);
        else
            loop.callback();
        loop.after();
    }
    loop.exit();
}

} // namespace gloop

#endif
