package vfiouser

// Regions of a PCI device, by index. BARs have theirs from 0 on.
const (
	ConfigRegion = 7
	regions      = 9

	interrupts = 5 // kinds, none of which the device has
)

// Region is a BAR.
type Region struct {
	Size  uint64
	File  int    // descriptor that the client maps; 0 where every access arrives here
	Areas []Area // of the region that may be mapped; what lies outside arrives here
}

// Area is a range of pages.
type Area struct{ Offset, Size uint64 }

// maxAreas bounds the areas of a region.
const maxAreas = 64

// Device is what a client sees. The goroutine of Serve calls it.
type Device interface {
	// Config returns the first bytes of the configuration space as the client reads them at first. What
	// it writes there later is kept, but for what a device does not let be changed.
	Config() Config
	// Region describes a BAR, 0 to 5; its size is 0 where there is none.
	Region(bar int) Region
	// Read and Write access a BAR. The range lies in it, and has at most MaxTransfer bytes.
	Read(bar int, off uint64, p []byte)
	Write(bar int, off uint64, p []byte)
	// Map shows the device memory of the machine at an address, and Unmap takes it back: when it returns
	// the device uses none of it. Ranges do not overlap.
	Map(addr uint64, mem []byte) error
	Unmap(addr uint64)
	// Reset is a reset of the machine.
	Reset()
}

// Config is what tells a PCI device apart.
type Config struct {
	Vendor, Device uint16
	Class          uint32 // 24 bits
	Revision       uint8
	Wide           [6]bool // the BAR has 64 bits and takes the next one's place, too
	Prefetch       [6]bool
}

// Registers of the configuration space.
const (
	configBytes   = 256
	configCommand = 0x04
	configBARs    = 0x10
	configLine    = 0x3c

	barWide     = 4
	barPrefetch = 8
)

// space is a configuration space.
type space struct {
	bytes [configBytes]byte
	bars  [6]uint32 // bits that software may change
}

// newSpace makes the space that a reset leaves.
func newSpace(d Device) *space {
	s, c := &space{}, d.Config()
	put16 := func(at int, v uint16) { s.bytes[at], s.bytes[at+1] = byte(v), byte(v>>8) }
	put16(0x00, c.Vendor)
	put16(0x02, c.Device)
	s.bytes[0x08] = c.Revision
	put16(0x09, uint16(c.Class))
	s.bytes[0x0b] = byte(c.Class >> 16)
	put16(0x2c, c.Vendor)
	put16(0x2e, c.Device)
	for i := range s.bars {
		size := d.Region(i).Size
		if size == 0 {
			continue
		}
		if c.Prefetch[i] {
			s.bytes[configBARs+4*i] |= barPrefetch
		}
		s.bars[i] = uint32(-size) &^ 15
		if c.Wide[i] {
			s.bytes[configBARs+4*i] |= barWide
			s.bars[i+1] = uint32(-size >> 32)
		}
	}
	return s
}

// write keeps what software may change: the command register, addresses of BARs, and the bytes that the
// device does not look at.
func (s *space) write(off uint64, p []byte) {
	for i, v := range p {
		at := int(off) + i
		var mask byte
		switch {
		case at == configCommand:
			mask = 0x07 // I/O, memory, bus master
		case at == configCommand+1:
			mask = 0x04 // no interrupts
		case at == configLine || at == 0x0c || at == 0x0d: // line of the interrupt, of the cache, latency
			mask = 0xff
		case at >= configBARs && at < configBARs+24:
			mask = byte(s.bars[(at-configBARs)/4] >> (8 * (at % 4)))
		}
		s.bytes[at] = s.bytes[at]&^mask | v&mask
	}
}
