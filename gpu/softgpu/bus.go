package softgpu

import (
	"fmt"
	"slices"
	"sort"

	"pvdrm/gpu"
)

// bus names the system memory of one context by addresses of 40 bits, as an
// IOMMU does: what is not in it cannot be reached, whatever page tables say.
// It is guarded by space.mu.
type bus struct {
	objects []*busObject // sorted by base
}

// busObject is one system memory object: consecutive on the bus, in runs on
// the host.
type busObject struct {
	base, size uint64
	runs       []busRun // sorted by off, without gaps
}

type busRun struct {
	off uint64 // in the object
	mem []byte
}

// add hands out bus addresses for an object of the runs, in order. Objects of
// 2 MiB and more start on such a boundary so that large pages can map them.
func (b *bus) add(runs [][]byte) (*busObject, error) {
	o := &busObject{runs: make([]busRun, 0, len(runs))}
	for _, r := range runs {
		o.runs = append(o.runs, busRun{o.size, r})
		o.size += uint64(len(r))
	}
	align := uint64(smallPage)
	if o.size >= largePage {
		align = largePage
	}
	// First fit. The first 2 MiB stay empty so that no address is zero.
	base, at := uint64(largePage), 0
	for ; at < len(b.objects); at++ {
		next := b.objects[at]
		if next.base-base >= o.size && next.base >= base {
			break
		}
		base = (next.base + next.size + align - 1) &^ (align - 1)
	}
	if base > addressMax || o.size > addressMax-base {
		return nil, fmt.Errorf("%w: no %d bytes of bus addresses left", gpu.ErrNoMemory, o.size)
	}
	o.base = base
	b.objects = slices.Insert(b.objects, at, o)
	return o, nil
}

// remove takes the addresses of an object back.
func (b *bus) remove(o *busObject) {
	if i := slices.Index(b.objects, o); i >= 0 {
		b.objects = slices.Delete(b.objects, i, i+1)
	}
}

// run returns the host memory around a bus address that is consecutive there
// and here, and the place of the address in it; nil if the address was not
// handed out.
func (b *bus) run(addr uint64) (mem []byte, off uint64) {
	i := sort.Search(len(b.objects), func(i int) bool { return b.objects[i].base > addr }) - 1
	if i < 0 || addr-b.objects[i].base >= b.objects[i].size {
		return nil, 0
	}
	o := b.objects[i]
	off = addr - o.base
	r := o.runs[sort.Search(len(o.runs), func(j int) bool { return o.runs[j].off > off })-1]
	return r.mem, off - r.off
}
