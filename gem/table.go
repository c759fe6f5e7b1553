package gem

import (
	"fmt"
	"syscall"
)

// Table maps the ids of one DRM file (handles, channels, modules, functions) to
// what they name. Id 0 is never used. The frontend picks ids with Add, the
// backend takes the frontend's choice with Put. A Table is not safe for
// concurrent use.
type Table[T any] struct {
	kind    string // for messages
	limit   int
	entries map[uint32]T
	free    []uint32 // ids below next that were given back
	next    uint32
	last    uint32 // that Next returned
}

// NewTable makes a table for at most limit entries. Kind names what is in it,
// for errors.
func NewTable[T any](kind string, limit int) *Table[T] {
	return &Table[T]{kind: kind, limit: limit, entries: map[uint32]T{}, next: 1}
}

// Add enters v under an id of the table's choice; ENOSPC when it is full.
func (t *Table[T]) Add(v T) (uint32, error) {
	if len(t.entries) >= t.limit {
		return 0, t.full()
	}
	id := t.next
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.next++
	}
	t.entries[id] = v
	return id, nil
}

// Put enters v under an id that the other side chose; EINVAL for 0, EEXIST if
// it is taken, ENOSPC when the table is full. A table takes ids by Add or by
// Put, not by both.
func (t *Table[T]) Put(id uint32, v T) error {
	if err := t.Vacant(id); err != nil {
		return err
	}
	t.entries[id] = v
	return nil
}

// Vacant is nil if Put would work, else its error: for checks before the work
// that makes the entry.
func (t *Table[T]) Vacant(id uint32) error {
	if id == 0 {
		return fmt.Errorf("%s 0: %w", t.kind, syscall.EINVAL)
	}
	if _, taken := t.entries[id]; taken {
		return fmt.Errorf("%s %d is in use: %w", t.kind, id, syscall.EEXIST)
	}
	if len(t.entries) >= t.limit {
		return t.full()
	}
	return nil
}

// Get finds an entry; ENOENT.
func (t *Table[T]) Get(id uint32) (T, error) {
	v, ok := t.entries[id]
	if !ok {
		return v, fmt.Errorf("no %s %d: %w", t.kind, id, syscall.ENOENT)
	}
	return v, nil
}

// Take removes an entry and returns it; ENOENT.
func (t *Table[T]) Take(id uint32) (T, error) {
	v, err := t.Get(id)
	if err == nil {
		delete(t.entries, id)
		if id < t.next { // chosen by Add
			t.free = append(t.free, id)
		}
	}
	return v, err
}

// Next returns an id that Put takes; ENOSPC when the table is full. It is the next after the last
// that was asked for, so that an id is used again late.
func (t *Table[T]) Next() (uint32, error) {
	for range t.limit {
		t.last = t.last%uint32(t.limit) + 1
		if _, taken := t.entries[t.last]; !taken {
			return t.last, nil
		}
	}
	return 0, t.full()
}

func (t *Table[T]) full() error {
	return fmt.Errorf("%d %s entries, no more fit: %w", len(t.entries), t.kind, syscall.ENOSPC)
}

// Len is the number of entries.
func (t *Table[T]) Len() int { return len(t.entries) }

// All yields every entry, in no order. Entries may be taken meanwhile.
func (t *Table[T]) All(yield func(uint32, T) bool) {
	for id, v := range t.entries {
		if !yield(id, v) {
			return
		}
	}
}
