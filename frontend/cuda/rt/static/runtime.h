// Where a program has NVIDIA's static CUDA runtime in it, by its own symbol table.
#ifndef PVDRM_STATIC_RUNTIME_H
#define PVDRM_STATIC_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

// function is an entry point of the runtime API in an ELF file.
struct function {
	uint64_t address; // in the file's own addresses
	uint64_t offset;  // of its code in the file
	uint64_t bytes;   // of code; at least ENTRY_BYTES behind an endbr64, which it may begin with
	const char *name; // in the file
};

enum { ENTRY_BYTES = 5 }; // of the jump that is written over an entry

// runtime is what find_runtime finds.
struct runtime {
	int major; // version of CUDA: 11, 12 or 13; 0 where it is an older one
	size_t n;
	struct function *functions; // of increasing addresses; the caller frees them
};

// find_runtime looks for the static runtime in the bytes of an ELF file, which may
// be of any kind and damaged. It returns 1 where it found one, 0 where there is none
// or memory ran out.
int find_runtime(const uint8_t *file, size_t bytes, struct runtime *found);

#endif
