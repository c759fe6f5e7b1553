// Errors: their names, the one that each thread keeps, and memory of the program
// that may not be there.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cudart.h"
#include "missing.h"

static __thread int last;
static __thread const char *reason; // why the call that runs fails, if say was called
static __thread const char *lacked; // the call that was told last as not supported

static const char *error_name(int e)
{
	switch (e) {
#define E(number, name, words) case number: return #name;
#include "errors.def"
#undef E
	}
	return "unrecognized error code";
}

static const char *error_words(int e)
{
	switch (e) {
#define E(number, name, words) case number: return words;
#include "errors.def"
#undef E
	}
	return "unrecognized error code";
}

// say notes why a call fails, for the log. Why is a constant.
int say(int result, const char *why)
{
	reason = why;
	return result;
}

// done ends a call: it keeps the error for cudaGetLastError. What libcuda.so.1
// refused it has logged itself, so only our own reasons are told here.
int done(const char *name, int result)
{
	const char *why = reason;
	reason = NULL;
	if (result == SUCCESS || result == NOT_READY)
		return result;
	last = result;
	if (result == INVALID_CONTEXT || result == CONTEXT_IS_DESTROYED)
		look_again();
	const char *log = why ? getenv("PVDRM_CUDA_LOG") : NULL;
	if (log && (strcmp(log, "errors") == 0 || strcmp(log, "calls") == 0))
		fprintf(stderr, "libcudart: %s: %s: %s\n", name, error_name(result), why);
	if (why && result == NOT_SUPPORTED && lacked != name) {
		lacked = name;
		tell_missing(name, error_name(result), why);
	}
	return result;
}

PUBLIC int cudaGetLastError(void)
{
	int e = last;
	if (e != NO_DEVICE) // which stays, as with NVIDIA's
		last = SUCCESS;
	return e;
}

PUBLIC int cudaPeekAtLastError(void) { return last; }
PUBLIC const char *cudaGetErrorName(int e) { return error_name(e); }
PUBLIC const char *cudaGetErrorString(int e) { return error_words(e); }

typedef ssize_t move(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);

// by_file moves bytes by way of a file, to or from memory that a driver has mapped, such as registered memory
// in a virtual machine: process_vm_readv does not reach it, and read and write do.
static int by_file(const void *from, void *to, size_t bytes)
{
	int fd = memfd_create("pvdrm-copy", MFD_CLOEXEC);
	int whole = fd >= 0 && pwrite(fd, from, bytes, 0) == (ssize_t)bytes && pread(fd, to, bytes, 0) == (ssize_t)bytes;
	if (fd >= 0)
		close(fd);
	return whole;
}

// transfer lets the kernel touch the program's memory: a wrong pointer raises no
// signal then.
static int transfer(move *how, const void *own, const void *theirs, size_t bytes)
{
	struct iovec local = {(void *)own, bytes}, remote = {(void *)theirs, bytes};
	if (how(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes)
		return SUCCESS;
	int reads = how == process_vm_readv;
	if (by_file(reads ? theirs : own, (void *)(reads ? own : theirs), bytes))
		return SUCCESS;
	return say(INVALID_VALUE, "a pointer to memory that is not there");
}

// on_stack tells whether bytes at an address lie on the part of the thread's own stack that is in use, where most
// pointers of programs lead: they are there, and need not be asked of the kernel for.
static int on_stack(const void *address, size_t bytes)
{
	static __thread uintptr_t low, high; // of this thread's own stack
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), at = (uintptr_t)address;
	if (!high) {
		pthread_attr_t attributes;
		void *stack;
		size_t size;
		high = 1;
		if (!pthread_getattr_np(pthread_self(), &attributes)) {
			if (!pthread_attr_getstack(&attributes, &stack, &size)) {
				low = (uintptr_t)stack;
				high = low + size;
			}
			pthread_attr_destroy(&attributes);
		}
	}
	return here >= low && here < high && at >= here && at < high && bytes <= high - at;
}

// fetch reads memory of the program.
int fetch(void *to, const void *from, size_t bytes)
{
	if (!on_stack(from, bytes))
		return transfer(process_vm_readv, to, from, bytes);
	memcpy(to, from, bytes);
	return SUCCESS;
}

// store writes memory of the program.
int store(void *to, const void *from, size_t bytes)
{
	if (!on_stack(to, bytes))
		return transfer(process_vm_writev, from, to, bytes);
	memcpy(to, from, bytes);
	return SUCCESS;
}
