// How a question is asked and its answer printed.
#pragma once
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int function(); // its arguments are words and pointers
typedef uint64_t u64;

static void *library;

static function *find(const char *name)
{
	function *f = (function *)dlsym(library, name);
	if (!f) {
		fprintf(stderr, "no %s: %s\n", name, dlerror());
		exit(2);
	}
	return f;
}

static __thread sigjmp_buf before_crash;
static __thread volatile sig_atomic_t calling;

static inline void crashed(int signal_number)
{
	if (calling)
		siglongjmp(before_crash, 1);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

enum { CRASHES = -1000 };

// attempt calls a function of up to 15 words, of which its caller gives as many as the function
// has. The result is CRASHES where the library does not survive the arguments.
static int attempt(function *f, u64 a, u64 b, u64 c, u64 d, u64 e, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l,
	u64 m, u64 n, u64 o, u64 p)
{
	volatile int r = CRASHES;
	if (sigsetjmp(before_crash, 1) == 0) {
		calling = 1;
		r = f(a, b, c, d, e, g, h, i, j, k, l, m, n, o, p);
	}
	calling = 0;
	return r;
}

static function *volatile const call = (function *)attempt;

#define CALL(name, ...) call(find(#name), ##__VA_ARGS__)
#define MUST(name, ...)                                                           \
	do {                                                                      \
		int must = CALL(name, ##__VA_ARGS__);                             \
		if (must) {                                                       \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #name, must); \
			exit(1);                                                  \
		}                                                                 \
	} while (0)
#define ASK(question, answer) printf("%s %d\n", question, (answer))

// ANSWER prints a question, the result of a call and, if it is 0, a value that the call has set.
#define ANSWER(question, answer, value)                                     \
	do {                                                              \
		int of_answer = (answer);                                 \
		if (of_answer)                                             \
			printf("%s %d\n", question, of_answer);            \
		else                                                      \
			printf("%s 0 %lld\n", question, (long long)(value)); \
	} while (0)

// written prints how many of some bytes, filled with 0x5a, a call has changed up to.
static inline void written(const char *question, int result, const unsigned char *bytes, size_t n)
{
	while (n > 0 && bytes[n - 1] == 0x5a)
		n--;
	ANSWER(question, result, n);
}

#define HEADER ".version 6.0\n.target sm_50\n.address_size 64\n"
static const char ptx[] = HEADER ".visible .entry k(.param .u32 n)\n{\n\tret;\n}\n";

enum { NULL_STREAM, LEGACY, PER_THREAD };

static inline void *a_context(void)
{
	void *ctx;
	MUST(cuInit, 0);
	MUST(cuCtxCreate_v2, &ctx, 0, 0);
	return ctx;
}
