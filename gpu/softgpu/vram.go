package softgpu

import (
	"fmt"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// vram is device memory, and which of its frames are free.
type vram struct {
	*hw.VRAM
	*frames
	cooling *time.Timer // calls cool when nothing was freed for a while
}

func newVRAM(size uint64) (*vram, error) {
	v, err := hw.NewVRAM(size)
	if err != nil {
		return nil, err
	}
	d := &vram{VRAM: v, frames: newFrames(size)}
	d.cooling = time.AfterFunc(time.Hour, d.cold)
	d.cooling.Stop()
	return d, nil
}

// Bounds of the memory that is free and keeps the pages of the host. A program that comes after another would
// wait for them one by one in its kernels: half a microsecond and more for each, which is longer than a short kernel takes for
// the data of a page.
const (
	warmBytes = 32 << 20
	warmTime  = 2 * time.Second // after the last time that something was freed
)

// cold gives the host the pages of what is free.
func (v *vram) cold() { v.cool(func(e extent) { v.Zero(e.addr, e.size) }) }

// Unmap gives all of it to the host. Preconditions: nothing uses it any more.
func (v *vram) Unmap() error {
	v.cooling.Stop()
	v.cool(func(extent) {}) // waits for a cold that runs; one that comes later finds nothing
	return v.VRAM.Unmap()
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
		warm := v.heat(e, warmBytes)
		if warm {
			clear(v.Bytes(e.addr, e.size))
			v.cooling.Reset(warmTime)
		} else {
			v.Zero(e.addr, e.size)
		}
		v.release(e, warm)
	}
}

// reserve takes the first size bytes for good. Preconditions: nothing is
// allocated yet; size is a multiple of 4 KiB.
func (v *vram) reserve(size uint64) {
	for at := uint64(0); at < size; at += hw.LargePage {
		v.frames.allocContiguous(min(size-at, hw.LargePage))
	}
}
