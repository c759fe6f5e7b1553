package frontend

import (
	"time"

	"pvdrm/frontend/carrier"
	"pvdrm/gem"
	"pvdrm/hypercall"
)

// slabBytes is the size of the file's slab (see gem.Objects), which is granted together with
// the ring.
const slabBytes = 1280 << 10

// slabStart is where the slab lies in the ring's grant.
func slabStart(l hypercall.Layout) uint64 { return (l.Bytes() + pageBytes - 1) &^ (pageBytes - 1) }

// object is a GEM object. File.mu guards what the table changes in it.
type object = gem.Object[carrier.Pages]

// memory is the memory of an object in granted pages.
func memory(o *object) []byte { return o.Pages.Mem[o.Offset:][:o.Size:o.Size] }

// object finds an open object.
func (f *File) object(handle uint32) (*object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Get(handle)
}

// forget takes an object out of the table that the backend does not have.
func (f *File) forget(handle uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Take(handle)
}

// Pool returns the counters of the pool.
func (f *File) Pool() gem.PoolCounters {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Pool()
}

// fromSlab places o in the slab if there is room.
func (f *File) fromSlab(o *object) bool {
	if f.link.cfg.NoPool || f.link.cfg.Separate {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Place(o)
}

// fromPool opens a kept object for one of size bytes.
func (f *File) fromPool(size uint64) (handle uint32, o *object, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Reuse(size)
}

// retire closes an object, for the pool or for good.
func (f *File) retire(handle uint32) (o *object, pooled bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects.Retire(handle, !f.link.cfg.NoPool)
}

// keep puts a retired object into the pool.
func (f *File) keep(o *object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects.Keep(o, time.Now())
	if f.expiry == nil {
		f.expiry = time.AfterFunc(gem.PoolAge, f.expire)
	}
}

// expire is the timer's function: it drops what is too old.
func (f *File) expire() {
	if f.enter() != nil {
		return // Close drops all
	}
	defer f.leave()
	f.drain(gem.PoolAge)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.objects.Pool().Kept == 0 {
		f.expiry = nil
		return
	}
	f.expiry.Reset(gem.PoolAge / 2)
}

// drain gives back what has been kept for at least age, and reports whether
// that was anything.
func (f *File) drain(age time.Duration) bool {
	f.mu.Lock()
	old := f.objects.Drop(time.Now().Add(-age))
	f.mu.Unlock()
	for h, o := range old {
		_ = f.destroy(h, o) // a broken link fails the next caller's request, too
	}
	return len(old) > 0
}
