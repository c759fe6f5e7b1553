package hw

import (
	"errors"
	"fmt"
	"slices"
	"sort"
)

// ErrBusFull reports that too few consecutive addresses of a bus are left.
var ErrBusFull = errors.New("no bus addresses left")

// Bus names the system memory of one context by addresses of 40 bits, as an
// IOMMU does: what is not in it cannot be reached, whatever page tables say.
type Bus struct {
	objects []*BusObject // sorted by base
}

// BusObject is one system memory object: consecutive on the bus, in runs on
// the host.
type BusObject struct {
	Base, Size uint64
	runs       []busRun // sorted by off, without gaps
}

type busRun struct {
	off uint64 // in the object
	mem []byte
}

// Add hands out bus addresses for an object of the runs, in order. Objects of
// 2 MiB and more start on such a boundary so that large pages can map them.
func (b *Bus) Add(runs [][]byte) (*BusObject, error) {
	o := &BusObject{runs: make([]busRun, 0, len(runs))}
	for _, r := range runs {
		o.runs = append(o.runs, busRun{o.Size, r})
		o.Size += uint64(len(r))
	}
	align := uint64(SmallPage)
	if o.Size >= LargePage {
		align = LargePage
	}
	// First fit. The first 2 MiB stay empty so that no address is zero.
	base, at := uint64(LargePage), 0
	for ; at < len(b.objects); at++ {
		next := b.objects[at]
		if next.Base-base >= o.Size && next.Base >= base {
			break
		}
		base = (next.Base + next.Size + align - 1) &^ (align - 1)
	}
	if base > AddressMax || o.Size > AddressMax-base {
		return nil, fmt.Errorf("%w: %d bytes asked for", ErrBusFull, o.Size)
	}
	o.Base = base
	b.objects = slices.Insert(b.objects, at, o)
	return o, nil
}

// Place puts memory at an address of the caller's choice, where nothing may be yet. Preconditions: address
// and length are multiples of SmallPage, and the length is not 0.
func (b *Bus) Place(base uint64, mem []byte) (*BusObject, error) {
	o := &BusObject{Base: base, Size: uint64(len(mem)), runs: []busRun{{0, mem}}}
	at := sort.Search(len(b.objects), func(i int) bool { return b.objects[i].Base >= base })
	switch {
	case base > AddressMax || o.Size > AddressMax-base:
		return nil, fmt.Errorf("%w: [0x%x, 0x%x)", ErrBusFull, base, base+o.Size)
	case at < len(b.objects) && b.objects[at].Base-base < o.Size, at > 0 && base-b.objects[at-1].Base < b.objects[at-1].Size:
		return nil, fmt.Errorf("there is memory in [0x%x, 0x%x) already", base, base+o.Size)
	}
	b.objects = slices.Insert(b.objects, at, o)
	return o, nil
}

// At returns the object that begins at an address; nil if there is none.
func (b *Bus) At(base uint64) *BusObject {
	at := sort.Search(len(b.objects), func(i int) bool { return b.objects[i].Base >= base })
	if at < len(b.objects) && b.objects[at].Base == base {
		return b.objects[at]
	}
	return nil
}

// Remove takes the addresses of an object back.
func (b *Bus) Remove(o *BusObject) {
	if i := slices.Index(b.objects, o); i >= 0 {
		b.objects = slices.Delete(b.objects, i, i+1)
	}
}

// Run returns the host memory around a bus address that is consecutive there
// and here, and the place of the address in it; nil if the address was not
// handed out.
func (b *Bus) Run(addr uint64) (mem []byte, off uint64) {
	i := sort.Search(len(b.objects), func(i int) bool { return b.objects[i].Base > addr }) - 1
	if i < 0 || addr-b.objects[i].Base >= b.objects[i].Size {
		return nil, 0
	}
	o := b.objects[i]
	off = addr - o.Base
	r := o.runs[sort.Search(len(o.runs), func(j int) bool { return o.runs[j].off > off })-1]
	return r.mem, off - r.off
}
