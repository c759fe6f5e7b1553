package trap

import "encoding/binary"

// Version of the interface in this package.
const Version = 1

// Terms say what a VM gets, and how.
type Terms struct {
	PV     bool   // page tables are changed by hypercalls
	Multi  bool   // with many operations each
	Polled bool   // the Aggregator polls the mailbox: nothing is to be rung, and the guest polls, too
	Direct bool   // there are accesses that do not trap: Open takes a View and memory for VRAM
	VRAM   uint64 // bytes
	BAR1   uint64 // bytes
	BAR3   uint64
	Base   uint64 // of the VM's system memory on the bus; after Open
}

// Bits of the flags of Terms.
const (
	flagPV = 1 << iota
	flagMulti
	flagPolled
	flagDirect
)

const termsBytes = 0x28

// Encode encodes the terms: version and flags of 4 bytes each, then the sizes and the base.
func (t Terms) Encode() []byte {
	flags := uint32(0)
	for i, is := range []bool{t.PV, t.Multi, t.Polled, t.Direct} {
		if is {
			flags |= 1 << i
		}
	}
	b := binary.LittleEndian.AppendUint32(nil, Version)
	b = binary.LittleEndian.AppendUint32(b, flags)
	for _, v := range []uint64{t.VRAM, t.BAR1, t.BAR3, t.Base} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// DecodeTerms decodes terms.
func DecodeTerms(b []byte) (t Terms, err error) {
	if len(b) != termsBytes || binary.LittleEndian.Uint32(b) != Version {
		return t, ErrRequest
	}
	flags := binary.LittleEndian.Uint32(b[4:])
	t = Terms{PV: flags&flagPV != 0, Multi: flags&flagMulti != 0, Polled: flags&flagPolled != 0, Direct: flags&flagDirect != 0}
	for i, v := range []*uint64{&t.VRAM, &t.BAR1, &t.BAR3, &t.Base} {
		*v = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	return t, nil
}

// Grants name the memory that a guest grants to its VM, by the carrier's ids; 0 for none.
type Grants struct {
	RAM  uint32 // system memory
	VRAM uint32 // what the first part of the VM's VRAM is made of, so that the guest reaches it
	View uint32 // a View
}

const grantsBytes = 12

// Encode encodes grants.
func (g Grants) Encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, g.RAM)
	b = binary.LittleEndian.AppendUint32(b, g.VRAM)
	return binary.LittleEndian.AppendUint32(b, g.View)
}

// DecodeGrants decodes grants.
func DecodeGrants(b []byte) (g Grants, err error) {
	if len(b) != grantsBytes {
		return g, ErrRequest
	}
	return Grants{RAM: binary.LittleEndian.Uint32(b), VRAM: binary.LittleEndian.Uint32(b[4:]), View: binary.LittleEndian.Uint32(b[8:])}, nil
}

// Counters count what a VM did since it was made.
type Counters struct {
	TrapsBAR0   uint64 // accesses that trapped
	TrapsBAR1   uint64
	TrapsBAR3   uint64
	Scans       uint64 // of directories of channels
	BARScans    uint64 // of the tables of BAR1 and BAR3
	Entries     uint64 // read by scans
	Changed     uint64 // of them, those whose shadow changed
	Hypercalls  uint64
	Operations  uint64 // in them
	Activations uint64 // doorbells of bound channels
	Flushes     uint64 // TLB flushes, of any directory
	Refused     uint64 // entries, registers and accesses that name what is not the VM's
}

// all are the counters in the order in which they are encoded.
func (c *Counters) all() []*uint64 {
	return []*uint64{&c.TrapsBAR0, &c.TrapsBAR1, &c.TrapsBAR3, &c.Scans, &c.BARScans, &c.Entries, &c.Changed,
		&c.Hypercalls, &c.Operations, &c.Activations, &c.Flushes, &c.Refused}
}

// Sub returns what was counted since an earlier time.
func (c Counters) Sub(o Counters) Counters {
	for i, v := range c.all() {
		*v -= *o.all()[i]
	}
	return c
}

// Encode encodes the counters, 8 bytes each.
func (c Counters) Encode() (b []byte) {
	for _, v := range c.all() {
		b = binary.LittleEndian.AppendUint64(b, *v)
	}
	return b
}

// DecodeCounters decodes counters.
func DecodeCounters(b []byte) (c Counters, err error) {
	all := c.all()
	if len(b) != 8*len(all) {
		return c, ErrRequest
	}
	for i, v := range all {
		*v = binary.LittleEndian.Uint64(b[8*i:])
	}
	return c, nil
}
