package arbiter

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Amounts are amounts of what a GPU has besides time. 0 stands for no amount that was named.
type Amounts struct {
	Channels uint32 `json:"channels,omitempty"`
	Contexts uint32 `json:"contexts,omitempty"`
	VRAM     uint64 `json:"vram,omitempty"` // bytes, a multiple of MiB
}

// MiB is the unit of Amounts.VRAM.
const MiB = 1 << 20

// maxVRAM bounds Amounts.VRAM.
const maxVRAM = 1 << 24 * MiB

// amounts are the single amounts, in a fixed order.
func (a *Amounts) amounts() [3]amount {
	return [3]amount{
		{name: "channels", unit: 1, get: uint64(a.Channels), set: func(n uint64) { a.Channels = uint32(n) }},
		{name: "contexts", unit: 1, get: uint64(a.Contexts), set: func(n uint64) { a.Contexts = uint32(n) }},
		{name: "MiB of memory", unit: MiB, get: a.VRAM, set: func(n uint64) { a.VRAM = n }},
	}
}

// amount is one of Amounts.
type amount struct {
	name string
	unit uint64 // in which it is named
	get  uint64
	set  func(uint64)
}

// Limits bound what the guests of a GPU may have of it in all. So no guest can use it up, as the
// channels of a GPU can be used up by one program that opens contexts: a guest is promised amounts
// when it joins, and refused when too little is left. Guests that joined keep what they were promised.
type Limits struct {
	// Capacity is what the GPU has; an amount of 0 is not limited.
	Capacity Amounts
	// Most is the most that a guest may have, and what it is promised if it names no amount. 0
	// stands for an eighth of the capacity.
	Most Amounts
}

// defaultGuests is the number of guests that a capacity is enough for if each has the default.
const defaultGuests = 8

// normal fills in defaults and checks the rest.
func (l Limits) normal() (Limits, error) {
	most := l.Most.amounts()
	for i, c := range l.Capacity.amounts() {
		m := most[i]
		switch {
		case c.get == 0 && m.get != 0:
			return l, fmt.Errorf("at most %d %s a guest, of a GPU of which no number of them is given", m.get/m.unit, m.name)
		case m.get > c.get:
			return l, fmt.Errorf("at most %d %s a guest, of %d that the GPU has", m.get/m.unit, m.name, c.get/c.unit)
		case m.get == 0:
			m.set((c.get/c.unit + defaultGuests - 1) / defaultGuests * c.unit)
		}
	}
	return l, nil
}

// promise returns what a guest is promised that needs some amounts, when so much is promised to
// others.
func (l Limits) promise(need, others Amounts) (Amounts, error) {
	most, taken, capacity := l.Most.amounts(), others.amounts(), l.Capacity.amounts()
	for i, n := range need.amounts() {
		m := most[i]
		switch {
		case capacity[i].get == 0:
		case n.get == 0:
			n.set(m.get)
		case n.get > m.get:
			return need, fmt.Errorf("it needs %d %s, and a guest may have %d: %w", n.get/n.unit, n.name, m.get/m.unit, unix.EDQUOT)
		}
	}
	for i, n := range need.amounts() {
		if c, t := capacity[i], taken[i]; c.get > 0 && n.get > c.get-min(t.get, c.get) {
			return need, fmt.Errorf("the GPU is full: %d of its %d %s are promised to others, and it needs %d: %w",
				t.get/c.unit, c.get/c.unit, c.name, n.get/n.unit, unix.EBUSY)
		}
	}
	return need, nil
}

// add returns the sums of amounts.
func (a Amounts) add(b Amounts) Amounts {
	theirs := b.amounts()
	for i, x := range a.amounts() {
		x.set(x.get + theirs[i].get)
	}
	return a
}
