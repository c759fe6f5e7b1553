package cuda

import (
	"errors"
	"fmt"
	"slices"

	"pvdrm/drm"
	"pvdrm/gem"
)

// heap hands out blocks of one domain. Requests of up to half a chunk share
// objects of the size of a chunk; larger ones get objects of their own. At most
// one shared object is kept that holds nothing.
type heap struct {
	file   drm.File
	domain drm.Domain
	window window
	placer drm.Placer // maps objects into the program at their addresses on the GPU; nil: anywhere
	space  *addresses // of objects
	chunk  uint64     // bytes of a shared object
	align  uint64     // of blocks

	live   map[*object]struct{} // all objects; nil where none is asked for
	made   func(*object) error  // told of objects that are mapped; may be nil
	closed func(*object)        // told of objects that end; may be nil

	shared []*object
	whole  map[uint64]*object // objects with one block, by address
}

// object is a GEM object, mapped at addr.
type object struct {
	handle uint32
	addr   uint64
	size   uint64
	mem    []byte     // DomainSystem only
	inside *gem.Space // of a shared object, GPU addresses
	key    drm.Key    // by which other processes open it; zero: none was asked for
}

// block is memory inside an object.
type block struct {
	addr uint64 // GPU virtual address
	mem  []byte // DomainSystem only
	obj  *object
}

func newHeap(f drm.File, d drm.Domain, w window, from *addressWindow, chunk, align uint64) (*heap, error) {
	space, err := from.part(w)
	if err != nil {
		return nil, err
	}
	return &heap{file: f, domain: d, window: w, space: space,
		chunk: max(chunk, w.page), align: align, whole: map[uint64]*object{}}, nil
}

// alloc returns n bytes, at least 1. ENOMEM or ENOSPC when there are none left.
func (h *heap) alloc(n uint64) (block, error) {
	if n <= h.chunk/2 {
		return h.allocShared(n)
	}
	o, err := h.newObject(n)
	if err != nil {
		return block{}, err
	}
	h.whole[o.addr] = o
	return o.block(o.addr, n), nil
}

func (h *heap) allocShared(n uint64) (block, error) {
	for _, o := range h.shared {
		if addr, err := o.inside.Alloc(n, h.align); err == nil {
			return o.block(addr, n), nil
		}
	}
	o, err := h.newObject(h.chunk)
	if err != nil {
		return block{}, err
	}
	if o.inside, err = gem.NewSpace(o.addr, o.size); err != nil {
		return block{}, errors.Join(err, h.closeObject(o))
	}
	h.shared = append(h.shared, o)
	addr, err := o.inside.Alloc(n, h.align)
	if err != nil {
		return block{}, err
	}
	return o.block(addr, n), nil
}

func (o *object) block(addr, n uint64) block {
	b := block{addr: addr, obj: o}
	if o.mem != nil {
		at := addr - o.addr
		b.mem = o.mem[at : at+n : at+n]
	}
	return b
}

// free gives a block back. Work that uses it must have been waited for.
func (h *heap) free(b block) error {
	o := b.obj
	if o.inside == nil {
		delete(h.whole, o.addr)
		return h.closeObject(o)
	}
	if _, err := o.inside.Free(b.addr); err != nil {
		return err
	}
	if !o.inside.Empty() {
		return nil
	}
	for _, other := range h.shared {
		if other != o && other.inside.Empty() {
			h.shared = slices.DeleteFunc(h.shared, func(s *object) bool { return s == o })
			return h.closeObject(o)
		}
	}
	return nil
}

// newObject makes an object of at least n bytes and maps it. The mapping is
// queued; should it fail, the next wait says so.
func (h *heap) newObject(n uint64) (*object, error) {
	page := h.window.page
	if n > h.window.size {
		return nil, fmt.Errorf("%d bytes of GPU addresses: %w", n, gem.ErrNoRoom)
	}
	size := (n + page - 1) &^ (page - 1)
	if h.placer != nil {
		return h.newPlaced(size)
	}
	addr, err := h.space.Alloc(size, page)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of GPU addresses: %w", size, err)
	}
	handle, err := h.file.GemNew(size, h.domain, drm.GemNoShare|drm.GemDirty)
	if err != nil {
		_, ferr := h.space.Free(addr)
		return nil, errors.Join(fmt.Errorf("an object of %d bytes: %w", size, err), ferr)
	}
	o := &object{handle: handle, addr: addr, size: size}
	err = h.mapObject(o)
	if err == nil && h.made != nil {
		err = h.made(o)
	}
	if err != nil {
		return nil, errors.Join(err, h.closeObject(o))
	}
	return o, nil
}

func (h *heap) mapObject(o *object) (err error) {
	if h.domain == drm.DomainSystem {
		if o.mem, err = h.file.GemMap(o.handle); err != nil {
			return fmt.Errorf("mapping an object of %d bytes into the program: %w", o.size, err)
		}
		if uint64(len(o.mem)) < o.size {
			return fmt.Errorf("the driver mapped %d bytes of an object of %d", len(o.mem), o.size)
		}
	}
	return h.bind(o)
}

// bind maps an object on the GPU.
func (h *heap) bind(o *object) error {
	op := drm.BindOp{Op: drm.BindMap, Handle: o.handle, Addr: o.addr, Range: o.size}
	if err := h.file.VMBind([]drm.BindOp{op}, true); err != nil {
		return fmt.Errorf("mapping an object of %d bytes at 0x%x: %w", o.size, o.addr, err)
	}
	return nil
}

// closeObject frees an object, and its mapping with it. The address is free for
// the next object at once, as operations of a file take effect in order.
func (h *heap) closeObject(o *object) error {
	var unmapped error
	if h.placer != nil && o.mem != nil {
		unmapped = h.placer.GemUnmapAt(o.mem)
	}
	o.mem = nil
	if h.closed != nil {
		h.closed(o)
	}
	if err := h.file.GemClose(o.handle); err != nil {
		// Its mapping may still be there, so its address is not used again.
		return fmt.Errorf("freeing an object of %d bytes: %w", o.size, errors.Join(unmapped, err))
	}
	_, err := h.space.Free(o.addr)
	return errors.Join(unmapped, err)
}

// close frees all objects and hands each error on.
func (h *heap) close(report func(error)) {
	for _, o := range h.shared {
		report(h.closeObject(o))
	}
	for _, o := range h.whole {
		report(h.closeObject(o))
	}
	h.shared = nil
	clear(h.whole)
}
