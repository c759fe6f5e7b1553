package capi

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"

	"pvdrm/frontend/cuda"
)

// What a program has said of its managed memory: cuMemAdvise and cuMemPrefetchAsync note it here, and
// cuMemRangeGetAttribute answers it. Memory does not move, so nothing else comes of it.

// hint is what a program has said of a range; the zero value is what memory has at first.
type hint struct {
	readMostly bool
	accessed   uint64 // a bit for each device; the first is the program
	preferred  location
	prefetched location
}

// location is a CUmemLocation.
type location struct {
	kind uint32 // 0: none
	id   int32
}

// device is the number that CUDA's older functions know the location by.
func (l location) device() int32 {
	switch {
	case l.kind == 0:
		return deviceInvalid
	case l.kind == locationDevice:
		return l.id
	}
	return deviceCPU
}

// hinted is a range with its hint.
type hinted struct {
	from, to uint64
	hint     hint
}

// maxHints bounds the ranges of which something is known.
const maxHints = 1 << 14

// hints are ranges in order, which do not overlap.
type hints struct {
	mu   sync.Mutex
	list []hinted
}

// full reports whether there are as many as there may be.
func (h *hints) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.list) >= maxHints
}

// change lets edit change the hint of each part of a range.
func (h *hints) change(from, n uint64, edit func(*hint)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := from + n
	first := h.at(from)
	var out []hinted
	at, i := from, first
	add := func(a, b uint64, is hint) {
		if a >= b || is == (hint{}) {
			return
		}
		if last := len(out) - 1; last >= 0 && out[last].to == a && out[last].hint == is {
			out[last].to = b
			return
		}
		out = append(out, hinted{from: a, to: b, hint: is})
	}
	changed := func(a, b uint64, is hint) {
		edit(&is)
		add(a, b, is)
	}
	for ; i < len(h.list) && h.list[i].from < to; i++ {
		r := h.list[i]
		add(r.from, min(r.to, from), r.hint)
		if r.from > at {
			changed(at, r.from, hint{})
		}
		changed(max(at, r.from), min(r.to, to), r.hint)
		at = min(r.to, to)
		add(max(r.from, to), r.to, r.hint)
	}
	if at < to {
		changed(at, to, hint{})
	}
	h.list = slices.Replace(h.list, first, i, out...)
}

// at is the position of the first range that ends behind an address.
func (h *hints) at(addr uint64) int {
	n, _ := slices.BinarySearchFunc(h.list, addr, func(r hinted, addr uint64) int {
		if r.to <= addr {
			return -1
		}
		return 1
	})
	return n
}

// of are the hints of the parts of a range, those without one included.
func (h *hints) of(from, n uint64) (list []hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to, at := from+n, from
	for i := h.at(from); i < len(h.list) && h.list[i].from < to; i++ {
		if h.list[i].from > at {
			list = append(list, hint{})
		}
		list = append(list, h.list[i].hint)
		at = h.list[i].to
	}
	if at < to {
		list = append(list, hint{})
	}
	return list
}

// note changes the hint of a range of managed memory.
func (c *call) note(from, n uint64, edit func(*hint)) error {
	if c.lib.hints.full() {
		return c.fail(cuda.ErrOutOfMemory, "hints on more than %d ranges", maxHints)
	}
	c.lib.hints.change(from, n, edit)
	return nil
}

// forgetHints drops what was said of memory that had the place of new memory.
func (l *Library) forgetHints(from, n uint64) { l.hints.change(from, n, func(h *hint) { *h = hint{} }) }

// Attributes of CUmem_range_attribute.
const (
	rangeReadMostly     = 1
	rangePreferred      = 2
	rangeAccessed       = 3
	rangePrefetched     = 4
	rangePreferredType  = 5
	rangePreferredID    = 6
	rangePrefetchedType = 7
	rangePrefetchedID   = 8

	maxRangeAttributes = 64
	maxAccessors       = 1024 // devices of which one call may ask
)

// memRangeGetAttribute gets (value, bytes of it, attribute, address, bytes).
func memRangeGetAttribute(c *call) error {
	if err := c.managed(c.u64(3), max(c.u64(4), 1)); err != nil || c.u64(4) == 0 {
		return errors.Join(err, c.emptyRange(4))
	}
	return c.rangeAttribute(c.u32(2), c.u64(0), c.u64(1), c.u64(3), c.u64(4))
}

func (c *call) emptyRange(i int) error {
	if c.u64(i) == 0 {
		return c.fail(cuda.ErrInvalidValue, "a range of no bytes")
	}
	return nil
}

// memRangeGetAttributes gets (values, bytes of them, attributes, their number, address, bytes).
func memRangeGetAttributes(c *call) error {
	n := c.u64(3)
	if n == 0 || n > maxRangeAttributes {
		return c.fail(cuda.ErrInvalidValue, "%d attributes", n)
	}
	if err := c.managed(c.u64(4), max(c.u64(5), 1)); err != nil || c.u64(5) == 0 {
		return errors.Join(err, c.emptyRange(5))
	}
	values, err := c.words64(0, n)
	if err != nil {
		return err
	}
	sizes, err := c.words64(1, n)
	if err != nil {
		return err
	}
	attributes, err := c.read(c.u64(2), int(4*n))
	if err != nil {
		return err
	}
	for i := range values {
		if err := c.rangeAttribute(le32(attributes[4*i:]), values[i], sizes[i], c.u64(4), c.u64(5)); err != nil {
			return err
		}
	}
	return nil
}

// rangeAttribute writes an attribute of a range: what all of it has in common.
func (c *call) rangeAttribute(attribute uint32, to, size, from, n uint64) error {
	parts := c.lib.hints.of(from, n)
	if attribute == rangeAccessed {
		return c.accessors(parts, to, size)
	}
	if size != 4 || attribute < rangeReadMostly || attribute > rangePrefetchedID {
		return c.fail(cuda.ErrInvalidValue, "attribute %d in %d bytes", attribute, size)
	}
	where := parts[0].preferred
	same := func(of func(hint) location) {
		where = of(parts[0])
		if slices.ContainsFunc(parts, func(h hint) bool { return of(h) != where }) {
			where = location{}
		}
	}
	if attribute == rangePrefetched || attribute >= rangePrefetchedType {
		same(func(h hint) location { return h.prefetched })
	} else {
		same(func(h hint) location { return h.preferred })
	}
	value := where.device()
	switch attribute {
	case rangeReadMostly:
		value = 1
		if slices.ContainsFunc(parts, func(h hint) bool { return !h.readMostly }) {
			value = 0
		}
	case rangePreferredType, rangePrefetchedType:
		value = int32(where.kind)
	case rangePreferredID, rangePrefetchedID:
		if where.kind != 0 && where.kind != locationHost { // which is device -1
			value = where.id
		}
	}
	o := out{c: c, addr: to, n: 4}
	if to == 0 {
		return c.fail(cuda.ErrInvalidValue, "no place for the attribute")
	}
	return o.set(uint64(uint32(value)))
}

// accessors lists the devices that were said to access all of a range.
func (c *call) accessors(parts []hint, to, size uint64) error {
	if size == 0 || size%4 != 0 || size/4 > maxAccessors || to == 0 {
		return c.fail(cuda.ErrInvalidValue, "a list of devices of %d bytes", size)
	}
	all := uint64(math.MaxUint64)
	for _, h := range parts {
		all &= h.accessed
	}
	none := int32(deviceInvalid)
	b := make([]byte, 0, size)
	for n := range 64 { // the devices, and the program behind them
		if bit := (n + 1) % 64; all>>bit&1 != 0 && len(b) < int(size) {
			b = binary.LittleEndian.AppendUint32(b, uint32(bit-1))
		}
	}
	for len(b) < int(size) {
		b = binary.LittleEndian.AppendUint32(b, uint32(none))
	}
	return out{c: c, addr: to, n: int(size)}.write(b)
}

// memPrefetchBatch gets (addresses, sizes, count, locations, their positions, their number, flags, stream).
func memPrefetchBatch(c *call) error { return c.prefetchBatch(true, 6) }

// memDiscardBatch gets (addresses, sizes, count, flags, stream). What is discarded is undefined, and stays.
func memDiscardBatch(c *call) error { return c.prefetchBatch(false, 3) }

func (c *call) prefetchBatch(locates bool, flags int) error {
	if _, _, err := c.batchStream(flags + 1); err != nil {
		return err
	}
	if c.u64(flags) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u64(flags))
	}
	addresses, err := c.words64(0, c.u64(2))
	if err != nil {
		return err
	}
	sizes, err := c.words64(1, c.u64(2))
	if err != nil {
		return err
	}
	for i, p := range addresses {
		if err := c.managed(p, sizes[i]); err != nil {
			return err
		}
	}
	if !locates {
		return nil
	}
	positions, err := c.sections(4, c.u64(5), c.u64(2))
	if err != nil {
		return err
	}
	places, err := c.words64(3, c.u64(5))
	if err != nil {
		return err
	}
	for _, v := range places {
		if err := c.isLocation(v); err != nil {
			return err
		}
	}
	for i, p := range addresses {
		at := locationOf(places[sectionOf(positions, uint64(i))])
		if err := c.note(p, sizes[i], func(h *hint) { h.prefetched = at }); err != nil {
			return err
		}
	}
	return nil
}

// sectionOf is the last section that begins at or before an element.
func sectionOf(positions []uint64, element uint64) int {
	at, found := slices.BinarySearch(positions, element)
	if found {
		return at
	}
	return at - 1
}
