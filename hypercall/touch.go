//go:build !race

package hypercall

// touch asks for the cache line of the next slot. What it reads there may be half
// written and is not used.
func (c *Consumer) touch() { load(c.slots, uint64(c.next&c.mask)*SlotBytes) }
