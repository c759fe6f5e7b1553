package vhostuser

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pvdrm/internal/hostmem"
)

// maxQueueSize bounds the size of a ring, and so what can be in flight.
const maxQueueSize = 1024

// Layout of a split virtqueue (virtio 1.2, section 2.7), little-endian:
//
//	descriptor:  addr u64, len u32, flags u16, next u16
//	driver area: flags u16, idx u16, ring [size]u16, used_event u16
//	device area: flags u16, idx u16, ring [size]{id u32, len u32}, avail_event u16
const (
	descSize = 16

	descNext     = 1
	descWrite    = 2
	descIndirect = 4

	availNoInterrupt = 1
	usedNoNotify     = 1
)

// errRing wraps complaints about a ring that make it useless until the guest
// resets the device.
var errRing = errors.New("broken virtqueue")

// ring is a split virtqueue in guest memory. The guest can write all of it at
// any time; each method reads what it needs once.
type ring struct {
	size  int
	desc  []byte
	avail []byte
	used  []byte
}

// mapRing finds a ring in guest memory. The ring is valid as long as the table.
func mapRing(t *hostmem.Table, a vringAddr, size int) (*ring, error) {
	r := &ring{size: size}
	for _, part := range []struct {
		name  string
		addr  uint64
		bytes int
		align uintptr
		mem   *[]byte
	}{
		{name: "descriptor table", addr: a.desc, bytes: descSize * size, align: 16, mem: &r.desc},
		// The specification asks for two bytes only. Every driver aligns it to
		// at least four, which lets flags and idx be read as one atomic word.
		{name: "driver area", addr: a.avail, bytes: 6 + 2*size, align: 4, mem: &r.avail},
		{name: "device area", addr: a.used, bytes: 6 + 8*size, align: 4, mem: &r.used},
	} {
		mem, err := t.User(part.addr, uint64(part.bytes))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if !hostmem.Aligned(mem, part.align) {
			return nil, fmt.Errorf("%s at %#x is not aligned to %d bytes", part.name, part.addr, part.align)
		}
		*part.mem = mem
	}
	return r, nil
}

// availIdx reads the driver's flags and index.
func (r *ring) availIdx() (flags, idx uint16) {
	w := hostmem.LoadUint32(r.avail, 0)
	return uint16(w), uint16(w >> 16)
}

// availHead reads entry i of the driver's ring.
func (r *ring) availHead(i uint16) uint16 {
	return hostmem.LoadUint16(r.avail, 4+2*(int(i)%r.size))
}

// usedEvent reads the index at which the driver wants an interrupt.
func (r *ring) usedEvent() uint16 { return hostmem.LoadUint16(r.avail, 4+2*r.size) }

// usedIdx reads our own index back, as found when the ring starts.
func (r *ring) usedIdx() uint16 { return uint16(hostmem.LoadUint32(r.used, 0) >> 16) }

// putUsed fills entry i of the device's ring.
func (r *ring) putUsed(i, head uint16, n uint32) {
	e := r.used[4+8*(int(i)%r.size):]
	binary.LittleEndian.PutUint32(e, uint32(head))
	binary.LittleEndian.PutUint32(e[4:], n)
}

// publish writes our flags and index. It is a full barrier.
func (r *ring) publish(flags, idx uint16) {
	hostmem.SwapUint32(r.used, 0, uint32(flags)|uint32(idx)<<16)
}

// setAvailEvent asks for a kick when the driver's index passes idx. Two bytes
// only: what follows them is not ours.
func (r *ring) setAvailEvent(idx uint16) { hostmem.StoreUint16(r.used, 4+8*r.size, idx) }

// needEvent reports whether an index that moved from old to now passed event
// (virtio 1.2, section 2.7.10).
func needEvent(event, now, old uint16) bool { return now-event-1 < now-old }

// desc is one descriptor, copied out of guest memory.
type desc struct {
	addr  uint64
	len   uint32
	flags uint16
	next  uint16
}

func decodeDesc(b []byte) desc {
	le := binary.LittleEndian
	return desc{le.Uint64(b), le.Uint32(b[8:]), le.Uint16(b[12:]), le.Uint16(b[14:])}
}

// readDesc copies descriptor i. Precondition: i < r.size.
func (r *ring) readDesc(i uint16) desc {
	var b [descSize]byte
	copy(b[:], r.desc[int(i)*descSize:])
	return decodeDesc(b[:])
}
