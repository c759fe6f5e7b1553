package capi

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

func TestEntriesOfPTX(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		".visible .entry a(\n.param .u32 p)\n{ret;}\n.entry b() {ret;}": {"a", "b"},
		"// .entry a()\n.entry\tb {":                                    {"b"},
		"/* .entry a() */ .entry b{":                                    {"b"},
		".entryway a() .entry":                                          nil,
		".visible .entry\n\tlong_name(":                                 {"long_name"},
		".entry a();\n.entry b() {ret;}\n.entry a() {ret;}":             {"a", "b"},
		"/**/.entry a();\n.entry a() {ret;}":                            {"a"},
		"/**/.file 1 \"/a/b.cu\"\n.entry a() {ret;}":                    {"a"},
	} {
		require.Equal(t, want, entries([]byte(text)), text)
	}
}

// Modules and libraries list their kernels, with the handles that asking for one by name gives.
func TestKernelsAreEnumerated(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	text := p.text(".entry add")
	m := p.word64("cuModuleLoadData", text)
	require.EqualValues(t, 1, p.word32("cuModuleGetFunctionCount", m))
	p.ok("cuModuleEnumerateFunctions", p.out, 2, m)
	require.Equal(t, p.word(p.out), p.word64("cuModuleGetFunction", m, p.text("add")))

	lib := p.word64("cuLibraryLoadData", text, 0, 0, 0, 0, 0, 0)
	require.EqualValues(t, 1, p.word32("cuLibraryGetKernelCount", lib))
	p.ok("cuLibraryEnumerateKernels", p.out, 1, lib)
	kernel := p.word(p.out)
	require.Equal(t, kernel, p.word64("cuLibraryGetKernel", lib, p.text("add")))
	require.Equal(t, lib, p.word64("cuKernelGetLibrary", kernel))

	p.gives(cuda.ErrInvalidHandle, "cuKernelGetLibrary", p.out, lib)
	p.gives(cuda.ErrInvalidHandle, "cuLibraryGetKernelCount", p.out, m)
	p.gives(cuda.ErrInvalidHandle, "cuModuleGetFunctionCount", p.out, lib)
	p.ok("cuModuleEnumerateFunctions", p.out, 0, m)
	p.gives(cuda.ErrInvalidValue, "cuModuleEnumerateFunctions", p.out, math.MaxUint32, m)
	p.gives(cuda.ErrInvalidValue, "cuLibraryEnumerateKernels", 0, 1, lib)
}

// Attributes of streams are kept for each stream, checked, and forgotten with it.
func TestStreamAttributes(t *testing.T) {
	p := newProgramInContext(t)
	a, b := p.word64("cuStreamCreate", 0), p.word64("cuStreamCreate", 0)
	get := func(s, id uint64) uint64 {
		room := p.words(make([]uint64, 4)...) // as much as before CUDA 11.8
		p.ok("cuStreamGetAttribute", s, id, room)
		return p.word(room)
	}
	require.EqualValues(t, math.MaxUint32, get(a, streamSyncPolicy))
	require.EqualValues(t, 1<<8, get(0, streamDomainMap))
	policy := p.words(4, 0, 0, 0)
	p.ok("cuStreamSetAttribute", a, streamSyncPolicy, policy)
	require.EqualValues(t, 4, get(a, streamSyncPolicy))
	require.EqualValues(t, math.MaxUint32, get(b, streamSyncPolicy))
	p.ok("cuStreamCopyAttributes", b, a)
	require.EqualValues(t, 4, get(b, streamSyncPolicy))
	p.ok("cuStreamCopyAttributes", b, b)
	require.EqualValues(t, 4, get(b, streamSyncPolicy))
	p.ok("cuStreamCopyAttributes", b, 0)
	require.EqualValues(t, math.MaxUint32, get(b, streamSyncPolicy))
	p.ok("cuStreamSetAttribute", a, streamPriority, policy)
	require.Zero(t, get(a, streamPriority), "there is one priority")

	window := func(bytes uint64, ratio float32, hit uint32) uint64 {
		return p.words(4096, bytes, uint64(math.Float32bits(ratio))|uint64(hit)<<32, 0)
	}
	p.ok("cuStreamSetAttribute", a, streamWindow, window(0, 0.5, 1))
	require.EqualValues(t, 4096, get(a, streamWindow))
	for id, bad := range map[uint64][]uint64{
		streamWindow: {window(0, 1.5, 1), window(0, float32(math.NaN()), 0), window(1<<40, 1, 1),
			p.words(4096, 0, 0, 2)}, // what misses the window would persist
		streamSyncPolicy: {window(0, 0, 0), p.words(0, 0, 0, 0)},
		streamDomainMap:  {p.words(4, 0, 0, 0)},
		streamDomain:     {policy},
		2:                {policy},
		99:               {policy},
	} {
		for _, v := range bad {
			p.gives(cuda.ErrInvalidValue, "cuStreamSetAttribute", a, id, v)
		}
	}
	p.gives(cuda.ErrInvalidValue, "cuStreamGetAttribute", a, 2, p.words(0, 0, 0, 0))
	p.ok("cuStreamDestroy_v2", a)
	p.gives(cuda.ErrInvalidHandle, "cuStreamGetAttribute", a, streamSyncPolicy, p.words(0, 0, 0, 0))
}
