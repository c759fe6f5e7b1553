package preflight

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"

	"pvdrm/frontend/cuda/capi"
	"pvdrm/frontend/cuda/rt"
)

// verdict is what the tables say of a name.
type verdict int

const (
	works verdict = iota + 1
	unsupported
)

// tables has the verdict for each name of the driver and the runtime API. Names that
// cuGetProcAddress finds without their version are there without it, too.
var tables = sync.OnceValue(func() map[string]verdict {
	all := map[string]verdict{}
	for _, name := range rt.Names() {
		all[name] = works
	}
	for _, name := range rt.Missing() {
		all[name] = unsupported
	}
	for _, s := range capi.Symbols() {
		v := unsupported
		if s.Works() {
			v = works
		}
		all[s.Name] = v
		if i := strings.LastIndex(s.Name, "_v"); i > 0 {
			if all[s.Name[:i]] != works {
				all[s.Name[:i]] = v
			}
		}
	}
	return all
})

// madeByNVCC reports whether a name is that of a function of the program that nvcc makes for units of -rdc=true.
func madeByNVCC(name []byte) bool {
	return bytes.HasPrefix(name, []byte("__cudaRegisterLinkedBinary")) || string(name) == "__cudaUnregisterBinaryUtil"
}

// apiName reports whether a name has the form of those of the driver or the runtime API: cuX, cudaX
// or __cudaX. cuFile… is another library's.
func apiName(name []byte) bool {
	upper := func(rest []byte) bool { return len(rest) > 0 && rest[0] >= 'A' && rest[0] <= 'Z' }
	if rest, ok := bytes.CutPrefix(name, []byte("__cuda")); ok {
		return upper(rest)
	}
	if rest, ok := bytes.CutPrefix(name, []byte("cuda")); ok {
		return upper(rest)
	}
	rest, ok := bytes.CutPrefix(name, []byte("cu"))
	return ok && upper(rest) && !bytes.HasPrefix(name, []byte("cuFile"))
}

// runtimes are the libcudart.so of PVDRM.
var runtimes = []string{"libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"}

// libraries looks at what the loader loads with the object.
func (in *inspector) libraries(o *object) {
	for _, name := range o.needed() {
		switch {
		case strings.HasPrefix(name, "libcudart.so") && !slices.Contains(runtimes, name):
			in.add(Finding{Kind: KindLibrary, What: name, Why: "PVDRM has " + strings.Join(runtimes, ", "), Mend: "build it with CUDA 11 or later"})
		case capi.NeedsDriver(name):
			in.add(Finding{Kind: KindLibrary, What: name, Why: "a library of NVIDIA's that needs NVIDIA's driver"})
		}
	}
}

// A static runtime has all names of its version, so an object that defines a few itself has none.
const fewest = 200

// staticRuntime is NVIDIA's runtime within an object.
type staticRuntime struct {
	n        int               // names of the API
	from, to uint64            // addresses of the first and the last
	lacking  map[uint64]string // functions that PVDRM does not support, by address
}

// functions looks at the names that the object asks for.
func (in *inspector) functions(o *object) {
	runtime := staticRuntime{from: ^uint64(0), lacking: map[uint64]string{}}
	symbols := o.ofKind(elf.SHT_SYMTAB)
	registers := false // it imports the runtime API
	own := map[string]bool{}
	for _, table := range []*section{o.ofKind(elf.SHT_DYNSYM), symbols} {
		o.symbols(table, func(s symbol) bool {
			switch {
			case !apiName(s.name) || madeByNVCC(s.name):
			case s.section == elf.SHN_UNDEF:
				registers = registers || bytes.HasPrefix(s.name, []byte("__cuda"))
				in.imported(s)
			case table == symbols && s.kind == elf.STT_FUNC && hidden(s):
				runtime.add(s)
			case tables()[string(s.name)] == unsupported:
				own[string(s.name)] = true
			}
			return true
		})
	}
	static := runtime.n >= fewest
	switch {
	case static:
		in.calls(o, &runtime)
	case o.kind != elf.ET_REL && symbols == nil && !registers && o.named(fatbinSection) != nil:
		in.add(Finding{Kind: KindStripped, What: "the CUDA runtime in it", Why: "it has no symbol table, by which its calls would be led to PVDRM's",
			Mend: "link it without -s and do not strip it, or link it with nvcc -cudart shared"})
	default:
		in.hints(o, own)
	}
	if o.kind == elf.ET_EXEC && o.ofKind(elf.SHT_DYNAMIC) == nil && (static || o.named(fatbinSection) != nil) {
		in.add(Finding{Kind: KindStatic, What: "the program", Why: "it is linked statically, so it cannot load libcuda.so.1", Mend: "link it without -static"})
	}
}

// hidden reports whether only the object itself can call a symbol.
func hidden(s symbol) bool {
	const visibility = 3
	v := elf.SymVis(s.other & visibility)
	return s.bind == elf.STB_LOCAL || v == elf.STV_HIDDEN || v == elf.STV_INTERNAL
}

// imported looks at a name that another library is to have.
func (in *inspector) imported(s symbol) {
	switch v := tables()[string(s.name)]; {
	case v == works || s.bind == elf.STB_WEAK:
	case v == unsupported:
		in.call(string(s.name))
	default:
		in.add(Finding{Kind: KindCall, What: string(s.name), Why: "PVDRM's libraries have no function of this name"})
	}
}

func (in *inspector) call(name string) {
	table, result := "docs/cuda-driver-api.md", "CUDA_ERROR_NOT_SUPPORTED"
	if strings.HasPrefix(name, "cuda") || strings.HasPrefix(name, "__") {
		table, result = "docs/cuda-runtime-api.md", "cudaErrorNotSupported"
	}
	in.add(Finding{Kind: KindCall, What: name, Why: result + " (" + table + ")"})
}

func (r *staticRuntime) add(s symbol) {
	v, known := tables()[string(s.name)]
	if known {
		r.n++
		r.from, r.to = min(r.from, s.value), max(r.to, s.value)
	}
	if v != works {
		r.lacking[s.value] = string(s.name)
	}
}

// calls finds who calls functions of a static runtime that PVDRM does not support, from outside of
// the runtime: instructions that have the distance to such a function, as call, jmp and lea do.
func (in *inspector) calls(o *object, r *staticRuntime) {
	// A function of the program's own may have such a name, too.
	maps.DeleteFunc(r.lacking, func(at uint64, _ string) bool { return at < r.from || at > r.to })
	if len(r.lacking) == 0 {
		return
	}
	low, high := ^uint64(0), uint64(0)
	for at := range r.lacking {
		low, high = min(low, at), max(high, at)
	}
	const distance = 4 // bytes, at the end of the instruction
	left := len(o.b)
	found := map[string]bool{}
	for i := range o.sections {
		s := &o.sections[i]
		if s.kind != elf.SHT_PROGBITS || s.flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		code := o.data(s)
		if left -= len(code); left < 0 {
			break // sections that overlap
		}
		for at := 1; at+distance <= len(code); at++ {
			next := s.addr + uint64(at) + distance
			to := next + uint64(int64(int32(binary.LittleEndian.Uint32(code[at:]))))
			if to < low || to > high || next >= r.from && next <= r.to || !refers(code[at-1]) {
				continue
			}
			if name, ok := r.lacking[to]; ok {
				found[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		in.call(name)
	}
}

// refers reports whether a byte may come before the distance to a function: the opcode of call or
// jmp, or a ModRM byte that stands for an address relative to the next instruction.
func refers(b byte) bool {
	const call, jmp, mask, relative = 0xe8, 0xe9, 0xc7, 0x05
	return b == call || b == jmp || b&mask == relative
}

// hints finds names that a program without a runtime in it may ask cuGetProcAddress or dlsym for.
// Those that it exports itself are its own.
func (in *inspector) hints(o *object, own map[string]bool) {
	found := map[string]bool{}
	for text := o.data(o.named(".rodata")); len(text) > 0 && len(found) < maxHints; {
		end := bytes.IndexByte(text, 0)
		if end < 0 {
			break
		}
		if word := text[:end]; len(word) < maxName && apiName(word) && tables()[string(word)] == unsupported && !own[string(word)] {
			found[string(word)] = true
		}
		text = text[end+1:]
	}
	in.report.Hints = slices.Sorted(maps.Keys(found))
}
