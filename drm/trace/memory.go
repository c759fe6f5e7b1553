package trace

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"sync"

	"pvdrm/drm"
)

// pageHash tells pages apart: two 32-bit cyclic redundancy checks, which
// processors compute at memory speed.
func pageHash(page []byte) uint64 {
	return uint64(crc32.Checksum(page, castagnoli))<<32 | uint64(crc32.ChecksumIEEE(page))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var zeroHash = pageHash(make([]byte, PageBytes))

// memory is what a trace knows of memory that is mapped or shared, in all its files.
type memory struct {
	// mu is held while batches are queued and while memory is looked at. It comes
	// before Writer.mu.
	mu      sync.Mutex
	files   []*recording
	buffers map[inode]uint64    // numbers of what PRIME shares
	sums    map[uint64][]uint64 // hashes of its pages, by number
}

func newMemory() memory { return memory{buffers: map[inode]uint64{}, sums: map[uint64][]uint64{}} }

func (m *memory) add(r *recording) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files = append(m.files, r)
}

// remove forgets what a file has mapped: it is about to be closed.
func (m *memory) remove(r *recording) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files = slices.DeleteFunc(m.files, func(o *recording) bool { return o == r })
	clear(r.objects)
	clear(r.buffers)
	r.flights, r.space = nil, space{}
}

// mapped notes that an object of a file is mapped at mem.
func (m *memory) mapped(r *recording, handle uint32, mem []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.objects[handle] != nil {
		return
	}
	o := &object{handle: handle, mem: mem}
	buffer, shared := r.buffers[handle]
	if o.sums = m.sums[buffer]; len(o.sums) != len(mem)/PageBytes {
		o.sums = make([]uint64, len(mem)/PageBytes)
		for i := range o.sums {
			o.sums[i] = zeroHash // so what is there already counts as written
		}
		if shared {
			m.sums[buffer] = o.sums
		}
	}
	r.objects[handle] = o
}

// closed forgets an object of a file.
func (m *memory) closed(r *recording, handle uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(r.objects, handle)
	delete(r.buffers, handle)
	r.space.drop(handle)
}

// buffer is the number of the memory that a descriptor refers to: 0 if no file of
// the trace has shared it.
func (m *memory) buffer(fd int) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, _ := inodeOf(fd)
	return m.buffers[id]
}

// share notes that an object of a file is the memory that fd refers to. It returns
// the number of that memory.
func (m *memory) share(r *recording, handle uint32, fd int) uint64 {
	id, ok := inodeOf(fd)
	if !ok {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buffers[id] == 0 {
		m.buffers[id] = uint64(len(m.buffers) + 1)
	}
	buffer := m.buffers[id]
	r.buffers[handle] = buffer
	if o := r.objects[handle]; o != nil && m.sums[buffer] == nil {
		m.sums[buffer] = o.sums
	}
	return buffer
}

// object is mapped memory.
type object struct {
	handle uint32
	mem    []byte
	// sums are the hashes of the pages when they were last looked at. Objects that
	// are the same memory have the same.
	sums []uint64
}

func (o *object) page(i int) []byte { return o.mem[i*PageBytes:][:PageBytes] }

// land takes what has ended out of the flights and returns what it may have
// written. Caller holds memory.mu.
func (r *Recorder) land(p drm.Point) (spans []span) {
	r.flights = slices.DeleteFunc(r.flights, func(f flight) bool {
		done := f.point.Channel == p.Channel && f.point.Seqno <= p.Seqno
		if done {
			spans = append(spans, f.spans...)
		}
		return done
	})
	return spans
}

// flying is what the GPU may be writing now of this file's objects. Caller holds
// memory.mu.
func (r *Recorder) flying() (spans []span) {
	for _, f := range r.flights {
		spans = append(spans, f.spans...)
	}
	if len(r.buffers) == 0 {
		return spans
	}
	for _, other := range r.w.mem.files {
		for _, f := range other.flights {
			for _, s := range f.spans {
				spans = append(spans, r.same(other, s)...)
			}
		}
	}
	return spans
}

// same is where this file has the memory of a span of another one's, or of its
// own by another handle. Caller holds memory.mu.
func (r *Recorder) same(other *recording, s span) (spans []span) {
	buffer, shared := other.buffers[s.handle]
	if !shared {
		return nil
	}
	for h, b := range r.buffers {
		if b == buffer && (other != r.recording || h != s.handle) {
			spans = append(spans, span{h, s.from, s.to})
		}
	}
	return spans
}

// touches reports whether a page lies in one of the spans.
func touches(spans []span, handle uint32, page int) bool {
	from := uint64(page) * PageBytes
	return slices.ContainsFunc(spans, func(s span) bool { return s.handle == handle && s.from < from+PageBytes && s.to > from })
}

// lookWritten writes down the pages that the program has changed: all that
// changed, but for those that the GPU may be writing now. Caller holds memory.mu.
func (r *Recorder) lookWritten() {
	flying := r.flying()
	for _, h := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[h]
		for i := range o.sums {
			if touches(flying, h, i) {
				continue
			}
			if sum := pageHash(o.page(i)); sum != o.sums[i] {
				o.sums[i] = sum
				r.event(OpWritten, r.w.now(), nil, Event{In: numbers(uint64(h), uint64(i)*PageBytes), InBytes: [][]byte{o.page(i)}})
			}
		}
	}
}

// lookSeen writes down the pages in spans that changed: work that has just ended
// has written them. What else changed is left for the next lookWritten. Caller
// holds memory.mu.
func (r *Recorder) lookSeen(spans []span) {
	flying := r.flying()
	for _, s := range slices.Clone(spans) { // what is written by one handle is seen by the other, too
		spans = append(spans, r.same(r.recording, s)...)
	}
	for _, h := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[h]
		if !slices.ContainsFunc(spans, func(s span) bool { return s.handle == h }) {
			continue
		}
		for i := range o.sums {
			if touches(flying, h, i) || !touches(spans, h, i) {
				continue
			}
			if sum := pageHash(o.page(i)); sum != o.sums[i] {
				o.sums[i] = sum
				r.event(OpSeen, r.w.now(), nil, Event{In: numbers(uint64(h), uint64(i)*PageBytes), OutBytes: [][]byte{binary.LittleEndian.AppendUint64(nil, sum)}})
			}
		}
	}
}

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

func (w *writes) Word(c drm.WordCmd) error {
	if c.Op == drm.WordWrite {
		w.add(c.Addr, uint64(c.Size))
	}
	return nil
}

// Call writes its results. What the functions write is not told from outside of their arguments.
func (w *writes) Call(c drm.CallCmd) error {
	w.add(c.Results, uint64(c.ResultBytes))
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
