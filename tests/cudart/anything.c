// Calls the entry points that its arguments name with words of all kinds: some are
// pointers to memory, some are not. Whatever they give, the program goes on.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels.h"

enum { CALLS = 40, PAGE = 4096, ROOM = 16 * PAGE };

typedef int (*anything)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t word(unsigned choices)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 20) % choices;
}

int main(int argc, char **argv)
{
	// Between pages that are not there, so that no size reaches other memory.
	char *room = mmap(NULL, ROOM + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(room != MAP_FAILED && mprotect(room + PAGE, ROOM, PROT_READ | PROT_WRITE) == 0);
	room += PAGE;
	void *d, *pinned;
	cudaStream_t stream;
	__cudaRegisterVar(module, room + 64, "table", "table", 0, 16, 0, 0);
	OK(cudaMalloc(&d, ROOM));
	OK(cudaMallocHost(&pinned, ROOM));
	OK(cudaStreamCreate(&stream));
	uint64_t words[] = {
		0, 1, 2, 3, 8, 64, 1000, UINT32_MAX, UINT64_MAX, (uint64_t)1 << 40, (uint64_t)1 << 63, 0xdeadbeef000,
		(uint64_t)room, (uint64_t)room + ROOM / 2, (uint64_t)room + ROOM - 4, (uint64_t)d, (uint64_t)pinned, (uint64_t)stream,
		(uint64_t)add, (uint64_t)scale, (uint64_t)room + 64,
	};
	enum { WORDS = sizeof words / sizeof *words };
	for (int i = 1; i < argc; i++) {
		anything f = (anything)dlsym(RTLD_DEFAULT, argv[i]);
		if (f == NULL) {
			fprintf(stderr, "there is no %s\n", argv[i]);
			return 1;
		}
		for (int n = 0; n < CALLS; n++) {
			uint64_t w[10];
			for (int j = 0; j < 10; j++)
				w[j] = words[word(WORDS)];
			(void)f(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9]);
		}
	}
	(void)cudaDeviceReset();
	(void)cudaGetLastError();
	OK(cudaMalloc(&d, 64));
	OK(cudaDeviceSynchronize());
	puts("anything: PASS");
	return 0;
}
