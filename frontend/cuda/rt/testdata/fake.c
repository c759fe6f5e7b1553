// A driver API that notes its calls, and a program that calls the runtime API on top of it as the
// lines of its input say (runtime_test.go):
//
//	call NAME WORD...   calls a function of the runtime; @N is a place in the program's memory
//	fail NAME RESULT    lets a function of the driver return that, until RESULT is 0
//	set NAME VALUE      is what a function of the driver writes to the pointers that it gets
//	bytes N COUNT       prints memory
//
// Each call of the driver is a line of output; "= RESULT" ends a call.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;

enum { WORDS = 11, MEMORY = 1 << 16 };

static unsigned char memory[MEMORY];

struct fake { const char *name, *kinds; int result; u64 value; };

// FAKE(name, kinds) with a letter for each argument: i is an int, c a byte, w a word, and o and p
// are pointers to where 4 or 8 bytes of the answer go, s is a structure of the runtime's.
static struct fake fakes[] = {
#define FAKE(name, kinds) {#name, kinds, 0, 0},
#include "fakes.def"
#undef FAKE
};

enum {
#define FAKE(name, kinds) NUMBER_##name,
#include "fakes.def"
#undef FAKE
};

static int called(int number, const u64 *words)
{
	struct fake *f = &fakes[number];
	printf("%s", f->name);
	for (int i = 0; f->kinds[i]; i++) {
		u64 at = words[i] - (u64)(uintptr_t)memory;
		if (f->kinds[i] == 'i')
			printf(" %d", (int)words[i]);
		else if (f->kinds[i] == 'c')
			printf(" %d", (unsigned char)words[i]);
		else if (f->kinds[i] != 'w')
			printf(" *"); // a place of the runtime's own, as a rule
		else if (at < MEMORY)
			printf(" @%llu", (unsigned long long)at);
		else
			printf(" %llu", (unsigned long long)words[i]);
	}
	printf("\n");
	if (f->result)
		return f->result;
	for (int i = 0; f->kinds[i]; i++) {
		u64 value = number == NUMBER_cuDeviceGetAttribute ? 1000 + words[1] : f->value;
		if ((f->kinds[i] == 'o' || f->kinds[i] == 'p') && words[i])
			memcpy((void *)(uintptr_t)words[i], &value, f->kinds[i] == 'o' ? 4 : 8);
	}
	if (number == NUMBER_cuCtxSetCurrent)
		fakes[NUMBER_cuCtxGetCurrent].value = words[0];
	return 0;
}

#define FAKE(name, kinds)                                                             \
	int name(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k); \
	int name(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k)  \
	{                                                                             \
		return called(NUMBER_##name, (u64[WORDS]){a, b, c, d, e, f, g, h, i, j, k}); \
	}
#include "fakes.def"

static u64 word(const char *text)
{
	return text[0] == '@' ? (u64)(uintptr_t)memory + strtoull(text + 1, NULL, 0) : (u64)strtoll(text, NULL, 0);
}

static void obey(char **words)
{
	if (strcmp(words[0], "call") == 0) {
		int (*f)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);
		*(void **)&f = dlsym(RTLD_DEFAULT, words[1]);
		u64 w[WORDS] = {0};
		for (int i = 0; i < WORDS && words[2 + i]; i++)
			w[i] = word(words[2 + i]);
		if (!f)
			printf("no %s\n", words[1]);
		printf("= %d\n", f ? f(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10]) : -1);
	} else if (strcmp(words[0], "bytes") == 0) {
		for (u64 at = word(words[1]), end = at + word(words[2]); at < end; at++)
			printf("%02x", *(unsigned char *)(uintptr_t)at);
		printf("\n");
	} else {
		for (size_t i = 0; i < sizeof fakes / sizeof *fakes; i++) {
			if (strcmp(fakes[i].name, words[1]) != 0)
				continue;
			if (strcmp(words[0], "fail") == 0)
				fakes[i].result = (int)word(words[2]);
			else
				fakes[i].value = word(words[2]);
		}
	}
}

int main(void)
{
	char line[1024];
	memset(memory, 0x5a, sizeof memory);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		char *words[WORDS + 3] = {0};
		int n = 0;
		for (char *w = strtok(line, " \n"); w && n < WORDS + 2; w = strtok(NULL, " \n"))
			words[n++] = w;
		if (n)
			obey(words);
	}
	return 0;
}
