// An echo server on the GPU: it sends back what each client sends, until they have closed.
#include "gloop.h"

using namespace gloop;

const u64 kRoom = 4096; // bytes of a connection's buffer

static __device__ void echo(Loop &loop, int client, char *room) {
    net::receive(loop, client, kRoom, room, [=](Loop &l, i64 n) {
        if (n <= 0) return net::close(l, client, [](Loop &, int) {});
        net::send(l, client, n, room, [=](Loop &l, i64) { echo(l, client, room); });
    });
}

static __device__ void serve(Loop &loop, int server, char *rooms, u32 clients) {
    if (clients == 0) return net::unbind(loop, server, [](Loop &, int) {});
    net::accept(loop, server, [=](Loop &l, int client) {
        if (client < 0) return;
        echo(l, client, rooms);
        serve(l, server, rooms + kRoom, clients - 1);
    });
}

extern "C" __global__ void server(Launch launch, u32 port, char *rooms, u32 clients) {
    run(launch, [=](Loop &loop) {
        net::bind(loop, {0x7f000001, port}, [=](Loop &l, int server) { serve(l, server, rooms, clients); });
    });
}
