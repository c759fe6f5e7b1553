package capi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// The ID of a buffer belongs to the allocation and not to its address: libraries keep what they
// know of a buffer by it, and memory that is freed and allocated again is another buffer.
func TestBufferIDs(t *testing.T) {
	p := newProgramInContext(t)
	id := func(at uint64) uint64 {
		t.Helper()
		return p.word64("cuPointerGetAttribute", pointerBuffer, at)
	}
	seen := map[uint64]bool{}
	var last uint64
	for range 4 {
		at := p.word64("cuMemAlloc_v2", 4096)
		require.True(t, last == 0 || at == last, "the same address again")
		require.Equal(t, id(at), id(at+4095))
		require.False(t, seen[id(at)])
		seen[id(at)] = true
		p.ok("cuMemFree_v2", at)
		last = at
	}
	pinned := p.word64("cuMemHostAlloc", 4096, 0) // its address in the program
	managed, _ := p.managed()
	own := p.mem.Keep(make([]byte, 128))
	p.ok("cuMemHostRegister_v2", own, 128, 0)
	for _, at := range []uint64{pinned, managed, own} {
		require.False(t, seen[id(at)], "0x%x", at)
		seen[id(at)] = true
	}
	p.ok("cuMemFreeHost", pinned)
}

func TestPointerAttributes(t *testing.T) {
	p := newProgramInContext(t)
	ctx := p.word64("cuCtxGetCurrent")
	device := p.word64("cuMemAlloc_v2", 4096)
	managed, there := p.managed()
	own := p.mem.Keep(make([]byte, 128))
	p.ok("cuMemHostRegister_v2", own, 128, 0)
	for _, c := range []struct {
		name                        string
		at                          uint64
		kind                        uint32
		toDevice, toHost, from, all uint64
		managed, mapped             uint32
	}{
		{name: "memory of the device", at: device + 8, kind: memoryDevice, toDevice: device + 8, from: device, all: 4096, mapped: 1},
		{name: "managed memory", at: managed + 8, kind: memoryDevice, toDevice: there + 8, toHost: managed + 8,
			from: managed, all: 4096, managed: 1, mapped: 1},
		{name: "registered memory", at: own + 8, kind: memoryHost, toHost: own + 8, from: own, all: 128},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := p.t
			p.t = t
			defer func() { p.t = outer }()
			address := func(attribute, want uint64) {
				t.Helper()
				if want == 0 {
					p.gives(cuda.ErrInvalidValue, "cuPointerGetAttribute", p.out, attribute, c.at)
					return
				}
				require.Equal(t, want, p.word64("cuPointerGetAttribute", attribute, c.at))
			}
			address(pointerContext, ctx)
			address(pointerDevice, c.toDevice)
			address(pointerHost, c.toHost)
			address(pointerRangeStart, c.from)
			address(pointerRangeSize, c.all)
			address(pointerMapStart, c.from)
			address(pointerMapSize, c.all)
			address(pointerBlock, p.word64("cuPointerGetAttribute", pointerBuffer, c.at))
			require.Zero(t, p.word64("cuPointerGetAttribute", pointerHandles, c.at))
			require.Zero(t, p.word64("cuPointerGetAttribute", pointerPool, c.at))
			for attribute, want := range map[uint64]uint32{pointerType: c.kind, pointerManaged: c.managed, pointerMapped: c.mapped,
				pointerOrdinal: 0, pointerLegacyIPC: 0, pointerSyncMemops: 0, pointerRDMA: 0, pointerAccess: c.mapped * accessReadWrite,
				pointerDecompress: 0} {
				require.Equal(t, want, p.word32("cuPointerGetAttribute", attribute, c.at), attribute)
			}
			p.gives(cuda.ErrInvalidValue, "cuPointerGetAttribute", p.out, 99, c.at)
		})
	}

	// All at once, of memory that CUDA does not know: zeros, no device, and no error.
	to := p.words(1, 2, 3, 4)
	p.ok("cuPointerGetAttributes", 4, p.halves(pointerType, pointerDevice, pointerSyncMemops, pointerOrdinal), p.words(to, to+8, to+16, to+24), 0x5555)
	require.Zero(t, uint32(p.word(to)))
	require.Zero(t, p.word(to+8))
	require.EqualValues(t, invalidDevice, int32(p.word(to+24)))
	p.gives(cuda.ErrInvalidValue, "cuPointerGetAttribute", p.out, pointerType, 0x5555)
	p.gives(cuda.ErrInvalidValue, "cuPointerGetAttributes", 0, p.halves(0), p.words(to), device)
	p.gives(cuda.ErrInvalidValue, "cuPointerGetAttributes", 1, p.halves(pointerType), p.words(0), device)
	p.gives(cuda.ErrInvalidValue, "cuPointerGetAttributes", 1, 4, p.words(to), device)
}

func TestRegisteredMemory(t *testing.T) {
	p := newProgramInContext(t)
	own := p.mem.Keep(make([]byte, 4096))
	p.ok("cuMemHostRegister_v2", own, 2048, 2)
	p.gives(alreadyRegistered, "cuMemHostRegister_v2", own+2047, 1, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemHostRegister_v2", p.word64("cuMemHostAlloc", 64, 0), 64, 0)
	p.ok("cuMemHostRegister_v2", own+2048, 1024, 0)
	p.gives(cuda.ErrNotSupported, "cuMemHostGetDevicePointer_v2", p.out, own, 0) // not ILLEGAL_ADDRESS of a kernel
	p.gives(cuda.ErrInvalidValue, "cuMemHostRegister_v2", own, 0, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemHostRegister_v2", memoryBase-4096, 4096, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemHostRegister_v2", own, ^uint64(0), 0)
	p.ok("cuMemHostUnregister", own)
	p.gives(notRegistered, "cuMemHostUnregister", own)
	p.ok("cuMemHostRegister_v2", own, 2048, 0)
}

// Calls that use an allocation wait for copies within the device where a program asks for it, as an H100 answers.
func TestPointerSetAttribute(t *testing.T) {
	p := newProgramInContext(t)
	first, second := p.word64("cuMemAlloc_v2", 4096), p.word64("cuMemAlloc_v2", 4096)
	on, off := p.halves(1), p.halves(0)
	p.ok("cuPointerSetAttribute", off, pointerSyncMemops, first)
	p.ok("cuPointerSetAttribute", on, pointerSyncMemops, first+8)
	require.EqualValues(t, 1, p.word32("cuPointerGetAttribute", pointerSyncMemops, first))
	require.Zero(t, p.word32("cuPointerGetAttribute", pointerSyncMemops, second))
	p.ok("cuPointerSetAttribute", off, pointerSyncMemops, first)
	require.Zero(t, p.word32("cuPointerGetAttribute", pointerSyncMemops, first))
	p.ok("cuPointerSetAttribute", on, pointerSyncMemops, first)
	p.ok("cuMemFree_v2", first)
	require.Zero(t, p.word32("cuPointerGetAttribute", pointerSyncMemops, p.word64("cuMemAlloc_v2", 4096)), "another one at its place")
	p.gives(cuda.ErrInvalidValue, "cuPointerSetAttribute", on, pointerManaged, second)
	p.gives(cuda.ErrInvalidValue, "cuPointerSetAttribute", 0, pointerSyncMemops, second)
	p.gives(cuda.ErrInvalidValue, "cuPointerSetAttribute", on, pointerSyncMemops, on)
}
