// Kernels and variables by their addresses in the program. What nvcc generates
// tells of them before main runs (__cudaRegister…). A module is loaded when
// something of it is first used; the driver API's libraries load it into each
// context again.
//
// table.lock guards the table and the fields of what is in it.
#include <pthread.h>
#include <stdlib.h>

#include "cudart.h"

// module is what __cudaRegisterFatBinary gets: the wrapper of a fatbin.
struct module {
	struct module *next;
	const void *wrapper;
	CUlibrary library; // NULL before the first use
	int managed;       // it has __managed__ variables: 1, or 2 once the program has their addresses
	struct entry *entries;
};

// entry is a kernel or a variable.
struct entry {
	struct entry *next;    // in the bucket
	struct entry *sibling; // the next one of the module
	const void *key;
	struct module *module;
	const char *name; // in the module; memory of the program
	CUkernel kernel;  // NULL before its first use, and for variables
	int variable;
	void **place; // where the program has the address of a __managed__ variable, or NULL
	int address;  // the key is the address of a __managed__ variable, which the module frees
	struct reference *reference; // of references to textures and surfaces, which are variables too
};

enum { BUCKETS = 1 << 16 }; // PyTorch has tens of thousands of kernels

static struct {
	pthread_mutex_t lock;
	struct entry *buckets[BUCKETS];
	struct module *modules;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void) { pthread_mutex_lock(&table.lock); }
static void unlock(void) { pthread_mutex_unlock(&table.lock); }

// A child of fork has no other threads that would unlock; it unregisters its modules
// when it exits.
__attribute__((constructor)) static void prepare(void) { pthread_atfork(lock, unlock, unlock); }

static struct entry **bucket(const void *key)
{
	return &table.buckets[((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> 48];
}

_Static_assert(BUCKETS == 1 << (64 - 48), "a bucket is chosen by the upper bits");

// find needs the lock.
static struct entry *find(const void *key)
{
	for (struct entry *e = *bucket(key); e; e = e->next)
		if (e->key == key)
			return e;
	return NULL;
}

// module_at finds the pointer to the module of a handle, which is NULL where there
// is none. It needs the lock.
static struct module **module_at(void **handle)
{
	struct module **at = &table.modules;
	while (*at && *at != (struct module *)handle)
		at = &(*at)->next;
	return at;
}

// put puts an entry of a module into the table. It needs the lock.
static void put(struct module *m, struct entry *e)
{
	struct entry **to = bucket(e->key);
	e->module = m;
	e->next = *to;
	*to = e;
	e->sibling = m->entries;
	m->entries = e;
}

// add_reference makes an entry of a reference, which it then owns, if there is one.
static void add_reference(void **handle, const void *key, const char *name, int variable, struct reference *reference)
{
	struct entry *e = key && name ? calloc(1, sizeof *e) : NULL;
	lock();
	struct module *m = *module_at(handle);
	if (e && m) {
		*e = (struct entry){.key = key, .name = name, .variable = variable, .reference = reference};
		put(m, e);
		e = NULL;
		reference = NULL;
	}
	unlock();
	free(e);
	free(reference);
}

// add makes an entry. Without memory for it, its use will be an error.
static void add(void **handle, const void *key, const char *name, int variable) { add_reference(handle, key, name, variable, NULL); }

// tell_managed gives the program the addresses of a module's __managed__ variables. It needs the lock.
static int tell_managed(struct module *m)
{
	for (struct entry *e = m->entries; e; e = e->sibling) { // what is put meanwhile comes before
		CUdeviceptr address;
		if (!e->place)
			continue;
		int r = cuLibraryGetManaged(&address, NULL, m->library, e->name);
		if (r)
			return r;
		struct entry *known = calloc(1, sizeof *known); // by its address, which is what a program has
		if (!known)
			return MEMORY_ALLOCATION;
		*known = (struct entry){.key = (void *)address, .name = e->name, .variable = 1, .address = 1};
		put(m, known);
		if ((r = store(e->place, &address, sizeof address)))
			return r;
	}
	m->managed = 2;
	return SUCCESS;
}

// load needs the lock, and a context.
static int load(struct module *m)
{
	int r = m->library ? SUCCESS : cuLibraryLoadData(&m->library, m->wrapper, NULL, NULL, 0, NULL, NULL, 0);
	return !r && m->managed == 1 ? tell_managed(m) : r;
}

// remove_entries takes those of a module out, or only addresses of __managed__ variables. It needs the lock.
static void remove_entries(struct module *m, int addresses)
{
	for (struct entry **at = &m->entries; *at;) {
		struct entry *e = *at, **in = bucket(e->key);
		if (addresses && !e->address) {
			at = &e->sibling;
			continue;
		}
		while (*in != e)
			in = &(*in)->next;
		*in = e->next;
		*at = e->sibling;
		free(e->reference);
		free(e);
	}
}

// forget_managed has the program told of its __managed__ variables again: a new context has others.
void forget_managed(void)
{
	lock();
	for (struct module *m = table.modules; m; m = m->next)
		if (m->managed) {
			remove_entries(m, 1);
			m->managed = 1;
		}
	unlock();
}

// kernel_of finds what a program means by a function: its own function of a kernel's
// name, or a handle that cudaGetKernel or cudaGetFuncBySymbol gave it.
int kernel_of(const void *function, CUfunction *kernel)
{
	int r = SUCCESS, ours = 0;
	*kernel = NULL;
	lock();
	struct entry *e = find(function);
	if (e && !e->variable) {
		ours = 1;
		if (!(r = load(e->module)) && !e->kernel)
			r = cuLibraryGetKernel(&e->kernel, e->module->library, e->name);
		*kernel = (CUfunction)e->kernel;
	}
	unlock();
	if (ours)
		return r == SYMBOL_NOT_FOUND ? say(INVALID_DEVICE_FUNCTION, "the module has no kernel of that name") : r;
	int threads;
	if (function == NULL || cuFuncGetAttribute(&threads, 0, (CUfunction)function))
		return say(INVALID_DEVICE_FUNCTION, "no kernel is registered for the function");
	*kernel = (CUfunction)function;
	return SUCCESS;
}

// function_of finds the function of the program that kernel_of found a kernel for; of others it
// returns the handle.
const void *function_of(CUfunction kernel)
{
	const void *function = kernel;
	lock();
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry *e = table.buckets[i]; e; e = e->next)
			if (!e->variable && e->kernel && e->kernel == (CUkernel)kernel)
				function = e->key;
	unlock();
	return function;
}

// symbol_of finds a variable of the device by the one of the program.
int symbol_of(const void *symbol, CUdeviceptr *address, size_t *bytes)
{
	int r = INVALID_SYMBOL;
	lock();
	struct entry *e = find(symbol);
	if (!e || !e->variable)
		say(r, "no variable is registered at the address");
	else if (!(r = load(e->module)))
		r = cuLibraryGetGlobal(address, bytes, e->module->library, e->name);
	unlock();
	return r == SYMBOL_NOT_FOUND ? INVALID_SYMBOL : r;
}

// reference_of finds a reference to a texture or surface by the program's variable.
int reference_of(const void *symbol, struct reference *now)
{
	int r = INVALID_TEXTURE;
	lock();
	struct entry *e = find(symbol);
	if (e && e->reference) {
		*now = *e->reference;
		r = SUCCESS;
	}
	unlock();
	return r;
}

// bind_reference binds a reference to an object, or 0: its variable on the device holds the handle.
int bind_reference(const void *symbol, uint64_t object, size_t offset, uint64_t *before)
{
	CUdeviceptr address;
	size_t bytes;
	int r = symbol_of(symbol, &address, &bytes);
	if (!r && bytes != sizeof object)
		r = INVALID_SYMBOL;
	if (r || (r = cuMemcpyHtoD_v2(address, &object, sizeof object)))
		return r;
	lock();
	struct entry *e = find(symbol);
	if (e && e->reference) {
		*before = e->reference->object;
		e->reference->object = object;
		e->reference->offset = offset;
	}
	unlock();
	return SUCCESS;
}

// What nvcc's generated code calls; crt/host_runtime.h declares it. A handle is
// the address of a pointer to the image there, and nothing but a value here.

PUBLIC void **__cudaRegisterFatBinary(void *wrapper)
{
	struct module *m = calloc(1, sizeof *m);
	if (m) {
		m->wrapper = wrapper;
		lock();
		m->next = table.modules;
		table.modules = m;
		unlock();
	}
	return (void **)m;
}

PUBLIC void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

// init_module has the addresses of a module's __managed__ variables told. Code of the program that uses one
// calls it first.
static int init_module(void **handle)
{
	int r = SUCCESS;
	lock();
	struct module *m = *module_at(handle);
	if (m && m->managed)
		r = load(m);
	unlock();
	return r == SYMBOL_NOT_FOUND ? INVALID_SYMBOL : r;
}

PUBLIC char __cudaInitModule(void **handle)
{
	int r = enter();
	return !done("__cudaInitModule", r ? r : init_module(handle));
}

PUBLIC void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads,
				   void *tid, void *bid, void *block, void *grid, int *warp)
{
	(void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
	add(handle, host, name, 0);
}

PUBLIC void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes, int constant, int global)
{
	(void)device, (void)external, (void)bytes, (void)constant, (void)global;
	add(handle, host, name, 1);
}

// The program has a pointer to each of its __managed__ variables, which it gets when it uses the first.
PUBLIC void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int external, size_t bytes, int constant, int global)
{
	(void)device, (void)external, (void)bytes, (void)constant, (void)global;
	add(handle, host, name, 1);
	lock();
	struct module *m = *module_at(handle);
	struct entry *e = find(host);
	if (m && e && e->module == m) {
		e->place = host;
		m->managed = 1;
	}
	unlock();
}

PUBLIC void __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t bytes)
{
	(void)handle, (void)name, (void)host, (void)bytes; // for kernels on HMM devices only
}

// References to textures and surfaces, which CUDA 12 has no more; reference.c binds them. nvcc
// names them twice: device is the name in PTX, and name that of C++, such as "::tex".
static void register_reference(void **handle, const void *host, const void **device, const char *name, int normalized)
{
	struct reference *r = calloc(1, sizeof *r);
	if (r) {
		r->normalized = normalized;
		add_reference(handle, host, device ? (const char *)device : name, 1, r);
	}
}

PUBLIC void __cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name, int dimensions, int normalized, int external)
{
	(void)dimensions, (void)external;
	register_reference(handle, host, device, name, normalized);
}

PUBLIC void __cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name, int dimensions, int external)
{
	(void)dimensions, (void)external;
	register_reference(handle, host, device, name, 0);
}

PUBLIC void __cudaRegisterUnifiedTable(void **handle, void *entries) { (void)handle, (void)entries; }

PUBLIC void __cudaUnregisterFatBinary(void **handle)
{
	lock();
	struct module **at = module_at(handle), *m = *at;
	if (m)
		*at = m->next;
	if (m)
		remove_entries(m, 0);
	unlock();
	if (m && m->library)
		(void)cuLibraryUnload(m->library); // no caller waits for the error
	free(m);
}

// Handles of kernels.

static int get_kernel(void **to, const void *function)
{
	CUfunction kernel;
	int r = kernel_of(function, &kernel);
	return r ? r : store(to, &kernel, sizeof kernel);
}

static int get_function(void **to, const void *function)
{
	CUfunction kernel;
	int r = kernel_of(function, &kernel);
	return r ? r : cuKernelGetFunction((CUfunction *)to, (CUkernel)kernel);
}

static int symbol_address(void **to, const void *symbol)
{
	CUdeviceptr address;
	size_t bytes;
	int r = symbol_of(symbol, &address, &bytes);
	return r ? r : store(to, &address, sizeof address);
}

static int symbol_bytes(size_t *to, const void *symbol)
{
	CUdeviceptr address;
	size_t bytes;
	int r = symbol_of(symbol, &address, &bytes);
	return r ? r : store(to, &bytes, sizeof bytes);
}

API(cudaGetKernel, (void **kernel, const void *function), get_kernel(kernel, function))
API(cudaGetFuncBySymbol, (void **to, const void *function), get_function(to, function))
API(cudaGetSymbolAddress, (void **address, const void *symbol), symbol_address(address, symbol))
API(cudaGetSymbolSize, (size_t *bytes, const void *symbol), symbol_bytes(bytes, symbol))

// A program asks for the kernel of each function once and keeps the answer, so it
// is the function itself: an error at that time need not be one for ever.
FREE(__cudaGetKernel, (void **kernel, const void *function), store(kernel, &function, sizeof function))

API(cudaLibraryLoadData, (void **library, const void *code, int *jit, void **jit_values, unsigned n, int *options, void **values, unsigned m),
    cuLibraryLoadData((CUlibrary *)library, code, jit, jit_values, n, options, values, m))
API(cudaLibraryLoadFromFile, (void **library, const char *path, int *jit, void **jit_values, unsigned n, int *options, void **values, unsigned m),
    cuLibraryLoadFromFile((CUlibrary *)library, path, jit, jit_values, n, options, values, m))
API(cudaLibraryUnload, (void *library), cuLibraryUnload(library))
API(cudaLibraryGetKernel, (void **kernel, void *library, const char *name), cuLibraryGetKernel((CUkernel *)kernel, library, name))
API(cudaLibraryGetKernelCount, (unsigned *count, void *library), cuLibraryGetKernelCount(count, library))
API(cudaLibraryEnumerateKernels, (void **kernels, unsigned room, void *library), cuLibraryEnumerateKernels((CUkernel *)kernels, room, library))
API(cudaLibraryGetManaged, (void **address, size_t *bytes, void *library, const char *name),
    cuLibraryGetManaged((CUdeviceptr *)address, bytes, library, name))
API(cudaLibraryGetGlobal, (void **address, size_t *bytes, void *library, const char *name),
    cuLibraryGetGlobal((CUdeviceptr *)address, bytes, library, name))

PUBLIC int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, uint64_t flags, int *status)
{
	return done("cudaGetDriverEntryPointByVersion", cuGetProcAddress_v2(name, function, (int)version, flags, status));
}

PUBLIC int cudaGetDriverEntryPointByVersion_ptsz(const char *name, void **function, unsigned version, uint64_t flags, int *status)
{
	enum { per_thread_stream = 2 };
	return done("cudaGetDriverEntryPointByVersion_ptsz",
		    cuGetProcAddress_v2(name, function, (int)version, flags ? flags : per_thread_stream, status));
}

#if MAJOR == 11 // they have no status
PUBLIC int cudaGetDriverEntryPoint(const char *name, void **function, uint64_t flags)
{
	return cudaGetDriverEntryPointByVersion(name, function, RUNTIME_VERSION, flags, NULL);
}

PUBLIC int cudaGetDriverEntryPoint_ptsz(const char *name, void **function, uint64_t flags)
{
	return cudaGetDriverEntryPointByVersion_ptsz(name, function, RUNTIME_VERSION, flags, NULL);
}
#else
PUBLIC int cudaGetDriverEntryPoint(const char *name, void **function, uint64_t flags, int *status)
{
	return cudaGetDriverEntryPointByVersion(name, function, RUNTIME_VERSION, flags, status);
}

PUBLIC int cudaGetDriverEntryPoint_ptsz(const char *name, void **function, uint64_t flags, int *status)
{
	return cudaGetDriverEntryPointByVersion_ptsz(name, function, RUNTIME_VERSION, flags, status);
}
#endif
