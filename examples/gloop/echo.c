/* Runs the echo server of echo.cu on the GPU, and talks to it from a thread: echo FILE.ptx. */
#include "driver.h"
#include "gloop_host.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 3, ROOM = 4096 };

/* talk is one client after the other. */
static void *talk(void *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(*(unsigned *)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};

	for (int i = 0; i < CLIENTS; i++) {
		char said[ROOM * 3], heard[sizeof said];
		size_t got = 0;
		int s = socket(AF_INET, SOCK_STREAM, 0);

		for (size_t b = 0; b < sizeof said; b++)
			said[b] = (char)(b * 31 + i);
		REQUIRE(s >= 0 && connect(s, (struct sockaddr *)&a, sizeof a) == 0);
		REQUIRE(send(s, said, sizeof said, 0) == (ssize_t)sizeof said);
		while (got < sizeof heard) {
			ssize_t n = recv(s, heard + got, sizeof heard - got, 0);
			REQUIRE(n > 0);
			got += (size_t)n;
		}
		REQUIRE(memcmp(said, heard, sizeof said) == 0);
		close(s);
	}
	return NULL;
}

static pthread_t client;
static unsigned bound_port;

static void bound(void *user, unsigned port)
{
	(void)user;
	bound_port = port;
	REQUIRE(pthread_create(&client, NULL, talk, &bound_port) == 0);
}

int main(int argc, char **argv)
{
	static char ptx[1 << 20];
	CUdevice dev;
	CUcontext ctx;
	CUmodule mod;
	CUfunction server;
	void *rooms;
	CUdeviceptr at;

	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
	REQUIRE(f && fread(ptx, 1, sizeof ptx - 1, f) > 0);
	fclose(f);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuModuleLoadData(&mod, ptx));
	CHECK(cuModuleGetFunction(&server, mod, "server"));

	/* First in granted memory, which sockets read and write in place, then in device memory. */
	for (int granted = 1; granted >= 0; granted--) {
		struct gloop_memory memory = {.bytes = CLIENTS * ROOM};
		if (granted) {
			CHECK(cuMemAllocHost(&rooms, memory.bytes));
			CHECK(cuMemHostGetDevicePointer(&at, rooms, 0));
		} else {
			CHECK(cuMemAlloc(&at, memory.bytes));
		}
		memory.host = rooms;
		memory.device = at;

		struct gloop_config config = {
			.function = server, .grid = {1}, .block = {32}, .bound = bound,
			.memory = &memory, .memories = (unsigned)granted,
		};
		struct gloop_stats stats;
		unsigned port = 0, clients = CLIENTS;
		void *args[] = {NULL, &port, &at, &clients};
		int error = gloop_run(&config, args, &stats);
		if (error)
			fprintf(stderr, "echo: %s (CUDA: %d)\n", gloop_message(error), stats.cuda);
		REQUIRE(error == GLOOP_OK);
		REQUIRE(pthread_join(client, NULL) == 0);
		REQUIRE((granted ? stats.direct : stats.bounced) == 2ull * CLIENTS * ROOM * 3);
		REQUIRE((granted ? stats.bounced : stats.direct) == 0);
	}
	CHECK(cuMemFreeHost(rooms));
	CHECK(cuMemFree(at));
	CHECK(cuModuleUnload(mod));
	CHECK(cuCtxDestroy(ctx));
	puts("echo: PASS");
	return 0;
}
