// Servers and clients.
#include "gloop.h"

using gloop::i64;
using gloop::Loop;
using gloop::u32;
using gloop::u64;

static const u64 kBuffer = 4096;

static __device__ void echo(Loop &loop, int connection, char *buffer) {
    gloop::net::receive(loop, connection, kBuffer, buffer, [=](Loop &l, i64 n) {
        if (n <= 0) return gloop::net::close(l, connection, [](Loop &, int) {});
        gloop::net::send(l, connection, u64(n), buffer, [=](Loop &l, i64 m) {
            if (m < 0) return gloop::net::close(l, connection, [](Loop &, int) {});
            echo(l, connection, buffer);
        });
    });
}

static __device__ void serve(Loop &loop, int server, char *buffers, u32 left) {
    if (left == 0) return gloop::net::unbind(loop, server, [](Loop &, int) {});
    gloop::net::accept(loop, server, [=](Loop &l, int connection) {
        if (connection < 0) return;
        echo(l, connection, buffers + (left - 1) * kBuffer);
        serve(l, server, buffers, left - 1);
    });
}

// Echoes what clients send, until so many connections have come and all are closed.
extern "C" __global__ void echoServer(gloop::Launch launch, char *buffers, u32 connections) {
    gloop::run(launch, [=](Loop &loop) {
        gloop::net::bind(loop, {0x7f000001, 0}, [=](Loop &l, int server) { serve(l, server, buffers, connections); });
    });
}

// Sends size bytes, receives as many, and stores how far it got.
extern "C" __global__ void client(gloop::Launch launch, u32 port, char *buffer, u64 size, i64 *results) {
    gloop::run(launch, [=](Loop &loop) {
        gloop::net::connect(loop, {0x7f000001, port}, [=](Loop &l, int connection) {
            if (threadIdx.x == 0) results[0] = connection;
            if (connection < 0) return;
            gloop::net::send(l, connection, size, buffer, [=](Loop &l, i64 n) {
                if (threadIdx.x == 0) results[1] = n;
                gloop::net::receiveAll(l, connection, size, buffer + size, [=](Loop &l, i64 n) {
                    if (threadIdx.x == 0) results[2] = n;
                    gloop::net::close(l, connection, [=](Loop &, int error) {
                        if (threadIdx.x == 0) results[3] = error;
                    });
                });
            });
        });
    });
}

static __device__ void busy(Loop &loop, volatile u32 *stop) {
    if (*stop == 0) gloop::loop::postTask(loop, [=](Loop &l) { busy(l, stop); });
}

// Block 0 runs tasks until block 1 has accepted a connection.
extern "C" __global__ void uneven(gloop::Launch launch, u32 *stop) {
    gloop::run(launch, [=](Loop &loop) {
        if (loop.block().x == 0) return busy(loop, stop);
        gloop::net::bind(loop, {0x7f000001, 0}, [=](Loop &l, int server) {
            gloop::net::accept(l, server, [=](Loop &, int connection) { *stop = u32(connection); });
        });
    });
}
