// Where a program has NVIDIA's static CUDA runtime in it, by its own symbol table.
#ifndef PVDRM_STATIC_RUNTIME_H
#define PVDRM_STATIC_RUNTIME_H

#include <elf.h>
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

// exported is a function that an ELF file exports.
struct exported {
	uint64_t entry; // address of its entry in the dynamic symbol table, in the file's own addresses
	uint32_t flags; // PF_R … of the segment that has the entry
	Elf64_Sym symbol;
};

// find_exported looks for an exported function, from symbol *next on, and sets *next behind it. A name that
// ends in * is the beginning of one. It returns 1 where it found it.
int find_exported(const uint8_t *file, size_t bytes, const char *name, size_t *next, struct exported *found);

// lead_compilers makes a libnvrtc.so or libnvJitLink.so that is loaded at base, whose file has bytes, add PTX to
// the machine code that it makes. It returns what is wrong, or NULL; other files stay as they are.
const char *lead_compilers(uintptr_t base, const char *path, const uint8_t *file, size_t bytes);

// find_ours writes the path of PVDRM's own library in a directory, which ends in a slash, for the name or the path
// of one that a program asks for, and returns it, or NULL where PVDRM has none. With stubs, those in cuda-libs
// below the directory are PVDRM's too.
const char *find_ours(const char *name, const char *directory, int stubs, char *path, size_t bytes);

// same tells whether what is loaded at an address is what the file has: up to 32 bytes.
int same(uintptr_t address, const void *file, size_t bytes);

#endif
