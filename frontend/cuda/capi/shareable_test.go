package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
)

// A descriptor carries a key, and stays as it was made.
func TestShareableFile(t *testing.T) {
	key := drm.Key{1, 2, 3, 15: 16}
	fd, err := shareableFile(shareableMemory, key)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	got, err := readShareable(shareableMemory, fd)
	require.NoError(t, err)
	require.Equal(t, key, got)
	_, err = unix.Pwrite(fd, []byte{1}, 0)
	require.ErrorIs(t, err, unix.EPERM)
	require.Error(t, unix.Ftruncate(fd, 0))
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.Equal(t, unix.FD_CLOEXEC, flags)
	_, err = readShareable("PVDRMevt", fd)
	require.ErrorIs(t, err, errShareable)
	_, err = readShareable(shareableMemory, -1)
	require.ErrorIs(t, err, errShareable)
}

// As an H100's driver answers, but for descriptors on a device that shares nothing.
func TestHandleKinds(t *testing.T) {
	p := newProgramInContext(t)
	for kinds, want := range map[uint32]cuda.Result{0: cuda.Success, 1: cuda.ErrNotSupported, 2: cuda.ErrInvalidValue,
		3: cuda.ErrInvalidValue, 4: cuda.ErrInvalidValue, 8: cuda.ErrNotPermitted, 9: cuda.ErrNotPermitted, 1 << 31: cuda.ErrInvalidValue} {
		prop := make([]byte, propBytes)
		binary.LittleEndian.PutUint32(prop[propType:], allocationPinned)
		binary.LittleEndian.PutUint32(prop[propHandles:], kinds)
		binary.LittleEndian.PutUint32(prop[propLocation:], locationDevice)
		p.gives(want, "cuMemCreate", p.out, 2<<20, p.mem.Keep(prop), 0)
	}
	memory := p.word(p.out)
	defer p.ok("cuMemRelease", memory)
	p.gives(cuda.ErrInvalidValue, "cuMemExportToShareableHandle", p.out+8, memory, handleFile, 0)
	p.gives(cuda.ErrUnknown, "cuMemImportFromShareableHandle", p.out+8, 1<<30, handleFile)
	p.gives(cuda.ErrInvalidValue, "cuMemImportFromShareableHandle", p.out+8, 1<<30, handleNone)
}

// Addresses need no context. Memory needs one where files share nothing, and ends with it.
func TestMemoryOfContexts(t *testing.T) {
	p := newProgram(t)
	prop := make([]byte, propBytes)
	binary.LittleEndian.PutUint32(prop[propType:], allocationPinned)
	binary.LittleEndian.PutUint32(prop[propLocation:], locationDevice)
	at := p.word64("cuMemAddressReserve", 2<<20, 0, 0, 0)
	p.gives(invalidContext, "cuMemCreate", p.out, 2<<20, p.mem.Keep(prop), 0)
	x := p.word64("cuCtxCreate_v2", 0, 0)
	memory := p.word64("cuMemCreate", 2<<20, p.mem.Keep(prop), 0)
	p.ok("cuMemMap", at, 2<<20, 0, memory, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemAddressFree", at, 2<<20)
	p.ok("cuCtxDestroy_v2", x)
	p.gives(cuda.ErrInvalidValue, "cuMemRelease", memory)
	p.gives(cuda.ErrInvalidValue, "cuMemUnmap", at, 2<<20)
	p.ok("cuMemAddressFree", at, 2<<20)
}

// Pools for other processes are made, exported and imported as their kinds of handles allow.
func TestSharedPoolHandles(t *testing.T) {
	p := newProgram(t)
	pool := func(kinds uint32) uint64 {
		b := make([]byte, poolBytes)
		binary.LittleEndian.PutUint32(b[poolType:], allocationPinned)
		binary.LittleEndian.PutUint32(b[poolHandles:], kinds)
		binary.LittleEndian.PutUint32(b[poolLocation:], locationDevice)
		return p.mem.Keep(b)
	}
	for kinds, want := range map[uint32]cuda.Result{1: cuda.ErrNotSupported, 2: cuda.ErrInvalidValue, 8: cuda.ErrNotPermitted} {
		p.gives(want, "cuMemPoolCreate", p.out, pool(kinds))
	}
	own := p.word64("cuMemPoolCreate", pool(0))
	p.gives(cuda.ErrInvalidValue, "cuMemPoolExportToShareableHandle", p.out, own, handleFile, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolExportToShareableHandle", p.out, own, handleNone, 0)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolExportToShareableHandle", p.out, own, handleFile, 1)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolImportFromShareableHandle", p.out, 1<<30, handleFile, 1)
	p.gives(cuda.ErrInvalidValue, "cuMemPoolImportFromShareableHandle", p.out, 1<<30, handleNone, 0)
	p.gives(cuda.ErrUnknown, "cuMemPoolImportFromShareableHandle", p.out, 1<<30, handleFile, 0)
	for _, kind := range []string{shareablePool, shareableMemory} {
		fd, err := shareableFile(kind, drm.Key{1})
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Close(fd)) }()
		want := cuda.ErrUnknown // a descriptor of memory
		if kind == shareablePool {
			want = cuda.ErrNotSupported // the device shares nothing
		}
		p.gives(want, "cuMemPoolImportFromShareableHandle", p.out, uint64(fd), handleFile, 0)
	}
	p.ok("cuMemPoolDestroy", own)
}

// A descriptor is imported on the device whose memory it names, whichever is current.
func TestImportOfAnotherDevice(t *testing.T) {
	p := newProgramOnTwo(t)
	p.gpu.Params[drm.ParamShares], p.second.Params[drm.ParamShares] = 1, 1
	p.ok("cuInit", 0)
	p.ok("cuCtxCreate_v2", p.out, 0, 0)
	prop := make([]byte, propBytes)
	binary.LittleEndian.PutUint32(prop[propType:], allocationPinned)
	binary.LittleEndian.PutUint32(prop[propHandles:], handleFile)
	binary.LittleEndian.PutUint32(prop[propLocation:], locationDevice)
	for dev := range uint32(2) {
		binary.LittleEndian.PutUint32(prop[propLocation+4:], dev)
		own := p.word64("cuMemCreate", 2<<20, p.mem.Keep(prop), 0)
		fd := p.word32("cuMemExportToShareableHandle", own, handleFile, 0)
		again := p.word64("cuMemImportFromShareableHandle", uint64(fd), handleFile)
		p.ok("cuMemGetAllocationPropertiesFromHandle", p.out, again)
		require.Equal(t, uint64(dev)<<32|locationDevice, p.word(p.out+propLocation))
		p.ok("cuMemRelease", own)
		p.ok("cuMemRelease", again)
		p.gives(cuda.ErrInvalidValue, "cuMemImportFromShareableHandle", p.out, uint64(fd), handleFile)
		require.NoError(t, unix.Close(int(fd)))
	}
}

// FuzzPoolPointer gives arbitrary bytes to the decoder of CUmemPoolPtrExportData: only what the
// encoder writes is taken.
func FuzzPoolPointer(f *testing.F) {
	f.Add(encodePoolPointer(drm.Key{1}, cuda.SharedMemory{Key: drm.Key{2}, At: 3, Len: 4}))
	f.Add([]byte(poolPointer))
	f.Fuzz(func(t *testing.T, b []byte) {
		if pool, name, ok := decodePoolPointer(b); ok {
			require.Equal(t, encodePoolPointer(pool, name), b)
		}
	})
}

// FuzzShareable gives arbitrary bytes to the decoder of descriptors: only what the encoder writes is
// taken.
func FuzzShareable(f *testing.F) {
	f.Add(append([]byte(shareableMemory), make([]byte, shareableBytes-8)...))
	f.Add([]byte(shareableMemory))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, err := decodeShareable(shareableMemory, b)
		if err != nil {
			require.ErrorIs(t, err, errShareable)
			return
		}
		require.Equal(t, encodeShareable(shareableMemory, key), b)
	})
}
