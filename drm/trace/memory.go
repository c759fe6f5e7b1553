package trace

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"pvdrm/drm"
)

// pageHash tells pages apart: two 32-bit cyclic redundancy checks, which
// processors compute at memory speed.
func pageHash(page []byte) uint64 {
	return uint64(crc32.Checksum(page, castagnoli))<<32 | uint64(crc32.ChecksumIEEE(page))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var zeroHash = pageHash(make([]byte, PageBytes))

// object is mapped memory.
type object struct {
	handle uint32
	mem    []byte
	pages  []uint64 // hash of each page when it was last looked at
}

func newObject(handle uint32, mem []byte) *object {
	o := &object{handle: handle, mem: mem, pages: make([]uint64, len(mem)/PageBytes)}
	for i := range o.pages {
		o.pages[i] = zeroHash // so what is there already counts as written
	}
	return o
}

func (o *object) page(i int) []byte { return o.mem[i*PageBytes:][:PageBytes] }

// mapping is a range of GPU addresses where an object is.
type mapping struct {
	addr, size uint64
	handle     uint32
	offset     uint64 // into the object
}

// span is bytes of an object that the GPU may write.
type span struct {
	handle   uint32
	from, to uint64
}

// flight is an EXEC that was not waited for.
type flight struct {
	point drm.Point
	spans []span
}

// space is what a file has mapped on the GPU.
type space struct{ maps []mapping }

func (s *space) bind(ops []drm.BindOp) {
	for _, op := range ops {
		s.unbind(op.Addr, op.Range)
		if op.Op == drm.BindMap {
			s.maps = append(s.maps, mapping{op.Addr, op.Range, op.Handle, op.BOOffset})
		}
	}
}

// unbind removes a range; a mapping may be cut in two.
func (s *space) unbind(addr, size uint64) {
	var left []mapping
	for _, m := range s.maps {
		before, after := int64(addr-m.addr), int64(m.addr+m.size-(addr+size))
		if addr >= m.addr+m.size || m.addr >= addr+size {
			left = append(left, m)
			continue
		}
		if before > 0 {
			left = append(left, mapping{m.addr, uint64(before), m.handle, m.offset})
		}
		if after > 0 {
			skip := m.size - uint64(after)
			left = append(left, mapping{m.addr + skip, uint64(after), m.handle, m.offset + skip})
		}
	}
	s.maps = left
}

// drop removes the mappings of an object.
func (s *space) drop(handle uint32) {
	s.maps = slices.DeleteFunc(s.maps, func(m mapping) bool { return m.handle == handle })
}

// find returns the mapping that an address lies in.
func (s *space) find(addr uint64) (mapping, bool) {
	for _, m := range s.maps {
		if addr >= m.addr && addr-m.addr < m.size {
			return m, true
		}
	}
	return mapping{}, false
}

// written lists what the commands of a stream may write. What is malformed
// writes nothing.
func (s *space) written(stream []byte) []span {
	w := writes{space: s}
	_, _ = drm.WalkCommands(stream, &w) // the driver says what is wrong with it
	return w.spans
}

// writes is a drm.CommandSink that collects what commands may write.
type writes struct {
	space *space
	spans []span
}

func (w *writes) add(addr, size uint64) {
	for size > 0 {
		m, ok := w.space.find(addr)
		if !ok {
			return // it will fault
		}
		n := min(size, m.size-(addr-m.addr))
		from := m.offset + addr - m.addr
		w.spans = append(w.spans, span{m.handle, from, from + n})
		addr, size = addr+n, size-n
	}
}

func (w *writes) rows(dst, width, height, pitch uint64) {
	if height > 1 {
		width = pitch*(height-1) + width
	}
	w.add(dst, width)
}

func (w *writes) Copy(c drm.CopyCmd) error {
	w.rows(c.Dst, c.Width, c.Height, c.DstPitch)
	return nil
}

func (w *writes) Fill(c drm.FillCmd) error {
	w.rows(c.Dst, c.Width, c.Height, c.Pitch)
	return nil
}

func (w *writes) Task() error { return nil }

func (w *writes) Timestamp(c drm.TimestampCmd) error {
	w.add(c.Addr, 8)
	return nil
}

func (w *writes) Launch(c drm.LaunchCmd) error {
	for at := 0; at+8 <= len(c.Params); at += 8 {
		if m, ok := w.space.find(binary.LittleEndian.Uint64(c.Params[at:])); ok {
			w.spans = append(w.spans, span{m.handle, m.offset, m.offset + m.size})
		}
	}
	return nil
}
