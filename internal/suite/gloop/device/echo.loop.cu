#include "server.h"
#include "echo.h"

struct Echo {
	__device__ void start(Loop &loop, Server p, int server, int connection) const {
		u8 *room = serverRoom(p);
		echoCopy(room, room + p.in, p.in);
		barrier();
		serverSend(loop, p, server, connection, *this);
	}
};

KERNEL echo(gloop::Launch launch, Server p) {
	gloop::run(launch, [=](Loop &loop) { serve(loop, p, Echo{}); });
}
