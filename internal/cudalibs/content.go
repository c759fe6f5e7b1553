package cudalibs

import (
	"crypto/sha256"
	"encoding/binary"
)

// Content stands for all that a program has told the library of a handle: two handles with equal ones
// are alike to it. It begins as zero.
type Content [16]byte

// placed is a handle in a record.
type placed struct {
	handle *Handle
	at     int // of its number
}

// Key is the same for calls with the same arguments, handles of equal content included.
func (c *Call) Key() (k Content) {
	h := sha256.New()
	from := 0
	for _, p := range c.placed { // in the order of the record
		h.Write(c.Record[from:p.at])
		h.Write(p.handle.Content[:])
		from = p.at + 8
	}
	h.Write(c.Record[from:])
	sum := h.Sum(nil)
	return Content(sum[:len(k)])
}

// Tell notes what a call tells the library of its handles, which is only known to depend on all of
// its arguments.
func (c *Call) Tell() {
	k := c.Key()
	for _, p := range c.placed {
		p.handle.Content = k
	}
}

// Unlike makes the handles of a call unlike all others: it changes them in a way that its arguments
// do not tell. Number is another one each time.
func (c *Call) Unlike(number uint64) {
	for _, p := range c.placed {
		p.handle.Content = Content{}
		p.handle.Content[15] = 1 // so few zeros in a row are no digest
		binary.LittleEndian.PutUint64(p.handle.Content[:], number)
	}
}
