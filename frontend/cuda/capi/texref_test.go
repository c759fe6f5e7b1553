package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/texture"
)

func TestReferencesIn(t *testing.T) {
	require.Equal(t, map[string]bool{"a": false, "b": false, "c": true, "d": false}, referencesIn([]byte(
		".version 6.0\n.visible .global .texref a, b = { addr_mode_0 = wrap };\n.global .surfref c;\n.tex .u32 d;\n.entry k() { tex.1d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [a, {1}]; ret; }")))
	require.Empty(t, referencesIn([]byte(".global .u64 x;\n.global .texref")))
}

// The variable of a reference holds the address of a descriptor while something is bound. What
// cannot be bound changes nothing.
func TestReferences(t *testing.T) {
	p := newProgramInContext(t)
	module := p.word64("cuModuleLoadData", p.text(".texref ref;"))
	ref := p.word64("cuModuleGetTexRef", module, p.text("ref"))
	require.Equal(t, ref, p.word64("cuModuleGetTexRef", module, p.text("ref")))
	p.gives(cuda.ErrNotFound, "cuModuleGetSurfRef", p.out, module, p.text("ref"))
	p.ok("cuModuleGetGlobal_v2", p.out, 0, module, p.text("ref"))
	at, held := p.word(p.out), p.words(0)
	bound := func() uint64 {
		p.ok("cuMemcpyDtoH_v2", held, at, 8)
		return p.word(held)
	}
	data, offset := p.word64("cuMemAlloc_v2", 4096), p.words(0)
	p.ok("cuTexRefSetAddress_v2", offset, ref, data+16, 1024)
	require.EqualValues(t, 16, p.word(offset))
	d := p.descriptor(bound())
	require.Equal(t, []any{data, uint32(260), texture.F32}, []any{d.Base, d.Width, d.Format})
	p.gives(cuda.ErrInvalidValue, "cuTexRefSetAddress_v2", offset, ref, data, 4100)
	p.gives(cuda.ErrInvalidValue, "cuTexRefSetAddress_v2", offset, ref, data, 1<<63)
	p.gives(cuda.ErrInvalidValue, "cuTexRefSetFormat", ref, 0x20, 0)
	p.gives(cuda.ErrNotSupported, "cuTexRefSetFlags", ref, colourSRGB)
	require.Equal(t, d, p.descriptor(bound()))

	a := p.word64("cuArrayCreate_v2", p.words(16, 8, 1|4<<32))
	p.ok("cuTexRefSetArray", ref, a, 1)
	p.ok("cuTexRefSetFlags", ref, normalizedCoords|colourSRGB)
	d = p.descriptor(bound())
	require.Equal(t, []any{texture.U8, uint8(4), true, true}, []any{d.Format, d.Channels, d.Normalized, d.SRGB})
	require.Equal(t, a, p.word64("cuTexRefGetArray", ref))
	p.gives(cuda.ErrInvalidValue, "cuTexRefGetAddress_v2", p.out, ref)
	p.gives(cuda.ErrInvalidValue, "cuTexRefSetFlags", ref, seamlessCubes)
	p.ok("cuTexRefSetFlags", ref, 0)
	p.ok("cuTexRefSetAddress_v2", offset, ref, data, 0)
	require.Zero(t, bound())

	p.ok("cuTexRefSetAddress_v2", offset, ref, data, 16)
	p.gives(cuda.ErrInvalidValue, "cuTexRefDestroy", ref)
	p.ok("cuModuleUnload", module)
	p.gives(cuda.ErrInvalidValue, "cuTexRefSetFilterMode", ref, 0)
	own := p.word64("cuTexRefCreate")
	p.ok("cuTexRefSetAddress_v2", offset, own, data, 16)
	require.Equal(t, data, p.word64("cuTexRefGetAddress_v2", own))
	p.ok("cuTexRefDestroy", own)
	p.gives(cuda.ErrInvalidValue, "cuTexRefDestroy", own)
}

// A reference and a module of a library go with it: nothing is written where the variable was.
func TestReferencesOfLibraries(t *testing.T) {
	p := newProgramInContext(t)
	library := p.word64("cuLibraryLoadData", p.text(".texref ref;"), 0, 0, 0, 0, 0, 0)
	module := p.word64("cuLibraryGetModule", library)
	ref := p.word64("cuModuleGetTexRef", module, p.text("ref"))
	p.ok("cuTexRefSetAddress_v2", p.words(0), ref, p.word64("cuMemAlloc_v2", 4096), 1024)
	p.ok("cuLibraryUnload", library)
	p.gives(cuda.ErrInvalidValue, "cuTexRefGetFilterMode", p.out, ref)
	p.gives(cuda.ErrInvalidHandle, "cuModuleGetFunction", p.out, module, p.text("add"))
}
