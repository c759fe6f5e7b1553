package preflight

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/rt"
	"pvdrm/gpu/softgpu/exec"
)

// source is PTX with a kernel of some lines, which begins on its line 7.
func source(arch int, lines ...string) []byte {
	return fmt.Appendf(nil, "//\n.version 8.0\n.target sm_%d\n.address_size 64\n\n.visible .entry add(\n)\n{\n.reg .b32 %%r<9>;\n%s\nret;\n}\n", arch, strings.Join(lines, "\n"))
}

const refusedLine = "tcgen05.wait::ld.sync.aligned;"

// inspect is InspectBytes for a file that can be read.
func inspect(t *testing.T, b []byte, sm int) Report {
	t.Helper()
	r, err := InspectBytes(t.Context(), "file", b, Options{Capability: sm})
	require.NoError(t, err)
	return r
}

// missing is the findings as "kind what".
func missing(r Report) []string {
	all := []string{}
	for _, f := range r.Missing {
		all = append(all, f.Kind+" "+f.What)
	}
	return all
}

func undefined(names ...string) (all []symbol) {
	for _, n := range names {
		all = append(all, symbol{name: []byte(n), bind: elf.STB_GLOBAL, kind: elf.STT_FUNC})
	}
	return all
}

func TestImports(t *testing.T) {
	names := undefined("cuInit", "cuGreenCtxCreate", "cudaMalloc", "cudaGraphicsMapResources", "cudaNothing", "cublasCreate_v2", "cuFileDriverOpen", "cufftPlan1d",
		"__cudaRegisterManagedVar", "cuGreenCtxCreate")
	names = append(names, symbol{name: []byte("cuGreenCtxDestroy"), bind: elf.STB_WEAK})
	r := inspect(t, imports(names, []string{"libc.so.6", "libcublas.so.12", "libcudart.so.12", "libcudart.so.10.2"}), 0)
	require.Equal(t, []string{"library libcublas.so.12", "library libcudart.so.10.2", "call cuGreenCtxCreate", "call cudaGraphicsMapResources", "call cudaNothing"}, missing(r))
	require.Equal(t, "program or library", r.Kind)
	require.Contains(t, r.Missing[2].Why, "docs/cuda-driver-api.md")
	require.Contains(t, r.Missing[3].Why, "docs/cuda-runtime-api.md")

	r = inspect(t, imports(undefined("cudaMalloc@libcudart.so.13", "cudaGraphicsMapResources", "cudaGraphicsMapResources@libcudart.so.13"), []string{"libcudart.so.13"}), 0)
	require.Equal(t, []string{"call cudaGraphicsMapResources"}, missing(r))

	r = inspect(t, imports(undefined("cuInit", "printf"), []string{"libcuda.so.1", "libcudart.so.13"}), 0)
	require.Empty(t, r.Missing)
}

// An object file has its undefined symbols in the only table that it has.
func TestObjectFile(t *testing.T) {
	table, names := makeSymbols(undefined("cuGreenCtxCreate")...)
	r := inspect(t, makeObject(elf.ET_REL, elf.EM_X86_64, part{name: ".symtab", kind: elf.SHT_SYMTAB, link: 2, data: table, entry: symbolBytes},
		part{name: ".strtab", kind: elf.SHT_STRTAB, data: names}), 0)
	require.Equal(t, []string{"call cuGreenCtxCreate"}, missing(r))
}

// Names that a program has as texts are hints only, and its own functions are none.
func TestHints(t *testing.T) {
	text := part{name: ".rodata", kind: elf.SHT_PROGBITS, data: []byte("cuInit\x00cuGreenCtxCreate\x00cuGreenCtxDestroy\x00cudaGraphicsMapResources failed\x00cuNothing\x00cuGreen")}
	exported := symbol{name: []byte("cuGreenCtxDestroy"), bind: elf.STB_GLOBAL, kind: elf.STT_FUNC, section: 1}
	r := inspect(t, imports(append(undefined("dlsym"), exported), nil, text), 0)
	require.Empty(t, r.Missing)
	require.Equal(t, []string{"cuGreenCtxCreate"}, r.Hints)
}

// withStatic makes a program with a static runtime from 0x2000 on, and with code at 0x1000. Names
// that are missing from PVDRM's are those that the code may call.
func withStatic(code []byte) (program []byte, at map[string]uint64) {
	at = map[string]uint64{}
	var symbols []symbol
	for i, name := range append(rt.Names(), "cudaOfTheFuture") {
		at[name] = 0x2000 + uint64(16*i)
		symbols = append(symbols, symbol{name: []byte(name), bind: elf.STB_LOCAL, kind: elf.STT_FUNC, section: 1, value: at[name]})
	}
	// A function of the program's own, elsewhere, that has such a name.
	symbols = append(symbols, symbol{name: []byte("cudaGraphGetId"), bind: elf.STB_LOCAL, kind: elf.STT_FUNC, section: 1, value: 0x1800})
	table, names := makeSymbols(symbols...)
	return makeObject(elf.ET_DYN, elf.EM_X86_64,
		part{name: ".text", kind: elf.SHT_PROGBITS, flags: elf.SHF_EXECINSTR | elf.SHF_ALLOC, addr: 0x1000, data: code},
		part{name: ".symtab", kind: elf.SHT_SYMTAB, link: 3, data: table, entry: symbolBytes},
		part{name: ".strtab", kind: elf.SHT_STRTAB, data: names},
		part{name: ".rodata", kind: elf.SHT_PROGBITS, data: []byte("cuGreenCtxCreate\x00")},
		part{name: ".nv_fatbin", kind: elf.SHT_PROGBITS}), at
}

// A static runtime has all functions, so what counts is who calls them from outside of it.
func TestStaticRuntime(t *testing.T) {
	_, at := withStatic(nil)
	code := make([]byte, 0x4000)
	put := func(address uint64, opcode []byte, name string) {
		to, known := at[name]
		require.True(t, known, name)
		copy(code[address-0x1000:], opcode)
		next := address + uint64(len(opcode)) + 4
		binary.LittleEndian.PutUint32(code[next-4-0x1000:], uint32(to-next))
	}
	put(0x1100, []byte{0xe8}, "cudaGraphicsUnregisterResource")         // call
	put(0x1203, []byte{0xe9}, "cudaGraphicsMapResources")               // jmp
	put(0x1305, []byte{0x48, 0x8d, 0x3d}, "cudaGraphicsUnmapResources") // lea, %rdi
	put(0x1400, []byte{0xe8}, "cudaMalloc")                             // is supported
	put(0x1501, []byte{0x90}, "cudaImportExternalMemory")               // no reference
	put(0x2100, []byte{0xe8}, "cudaImportExternalSemaphore")            // within the runtime
	put(at["cudaOfTheFuture"]+0x40, []byte{0xe8}, "cudaGraphExecGetId") // behind it
	program, _ := withStatic(code)
	r := inspect(t, program, 0)
	require.Equal(t, []string{"call cudaGraphExecGetId", "call cudaGraphicsMapResources", "call cudaGraphicsUnmapResources", "call cudaGraphicsUnregisterResource"}, missing(r))
	require.Empty(t, r.Hints, "the runtime has all names of the driver as texts")
}

func TestStrippedRuntime(t *testing.T) {
	fat := part{name: ".nv_fatbin", kind: elf.SHT_PROGBITS, data: makeFatbin(t, image{ptx: true, arch: 75, data: source(75)})}
	r := inspect(t, imports(undefined("printf"), []string{"libc.so.6"}, fat), 0)
	require.Equal(t, []string{"stripped the CUDA runtime in it"}, missing(r))
	require.Contains(t, r.Missing[0].Mend, "-cudart shared")
	require.Equal(t, 1, r.Modules)
	r = inspect(t, imports(undefined("__cudaRegisterFatBinary"), []string{"libcudart.so.12"}, fat), 0)
	require.Empty(t, r.Missing)
	r = inspect(t, makeObject(elf.ET_EXEC, elf.EM_X86_64, fat), 0)
	require.Equal(t, []string{"stripped the CUDA runtime in it", "static the program"}, missing(r))
}

func TestPTX(t *testing.T) {
	r := inspect(t, source(75, "mov.u32 %r1, 1;"), 0)
	require.Empty(t, r.Missing)
	require.Len(t, r.Kernels, 1)
	r.Kernels = nil // see TestKernels
	require.Equal(t, Report{File: "file", Kind: "PTX", Lowest: 75, Modules: 1, Missing: []Finding{}}, r)

	r = inspect(t, source(90, refusedLine, "mov.u32 %r1, 1;", refusedLine, "\ttcgen05.wait::st.sync.aligned;"), 75)
	require.Equal(t, []string{"ptx module 1, kernel add, line 10 and 1 more", "ptx module 1, kernel add, line 13", "sm the PTX"}, missing(r))
	require.Contains(t, r.Missing[0].Why, "tcgen05.wait")
	require.True(t, strings.HasSuffix(r.Missing[1].Why, ": tcgen05.wait::st.sync.aligned;"), r.Missing[1].Why)
	require.Equal(t, "run it with --sm 9.0", r.Missing[2].Mend)
	require.Len(t, inspect(t, source(90, refusedLine), 90).Missing, 1)

	// What is too large for the device is refused by the device, not by the compiler.
	large := bytes.Replace(source(75), []byte(".visible"), []byte(".const .b8 big[70000];\n.visible"), 1)
	require.Contains(t, inspect(t, large, 75).Missing[0].Why, "70000 bytes of .const; the device allows 65536")
}

func TestFunctionAt(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		".visible .entry add(":                   "kernel add",
		".entry\nadd()\n{":                       "kernel add",
		".func (.reg .b32 r) f (.reg .b32 a)":    "function f",
		".visible .func  (.param .b32 r)\ng(\n":  "function g",
		".entry a()\n{\n}\n.func b\n// .entry c": "function b",
	} {
		require.Equal(t, want, functionAt(bytes.Split([]byte(text), []byte("\n"))), text)
	}
}

func TestFatbins(t *testing.T) {
	good, bad := source(75, "mov.u32 %r1, 1;"), source(90, strings.Repeat("mov.u32 %r1, 2;\n", 30)+refusedLine)
	for name, c := range map[string]struct {
		images []image
		sm     int
		want   []string
		lowest int
	}{
		"the highest that fits":    {images: []image{{ptx: true, arch: 75, data: good}, {ptx: true, arch: 90, data: bad, flags: packedZstd}}, sm: 80, want: []string{}, lowest: 75},
		"refused, zstd":            {images: []image{{ptx: true, arch: 75, data: good}, {ptx: true, arch: 90, data: bad, flags: packedZstd}}, sm: 90, want: []string{"ptx module 1, kernel add, line 40"}, lowest: 75},
		"refused, LZ4":             {images: []image{{ptx: true, arch: 90, data: bad, flags: packedLZ4}}, sm: 90, want: []string{"ptx module 1, kernel add, line 40"}, lowest: 90},
		"newer":                    {images: []image{{ptx: true, arch: 90, data: bad}, {ptx: true, arch: 80, data: good}}, sm: 75, want: []string{"sm the PTX"}, lowest: 80},
		"machine code only":        {images: []image{{arch: 75, data: cubin(true), flags: packedLZ4}}, sm: 75, want: []string{"machine-code 1 of 1 fatbins"}},
		"code that is no ELF file": {images: []image{{arch: 75, data: []byte("nonsense")}}, sm: 75, want: []string{"machine-code 1 of 1 fatbins"}},
		"code without kernels":     {images: []image{{arch: 75, data: cubin(false)}}, sm: 75, want: []string{}},
		"nothing":                  {sm: 75, want: []string{}},
	} {
		r := inspect(t, makeFatbin(t, c.images...), c.sm)
		require.Equal(t, "fatbin", r.Kind)
		require.Equal(t, c.want, missing(r), name)
		require.Equal(t, c.lowest, r.Lowest, name)
	}
	// Several of them in a program, with padding, and one twice.
	one, two := makeFatbin(t, image{ptx: true, arch: 75, data: good}), makeFatbin(t, image{arch: 75, data: cubin(true)})
	all := bytes.Join([][]byte{one, two, make([]byte, 40), one, makeFatbin(t, image{ptx: true, arch: 90, data: bad})}, nil)
	r := inspect(t, imports(undefined("__cudaRegisterFatBinary"), nil, part{name: ".nv_fatbin", kind: elf.SHT_PROGBITS, data: all}), 90)
	require.Equal(t, []string{"ptx module 2, kernel add, line 40", "machine-code 1 of 4 fatbins"}, missing(r))
	require.Equal(t, 2, r.Modules)
}

func TestDamagedFatbins(t *testing.T) {
	fat := makeFatbin(t, image{ptx: true, arch: 75, data: source(75, strings.Repeat("mov.u32 %r1, 2;\n", 30)), flags: packedLZ4})
	huge, torn, short := bytes.Clone(fat), bytes.Clone(fat), bytes.Clone(fat)
	binary.LittleEndian.PutUint64(huge[16+56:], 1<<40)
	copy(torn[16+64:], bytes.Repeat([]byte{0xff}, 40))
	binary.LittleEndian.PutUint64(short[16+8:], 1<<40)
	for _, b := range [][]byte{huge, torn, short} {
		require.Equal(t, []string{"damaged fatbin 1"}, missing(inspect(t, b, 0)))
	}
}

func TestCubin(t *testing.T) {
	r := inspect(t, cubin(true), 0)
	require.Equal(t, "cubin", r.Kind)
	require.Equal(t, []string{"machine-code the file"}, missing(r))
}

func TestUnreadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for want, b := range map[string][]byte{
		"no ELF file, fatbin or PTX": []byte("#!/bin/sh\n"),
		"damaged ELF file":           []byte("\x7fELF"),
		"EM_AARCH64":                 makeObject(elf.ET_EXEC, elf.EM_AARCH64),
		"ET_CORE":                    makeObject(elf.ET_CORE, elf.EM_X86_64),
	} {
		require.NoError(t, os.WriteFile(file, b, 0o644))
		_, err := Inspect(t.Context(), file, Options{})
		require.ErrorContains(t, err, want)
	}
	for _, path := range []string{"/dev/zero", t.TempDir(), file + "-none"} {
		_, err := Inspect(t.Context(), path, Options{})
		require.Error(t, err, path)
	}
	require.NoError(t, os.Truncate(file, maxFile+1))
	_, err := Inspect(t.Context(), file, Options{})
	require.ErrorContains(t, err, "are possible")
}

// The units of nvcc -rdc=true are linked before they are looked at.
func TestUnits(t *testing.T) {
	const head = ".version 7.0\n.target sm_75\n.address_size 64\n"
	unit := func(body string) image { return image{ptx: true, arch: 75, data: []byte(head + body)} }
	calls := unit(".extern .func f;\n.visible .entry k() {\n call f;\n ret;\n}")
	defines, bad := unit(".visible .func f { ret; }"), unit(".visible .func f {\n .reg .b32 %r1;\n nosuch.u32 %r1;\n}")
	coded := image{arch: 75, data: cubin(true)}
	runtime := image{arch: 75, data: []byte("code with __CNPRT_VERSION_NUMBER__"), flags: packedZstd}
	wrapper := func(version uint32) []byte {
		b := binary.LittleEndian.AppendUint32(nil, 0x466243b1)
		return append(binary.LittleEndian.AppendUint32(b, version), make([]byte, 16)...)
	}
	for name, c := range map[string]struct {
		kind  elf.Type
		units [][]image
		sm    int
		want  []string
	}{
		"fit":                     {units: [][]image{{coded, calls}, {runtime}, {defines}}, want: []string{}},
		"refused":                 {units: [][]image{{calls}, {bad}}, want: []string{"ptx module 1, function f, line 22"}},
		"launches by kernels":     {units: [][]image{{calls}, {runtime}}, want: []string{"ptx the units of nvcc -rdc=true"}},
		"a symbol is missing":     {units: [][]image{{calls}}, want: []string{"ptx the units of nvcc -rdc=true"}},
		"one of several files":    {kind: elf.ET_REL, units: [][]image{{calls}}, want: []string{}},
		"two definitions":         {units: [][]image{{defines}, {defines}}, want: []string{"ptx fatbin 3"}},
		"a unit without PTX":      {units: [][]image{{calls}, {coded}}, want: []string{"machine-code 1 of 3 fatbins"}},
		"for newer devices":       {units: [][]image{{{ptx: true, arch: 90, data: calls.data}}, {defines}}, sm: 75, want: []string{"sm the PTX"}},
		"the runtime and no more": {units: [][]image{{runtime}}, want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []byte
			for _, images := range c.units {
				all = append(all, makeFatbin(t, images...)...)
			}
			parts := []part{
				{name: ".nv_fatbin", kind: elf.SHT_PROGBITS, data: makeFatbin(t, coded)},
				{name: ".nvFatBinSegment", kind: elf.SHT_PROGBITS, data: append(wrapper(1), wrapper(2)...)},
				{name: "__nv_relfatbin", kind: elf.SHT_PROGBITS, data: all},
			}
			file := imports(undefined("__cudaRegisterFatBinary"), nil, parts...)
			if c.kind == elf.ET_REL {
				file = makeObject(c.kind, elf.EM_X86_64, parts...)
			}
			require.Equal(t, c.want, missing(inspect(t, file, c.sm)))
		})
	}
}

// Kernels say what of them the software GPU interprets.
func TestKernels(t *testing.T) {
	if err := exec.NativeCode(); err != nil {
		t.Skip(err)
	}
	const two = `.version 8.0
.target sm_70
.address_size 64
.visible .entry plain(.param .u64 p) { .reg .b64 %l; .reg .f32 %f;
	ld.param.u64 %l, [p];
	ld.global.f32 %f, [%l];
	ex2.approx.f32 %f, %f;
	st.global.f32 [%l], %f;
	ret; }
.visible .entry counts(.param .u64 p) { .reg .b64 %l; .reg .b32 %m; .reg .pred %q;
	ld.param.u64 %l, [p];
	setp.ne.u64 %q, %l, 0;
	ld.global.u32 %m, [%l];
	@%q fns.b32 %m, %m, 3, 1;
	fns.b32 %m, %m, 5, 1;
	st.global.u32 [%l], %m;
	ret; }
`
	r, err := InspectBytes(t.Context(), "k.ptx", []byte(two), Options{})
	require.NoError(t, err)
	require.Len(t, r.Kernels, 2)
	require.Equal(t, "counts", r.Kernels[0].Name)
	require.Equal(t, 2, r.Kernels[0].Interpreted)
	require.Equal(t, []string{"fns.b32 (2)"}, r.Kernels[0].Instructions)
	require.Equal(t, "plain", r.Kernels[1].Name)
	require.Zero(t, r.Kernels[1].Interpreted)
	require.NotZero(t, r.Kernels[1].Operations)
	require.Nil(t, r.Kernels[1].Whole)
}

// Kernels say whether they can leave a GPU that cannot stop them, or why not.
func TestRewrites(t *testing.T) {
	const two = `.version 8.0
.target sm_70
.address_size 64
.visible .entry a() { .reg .b64 %l; mov.u64 %l, %gridid; ret; }
.visible .entry b() { .reg .b32 %r; l: mov.u32 %r, %ctaid.x; bra l; }
`
	r, err := InspectBytes(t.Context(), "k.ptx", []byte(two), Options{Rewrites: true})
	require.NoError(t, err)
	require.Len(t, r.Kernels, 2)
	for _, why := range []*string{r.Kernels[0].Whole, r.Kernels[0].Unsuspendable} {
		require.Contains(t, *why, "%gridid")
	}
	require.Equal(t, "", *r.Kernels[1].Whole)
	require.Equal(t, "", *r.Kernels[1].Unsuspendable)
}
