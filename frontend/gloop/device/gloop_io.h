// Files and sockets. The host does the work in the process of the program, with its user's rights.
// Buffers are addresses of the GPU: device memory, or granted memory, which the host then reads and
// writes in place. They must stay as they are until the callback runs.
#ifndef GLOOP_IO_H
#define GLOOP_IO_H

#include "gloop_loop.h"

namespace gloop {
namespace io {

GLOOP_INLINE abi::Request ask(u32 op, i64 handle) {
    abi::Request r = {};
    r.op = op;
    r.handle = u32(handle);
    return r;
}

GLOOP_INLINE abi::Request move(u32 op, i64 handle, const void *buffer, u64 size) {
    abi::Request r = ask(op, handle);
    r.address = reinterpret_cast<u64>(buffer);
    r.size = size;
    return r;
}

} // namespace io

namespace fs {

// Flags of open, with Linux' numbers.
enum : u32 { kReadOnly = 0, kWriteOnly = 1, kReadWrite = 2, kCreate = 0100, kExclusive = 0200, kTruncate = 01000 };

// open opens a regular file. The callback (Loop &, int) gets its number.
template <class F> __device__ inline void open(Loop &loop, const char *path, u32 flags, const F &f) {
    abi::Request r = io::ask(abi::kOpen, 0);
    r.flags = flags;
    loop.request<int>(r, path, f);
}

// close closes it. The callback gets (Loop &, int): 0 or an error.
template <class F> __device__ inline void close(Loop &loop, int file, const F &f) {
    loop.request<int>(io::ask(abi::kClose, file), nullptr, f);
}

// fstat finds the size. The callback gets (Loop &, i64).
template <class F> __device__ inline void fstat(Loop &loop, int file, const F &f) {
    loop.request<i64>(io::ask(abi::kStat, file), nullptr, f);
}

// ftruncate sets the size. The callback gets (Loop &, int).
template <class F> __device__ inline void ftruncate(Loop &loop, int file, u64 size, const F &f) {
    abi::Request r = io::ask(abi::kTruncate, file);
    r.offset = size;
    loop.request<int>(r, nullptr, f);
}

// read reads at an offset. The callback gets (Loop &, i64): bytes, less than asked for at the file's end.
template <class F>
__device__ inline void read(Loop &loop, int file, u64 offset, u64 size, void *buffer, const F &f) {
    abi::Request r = io::move(abi::kRead, file, buffer, size);
    r.offset = offset;
    loop.request<i64>(r, nullptr, f);
}

// write writes at an offset. The callback gets (Loop &, i64): bytes.
template <class F>
__device__ inline void write(Loop &loop, int file, u64 offset, u64 size, const void *buffer, const F &f) {
    abi::Request r = io::move(abi::kWrite, file, buffer, size);
    r.offset = offset;
    loop.request<i64>(r, nullptr, f);
}

} // namespace fs

namespace net {

// Address is an endpoint of TCP over IPv4; ip 127.0.0.1 is 0x7f000001.
struct Address {
    u32 ip;
    u32 port;
};

namespace detail {
GLOOP_INLINE abi::Request at(u32 op, Address a) {
    abi::Request r = io::ask(op, 0);
    r.ip = a.ip;
    r.port = a.port;
    return r;
}
GLOOP_INLINE abi::Request within(abi::Request r, u64 timeout) {
    r.timeout = timeout;
    return r;
}
} // namespace detail

// Calls that wait for a peer end with -ETIMEDOUT after a timeout in nanoseconds, if that is not 0,
// or after that of the runtime.

// connect opens a connection. The callback (Loop &, int) gets its number.
template <class F> __device__ inline void connect(Loop &loop, Address to, const F &f, u64 timeout = 0) {
    loop.request<int>(detail::within(detail::at(abi::kConnect, to), timeout), nullptr, f);
}

// bind opens a server. The callback (Loop &, int) gets its number.
template <class F> __device__ inline void bind(Loop &loop, Address at, const F &f) {
    loop.request<int>(detail::at(abi::kBind, at), nullptr, f);
}

// unbind closes a server. What waits for its connections ends with -EBADF.
template <class F> __device__ inline void unbind(Loop &loop, int server, const F &f) {
    loop.request<int>(io::ask(abi::kUnbind, server), nullptr, f);
}

// accept waits for a connection to a server. The callback (Loop &, int) gets its number.
template <class F> __device__ inline void accept(Loop &loop, int server, const F &f, u64 timeout = 0) {
    loop.request<int>(detail::within(io::ask(abi::kAccept, server), timeout), nullptr, f);
}

// close closes a connection. What waits for it ends with -EBADF.
template <class F> __device__ inline void close(Loop &loop, int connection, const F &f) {
    loop.request<int>(io::ask(abi::kDisconnect, connection), nullptr, f);
}

// receive waits for bytes, and takes at most size of them. The callback (Loop &, i64) gets how many; 0 is the end of
// the stream.
template <class F>
__device__ inline void receive(Loop &loop, int connection, u64 size, void *buffer, const F &f, u64 timeout = 0) {
    loop.request<i64>(detail::within(io::move(abi::kReceive, connection, buffer, size), timeout), nullptr, f);
}

// receiveAll waits for size bytes, or the end of the stream.
template <class F>
__device__ inline void receiveAll(Loop &loop, int connection, u64 size, void *buffer, const F &f, u64 timeout = 0) {
    abi::Request r = detail::within(io::move(abi::kReceive, connection, buffer, size), timeout);
    r.flags = abi::kAll;
    loop.request<i64>(r, nullptr, f);
}

// send sends all bytes. The callback gets (Loop &, i64).
template <class F>
__device__ inline void send(Loop &loop, int connection, u64 size, const void *buffer, const F &f, u64 timeout = 0) {
    loop.request<i64>(detail::within(io::move(abi::kSend, connection, buffer, size), timeout), nullptr, f);
}

} // namespace net
} // namespace gloop

#endif
