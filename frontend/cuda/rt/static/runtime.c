#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

// api is every name of the runtime API that PVDRM's libcudart exports, sorted.
static const char *const api[] = {
#define NAME(name) #name,
#include "names.def"
#undef NAME
};

enum { NAMES = sizeof api / sizeof *api };

// A static runtime has all names of its version, 395 in CUDA 11.8, so a program that
// defines a few itself has none.
enum { FEWEST = 200 };

// image is an ELF file with what is needed of it, all within its bytes.
struct image {
	const uint8_t *file;
	size_t bytes;
	const uint8_t *segments, *symbols;
	size_t nsegments, nsymbols;
	uint64_t symbols_address; // of the table where the file is loaded; 0 where it is not loaded
	const char *strings;
	size_t nstrings; // the last of them is 0
};

static int within(const struct image *m, uint64_t offset, uint64_t bytes)
{
	return offset <= m->bytes && bytes <= m->bytes - offset;
}

// The places of headers need not be aligned, so they are copied.
static Elf64_Shdr section_at(const struct image *m, const Elf64_Ehdr *h, uint64_t i)
{
	Elf64_Shdr s;
	memcpy(&s, m->file + h->e_shoff + i * sizeof s, sizeof s);
	return s;
}

static Elf64_Sym symbol_at(const struct image *m, size_t i)
{
	Elf64_Sym s;
	memcpy(&s, m->symbols + i * sizeof s, sizeof s);
	return s;
}

// open_image finds the program headers and the symbol table of a kind: SHT_SYMTAB, or SHT_DYNSYM of
// what the file exports.
static int open_image(struct image *m, uint32_t kind)
{
	Elf64_Ehdr h;
	if (m->bytes < sizeof h)
		return 0;
	memcpy(&h, m->file, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
	    h.e_machine != EM_X86_64 || (h.e_type != ET_EXEC && h.e_type != ET_DYN) ||
	    h.e_shentsize != sizeof(Elf64_Shdr) || h.e_phentsize != sizeof(Elf64_Phdr) || !h.e_shoff ||
	    !within(m, h.e_shoff, sizeof(Elf64_Shdr)) || !within(m, h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr)))
		return 0;
	m->segments = m->file + h.e_phoff;
	m->nsegments = h.e_phnum;
	// Of more sections than e_shnum can tell, the first has the number.
	uint64_t sections = h.e_shnum ? h.e_shnum : section_at(m, &h, 0).sh_size;
	if (sections > m->bytes / sizeof(Elf64_Shdr) || !within(m, h.e_shoff, sections * sizeof(Elf64_Shdr)))
		return 0;
	for (uint64_t i = 0; i < sections; i++) {
		Elf64_Shdr table = section_at(m, &h, i);
		if (table.sh_type != kind)
			continue;
		if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= sections || !within(m, table.sh_offset, table.sh_size))
			return 0;
		Elf64_Shdr strings = section_at(m, &h, table.sh_link);
		if (strings.sh_type != SHT_STRTAB || !strings.sh_size || !within(m, strings.sh_offset, strings.sh_size))
			return 0;
		m->symbols = m->file + table.sh_offset;
		m->symbols_address = table.sh_addr;
		m->nsymbols = table.sh_size / sizeof(Elf64_Sym);
		m->strings = (const char *)m->file + strings.sh_offset;
		m->nstrings = strings.sh_size;
		return m->strings[m->nstrings - 1] == 0;
	}
	return 0;
}

// api_like tells whether a name has the form of those of the runtime API, as C++'s have not. Some are the
// program's: nvcc makes them for units of -rdc=true.
static int api_like(const char *name)
{
	static const char linked[] = "__cudaRegisterLinkedBinary_", unlinked[] = "__cudaUnregisterBinaryUtil";
	if (strncmp(name, linked, sizeof linked - 1) == 0 || strcmp(name, unlinked) == 0)
		return 0;
	if (strncmp(name, "__", 2) == 0)
		name += 2;
	return strncmp(name, "cuda", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
}

// own_function returns the name of a symbol that is a function which only the file
// itself can call, or NULL. The static runtime's functions are such: hidden, or made
// local by the linker. A library that stands before the runtime (a profiler's, say)
// exports its functions of these names.
static const char *own_function(const struct image *m, const Elf64_Sym *s)
{
	int visibility = ELF64_ST_VISIBILITY(s->st_other);
	if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF || s->st_name >= m->nstrings ||
	    (ELF64_ST_BIND(s->st_info) != STB_LOCAL && visibility != STV_HIDDEN && visibility != STV_INTERNAL))
		return NULL;
	const char *name = m->strings + s->st_name;
	return api_like(name) ? name : NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, *(const char *const *)b);
}

// index_of returns a name's place in api, or -1.
static int index_of(const char *name)
{
	const char *const *at = bsearch(name, api, NAMES, sizeof *api, compare_names);
	return at ? (int)(at - api) : -1;
}

// span is where the runtime lies. A program may have functions of its own with the
// same names (static ones of C): what has a name twice says nothing of the place.
struct span {
	uint64_t from, to;
	unsigned char times[NAMES]; // that a name was seen, up to 2
};

static int once(const struct span *s, const char *name)
{
	int i = index_of(name);
	return i >= 0 && s->times[i] == 1;
}

static int find_span(const struct image *m, struct span *s)
{
	uint64_t at[NAMES];
	memset(s, 0, sizeof *s);
	for (size_t i = 0; i < m->nsymbols; i++) {
		Elf64_Sym symbol = symbol_at(m, i);
		const char *name = own_function(m, &symbol);
		int k = name ? index_of(name) : -1;
		if (k < 0)
			continue;
		at[k] = symbol.st_value;
		if (s->times[k] < 2)
			s->times[k]++;
	}
	size_t n = 0;
	s->from = UINT64_MAX;
	for (int k = 0; k < NAMES; k++) {
		if (s->times[k] != 1)
			continue;
		n++;
		if (at[k] < s->from)
			s->from = at[k];
		if (at[k] > s->to)
			s->to = at[k];
	}
	return n >= FEWEST && once(s, "__cudaRegisterFatBinary") && once(s, "__cudaRegisterFunction") && once(s, "__cudaUnregisterFatBinary");
}

static int has(const struct span *s, const char *name)
{
	int i = index_of(name);
	return i >= 0 && s->times[i];
}

// major_of tells versions apart. CUDA 12 gave cudaGetDeviceProperties a second
// version and dropped references to textures; CUDA 13 dropped all second versions.
static int major_of(const struct span *s)
{
	if (has(s, "cudaGetDeviceProperties_v2"))
		return 12;
	if (has(s, "cudaBindTexture"))
		return has(s, "cudaGetFuncBySymbol") ? 11 : 0;
	return has(s, "cudaGetDriverEntryPointByVersion") ? 13 : 0;
}

// code_at finds code of the file, by its address.
static int code_at(const struct image *m, uint64_t address, uint64_t bytes, uint64_t *offset)
{
	for (size_t i = 0; i < m->nsegments; i++) {
		Elf64_Phdr p;
		memcpy(&p, m->segments + i * sizeof p, sizeof p);
		if (p.p_type != PT_LOAD || !(p.p_flags & PF_X) || address < p.p_vaddr || !within(m, p.p_offset, p.p_filesz))
			continue;
		uint64_t in = address - p.p_vaddr;
		if (in > p.p_filesz || bytes > p.p_filesz - in)
			continue;
		*offset = p.p_offset + in;
		return 1;
	}
	return 0;
}

static int compare_functions(const void *a, const void *b)
{
	const struct function *f = a, *g = b;
	return f->address < g->address ? -1 : f->address > g->address;
}

// room tells whether an entry can be written: a jump fits, and ends before the next function.
static int room(const struct image *m, const struct function *f, const struct function *next)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint64_t need = ENTRY_BYTES;
	if (f->bytes >= sizeof endbr64 && memcmp(m->file + f->offset, endbr64, sizeof endbr64) == 0)
		need += sizeof endbr64;
	return f->bytes >= need && (!next || next->address - f->address >= need);
}

int find_runtime(const uint8_t *file, size_t bytes, struct runtime *found)
{
	struct image m = {.file = file, .bytes = bytes};
	struct span s;
	if (!open_image(&m, SHT_SYMTAB) || !find_span(&m, &s))
		return 0;
	struct function *all = NULL;
	size_t n = 0, capacity = 0;
	for (size_t i = 0; i < m.nsymbols; i++) {
		Elf64_Sym symbol = symbol_at(&m, i);
		const char *name = own_function(&m, &symbol);
		struct function f = {.address = symbol.st_value, .bytes = symbol.st_size, .name = name};
		if (!name || f.address < s.from || f.address > s.to || !code_at(&m, f.address, f.bytes, &f.offset))
			continue;
		if (n == capacity) {
			capacity = capacity ? 2 * capacity : NAMES;
			struct function *more = realloc(all, capacity * sizeof *all);
			if (!more) {
				free(all);
				return 0;
			}
			all = more;
		}
		all[n++] = f;
	}
	if (n == 0)
		return 0;
	qsort(all, n, sizeof *all, compare_functions);
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (room(&m, &all[i], i + 1 < n ? &all[i + 1] : NULL))
			all[kept++] = all[i];
	if (kept == 0) {
		free(all);
		return 0;
	}
	*found = (struct runtime){.major = major_of(&s), .n = kept, .functions = all};
	return 1;
}

// segment_flags returns the flags of the loaded segment that has an address and bytes behind it, or 0.
static uint32_t segment_flags(const struct image *m, uint64_t address, uint64_t bytes)
{
	for (size_t i = 0; i < m->nsegments; i++) {
		Elf64_Phdr p;
		memcpy(&p, m->segments + i * sizeof p, sizeof p);
		if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr <= p.p_memsz && bytes <= p.p_memsz - (address - p.p_vaddr))
			return p.p_flags;
	}
	return 0;
}

int find_exported(const uint8_t *file, size_t bytes, const char *name, size_t *next, struct exported *found)
{
	struct image m = {.file = file, .bytes = bytes};
	size_t n = strlen(name), compared = name[n - 1] == '*' ? n - 1 : n + 1;
	if (!open_image(&m, SHT_DYNSYM) || !m.symbols_address)
		return 0;
	for (size_t i = *next; i < m.nsymbols; i++) {
		Elf64_Sym s = symbol_at(&m, i);
		if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx == SHN_UNDEF || s.st_name >= m.nstrings ||
		    strncmp(m.strings + s.st_name, name, compared))
			continue;
		*next = i + 1;
		found->entry = m.symbols_address + i * sizeof s;
		found->flags = segment_flags(&m, found->entry, sizeof s);
		found->symbol = s;
		return found->flags != 0;
	}
	return 0;
}
