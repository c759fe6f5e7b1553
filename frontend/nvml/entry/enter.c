// The way from the program into the Go library.
//
// The Go library is loaded at the first call, since Go's runtime has threads from then on, and they
// do not come along when the program forks. Programs ask NVML how many devices there are and fork
// then, so a child loads a Go library of its own: a copy, since the loader knows the file already.
// The child has to call nvmlInit again.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvml.h"

#define GO_LIBRARY "libpvdrm-nvml.so"

enum { LIBRARY_NOT_FOUND = 12 }; // NVML_ERROR_*

static char path[PATH_MAX + sizeof GO_LIBRARY]; // of the Go library, empty where this one's is unknown

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of what follows
static int began, child; // the Go library is being loaded, or was, here; in a process that made this one
static int (*_Atomic go_call)(uint32_t symbol, uint64_t *args); // set when it takes calls

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void in_parent(void) { pthread_mutex_unlock(&lock); }

static void in_child(void)
{
	pthread_mutex_unlock(&lock);
	child |= began;
	began = 0;
	go_call = NULL;
}

// The path is looked up while a relative one still means what it meant to the loader.
__attribute__((constructor)) static void prepare(void)
{
	Dl_info info;
	char *slash;
	if (dladdr(path, &info) && realpath(info.dli_fname, path) && (slash = strrchr(path, '/')))
		strcpy(slash + 1, GO_LIBRARY);
	else
		path[0] = 0;
	pthread_atfork(before_fork, in_parent, in_child);
}

// open_copy loads a copy of the Go library, which the loader takes for another.
static void *open_copy(void)
{
	void *go = NULL;
	struct stat st;
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create(GO_LIBRARY, MFD_CLOEXEC);
	if (from >= 0 && to >= 0 && !fstat(from, &st)) {
		off_t at = 0;
		while (at < st.st_size && sendfile(to, from, &at, st.st_size - at) > 0)
			;
		char name[64]; // another one in each process
		snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), to);
		if (at == st.st_size)
			go = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	}
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return go;
}

// open_go loads the Go library, and returns what is wrong with it or NULL.
static const char *open_go(void)
{
	if (!path[0])
		return "the directory of libnvidia-ml.so.1 was not found";
	void *go = child ? open_copy() : dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!go) {
		const char *wrong = dlerror();
		return wrong ? wrong : "it cannot be loaded once more after a fork";
	}
	int (*start)(uint64_t) = (int (*)(uint64_t))dlsym(go, "pvdrmNVMLStart");
	int (*call)(uint32_t, uint64_t *) = (int (*)(uint32_t, uint64_t *))dlsym(go, "pvdrmNVMLCall");
	if (!start || !call || !start(pvdrm_table))
		return "it is of another version of PVDRM than libnvidia-ml.so.1";
	go_call = call;
	return NULL;
}

int pvdrm_enter(uint32_t symbol, uint64_t *args)
{
	if (!go_call) {
		pthread_mutex_lock(&lock);
		const char *wrong = began ? NULL : (began = 1, open_go());
		if (wrong)
			fprintf(stderr, "libnvidia-ml: cannot load %s: %s; install it beside libnvidia-ml.so.1, from the same build of PVDRM\n",
				path[0] ? path : GO_LIBRARY, wrong);
		pthread_mutex_unlock(&lock);
		if (!go_call)
			return LIBRARY_NOT_FOUND;
	}
	return go_call(symbol, args);
}

PUBLIC const char *nvmlErrorString(int result)
{
	return result >= 0 && result < pvdrm_words_count ? pvdrm_words[result] : pvdrm_other_word;
}
