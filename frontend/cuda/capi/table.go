package capi

//go:generate go run ./generate

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// entry is an entry point of the driver API.
type entry struct {
	// name is the newest version's with this signature, as programs link it.
	name string
	// args is how many arguments it has.
	args int
	// do runs it; nil: CUDA_ERROR_NOT_SUPPORTED.
	do func(*call) error
	// others are further names of the same, for programs built with other headers.
	others string
	// perThread is the ending of the name whose default stream is the thread's:
	// _ptsz, _ptds, or empty.
	perThread string
	// early: may be called before cuInit.
	early bool
	// note says what is missing; empty where all of it works.
	note string
	// events: its row of captureRules is about events. Set by init.
	events bool
}

// Symbol is a name that the library exports.
type Symbol struct {
	Name  string
	Args  int
	Float int // the first of the last arguments, which are floats; -1: none

	entry     *entry
	perThread bool
}

// floats are the first arguments that are floats, by the names of those that have any.
var floats = map[string]int{"cuParamSetf": 2, "cuTexRefSetMipmapLevelBias": 1, "cuTexRefSetMipmapLevelClamp": 1}

// Works says whether the entry point does something, if not all that it should.
func (s Symbol) Works() bool { return s.entry.do != nil }

// exported is the last version of CUDA whose symbols programs find by their names. Programs of CUDA 12 look up
// names with _v2, as Numba does, and take another signature for granted than CUDA 13's.
const exported = 12080

// Exported says whether programs find the symbol by its name; the others are newer and found by
// cuGetProcAddress only.
func (s Symbol) Exported() bool { return since[s.Name] <= exported }

// status is what a row of the documentation's table says.
func (e *entry) status() string {
	switch {
	case e.do == nil:
		return "CUDA_ERROR_NOT_SUPPORTED"
	case e.note != "":
		return "partly"
	}
	return "works"
}

// symbols is made by init, since handlers of families look into it.
var symbols []Symbol

func init() {
	for _, f := range families {
		for i := range f.entries {
			rule := captureRules[f.entries[i].name]
			f.entries[i].events = rule.events != nil || rule.instead != nil
		}
	}
	symbols = makeSymbols()
	readVersions(versionsText)
}

// Symbols lists what the library exports, in the order of the indices of Call.
func Symbols() []Symbol { return slices.Clone(symbols) }

// makeSymbols lists all names of all entries.
func makeSymbols() []Symbol {
	var all []Symbol
	names := map[string]bool{}
	add := func(s Symbol) {
		if names[s.Name] {
			panic("two entry points are called " + s.Name)
		}
		names[s.Name] = true
		all = append(all, s)
	}
	for _, family := range families {
		for i := range family.entries {
			e := &family.entries[i]
			s := Symbol{Args: e.args, Float: -1, entry: e}
			if first, ok := floats[e.name]; ok {
				s.Float = first
			}
			s.Name = e.name
			add(s)
			if e.perThread != "" {
				s.Name, s.perThread = e.name+e.perThread, true
				add(s)
				s.perThread = false
			}
			for _, n := range strings.Fields(e.others) {
				s.Name = n
				add(s)
			}
		}
	}
	return all
}

const pageHead = `# Entry points of libcuda.so.1

Generated from the table in frontend/cuda/capi by "go generate ./frontend/cuda/capi"; do not edit.
[cuda-programs.md](cuda-programs.md) describes the library.

"works" means that no difference from NVIDIA's documentation is known; "partly" is followed by what differs or is
missing. A name in the second column is another name of the same function; one that ends in _ptds or _ptsz is the
function with the default stream of the calling thread.

`

// Page returns docs/cuda-driver-api.md: what becomes of each entry point.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	count := map[string]int{}
	for _, s := range symbols {
		count[s.entry.status()]++
	}
	fmt.Fprintf(&b, "%d names: %d work, %d partly, %d are CUDA_ERROR_NOT_SUPPORTED.\n", len(symbols), count["works"], count["partly"], count["CUDA_ERROR_NOT_SUPPORTED"])
	for _, family := range families {
		fmt.Fprintf(&b, "\n## %s\n\n| entry point | other names | status |\n|---|---|---|\n", family.title)
		for i := range family.entries {
			e := &family.entries[i]
			var others []string
			if e.perThread != "" {
				others = append(others, e.name+e.perThread)
			}
			status := e.status()
			if e.note != "" {
				status += ": " + e.note
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", e.name, strings.Join(append(others, strings.Fields(e.others)...), " "), status)
		}
	}
	return b.String()
}

// TableSum tells one list of Symbols() from another, which two libraries that name
// entry points by their index must not have: an FNV-1a sum of names and arguments.
func TableSum() uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, "pvdrmCall(symbol, thread, args, top)")
	for _, s := range symbols {
		fmt.Fprintf(h, "%s/%d/%d\n", s.Name, s.Args, s.Float) // writing to a hash never fails
	}
	return h.Sum64()
}

// Exports is the linker's version script of libcuda.so.1. See exported.
func Exports() string {
	var newer strings.Builder
	for _, s := range symbols {
		if !s.Exported() {
			fmt.Fprintf(&newer, " %s;", s.Name)
		}
	}
	return "# Code generated by go generate ./frontend/cuda/capi. DO NOT EDIT.\n# What libcuda.so.1 exports: the driver API.\n" +
		"{ global: cu[A-Z]*; local:" + newer.String() + " *; };\n"
}

// C is the source of the C functions that Symbols() names; see frontend/cuda/capi/entry/entry.h.
func C() string {
	var b strings.Builder
	b.WriteString("// Code generated by go generate ./frontend/cuda/capi. DO NOT EDIT.\n\n#include \"entry.h\"\n\n")
	for i, s := range symbols {
		kind := fmt.Sprintf("ENTRY%d", s.Args)
		switch {
		case s.Float >= 0:
			kind = "ENTRY_" + strings.Repeat("I", s.Float) + strings.Repeat("F", s.Args-s.Float)
		case s.Name == libraryEntry:
			kind = "ENTRY_WORDS"
		case s.Name == callerEntry:
			kind = "ENTRY2_CALLER"
		}
		fmt.Fprintf(&b, "%s(%d, %s)\n", kind, i, s.Name)
	}
	fmt.Fprintf(&b, "\nconst uint64_t pvdrm_table = %#x;\n", TableSum())
	b.WriteString("\nvoid *const pvdrm_symbols[] = {\n")
	for _, s := range symbols {
		fmt.Fprintf(&b, "\t(void *)%s,\n", s.Name)
	}
	b.WriteString("};\n")
	return b.String()
}

// unsupported makes entries without a handler of words "name/arguments".
func unsupported(words string) []entry {
	var all []entry
	for w := range strings.FieldsSeq(words) {
		name, args, _ := strings.Cut(w, "/")
		n, err := strconv.Atoi(args)
		if err != nil {
			panic(err)
		}
		all = append(all, entry{name: name, args: n})
	}
	return all
}
