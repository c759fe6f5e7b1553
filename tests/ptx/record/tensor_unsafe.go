package main

import (
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"pvdrm/tests/ptx/internal/fixture"
)

// tensors is the part of the driver interface that makes tensor maps.
type tensors struct {
	encodeTiled func(to unsafe.Pointer, kind, rank uint32, address uint64, dim, stride *uint64, box, step *uint32,
		interleave, swizzle, promotion, fill uint32) int32
	encodeIm2col func(to unsafe.Pointer, kind, rank uint32, address uint64, dim, stride *uint64, lower, upper *int32, channels, pixels uint32,
		step *uint32, interleave, swizzle, promotion, fill uint32) int32
}

// load finds the functions in libcuda.
func (t *tensors) load(lib uintptr) {
	purego.RegisterLibFunc(&t.encodeTiled, lib, "cuTensorMapEncodeTiled")
	purego.RegisterLibFunc(&t.encodeIm2col, lib, "cuTensorMapEncodeIm2col")
}

// makeTensor returns a tensor map, as words so that it can be aligned, and where it lies.
func (c *cuda) makeTensor(t *fixture.Tensor, address uint64) (unsafe.Pointer, error) {
	room := make([]uint64, (fixture.TensorBytes+fixture.TensorAlign)/8)
	at := unsafe.Pointer(&room[0])
	at = unsafe.Add(at, -uintptr(at)&(fixture.TensorAlign-1)) // within room, which is larger by the alignment
	var pin runtime.Pinner
	pin.Pin(at)
	defer pin.Unpin()
	stride := append([]uint64{0}, t.Stride...)[min(1, len(t.Stride)):]
	rank := uint32(len(t.Dim))
	if t.Box != nil {
		return at, c.check("cuTensorMapEncodeTiled", c.encodeTiled(at, t.Type, rank, address+t.Offset, &t.Dim[0], &stride[0], &t.Box[0], &t.Step[0],
			t.Interleave, t.Swizzle, t.Promotion, t.Fill))
	}
	return at, c.check("cuTensorMapEncodeIm2col", c.encodeIm2col(at, t.Type, rank, address+t.Offset, &t.Dim[0], &stride[0], &t.Lower[0], &t.Upper[0],
		t.Channels, t.Pixels, &t.Step[0], t.Interleave, t.Swizzle, t.Promotion, t.Fill))
}
