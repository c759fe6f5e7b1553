// The event loop of a block. The first thread decides; the others wait at a barrier.
#ifndef GLOOP_LOOP_H
#define GLOOP_LOOP_H

#include "gloop_platform.h"

// GLOOP_SHARED=0 keeps loops in device memory.
#ifndef GLOOP_SHARED
#define GLOOP_SHARED 1
#endif

namespace gloop {

using abi::Launch;

struct Dim {
    u32 x, y, z;
};

#if GLOOP_SHARED
static __shared__ abi::Control sharedControl;
static __shared__ abi::Slot sharedSlots[abi::kFast];
#endif

class Loop {
  public:
    typedef void (*Call)(Loop &, void *);

    // block is the logical block, grid how many there are.
    GLOOP_METHOD Dim block() const {
        const abi::Control &c = control();
        return Dim{c.block[0], c.block[1], c.block[2]};
    }
    GLOOP_METHOD Dim grid() const {
        const Launch &l = control().launch;
        return Dim{l.grid[0], l.grid[1], l.grid[2]};
    }

    // post makes f ready, which task runs.
    template <class F> GLOOP_METHOD void post(const F &f) {
        if (!counts()) return;
        abi::Slot *s = place(&Loop::task<F>);
        if (s) platform::copy(__builtin_assume_aligned(s->data, 16), &f, sizeOf<F>());
    }
    // request hands an operation to the host; event runs f with the result.
    template <class R, class F> GLOOP_METHOD void request(const abi::Request &r, const char *text, const F &f) {
        if (!counts()) return;
        u32 i = take(&Loop::event<F, R>);
        if (i == abi::kNone) return;
        platform::copy(__builtin_assume_aligned(context->slots[i].data, 16), &f, sizeOf<F>());
        hand(i, r, text);
    }
    GLOOP_METHOD bool due();
    GLOOP_METHOD void lookSoon() {
        if (role & kFirst) control().due = 0;
    }

    // A thread's part in its block.
    enum Role : u32 {
        kFirst = 1,  // the first thread, which decides
        kAmong = 2,  // there are others
        kAlone = kFirst,
    };
    static GLOOP_METHOD u32 roleOf() {
        return (platform::thread() == 0 ? kFirst : 0) | (platform::threads() > 1 ? kAmong : 0);
    }

    // The steps of run.
    __device__ Loop(const Launch &launch, u32 role);
    GLOOP_METHOD u32 decide(u32 role);
    GLOOP_METHOD void callback(u32 slot);
    GLOOP_METHOD void after(u32 slot, u32 role);
    __device__ void exit(u32 role);

  private:
    // counts counts a call, and reports whether it is the first thread's.
    GLOOP_METHOD bool counts() {
        u32 r = role;
        if (r & kAmong) posts++;
        return r & kFirst;
    }
    template <class F> static GLOOP_METHOD constexpr u32 sizeOf() {
        static_assert(sizeof(F) <= abi::kCallbackBytes, "gloop: a callback captures more than 512 bytes");
        static_assert(alignof(F) <= 16, "gloop: a callback is aligned to more than 16 bytes");
        static_assert(__is_trivially_copyable(F), "gloop: a callback captures what is more than plain data");
        return sizeof(F);
    }
    template <class F> static __device__ void task(Loop &loop, void *data) { (*static_cast<F *>(data))(loop); }
    template <class F, class R> static __device__ void event(Loop &loop, void *data) {
        (*static_cast<F *>(data))(loop, R(loop.control().value));
    }

#if GLOOP_SHARED
    GLOOP_METHOD abi::Control &control() const { return sharedControl; }
#else
    GLOOP_METHOD abi::Control &control() const { return context->control; }
#endif
    GLOOP_METHOD abi::Slot *slot(u32 i) const {
#if GLOOP_SHARED
        if (i >= abi::kSlots) return &sharedSlots[i - abi::kSlots];
#endif
        return &context->slots[i];
    }
    GLOOP_METHOD bool pending() const { return control().ready != 0 || control().fast != abi::kNone; }
    GLOOP_METHOD abi::Slot *place(Call call);
    GLOOP_METHOD u32 take(Call call);
    GLOOP_METHOD void choose();
    GLOOP_METHOD void runFast();
    __device__ void enter(const Launch &launch);
    __device__ void hand(u32 i, const abi::Request &r, const char *text);
    __device__ bool consider();
    __device__ void pick();
    __device__ void fetch();
    __device__ void leave(u32 state);
    __device__ void fault(u32 error);
    __device__ void poll();
    __device__ bool idle();
    __device__ bool signalled();
    __device__ abi::Block *shared() const;
    __device__ abi::Queue *queue() const { return reinterpret_cast<abi::Queue *>(control().launch.queue); }

    abi::Context *context;
    u32 posts; // calls of this thread in this callback, if there are other threads
    u32 role;  // Role
};

// anchor is a function of the module. Callbacks are kept relative to it, so that they stay right when
// the module is loaded again somewhere else.
static __device__ __attribute__((noinline, used)) void anchor(Loop &, void *) {}

// relative is a callback's function as a slot keeps it.
GLOOP_INLINE u64 relative(Loop::Call call) { return reinterpret_cast<u64>(call) - reinterpret_cast<u64>(&anchor); }

__device__ inline Loop::Loop(const Launch &launch, u32 part) {
    context = reinterpret_cast<abi::Context *>(launch.contexts) + platform::physicalBlock();
    posts = 0;
    role = part;
    if (part & kFirst) enter(launch);
    if (part & kAmong) GLOOP_SYNC();
}

// enter starts the loop, or goes on with what its context holds.
__device__ inline void Loop::enter(const Launch &launch) {
    abi::Control &c = control();
    if (launch.sequence == 1) {
        c = abi::Control{};
        c.free = ~0ull;
        c.fast = abi::kNone;
    }
#if GLOOP_SHARED
    else {
        c = context->control;
        if (c.fast != abi::kNone) {
            c.fast = abi::kSlots;
            sharedSlots[0] = context->saved;
        }
    }
#endif
    c.launch = launch;
    c.run = abi::kBody;
    c.posts = 0;
    c.left = c.quota = launch.every ? launch.every : ~0u;
    c.due = c.state == abi::kDone ? 0 : platform::now() + launch.look;
    if (launch.version != abi::kVersion) fault(abi::kFaultVersion);
    platform::add(&queue()->busy, 1u);
}

__device__ inline abi::Block *Loop::shared() const {
    return reinterpret_cast<abi::Block *>(control().launch.blocks) + platform::physicalBlock();
}

// decide lets the first thread choose what runs next, and tells all.
__device__ inline u32 Loop::decide(u32 role) {
    if (role & kFirst) choose();
    if (role & kAmong) {
        GLOOP_SYNC();
        if (posts != control().posts) fault(abi::kFaultCoalesced); // seen at the next decision, or at the exit
        posts = 0;
    }
    return control().run;
}

__device__ inline void Loop::callback(u32 i) {
    abi::Slot *s = slot(i);
    Call call = reinterpret_cast<Call>(reinterpret_cast<u64>(&anchor) + s->call);
    call(*this, s->data);
}

// after frees what has run.
__device__ inline void Loop::after(u32 i, u32 role) {
    if (role & kAmong) {
        GLOOP_SYNC();
        if (!(role & kFirst)) return;
        control().posts = posts;
    }
    if (i < abi::kSlots) control().free |= 1ull << i;
}

// take finds a free slot in device memory for a callback.
__device__ inline u32 Loop::take(Call call) {
    abi::Control &c = control();
    if (c.free == 0) {
        fault(abi::kFaultSlots);
        return abi::kNone;
    }
    u32 i = platform::lowest(c.free);
    c.free &= ~(1ull << i);
    context->slots[i].call = relative(call);
    return i;
}

// place finds a slot for a callback that is ready: in shared memory, or else in device memory.
__device__ inline abi::Slot *Loop::place(Call call) {
#if GLOOP_SHARED
    if (control().fast == abi::kNone) {
        u32 i = control().run == abi::kSlots ? 1 : 0; // not the one that runs
        control().fast = abi::kSlots + i;
        sharedSlots[i].call = relative(call);
        return &sharedSlots[i];
    }
#endif
    u32 i = take(call);
    if (i == abi::kNone) return nullptr;
    control().ready |= 1ull << i;
    return &context->slots[i];
}

// hand writes a request. The bit of posted, which hands it over, is written last.
__device__ __attribute__((noinline)) inline void Loop::hand(u32 i, const abi::Request &r, const char *text) {
    abi::Control &c = control();
    u64 bit = 1ull << i;
    abi::Block *b = shared();
    volatile u64 *to = reinterpret_cast<volatile u64 *>(&b->requests[i]);
    const u64 *from = reinterpret_cast<const u64 *>(&r);
    for (u32 w = 0; w < sizeof(r) / 8; w++) to[w] = from[w];
    if (text) {
        u64 at = (u64(platform::physicalBlock()) * abi::kSlots + i) * c.launch.textBytes;
        volatile char *path = reinterpret_cast<volatile char *>(c.launch.texts + at);
        u32 n = 0;
        for (; n < c.launch.textBytes && text[n]; n++) path[n] = text[n];
        *const_cast<volatile u32 *>(&b->requests[i].text) = n;
    }
    platform::fence();
    c.posted ^= bit;
    platform::store(&b->posted, c.posted);
    c.wait |= bit;
    c.remote |= bit;
}

// due reports whether a look at the signal word is due, alike to all threads.
__device__ inline bool Loop::due() {
    u32 r = role;
    bool now = (r & kFirst) && (platform::now() >= control().due || control().launch.every != 0);
    return r & kAmong ? GLOOP_SYNC_OR(now) != 0 : now;
}

// fault ends the program, at the next decision.
__device__ inline void Loop::fault(u32 error) {
    if (control().error == 0) control().error = error;
    control().due = 0;
}

__device__ inline void Loop::leave(u32 state) {
    control().state = state;
    control().run = abi::kLeave;
}

__device__ inline bool Loop::signalled() {
    abi::Control &c = control();
    c.due = platform::now() + c.launch.look;
    c.looks++;
    return platform::load(reinterpret_cast<const u32 *>(c.launch.signal)) != 0;
}

// poll makes the callbacks ready whose requests have ended.
__device__ inline void Loop::poll() {
    abi::Control &c = control();
    u64 changed = (platform::load(&shared()->done) ^ c.seen) & c.wait;
    c.seen ^= changed;
    c.wait ^= changed;
    c.ready |= changed;
}

// idle waits for an event. False means that the loop leaves.
__device__ inline bool Loop::idle() {
    platform::add(&queue()->busy, ~0u);
    u64 start = platform::now();
    for (u32 nap = 500;; nap = nap < 16000 ? 2 * nap : nap) {
        poll();
        if (pending()) break;
        bool alone = platform::now() - start >= control().launch.spin && platform::add(&queue()->busy, 0u) == 0;
        if (alone || signalled()) break;
        platform::doze(nap);
    }
    platform::add(&queue()->busy, 1u);
    return pending();
}

// fetch takes the next logical block. It runs alike wherever it does.
__device__ inline void Loop::fetch() {
    abi::Control &c = control();
    u64 n = platform::add(&queue()->next, 1ull);
    if (n >= queue()->total) {
        c.left++;
        return leave(abi::kDone);
    }
    u64 x = c.launch.grid[0], y = c.launch.grid[1];
    c.logical = n;
    c.block[0] = u32(n % x);
    c.block[1] = u32(n / x % y);
    c.block[2] = u32(n / x / y);
    c.turn = 0;
    c.last = 0;
    c.run = abi::kBody;
}

// consider decides whether the loop goes on, at times.
__device__ __attribute__((noinline)) inline bool Loop::consider() {
    abi::Control &c = control();
    bool stop = c.left == 0 && c.launch.every != 0;
    c.callbacks += c.quota - c.left;
    if (c.left == 0) c.left = ~0u; // without a limit: with one, the loop leaves
    c.quota = c.left;              // a look does not begin the count again
    if (c.error) {
        leave(abi::kFailed);
        return false;
    }
    if (c.state == abi::kDone) {
        leave(abi::kDone);
        return false;
    }
    if (platform::now() >= c.due && signalled()) stop = true;
    if (stop) leave(pending() || !c.wait ? abi::kSuspended : abi::kWaiting);
    return !stop;
}

__device__ inline void Loop::runFast() {
    control().run = control().fast;
    control().fast = abi::kNone;
}

// choose decides what runs next, or that the loop leaves.
__device__ inline void Loop::choose() {
    abi::Control &c = control();
    if ((c.left == 0 || platform::now() >= c.due) && !consider()) return;
    c.left--;
    if (c.fast != abi::kNone && ((c.ready | c.wait) == 0 || ++c.turn % 8 != 0))
        runFast(); // the others get their turn, too
    else
        pick();
}

// pick chooses among the callbacks in device memory.
__device__ __attribute__((noinline)) inline void Loop::pick() {
    abi::Control &c = control();
    if (c.wait && ++c.turn % 16 == 0) poll();
    if (!c.ready) {
        if (c.fast != abi::kNone) return runFast();
        if (!c.wait) return fetch();
        if (!idle()) {
            c.left++;
            return leave(abi::kWaiting);
        }
    }
    u64 later = c.ready & (~1ull << c.last); // in turn, so that none starves
    u32 i = platform::lowest(later ? later : c.ready);
    u64 bit = 1ull << i;
    c.last = i;
    c.run = i;
    c.ready ^= bit;
    if (c.remote & bit) {
        c.remote ^= bit;
        c.value = i64(platform::load(reinterpret_cast<const u64 *>(&shared()->results[i])));
    }
}

// exit saves the loop and tells the host.
__device__ inline void Loop::exit(u32 role) {
    if (role & kAmong) GLOOP_SYNC();
    if (!(role & kFirst)) return;
    abi::Control &c = control();
    if (c.error) c.state = abi::kFailed;
    c.callbacks += c.quota - c.left;
    c.quota = c.left;
#if GLOOP_SHARED
    context->control = c;
    if (c.fast != abi::kNone) context->saved = *slot(c.fast);
#endif
    volatile abi::Report *r = &shared()->report;
    r->state = c.state;
    r->error = c.error;
    r->callbacks = c.callbacks;
    r->looks = c.looks;
    r->seen = c.seen;
    r->logical = c.logical;
    platform::fence();
    r->sequence = c.launch.sequence;
    platform::add(&queue()->busy, ~0u);
}

// run is the whole of a kernel: body starts each logical block.
template <class Body> __device__ inline void run(const Launch &launch, const Body &body) {
    const u32 role = Loop::roleOf();
    Loop loop(launch, role);
    for (;;) {
        u32 slot = loop.decide(role);
        if (slot == abi::kLeave) break;
        if (slot == abi::kBody)
            body(loop);
        else
            loop.callback(slot);
        loop.after(slot, role);
    }
    loop.exit(role);
}

} // namespace gloop

#endif
