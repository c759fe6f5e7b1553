package hostmem

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrUnmapped is a range of guest memory that no region covers.
var ErrUnmapped = errors.New("not guest memory")

// Slot places a region in the two address spaces that messages about guest
// memory use.
type Slot struct {
	Guest  uint64 // guest-physical address of the first byte
	User   uint64 // address of the first byte in the monitor
	Region *Region
}

// Table is the memory of a guest at one time. It does not change.
type Table struct {
	refs  atomic.Int64
	slots []Slot
}

// NewTable makes a table of slots and takes over one reference of each region,
// also when it fails. The caller owns one reference of the table. Slots that
// overlap or wrap around are an error.
func NewTable(slots []Slot) (*Table, error) {
	for i, a := range slots {
		n := uint64(len(a.Region.mem))
		err := error(nil)
		if a.Guest+n < a.Guest || a.User+n < a.User {
			err = fmt.Errorf("memory region %d wraps around", i)
		}
		for j, b := range slots[:i] {
			m := uint64(len(b.Region.mem))
			if overlap(a.Guest, n, b.Guest, m) || overlap(a.User, n, b.User, m) {
				err = fmt.Errorf("memory regions %d and %d overlap", j, i)
			}
		}
		if err != nil {
			releaseAll(slots)
			return nil, err
		}
	}
	t := &Table{slots: slots}
	t.refs.Store(1)
	return t, nil
}

func overlap(a, n, b, m uint64) bool { return a < b+m && b < a+n }

func releaseAll(slots []Slot) {
	for _, s := range slots {
		s.Region.Release()
	}
}

// Acquire takes one more reference. The caller must already hold one.
func (t *Table) Acquire() *Table {
	t.refs.Add(1)
	return t
}

// Release gives a reference back; the last one lets go of the regions.
func (t *Table) Release() {
	switch n := t.refs.Add(-1); {
	case n > 0:
	case n == 0:
		releaseAll(t.slots)
	default:
		panic("hostmem: table released too often")
	}
}

// Guest finds the first piece of the guest-physical range [addr, addr+n): it
// lies at off in region r and is got bytes long, with 0 < got <= n. A range may
// cross from one region into the next; ask again for the rest. n must not be 0.
func (t *Table) Guest(addr, n uint64) (r *Region, off, got uint64, err error) {
	for i := range t.slots {
		s := &t.slots[i]
		size := uint64(len(s.Region.mem))
		if addr >= s.Guest && addr-s.Guest < size {
			off = addr - s.Guest
			return s.Region, off, min(n, size-off), nil
		}
	}
	return nil, 0, 0, fmt.Errorf("guest-physical address %#x: %w", addr, ErrUnmapped)
}

// User returns the memory at [addr, addr+n) of the monitor's address space. It
// must lie in one region. The slice is valid as long as the table.
func (t *Table) User(addr, n uint64) ([]byte, error) {
	for i := range t.slots {
		s := &t.slots[i]
		size := uint64(len(s.Region.mem))
		if addr >= s.User && addr-s.User < size {
			off := addr - s.User
			if n > size-off {
				break
			}
			return s.Region.mem[off:][:n:n], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at address %#x of the monitor: %w", n, addr, ErrUnmapped)
}
