// The way from the program into the Go library, and back for its host functions.
//
// The Go library is loaded at the first call, since Go's runtime has threads from
// then on, and they do not come along when the program forks. A process that is
// forked before loads a library of its own; one that is forked later has none.
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bridge.h"
#include "entry.h"

#define GO_LIBRARY "libpvdrm-cuda.so"

enum { NOT_INITIALIZED = 3, SHARED_OBJECT_INIT_FAILED = 303, NOT_PERMITTED = 800 }; // CUDA_ERROR_*

static __thread uint64_t self;   // number of this thread, 0 before its first call
static __thread int in_function; // inside of a host function, which must not call us
static atomic_uint_fast64_t last;
static pthread_key_t key;
static int has_key; // without, the streams of threads that ended live as long as their contexts
static char path[PATH_MAX + sizeof GO_LIBRARY]; // of the Go library, empty where this one's is unknown

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int loading; // the Go library is being loaded, or was
static atomic_int loaded;  // the pointers below are set, and the Go library takes calls
static atomic_int forked;  // Go's threads are in the process that made this one

static int (*go_start)(const struct pvdrm_program *);
static int (*go_call)(uint32_t symbol, uint64_t thread, uint64_t *args, uint64_t top);
static void (*go_thread_end)(uint64_t thread);

static size_t print(const void *text, size_t bytes) { return fwrite(text, 1, bytes, stdout); }

static uint64_t invoke(uint64_t fn, uint64_t a, uint64_t b, uint64_t c)
{
	in_function = 1;
	uint64_t r = ((uint64_t(*)(uint64_t, uint64_t, uint64_t))(uintptr_t)fn)(a, b, c);
	in_function = 0;
	return r;
}

static void thread_end(void *number)
{
	if (!atomic_load(&forked))
		go_thread_end((uint64_t)(uintptr_t)number);
}

static void in_child(void)
{
	if (atomic_load(&loading))
		atomic_store(&forked, 1);
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
	has_key = !pthread_key_create(&key, thread_end);
	pthread_atfork(NULL, NULL, in_child);
}

// open_go loads the Go library, and returns what is wrong with it or NULL.
static const char *open_go(void)
{
	static struct pvdrm_program program = {.symbols = pvdrm_symbols, .print = print, .invoke = invoke};
	program.table = pvdrm_table;
	void *go = path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!go)
		return path[0] ? dlerror() : "the directory of libcuda.so.1 was not found";
	go_start = (int (*)(const struct pvdrm_program *))dlsym(go, "pvdrmStart");
	go_call = (int (*)(uint32_t, uint64_t, uint64_t *, uint64_t))dlsym(go, "pvdrmCall");
	go_thread_end = (void (*)(uint64_t))dlsym(go, "pvdrmThreadEnd");
	if (!go_start || !go_call || !go_thread_end || !go_start(&program))
		return "it is of another version of PVDRM than libcuda.so.1";
	return NULL;
}

static void load(void)
{
	atomic_store(&loading, 1);
	const char *wrong = open_go();
	if (wrong)
		fprintf(stderr, "libcuda: cannot load %s: %s; install it beside libcuda.so.1, from the same build of PVDRM\n",
			path[0] ? path : GO_LIBRARY, wrong);
	else
		atomic_store(&loaded, 1);
}

// top_of returns the end of the stack that an address lies on, if that is the thread's own, or 0. What lies between
// is there as long as the call lasts, and most pointers of a program's lead there.
static uint64_t top_of(const void *address)
{
	static __thread uintptr_t low, high; // of this thread's own stack
	uintptr_t at = (uintptr_t)address;
	if (!high) {
		pthread_attr_t attributes;
		void *stack;
		size_t bytes;
		high = 1;
		if (!pthread_getattr_np(pthread_self(), &attributes)) {
			if (!pthread_attr_getstack(&attributes, &stack, &bytes)) {
				low = (uintptr_t)stack;
				high = low + bytes;
			}
			pthread_attr_destroy(&attributes);
		}
	}
	return at >= low && at < high ? high : 0;
}

int pvdrm_enter(uint32_t symbol, uint64_t *args)
{
	if (atomic_load_explicit(&forked, memory_order_relaxed))
		return NOT_INITIALIZED;
	if (in_function)
		return NOT_PERMITTED;
	if (!atomic_load_explicit(&loaded, memory_order_acquire)) {
		// A child of a fork in the midst of this is `forked`, or glibc runs load there again.
		pthread_once(&once, load);
		if (!atomic_load(&loaded))
			return SHARED_OBJECT_INIT_FAILED;
	}
	if (self == 0) {
		self = atomic_fetch_add(&last, 1) + 1;
		if (has_key)
			pthread_setspecific(key, (void *)(uintptr_t)self);
	}
	return go_call(symbol, self, args, top_of(args));
}
