package gem

import (
	"fmt"
	"syscall"
	"time"

	"pvdrm/drm"
)

// Object is a GEM object of a DRM file. Its memory is a part of pages of type M, which the
// file's owner grants to the device, or lies in VRAM.
type Object[M any] struct {
	Domain drm.Domain
	Size   uint64
	Pages  *M     // nil in VRAM
	Offset uint64 // in Pages, bytes
	InSlab bool   // Pages are the slab's, and not its own

	shared bool      // with other processes
	closed bool      // in the table still, for the pool or until the backend is told
	pooled time.Time // since when the pool may give it out again; zero if it may not
}

// Objects are the GEM objects of one DRM file. Granted pages are expensive: in a virtual
// machine they take a few exits and some microseconds a page. Two things keep them from being
// granted again.
//
// The slab is one piece of granted pages. Small objects that are not to be shared are parts
// of it.
//
// The pool keeps closed objects with pages of their own: the handle, the pages and the
// backend's object stay as they are, only the mappings go. A new object takes the smallest
// that fits. Objects that were shared are never kept, and the pool belongs to one file: what
// is in it goes to no other process.
//
//	      Add                Retire              Keep
//	new ───────► open ──────────────────► closed ─────► kept
//	              ▲                       │              │ │
//	              │         Reuse         │              │ │ Drop
//	              └───────────────────────┼──────────────┘ │
//	                              Take    ▼                ▼
//	                              gone ◄─────────────── closed
//
// Objects are not safe for concurrent use.
type Objects[M any] struct {
	table     *Table[*Object[M]]
	slab      *Space // nil without
	slabPages *M
	kept      uint64 // bytes of retired objects that are kept or to be kept
	counts    PoolCounters
}

// Bounds of the pool.
const (
	PoolBytes = 256 << 20        // at most so much is kept
	PoolAge   = 10 * time.Second // and for at most so long
	// poolWaste is the part of a kept object that may go unused: 1/poolWaste.
	poolWaste = 4
	// slabAlign is the alignment of objects in the slab: each begins at a page.
	slabAlign = 4096
)

// PoolCounters count what the pool and the slab saved.
type PoolCounters struct {
	Made   uint64 `json:"made"`   // grants made
	Reused uint64 `json:"reused"` // objects that took the place of a kept one
	Slab   uint64 `json:"slab"`   // objects that were made in the slab
	Kept   uint64 `json:"kept"`   // bytes in the pool now
}

// NewObjects makes the table of a file, without a slab.
func NewObjects[M any]() *Objects[M] {
	return &Objects[M]{table: NewTable[*Object[M]]("GEM object", drm.MaxObjects)}
}

// UseSlab makes a part of pages the slab. It is called once, before objects are made.
func (t *Objects[M]) UseSlab(pages *M, base, size uint64) (err error) {
	t.slabPages = pages
	t.slab, err = NewSpace(base, size)
	return err
}

// Add enters an object, which is open then, under a handle of the table's choice.
func (t *Objects[M]) Add(o *Object[M]) (handle uint32, err error) { return t.table.Add(o) }

// Take removes an object that the backend does not have, or no longer has.
func (t *Objects[M]) Take(handle uint32) error {
	_, err := t.table.Take(handle)
	return err
}

// Get finds an open object; ENOENT.
func (t *Objects[M]) Get(handle uint32) (*Object[M], error) {
	o, err := t.table.Get(handle)
	if err == nil && o.closed {
		return nil, fmt.Errorf("GEM object %d is closed: %w", handle, syscall.ENOENT)
	}
	return o, err
}

// All yields every object, those that are closed too, in no order.
func (t *Objects[M]) All(yield func(uint32, *Object[M]) bool) { t.table.All(yield) }

// Share finds an open object for another process to use; it is never kept from then on.
// Objects in VRAM and in the slab cannot be shared: EOPNOTSUPP.
func (t *Objects[M]) Share(handle uint32) (*Object[M], error) {
	o, err := t.Get(handle)
	if err != nil {
		return nil, err
	}
	if o.Pages == nil || o.InSlab {
		return nil, fmt.Errorf("object %d is in VRAM or was made not to be shared: %w", handle, syscall.EOPNOTSUPP)
	}
	o.shared = true
	return o, nil
}

// Imported marks a new object whose pages came from another file.
func (o *Object[M]) Imported() *Object[M] {
	o.shared = true
	return o
}

// Place places a new object in the slab if there is room.
func (t *Objects[M]) Place(o *Object[M]) bool {
	if t.slab == nil {
		return false
	}
	at, err := t.slab.Alloc(o.Size, slabAlign)
	if err != nil {
		return false
	}
	o.Pages, o.Offset, o.InSlab = t.slabPages, at, true
	t.counts.Slab++
	return true
}

// Unplace gives back the part of the slab of an object that is gone.
func (t *Objects[M]) Unplace(o *Object[M]) error {
	_, err := t.slab.Free(o.Offset)
	return err
}

// Reuse opens the smallest kept object of at least size bytes that wastes little.
func (t *Objects[M]) Reuse(size uint64) (handle uint32, o *Object[M], ok bool) {
	for h, kept := range t.table.All {
		if kept.pooled.IsZero() || kept.Size < size || kept.Size-size > kept.Size/poolWaste {
			continue
		}
		if o == nil || kept.Size < o.Size {
			handle, o = h, kept
		}
	}
	if o == nil {
		t.counts.Made++
		return 0, nil, false
	}
	o.closed, o.pooled = false, time.Time{}
	t.kept -= o.Size
	t.counts.Reused++
	return handle, o, true
}

// Retire closes an object and reports whether Keep is to follow, which it may if pool is set.
// The object keeps its handle: another object that had it before the backend is told would be
// refused.
func (t *Objects[M]) Retire(handle uint32, pool bool) (o *Object[M], keep bool, err error) {
	if o, err = t.Get(handle); err != nil {
		return nil, false, err
	}
	o.closed = true
	if !pool || o.Pages == nil || o.InSlab || o.shared || t.kept+o.Size > PoolBytes {
		return o, false, nil
	}
	t.kept += o.Size
	return o, true, nil
}

// Keep puts a retired object into the pool, from where Reuse may take it.
func (t *Objects[M]) Keep(o *Object[M], now time.Time) { o.pooled = now }

// Drop takes out of the pool what has been kept since before a time. The objects keep their
// handles until Take.
func (t *Objects[M]) Drop(before time.Time) map[uint32]*Object[M] {
	old := map[uint32]*Object[M]{}
	for h, o := range t.table.All {
		if o.pooled.IsZero() || o.pooled.After(before) {
			continue
		}
		old[h], o.pooled = o, time.Time{}
		t.kept -= o.Size
	}
	return old
}

// Pool returns the counters of the pool.
func (t *Objects[M]) Pool() PoolCounters {
	c := t.counts
	c.Kept = t.kept
	return c
}
