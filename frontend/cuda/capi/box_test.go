package capi

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/link"
)

// box is a CUDA_MEMCPY3D, or with contexts a CUDA_MEMCPY3D_PEER: device memory with a pitch and rows of a layer.
func (p *program) box(dst, dstPitch, src, srcPitch, rows, width, height, depth uint64, contexts ...uint64) []byte {
	b := make([]byte, copy3DBytes)
	le := binary.LittleEndian
	put := func(l endLayout, addr, pitch uint64) {
		le.PutUint32(b[l.kind:], memoryDevice)
		le.PutUint64(b[l.device:], addr)
		le.PutUint64(b[l.pitch:], pitch)
		le.PutUint64(b[l.height:], rows)
	}
	put(copy3DSrc, src, srcPitch)
	put(copy3DDst, dst, dstPitch)
	for i, v := range []uint64{width, height, depth} {
		le.PutUint64(b[176+8*i:], v)
	}
	for i, x := range contexts {
		le.PutUint64(b[[]int{peerDstContext, peerSrcContext}[i]:], x)
	}
	return b
}

func (p *program) got(at uint64, n int) []byte {
	p.t.Helper()
	host := p.mem.Keep(make([]byte, n))
	p.ok("cuMemcpyDtoH_v2", host, at, uint64(n))
	b := make([]byte, n)
	require.NoError(p.t, p.mem.Read(b, host))
	return b
}

// Boxes are copied between contexts, whichever is current, by cuMemcpy3DPeer and by the plain functions.
func TestBoxesBetweenContexts(t *testing.T) {
	p := newProgram(t)
	const n = 4096
	var contexts, memory []uint64
	for i := range 2 {
		contexts = append(contexts, p.word64("cuCtxCreate_v2", 0, 0))
		memory = append(memory, p.word64("cuMemAlloc_v2", n))
		p.ok("cuMemsetD8_v2", memory[i], uint64(i+1), n)
	}
	want := bytes.Repeat([]byte{2}, n)
	for z := range 2 {
		for y := range 3 {
			copy(want[64*4*z+64*y:][:16], bytes.Repeat([]byte{1}, 16))
		}
	}
	stream := p.word64("cuStreamCreate", 1)
	peer := p.box(memory[1], 64, memory[0], 32, 4, 16, 3, 2, contexts[1], contexts[0])
	plain := p.box(memory[1], 64, memory[0], 32, 4, 16, 3, 2)
	for name, what := range map[string][]byte{"cuMemcpy3DPeer": peer, "cuMemcpy3DPeerAsync": peer, "cuMemcpy3D_v2": plain, "cuMemcpy3DAsync_v2": plain} {
		p.ok("cuMemsetD8_v2", memory[1], 2, n)
		p.ok(name, p.mem.Keep(what), stream) // which those that wait do not look at
		require.Equal(t, want, p.got(memory[1], n), name)
	}
	// Within a context that is not current, and on the program's side.
	p.ok("cuMemcpy3DPeer", p.mem.Keep(p.box(memory[0]+1024, 64, memory[0], 64, 4, 16, 3, 1, contexts[0], contexts[0])))
	p.ok("cuMemcpy3D_v2", p.mem.Keep(p.box(memory[0]+1024, 64, memory[0], 64, 4, 16, 3, 1)))
	text := p.box(memory[0], 0, 0, 0, 0, 5, 1, 1, contexts[0])
	binary.LittleEndian.PutUint32(text[copy3DSrc.kind:], memoryHost)
	binary.LittleEndian.PutUint64(text[copy3DSrc.host:], p.mem.Keep([]byte("hello")))
	p.ok("cuMemcpy3DPeer", p.mem.Keep(text))
	require.Equal(t, []byte("hello\x01"), p.got(memory[0], 6))
	// Rows that are larger than what goes through the program at once.
	big := []uint64{0, 0}
	const wide = maxBounce + 8
	for i, x := range contexts {
		p.ok("cuCtxSetCurrent", x)
		big[i] = p.word64("cuMemAlloc_v2", 2*wide)
		p.ok("cuMemsetD8_v2", big[i], uint64(i+3), 2*wide)
	}
	p.ok("cuMemcpy3D_v2", p.mem.Keep(p.box(big[1], wide, big[0], wide, 2, wide, 2, 1)))
	require.Equal(t, []byte{3, 3}, p.got(big[1]+2*wide-2, 2))

	for _, wrong := range []func(b []byte){
		func(b []byte) { binary.LittleEndian.PutUint64(b[copy3DSrc.pitch:], 8) },
		func(b []byte) { binary.LittleEndian.PutUint64(b[copy3DSrc.height:], 2) },
		func(b []byte) { binary.LittleEndian.PutUint64(b[24:], 1) },
		func(b []byte) { binary.LittleEndian.PutUint64(b[copy3DSrc.device:], memory[0]+n-1) },
		func(b []byte) { binary.LittleEndian.PutUint64(b[copy3DDst.pitch:], math.MaxUint64/2) },
		func(b []byte) { binary.LittleEndian.PutUint32(b[copy3DDst.kind:], 0) },
	} {
		b := bytes.Clone(peer)
		wrong(b)
		p.gives(cuda.ErrInvalidValue, "cuMemcpy3DPeer", p.mem.Keep(b))
	}
	p.gives(cuda.ErrInvalidValue, "cuMemcpy3DPeer", 0)
	p.gives(invalidContext, "cuMemcpy3DPeer", p.mem.Keep(p.box(memory[1], 64, memory[0], 64, 4, 16, 3, 2, 99, contexts[0])))
	p.ok("cuMemcpy3DPeer", p.mem.Keep(p.box(memory[1], 64, memory[0], 64, 4, 16, 3, 2, 0, contexts[0]))) // the address tells
	p.ok("cuMemcpy3DPeer", p.mem.Keep(p.box(memory[1], 64, memory[0], 64, 4, 0, 3, 2, contexts[1], contexts[0])))
	for _, x := range contexts {
		p.ok("cuCtxDestroy_v2", x)
	}
}

// A batch copies in order. What is wrong of one is as an H100 answers.
func TestBatchesOfCopies(t *testing.T) {
	p := newProgramInContext(t)
	d := p.word64("cuMemAlloc_v2", 4096)
	p.ok("cuMemsetD8_v2", d, 7, 4096)
	h := p.mem.Keep([]byte("from the program"))
	stream := p.word64("cuStreamCreate", 1)
	attributes := func(orders ...uint32) uint64 {
		b := make([]byte, copyAttributesBytes*len(orders))
		for i, o := range orders {
			binary.LittleEndian.PutUint32(b[copyAttributesBytes*i:], o)
		}
		return p.mem.Keep(b)
	}
	dst, src, sizes := p.words(d, d+16, d+32), p.words(d+1024, h, d+16), p.words(4, 16, 4)
	one := attributes(orderStream)
	p.ok("cuMemcpyBatchAsync_v2", dst, src, sizes, 3, one, p.words(0), 1, stream)
	require.Equal(t, "\x07\x07\x07\x07", string(p.got(d, 4)))
	require.Equal(t, "from the program"+"from\x07", string(p.got(d+16, 21)))
	p.ok("cuMemcpyBatchAsync_v2_ptsz", dst, src, sizes, 3, attributes(orderCall, orderAny), p.words(0, 2), 2, 0)
	failed := p.mem.Keep(make([]byte, 8))
	p.ok("cuMemcpyBatchAsync", dst, src, sizes, 3, one, p.words(0), 1, failed, stream)
	for name, args := range map[string][]uint64{
		"no copies":             {dst, src, sizes, 0, one, p.words(0), 1, stream},
		"no attributes":         {dst, src, sizes, 3, one, p.words(0), 0, stream},
		"null attributes":       {dst, src, sizes, 3, 0, p.words(0), 1, stream},
		"null positions":        {dst, src, sizes, 3, one, 0, 1, stream},
		"too many attributes":   {dst, src, sizes, 1, attributes(1, 1), p.words(0, 1), 2, stream},
		"null destinations":     {0, src, sizes, 3, one, p.words(0), 1, stream},
		"null sizes":            {dst, src, 0, 3, one, p.words(0), 1, stream},
		"the null stream":       {dst, src, sizes, 3, one, p.words(0), 1, 0},
		"the legacy stream":     {dst, src, sizes, 3, one, p.words(0), 1, streamLegacy},
		"a first position of 1": {dst, src, sizes, 3, one, p.words(1), 1, stream},
		"equal positions":       {dst, src, sizes, 3, attributes(1, 1), p.words(0, 0), 2, stream},
		"a position beyond":     {dst, src, sizes, 3, attributes(1, 1), p.words(0, 3), 2, stream},
		"a size of 0":           {dst, src, p.words(4, 0, 4), 3, one, p.words(0), 1, stream},
		"a null address":        {p.words(d, 0, d), src, sizes, 3, one, p.words(0), 1, stream},
		"no order":              {dst, src, sizes, 3, attributes(0), p.words(0), 1, stream},
		"another order":         {dst, src, sizes, 3, attributes(4), p.words(0), 1, stream},
		"more than a batch has": {dst, src, sizes, 1 << 40, one, p.words(0), 1, stream},
	} {
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuMemcpyBatchAsync_v2", args...), name)
	}
	p.gives(cuda.ErrInvalidValue, "cuMemcpyBatchAsync", p.words(d, 0), src, sizes, 2, one, p.words(0), 1, failed, stream)
	require.EqualValues(t, 1, p.word(failed))
	p.ok("cuStreamBeginCapture_v2", stream, 0)
	p.gives(900, "cuMemcpyBatchAsync_v2", dst, src, sizes, 3, one, p.words(0), 1, stream)
	p.gives(901, "cuStreamEndCapture", stream, p.out)
}

// Batches of boxes are of memory and arrays.
func TestBatchesOfBoxes(t *testing.T) {
	p := newProgramInContext(t)
	d := p.word64("cuMemAlloc_v2", 4096)
	stream := p.word64("cuStreamCreate", 1)
	for i := range uint64(64) {
		p.ok("cuMemsetD8_v2", d+i, i, 1)
	}
	op := func(dst, src []uint64, width, height, depth uint64, order uint32) []byte {
		b := make([]byte, batchOpBytes)
		for i, end := range [][]uint64{src, dst} {
			for k, v := range end {
				binary.LittleEndian.PutUint64(b[operandBytes*i+8*k:], v)
			}
		}
		for i, v := range []uint64{width, height, depth} {
			binary.LittleEndian.PutUint64(b[batchExtent+8*i:], v)
		}
		binary.LittleEndian.PutUint32(b[batchOrder:], order)
		return b
	}
	ops := append(op([]uint64{operandMemory, d + 1024, 8, 2}, []uint64{operandMemory, d, 16, 2}, 4, 2, 2, orderStream),
		op([]uint64{operandMemory, d + 2048}, []uint64{operandMemory, d + 1024, 8, 2}, 4, 2, 1, orderCall)...)
	p.ok("cuMemcpy3DBatchAsync_v2", 2, p.mem.Keep(ops), 0, stream)
	require.Equal(t, []byte{0, 1, 2, 3, 0, 0, 0, 0, 16, 17, 18, 19, 0, 0, 0, 0, 32, 33, 34, 35}, p.got(d+1024, 20))
	require.Equal(t, []byte{0, 1, 2, 3, 16, 17, 18, 19}, p.got(d+2048, 8))
	failed := p.mem.Keep(make([]byte, 8))
	p.ok("cuMemcpy3DBatchAsync", 2, p.mem.Keep(ops), failed, 0, stream)
	memory := []uint64{operandMemory, d}
	for name, args := range map[string][]uint64{
		"none":        {0, p.mem.Keep(ops), 0, stream},
		"null":        {1, 0, 0, stream},
		"flags":       {1, p.mem.Keep(ops), 1, stream},
		"null stream": {1, p.mem.Keep(ops), 0, 0},
		"kind":        {1, p.mem.Keep(op(memory, []uint64{3, d}, 4, 1, 1, 1)), 0, stream},
		"short rows":  {1, p.mem.Keep(op(memory, []uint64{operandMemory, d, 3}, 4, 2, 1, 1)), 0, stream},
		"few rows":    {1, p.mem.Keep(op(memory, []uint64{operandMemory, d, 4, 1}, 4, 2, 2, 1)), 0, stream},
		"order":       {1, p.mem.Keep(op(memory, memory, 4, 1, 1, 0)), 0, stream},
	} {
		require.Equal(t, cuda.ErrInvalidValue, p.call("cuMemcpy3DBatchAsync_v2", args...), name)
	}
	p.ok("cuMemcpy3DBatchAsync_v2", 1, p.mem.Keep(op(memory, memory, 0, 1, 1, 1)), 0, stream)
	require.NotEqual(t, cuda.Success, p.call("cuMemcpy3DBatchAsync_v2", 1, p.mem.Keep(op(memory, []uint64{operandArray, 5}, 4, 1, 1, 1)), 0, stream))
}

// The words of the device runtime that are no attributes of the device lie behind those.
func TestDeviceRuntimeWords(t *testing.T) {
	require.Greater(t, link.DevicePTX, lastAttribute)
	require.Less(t, link.DeviceBinary, link.DeviceOthers)
}
