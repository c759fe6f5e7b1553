// Layouts that a GLoop kernel shares with its host runtime. Package frontend/gloop/abi has the same
// structures in Go; its tests compare the two. All numbers are little-endian, all times nanoseconds.
//
// Each word of the shared memory has one writer, so that neither side needs atomic operations over
// the bus. Arguments are written first, then comes a fence, and the word that hands them over is
// written last.
#ifndef GLOOP_ABI_H
#define GLOOP_ABI_H

namespace gloop {

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

namespace abi {

enum : u32 {
    kVersion = 1,
    kSlots = 64,          // callbacks that a block can have pending, requests included
    kCallbackBytes = 512, // a callback with all it captures
    kFast = 2,            // callback slots in shared memory: the one that runs and the next
    kNone = ~0u,          // no slot
    kBody = ~1u,          // in place of a slot: the body of a logical block
    kLeave = ~2u,         // in place of a slot: nothing, the loop leaves
};

// Operations of requests.
enum Op : u32 {
    kOpen = 1,  // text: the path; flags: open(2)'s; result: a file
    kClose,     // handle: a file
    kStat,      // handle; result: the size in bytes
    kTruncate,  // handle, offset: the size in bytes
    kRead,      // handle, offset, address, size; result: bytes
    kWrite,     // handle, offset, address, size; result: bytes
    kConnect,   // ip, port; result: a connection
    kBind,      // ip, port; result: a server
    kUnbind,    // handle: a server
    kAccept,    // handle: a server; result: a connection
    kDisconnect,// handle: a connection
    kReceive,   // handle, address, size, flags; result: bytes, 0 at the end of the stream
    kSend,      // handle, address, size; result: bytes
};

// Flags of kReceive.
enum : u32 { kAll = 1 }; // wait for all bytes, or the end of the stream

// Launch is the first parameter of every kernel.
struct Launch {
    u64 signal;   // address of the signal word: not 0 asks the kernel to leave
    u64 queue;    // address of the Queue
    u64 contexts; // address of the Contexts, one for each physical block
    u64 blocks;   // address of the Blocks, one for each physical block
    u64 texts;    // address of the paths: textBytes for each slot of each physical block
    u64 look;     // time between two looks at the signal word
    u64 spin;     // how long loops wait for events when none of them has work
    u32 grid[3];  // logical blocks
    u32 every;    // leave after so many callbacks; 0: never (for tests)
    u32 textBytes;
    u32 sequence; // of the launch; the first one is 1 and starts all loops
    u32 version;  // kVersion
    u32 reserved;
};

// Queue is what all blocks of a program share, in device memory.
struct Queue {
    u64 next;  // logical block that is handed out next
    u64 total; // logical blocks
    u32 busy;  // loops of this launch that have work
    u32 reserved[11];
};

// Slot holds a callback.
struct alignas(16) Slot {
    u64 call; // the function, relative to an anchor of the module
    u64 reserved;
    unsigned char data[kCallbackBytes];
};

// Control is the state of one event loop.
struct Control {
    Launch launch; // of the kernel that runs
    u64 free;      // slots that are free, a bit each; so are the next three
    u64 ready;     // slots with a callback that can run
    u64 wait;      // slots whose request is under way
    u64 remote;    // slots whose callback takes the result of a request
    u64 posted;    // Block.posted as it was written last
    u64 seen;      // bits of Block.done as they were taken last
    u64 due;       // when the signal word is to be looked at, on the clock of the GPU
    u64 logical;   // number of the logical block
    u64 callbacks; // that had run when quota was set, bodies of logical blocks included
    u64 looks;     // at the signal word
    i64 value;     // result for the callback that runs
    u32 run;       // slot that runs; kBody, kLeave
    u32 fast;      // slot in shared memory that can run next; kNone: there is none
    u32 last;      // slot that ran last, of those in device memory
    u32 left;      // callbacks until the next pause for thought
    u32 quota;     // what left was then
    u32 turn;      // decisions between several callbacks
    u32 posts;     // that the first thread has made in the callback
    u32 state;     // State
    u32 error;     // Fault
    u32 block[3];  // the logical block
};

// Context is what remains of a loop while no kernel runs, in device memory.
struct Context {
    Control control;
    Slot slots[kSlots];
    Slot saved; // the callback that could run next in shared memory
};

// State says how a loop has left.
enum State : u32 {
    kRunning = 0,
    kDone,      // no logical block is left
    kSuspended, // it can go on at once
    kWaiting,   // it can go on when a request has ended
    kFailed,    // see Fault
};

// Fault is what ends a program.
enum Fault : u32 {
    kFaultNone = 0,
    kFaultSlots,     // more callbacks than slots
    kFaultCoalesced, // threads of a block made different calls
    kFaultVersion,   // the runtime has another version of this ABI
};

// Report is written by a block before it ends.
struct Report {
    u32 sequence; // of the launch
    u32 state;
    u32 error;
    u32 slot;     // reserved
    u64 callbacks;
    u64 looks;
    u64 seen;     // bits of Block.done that the loop has taken
    u64 logical;
    u64 reserved[2];
};

// Request asks the host for an operation.
struct Request {
    u32 op;
    u32 flags;
    u32 handle;
    u32 text; // bytes of the path, which lies in the slot's part of Launch.texts
    u64 address;
    u64 size;
    u64 offset;
    u64 timeout; // 0: the runtime's
    u32 ip;      // IPv4, the first number in the highest byte
    u32 port;
    u64 reserved;
};

// Block is the memory that a block shares with the host: granted pages. The device writes posted,
// report and requests, the host writes done and results.
struct Block {
    u64 posted; // a bit for each slot, which changes when a request is handed over
    u64 postedLine[7];
    u64 done; // a bit for each slot, which changes when its result is there
    u64 doneLine[7];
    Report report;
    i64 results[kSlots];
    Request requests[kSlots];
};

} // namespace abi
} // namespace gloop

#endif
