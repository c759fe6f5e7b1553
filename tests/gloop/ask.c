/* Bad requests for files and sockets, of a kernel that asks for what it is told to: ask IO.ptx DIR. DIR has the
 * file "file" of "hello", which may be read only, the file "mine", which only root may read, and the FIFO "fifo". */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load.h"

/* gloop::abi::Request and its operations. */
struct request {
	unsigned op, flags, handle, text;
	unsigned long long address, size, offset, timeout;
	unsigned ip, port;
	unsigned long long reserved;
};

enum { OPEN = 1, CLOSE, STAT, TRUNCATE, READ, WRITE, CONNECT, BIND, UNBIND, ACCEPT, DISCONNECT, RECEIVE, SEND };
enum { READ_WRITE = 2, CREATE = 0100, EXCLUSIVE = 0200, FIRST = 3, MOST = 8, LOOPBACK = 0x7f000001 };

static CUfunction kernel;
static unsigned handles;

/* ask makes requests one after the other, and returns what their callbacks got. */
static void ask(const char *path, const struct request *r, unsigned n, long long *results)
{
	CUdeviceptr requests, text, out;
	CHECK(cuMemAlloc(&requests, n * sizeof *r));
	CHECK(cuMemcpyHtoD(requests, r, n * sizeof *r));
	CHECK(cuMemAlloc(&text, strlen(path) + 1));
	CHECK(cuMemcpyHtoD(text, path, strlen(path) + 1));
	CHECK(cuMemAlloc(&out, 8 * n));
	struct gloop_config config = {.function = kernel, .grid = {n}, .block = {1}, .blocks = 1, .handles = handles};
	void *args[] = {NULL, &requests, &text, &out};
	struct gloop_stats stats;
	REQUIRE(gloop_run(&config, args, &stats) == GLOOP_OK);
	CHECK(cuMemcpyDtoH(results, out, 8 * n));
	CHECK(cuMemFree(requests));
	CHECK(cuMemFree(text));
	CHECK(cuMemFree(out));
}

/* gives makes requests, and checks what their callbacks got. */
static void gives(const char *path, const struct request *r, unsigned n, const long long *want)
{
	long long got[MOST];
	REQUIRE(n <= MOST);
	ask(path, r, n, got);
	for (unsigned i = 0; i < n; i++) {
		if (got[i] != want[i])
			fprintf(stderr, "%s: request %u, operation %u: %lld, not %lld\n", path, i, r[i].op, got[i], want[i]);
		REQUIRE(got[i] == want[i]);
	}
}

/* refused checks requests for files that are an error each. */
static void refused(const char *dir, CUdeviceptr buffer)
{
	char file[4096], fifo[4096], none[4096], long_path[257];
	snprintf(file, sizeof file, "%s/file", dir);
	snprintf(fifo, sizeof fifo, "%s/fifo", dir);
	snprintf(none, sizeof none, "%s/none", dir);
	memset(long_path, 'a', 256);
	long_path[256] = 0;
	const struct {
		const char *path;
		int want;
		struct request r;
	} table[] = {
		{.path = none, .want = ENOENT, .r = {.op = OPEN}},
		{.path = dir, .want = EISDIR, .r = {.op = OPEN}},
		{.path = fifo, .want = EINVAL, .r = {.op = OPEN}},
		{.path = "/dev/null", .want = EINVAL, .r = {.op = OPEN}},
		{.path = file, .want = EEXIST, .r = {.op = OPEN, .flags = CREATE | EXCLUSIVE}},
		{.path = file, .want = EINVAL, .r = {.op = OPEN, .flags = 02000}},
		{.path = "", .want = EINVAL, .r = {.op = OPEN}},
		{.path = long_path, .want = ENAMETOOLONG, .r = {.op = OPEN}},
		{.path = "", .want = ENOSYS, .r = {.op = 0}},
		{.path = "", .want = ENOSYS, .r = {.op = 99}},
		{.path = "", .want = EBADF, .r = {.op = CLOSE, .handle = FIRST}},
		{.path = "", .want = EBADF, .r = {.op = READ, .handle = 0, .address = buffer, .size = 1}},
		{.path = "", .want = EBADF, .r = {.op = STAT, .handle = 1u << 31}},
		{.path = "", .want = EBADF, .r = {.op = TRUNCATE, .handle = ~0u}},
		{.path = "", .want = EBADF, .r = {.op = ACCEPT, .handle = FIRST}},
		{.path = "", .want = EBADF, .r = {.op = RECEIVE, .handle = FIRST, .size = 1}},
		{.path = "", .want = EBADF, .r = {.op = SEND, .handle = FIRST, .size = 1}},
		{.path = "", .want = EBADF, .r = {.op = UNBIND, .handle = FIRST}},
		{.path = "", .want = EBADF, .r = {.op = DISCONNECT, .handle = FIRST}},
		{.path = "", .want = EINVAL, .r = {.op = READ, .size = 1ull << 40}},
		{.path = "", .want = EINVAL, .r = {.op = READ, .address = ~0ull, .size = 2}},
		{.path = "", .want = EINVAL, .r = {.op = READ, .offset = 1ull << 63}},
		{.path = "", .want = EINVAL, .r = {.op = CONNECT, .port = 65536}},
		{.path = "", .want = EINVAL, .r = {.op = RECEIVE, .flags = 2}},
		{.path = "", .want = EINVAL, .r = {.op = SEND, .flags = 1}},
		{.path = "", .want = EINVAL, .r = {.op = ACCEPT, .timeout = ~0ull}},
		{.path = "", .want = ECONNREFUSED, .r = {.op = CONNECT, .ip = LOOPBACK, .port = 1}},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		long long want = -table[i].want;
		gives(table[i].path, &table[i].r, 1, &want);
	}
	struct request good[] = {{.op = OPEN}, {.op = READ, .handle = FIRST, .address = buffer, .size = 4096}, {.op = READ, .handle = FIRST, .address = 1ull << 46, .size = 5},
				 {.op = WRITE, .handle = FIRST, .address = buffer, .size = 4}, {.op = UNBIND, .handle = FIRST}, {.op = CLOSE, .handle = FIRST}, {.op = CLOSE, .handle = FIRST}};
	gives(file, good, 7, (long long[]){FIRST, 5, -EFAULT, -EBADF, -EBADF, 0, -EBADF});
	handles = 1;
	struct request few[] = {{.op = OPEN}, {.op = OPEN}, {.op = CLOSE, .handle = FIRST}, {.op = OPEN}};
	gives(file, few, 4, (long long[]){FIRST, -EMFILE, 0, FIRST});
	handles = 0;
}

/* rights checks that the library has the rights of the process, and no more. */
static void rights(const char *dir)
{
	enum { NOBODY = 65534 };
	char mine[4096], file[4096];
	uid_t before = geteuid();
	snprintf(mine, sizeof mine, "%s/mine", dir);
	snprintf(file, sizeof file, "%s/file", dir);
	struct request both[] = {{.op = OPEN}, {.op = OPEN, .flags = READ_WRITE}};
	REQUIRE(before != 0 || seteuid(NOBODY) == 0);
	gives(mine, both, 2, (long long[]){-EACCES, -EACCES});
	gives(file, both, 2, (long long[]){FIRST, -EACCES});
	REQUIRE(before != 0 || seteuid(before) == 0);
}

/* changes checks a file that shrinks while it is open. */
static void changes(const char *dir, CUdeviceptr buffer)
{
	char file[4096];
	snprintf(file, sizeof file, "%s/shrinks", dir);
	FILE *f = fopen(file, "w");
	REQUIRE(f && fputs("0123456789", f) >= 0 && fclose(f) == 0);
	struct request all = {.op = READ, .handle = FIRST, .address = buffer, .size = 4096}, behind = all;
	behind.offset = 4;
	struct request r[] = {{.op = OPEN, .flags = READ_WRITE}, {.op = STAT, .handle = FIRST}, all, {.op = TRUNCATE, .handle = FIRST, .offset = 4},
			      {.op = STAT, .handle = FIRST}, all, behind};
	gives(file, r, 7, (long long[]){FIRST, 10, 10, 0, 4, 4, 0});
}

/* peers checks that one that stalls ends calls by their timeouts. */
static void peers(CUdeviceptr buffer, size_t room)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t n = sizeof a;
	int small = 64 << 10, s = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(s >= 0 && setsockopt(s, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
	REQUIRE(bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 4) == 0 && getsockname(s, (struct sockaddr *)&a, &n) == 0);
	const unsigned long long brief = 20 * 1000 * 1000;
	struct request receive = {.op = RECEIVE, .handle = FIRST, .address = buffer, .size = 9, .timeout = brief}, send = receive;
	send.op = SEND;
	send.size = room;
	struct request r[] = {{.op = CONNECT, .ip = LOOPBACK, .port = ntohs(a.sin_port)}, receive, send, send, send, send, send, send, send, send,
			      {.op = BIND, .ip = LOOPBACK}, {.op = ACCEPT, .handle = FIRST + 1, .timeout = brief}, {.op = UNBIND, .handle = FIRST + 1}, {.op = DISCONNECT, .handle = FIRST}};
	long long got[14], want[14] = {FIRST, -ETIMEDOUT, 0, 0, 0, 0, 0, 0, 0, -ETIMEDOUT, FIRST + 1, -ETIMEDOUT, 0, 0};
	ask("", r, 14, got);
	REQUIRE(got[2] > 0 && got[2] < (long long)room); /* buffers of the host take some */
	for (int i = 2; i < 9; i++) {			 /* which move more to the peer's for a moment */
		REQUIRE(got[i] == -ETIMEDOUT || (got[i] > 0 && got[i] < (long long)room));
		got[i] = 0;
	}
	for (int i = 0; i < 14; i++) {
		if (got[i] != want[i])
			fprintf(stderr, "peer: request %d, operation %u: %lld, not %lld\n", i, r[i].op, got[i], want[i]);
		REQUIRE(got[i] == want[i]);
	}
	close(s);
}

int main(int argc, char **argv)
{
	CUdevice dev;
	CUcontext ctx;
	CUdeviceptr buffer;
	const size_t room = 16 << 20;

	REQUIRE(argc == 3);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuCtxCreate(&ctx, 0, dev));
	CHECK(cuMemAlloc(&buffer, room));
	kernel = load(argv[1], "ask");
	refused(argv[2], buffer);
	changes(argv[2], buffer);
	peers(buffer, room);
	rights(argv[2]);
	CHECK(cuCtxDestroy(ctx));
	puts("ask: PASS");
	return 0;
}
