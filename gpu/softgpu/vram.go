package softgpu

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// vram is device memory, and which of its frames are free.
type vram struct {
	*hw.VRAM
	*frames
}

func newVRAM(size uint64) (*vram, error) {
	v, err := hw.NewVRAM(size)
	if err != nil {
		return nil, err
	}
	return &vram{VRAM: v, frames: newFrames(size)}, nil
}

// alloc takes size bytes, a multiple of 4 KiB. They read as zero.
func (v *vram) alloc(size uint64) ([]extent, error) {
	if ext := v.frames.alloc(size); ext != nil {
		for _, e := range ext {
			v.Whole(e.addr, e.size)
			v.Populate(e.addr, e.size)
		}
		return ext, nil
	}
	return nil, v.full(size)
}

// allocContiguous takes size bytes, at most 2 MiB, in one piece.
func (v *vram) allocContiguous(size uint64) (uint64, error) {
	if addr, ok := v.frames.allocContiguous(size); ok {
		return addr, nil
	}
	return 0, v.full(size)
}

func (v *vram) full(size uint64) error {
	return fmt.Errorf("%w: %d bytes asked for, %d of %d in use", gpu.ErrNoMemory, size, v.used(), v.Size())
}

// free zeroes the extents and then lets others have them. Preconditions: no
// translation to them is in use.
func (v *vram) free(extents ...extent) {
	for _, e := range extents {
		v.Zero(e.addr, e.size)
		v.release(e)
	}
}

// reserve takes the first size bytes for good. Preconditions: nothing is
// allocated yet; size is a multiple of 4 KiB.
func (v *vram) reserve(size uint64) {
	for at := uint64(0); at < size; at += hw.LargePage {
		v.frames.allocContiguous(min(size-at, hw.LargePage))
	}
}
