package frontend

import (
	"time"

	"pvdrm/hypercall"
)

// Granted memory is dear to make: in a virtual machine a few exits and some
// microseconds for each page. Two things keep it from being made again.
//
// The slab is granted memory behind the ring, in the same grant. Small objects
// that are not to be shared are parts of it.
//
// The pool keeps closed objects with grants of their own: handle, pages and the
// backend's object stay as they are, only the mappings go. A new object takes the
// smallest that fits. Objects that were shared with another process are never
// kept, and the pool belongs to one file: what is in it goes to no other process.
const (
	slabBytes = 1280 << 10
	poolBytes = 256 << 20        // at most this much is kept
	poolAge   = 10 * time.Second // and for at most this long
	// poolWaste is the part of a kept object that may go unused: 1/poolWaste.
	poolWaste = 4
)

// slabStart is where the slab lies in the ring's grant.
func slabStart(l hypercall.Layout) uint64 { return (l.Bytes() + pageBytes - 1) &^ (pageBytes - 1) }

// pool tells of the kept objects, which are in File.objects. File.mu guards it.
type pool struct {
	bytes  uint64
	timer  *time.Timer // drops what is too old; runs while something is kept
	counts PoolCounters
}

// PoolCounters count what the pool and the slab saved.
type PoolCounters struct {
	Made   uint64 `json:"made"`   // grants made
	Reused uint64 `json:"reused"` // objects that took the place of a kept one
	Slab   uint64 `json:"slab"`   // objects that were made in the slab
	Kept   uint64 `json:"kept"`   // bytes in the pool now
}

// Pool returns the counters of the pool.
func (f *File) Pool() PoolCounters {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.pool.counts
	c.Kept = f.pool.bytes
	return c
}

// fromSlab places o in the slab if there is room.
func (f *File) fromSlab(o *object) bool {
	if f.link.cfg.NoPool || f.link.cfg.Separate {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.slab.Alloc(o.size, pageBytes)
	if err != nil {
		return false
	}
	o.pages, o.offset, o.inSlab = f.link.pages, at, true
	f.pool.counts.Slab++
	return true
}

// fromPool takes the smallest kept object of at least size bytes that wastes
// little.
func (f *File) fromPool(size uint64) (handle uint32, o *object, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h, kept := range f.objects.All {
		if kept.pooled.IsZero() || kept.size < size || kept.size-size > kept.size/poolWaste {
			continue
		}
		if o == nil || kept.size < o.size {
			handle, o = h, kept
		}
	}
	if o == nil {
		f.pool.counts.Made++
		return 0, nil, false
	}
	o.closed, o.pooled = false, time.Time{}
	f.pool.bytes -= o.size
	f.pool.counts.Reused++
	return handle, o, true
}

// retire closes an object, for the pool or for good. It keeps its handle: another
// object that had it before the backend is told would be refused.
func (f *File) retire(handle uint32) (o *object, pooled bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o, err = f.objectLocked(handle); err != nil {
		return nil, false, err
	}
	o.closed = true
	if o.pages == nil || o.inSlab || o.shared || f.link.cfg.NoPool || f.pool.bytes+o.size > poolBytes {
		return o, false, nil
	}
	f.pool.bytes += o.size
	return o, true, nil
}

// keep puts a retired object into the pool.
func (f *File) keep(o *object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.pooled = time.Now()
	if f.pool.timer == nil {
		f.pool.timer = time.AfterFunc(poolAge, f.expire)
	}
}

// expire is the timer's function: it drops what is too old.
func (f *File) expire() {
	if f.enter() != nil {
		return // whoever closes it drops all
	}
	defer f.leave()
	f.drain(poolAge)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pool.bytes == 0 {
		f.pool.timer = nil
		return
	}
	f.pool.timer.Reset(poolAge / 2)
}

// drain gives back what has been kept for at least age, and reports whether
// that was anything.
func (f *File) drain(age time.Duration) (any bool) {
	old := map[uint32]*object{}
	f.mu.Lock()
	for h, o := range f.objects.All {
		if o.pooled.IsZero() || time.Since(o.pooled) < age {
			continue
		}
		old[h], o.pooled = o, time.Time{}
		f.pool.bytes -= o.size
	}
	f.mu.Unlock()
	for h, o := range old {
		_ = f.destroy(h, o) // a link that does not work any more tells the next caller itself
	}
	return len(old) > 0
}

// stop ends the timer, for a file that is closed. Caller holds File.mu.
func (p *pool) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
