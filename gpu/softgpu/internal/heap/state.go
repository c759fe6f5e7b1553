package heap

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A state lists the runs of pages that are taken, in order: the first page and the number of
// pages (u32 each), the class (u8), and the places that are taken (u64; 1 of a large run).
const runBytes = 4 + 4 + 1 + 8

// State describes which memory is taken.
func (h *Heap) State() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b []byte
	for i := 0; i < len(h.pages); {
		if h.runs.has(i) {
			i++
			continue
		}
		p := &h.pages[i]
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.count))
		b = append(b, p.class)
		used := p.used
		if p.class == large {
			used = 1
		}
		b = binary.LittleEndian.AppendUint64(b, used)
		i += int(p.count)
	}
	return b
}

// Restore makes a heap of a range, as New does, with what a state says is taken. It trusts the
// state in nothing.
func Restore(base, size uint64, state []byte) (*Heap, error) {
	h := New(base, size)
	end := 0
	for n := 0; len(state) > 0; n++ {
		if len(state) < runBytes {
			return nil, fmt.Errorf("state of a heap: run %d is cut off", n)
		}
		first, count := binary.LittleEndian.Uint32(state), binary.LittleEndian.Uint32(state[4:])
		class, used := state[8], binary.LittleEndian.Uint64(state[9:])
		state = state[runBytes:]
		if uint64(first) < uint64(end) || count == 0 || uint64(first)+uint64(count) > uint64(len(h.pages)) {
			return nil, fmt.Errorf("state of a heap: run %d of %d pages at page %d, after page %d of %d", n, count, first, end, len(h.pages))
		}
		end = int(first) + int(count)
		if err := h.restore(int32(first), int(count), class, used); err != nil {
			return nil, fmt.Errorf("state of a heap: run %d: %w", n, err)
		}
	}
	return h, nil
}

// restore takes one run of pages, which are free.
func (h *Heap) restore(first int32, count int, class uint8, used uint64) error {
	switch {
	case class == large && used == 1 && count > maxSmall/PageBytes:
		h.live++
	case class < classes && count == slabs[class].pages && used != 0 && used&^slabs[class].all == 0:
		h.live += bits.OnesCount64(used)
	default:
		return fmt.Errorf("class %d with %d pages and places %#x", class, count, used)
	}
	h.claim(int(first), count, class)
	s := &h.pages[first]
	if class != large {
		s.used = used
		if used != slabs[class].all {
			h.push(class, first)
		}
	}
	return nil
}
