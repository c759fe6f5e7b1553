// Asks libcuda.so.1 and libcudart what NVIDIA's manual leaves open, and prints each answer on a line:
// a question, the result, and values. Run it on a machine with an NVIDIA GPU to record NVIDIA's answers
// (README.md); the tests run it against PVDRM's libraries. It needs no CUDA toolkit:
//
//	gcc -std=gnu11 -O1 -o answers answers.c -ldl && ./answers [libcudart.so.13]
//
// Each group of questions runs in a process of its own, so that a crash or an error that a context
// keeps ends that group only.
#define _GNU_SOURCE
#include "capture_ports.h"
#include "conditional.h"
#include "contexts.h"
#include "driver.h"
#include "first.h"
#include "ipc.h"
#include "kernels.h"
#include "nodes.h"
#include "popped.h"
#include "priorities.h"
#include "registered.h"
#include "runtime.h"
#include "texref.h"

// first asks in one context what the groups below do not.
static void first(const char *cudart)
{
	ASK("graph-before-init", CALL(cuGraphCreate, NULL, 0));
	MUST(cuInit, 0);
	contexts();
	memory();
	streams();
	kernels();
	if (cudart)
		runtime(cudart);
}

static const struct { const char *name; void (*ask)(const char *cudart); } groups[] = {
	{"first", first}, {"without-context", without_context}, {"copies", copies}, {"pools", pools}, {"events", events}, {"ipc", ipc}, {"loading", loading},
	{"launches", launches}, {"graphs", graphs}, {"nodes", nodes}, {"popped", popped}, {"primary", primary}, {"trap", trap}, {"wild", wild}, {"odd", odd}, {"far", far}, {"errors-of-runtime", errors_of_runtime},
	{"conditional", conditional}, {"capture-ports", capture_ports}, {"references", references}, {"priorities", priorities}, {"registered", registered}, {"contexts", contexts_of_one_device},
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
		pid_t child = fork();
		if (child == 0) {
			signal(SIGSEGV, crashed);
			alarm(120);
			library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
			if (!library) {
				fprintf(stderr, "%s\n", dlerror());
				_exit(2);
			}
			groups[i].ask(argc > 1 ? argv[1] : NULL);
			_exit(0);
		}
		int status = 0;
		if (child < 0 || waitpid(child, &status, 0) < 0)
			perror("answers");
		if (status)
			printf("group-%s ended with %s %d\n", groups[i].name, WIFSIGNALED(status) ? "signal" : "code",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	return 0;
}
