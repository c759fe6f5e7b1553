/* Runs a GLoop program on the kernels of frontend/gloop/host/testdata until its device dies:
 * deaths SERVER.ptx waits, or THROTTLE.ptx computes. It writes a line when the program is where it is
 * to die. "SERVER.ptx alone" runs a program whose threads cannot be made, beside one that serves. */
#include "load.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEVICE_UNAVAILABLE = 46, SHOTS = 3, BYTES = 1000 };

static CUcontext ctx;
static CUdeviceptr memory;
static unsigned bound_port;
static pthread_t other;

static void reached(void)
{
	puts("reached");
	fflush(stdout);
}

/* left waits until the server's kernel has left the GPU to wait for a client. */
static void *left(void *unused)
{
	CHECK(cuCtxSetCurrent(ctx));
	for (int i = 0; i < 3; i++) {
		usleep(50000);
		CHECK(cuCtxSynchronize());
	}
	reached();
	return unused;
}

/* fail runs a program for whose thread that polls no descriptor is left. */
static void fail(CUfunction function)
{
	struct rlimit usual, none;
	struct gloop_config config = {.function = function, .grid = {1}, .block = {1}};
	struct gloop_stats stats;
	unsigned clients = 1;
	void *args[] = {NULL, &memory, &clients};

	REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
	none = usual;
	none.rlim_cur = 3;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
	int error = gloop_run(&config, args, &stats);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
	printf("beside it: %s, CUDA %d\n", gloop_message(error), stats.cuda);
	REQUIRE((error == GLOOP_SYSTEM || error == GLOOP_CUDA) && stats.launches == 0);
}

/* talk is a client of the server, beside which another program fails at once. */
static void *talk(void *function)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(bound_port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int s = socket(AF_INET, SOCK_STREAM, 0);
	char said[BYTES], heard[BYTES];

	CHECK(cuCtxSetCurrent(ctx));
	memset(said, 7, sizeof said);
	REQUIRE(s >= 0 && connect(s, (struct sockaddr *)&a, sizeof a) == 0);
	for (int i = 0; i < SHOTS; i++) {
		REQUIRE(send(s, said, sizeof said, 0) == sizeof said);
		REQUIRE(recv(s, heard, sizeof heard, MSG_WAITALL) == sizeof heard);
		REQUIRE(memcmp(said, heard, sizeof said) == 0);
		fail(function); /* its connection is there, and its buffer needs no descriptor */
	}
	close(s);
	return NULL;
}

/* bound is called by a thread of the library. */
static void bound(void *function, unsigned port)
{
	bound_port = port;
	REQUIRE(pthread_create(&other, NULL, function ? talk : left, function) == 0);
}

static void *computes(void *unused)
{
	unsigned word = 0;
	CHECK(cuCtxSetCurrent(ctx));
	while (word == 0)
		CHECK(cuMemcpyDtoH(&word, memory, sizeof word));
	reached();
	return unused;
}

int main(int argc, char **argv)
{
	CUdevice dev;
	struct gloop_stats stats;
	struct gloop_memory granted = {.bytes = 4096};
	unsigned count = 1;

	REQUIRE(argc == 3);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuMemAllocHost(&granted.host, granted.bytes));
	CHECK(cuMemHostGetDevicePointer(&granted.device, granted.host, 0));
	memory = granted.device;
	memset(granted.host, 0, granted.bytes);
	int serves = strcmp(argv[2], "computes") != 0, alone = strcmp(argv[2], "alone") == 0;
	struct gloop_config config = {.function = load(argv[1], serves ? "echoServer" : "throttle"), .grid = {1}, .block = {1},
		.memory = &granted, .memories = 1};
	if (serves) {
		config.bound = bound;
		config.user = alone ? config.function : NULL;
	} else {
		count = 1u << 31;
		REQUIRE(pthread_create(&other, NULL, computes, NULL) == 0);
	}
	void *args[] = {NULL, &memory, &count};
	int error = gloop_run(&config, args, &stats);
	REQUIRE(pthread_join(other, NULL) == 0);
	printf("%s, CUDA %d\n", gloop_message(error), stats.cuda);
	if (alone)
		REQUIRE(error == GLOOP_OK && stats.direct == 2ull * SHOTS * BYTES);
	else
		REQUIRE(error == GLOOP_CUDA && stats.cuda == DEVICE_UNAVAILABLE);
	puts("deaths: PASS");
	return 0;
}
