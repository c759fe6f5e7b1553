package vhostuser

import (
	"errors"
	"fmt"
	"io"

	"pvdrm/internal/hostmem"
)

// maxIndirect bounds an indirect table. Linux makes them longer than the queue
// when a command is long and its buffer scattered; this is what QEMU takes too.
const maxIndirect = 1024

// errChain wraps complaints about one descriptor chain. Such a chain is given
// back unanswered; the ring goes on.
var errChain = errors.New("bad descriptor chain")

// Chain is one request of the guest: memory to read, then memory for the answer.
// Len, Read and Memory are for Device.Handle, before it calls Complete: the
// guest's memory may be gone later. Complete may be called at any time and from
// any goroutine.
type Chain struct {
	q     *queue
	head  uint16
	mem   *hostmem.Table // holds the memory of the segments
	read  [][]byte       // what was not read yet; nil after Handle
	write [][]byte
	nread int // bytes left in read

	// Guarded by q.mu.
	state  chainState
	answer []byte // of a chain that is parked
}

type chainState uint8

const (
	chainHeld   chainState = iota // the device has it
	chainParked                   // completed while the queue was stopped
	chainDone                     // given back, or forgotten after a reset
)

// Len returns how many bytes are left to read.
func (c *Chain) Len() int { return c.nread }

// Read copies the next bytes out of guest memory. No byte is ever read twice.
// At the end, and after Handle has returned, it returns io.EOF.
func (c *Chain) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && len(c.read) > 0 {
		m := copy(p[n:], c.read[0])
		n += m
		if c.read[0] = c.read[0][m:]; len(c.read[0]) == 0 {
			c.read = c.read[1:]
		}
	}
	c.nread -= n
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Memory returns the guest's memory as it was when the chain was taken from the
// ring.
func (c *Chain) Memory() *hostmem.Table { return c.mem }

// Complete writes the answer to guest memory, as much as fits, and gives the
// chain back to the guest. Only the first call counts, and none after the guest
// reset the device or is gone. While the queue is stopped (a paused machine) the
// answer waits until it starts again; Complete itself never blocks.
func (c *Chain) Complete(answer []byte) { c.q.complete(c, answer) }

// walk collects the segments of the chain that starts at head. The returned
// chain holds a reference of mem only if err is nil.
func (r *ring) walk(q *queue, mem *hostmem.Table, head uint16) (*Chain, error) {
	c := &Chain{q: q, head: head, mem: mem}
	d := r.readDesc(head)
	var err error
	if d.flags&descIndirect != 0 {
		err = c.walkIndirect(d)
	} else {
		err = c.follow(d, r.size, func(i uint16) desc { return r.readDesc(i) })
	}
	if err != nil {
		return nil, fmt.Errorf("%w at descriptor %d: %w", errChain, head, err)
	}
	mem.Acquire()
	return c, nil
}

// walkIndirect follows the table that d names.
func (c *Chain) walkIndirect(d desc) error {
	if d.flags&(descNext|descWrite) != 0 {
		return fmt.Errorf("indirect descriptor with flags %#x", d.flags)
	}
	if d.len == 0 || d.len%descSize != 0 || d.len > maxIndirect*descSize {
		return fmt.Errorf("indirect table of %d bytes", d.len)
	}
	// Copied at once, so that what is followed cannot change.
	table := make([]byte, 0, d.len)
	for addr, left := d.addr, uint64(d.len); left > 0; {
		reg, off, n, err := c.mem.Guest(addr, left)
		if err != nil {
			return fmt.Errorf("indirect table: %w", err)
		}
		table = append(table, reg.Bytes()[off:][:n]...)
		addr, left = addr+n, left-n
	}
	return c.follow(decodeDesc(table), len(table)/descSize, func(i uint16) desc {
		return decodeDesc(table[int(i)*descSize:])
	})
}

// follow collects the segments of a chain of at most size descriptors, first to
// last.
func (c *Chain) follow(d desc, size int, next func(uint16) desc) error {
	for n := 1; ; n++ {
		if d.flags&descIndirect != 0 {
			return errors.New("indirect descriptor inside a chain")
		}
		if err := c.segment(d); err != nil {
			return err
		}
		if d.flags&descNext == 0 {
			return nil
		}
		if n >= size {
			return fmt.Errorf("chain of more than %d descriptors", size)
		}
		if int(d.next) >= size {
			return fmt.Errorf("next descriptor %d of %d", d.next, size)
		}
		d = next(d.next)
	}
}

// segment adds the memory of one descriptor.
func (c *Chain) segment(d desc) error {
	if d.addr+uint64(d.len) < d.addr {
		return fmt.Errorf("address %#x + %#x wraps around", d.addr, d.len)
	}
	writable := d.flags&descWrite != 0
	if !writable && len(c.write) > 0 {
		return errors.New("readable descriptor after a writable one")
	}
	for addr, left := d.addr, uint64(d.len); left > 0; {
		reg, off, n, err := c.mem.Guest(addr, left)
		if err != nil {
			return err
		}
		seg := reg.Bytes()[off:][:n:n]
		if writable {
			c.write = append(c.write, seg)
		} else {
			c.read = append(c.read, seg)
			c.nread += int(n)
		}
		addr, left = addr+n, left-n
	}
	return nil
}
