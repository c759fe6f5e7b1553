package run

import (
	"encoding/binary"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// stateMagic begins an encoded state; its last byte is the version.
const stateMagic = "pvstate\x06"

// MarshalBinary encodes a state: little-endian numbers, and lists after their lengths.
func (s *State) MarshalBinary() ([]byte, error) {
	w := stateWriter{[]byte(stateMagic)}
	w.state(s)
	return w.out, nil
}

func (w *stateWriter) state(s *State) {
	w.bytes([]byte(s.kernel))
	w.u64(s.program)
	for i := range 3 {
		w.u32(s.grid[i])
		w.u32(s.block[i])
		w.u32(s.cluster[i])
	}
	w.u32(s.dynamic)
	w.bytes(s.params)
	w.u64(s.launch)
	w.u64(s.next)
	w.flags(s.cooperative)
	w.u64(s.workspace)
	w.tree(s.tree)
	w.u32(uint32(len(s.cycles)))
	for _, n := range s.cycles {
		w.u64(n)
	}
	w.u32(uint32(len(s.blocks)))
	for i := range s.blocks {
		w.block(&s.blocks[i])
	}
}

// UnmarshalBinary decodes a state that may come from anywhere. What it takes of memory is
// a small multiple of the length of data. That the state suits a launch is checked when one
// goes on from it.
func (s *State) UnmarshalBinary(data []byte) error {
	r := stateReader{in: data}
	if string(r.take(len(stateMagic))) != stateMagic {
		return fmt.Errorf("%w: not the state of a launch, or of another version", gpu.ErrInvalid)
	}
	t := r.state(true)
	if r.short || len(r.in) != 0 {
		return fmt.Errorf("%w: the state of a launch ends too early or too late", gpu.ErrInvalid)
	}
	*s = *t
	return nil
}

// state decodes a state, which has a tree only if it may.
func (r *stateReader) state(mayTree bool) *State {
	t := &State{kernel: string(r.bytes()), program: r.u64()}
	for i := range 3 {
		t.grid[i], t.block[i], t.cluster[i] = r.u32(), r.u32(), r.u32()
	}
	t.dynamic, t.params, t.launch, t.next = r.u32(), r.bytes(), r.u64(), r.u64()
	t.cooperative, _ = r.flags()
	t.workspace = r.u64()
	if mayTree {
		t.tree = r.tree()
	} else if present, _ := r.flags(); present {
		r.short = true
	}
	for range r.count(8) {
		t.cycles = append(t.cycles, r.u64())
	}
	for range r.count(minBlock) {
		t.blocks = append(t.blocks, r.block())
	}
	return t
}

// stateWriter appends the parts of a state.
type stateWriter struct{ out []byte }

func (w *stateWriter) u32(x uint32) { w.out = binary.LittleEndian.AppendUint32(w.out, x) }
func (w *stateWriter) u64(x uint64) { w.out = binary.LittleEndian.AppendUint64(w.out, x) }

func (w *stateWriter) bytes(b []byte) {
	w.u32(uint32(len(b)))
	w.out = append(w.out, b...)
}

func (w *stateWriter) words(list []uint32) {
	w.u32(uint32(len(list)))
	for _, x := range list {
		w.u32(x)
	}
}

func (w *stateWriter) rows(rows [][32]uint32) {
	w.u32(uint32(len(rows)))
	for i := range rows {
		for _, x := range rows[i] {
			w.u32(x)
		}
	}
}

// flags packs up to 32 booleans, the first into the lowest bit.
func (w *stateWriter) flags(list ...bool) {
	x := uint32(0)
	for i, on := range list {
		if on {
			x |= 1 << i
		}
	}
	w.u32(x)
}

// The fewest bytes that an element of a list is encoded in.
const (
	minBlock    = 8 + 8 + 4 + 4 + 4
	minBarrier  = 4 + 4 + 4 + 4 + 4
	minWarp     = 4 + 4 + 4 + 2*4 + 6*4
	minFrame    = 6 * 4
	minFragment = 5 * 4
)

func (w *stateWriter) block(b *blockState) {
	w.u64(b.number)
	w.u64(b.cycles)
	w.bytes(b.shared)
	w.u32(uint32(len(b.bars)))
	for _, bar := range b.bars {
		w.u32(bar.id)
		w.u32(bar.need)
		w.u32(bar.count)
		w.flags(bar.and, bar.or)
		w.words(bar.arrived)
	}
	w.u32(uint32(len(b.warps)))
	for i := range b.warps {
		w.warp(&b.warps[i])
	}
}

func (w *stateWriter) warp(s *warpState) {
	w.u32(s.live)
	w.u32(s.groups)
	w.flags(s.boost, s.forced)
	w.u32(s.met)
	w.u32(s.passed)
	w.rows(s.r32)
	w.u32(uint32(len(s.r64)))
	for i := range s.r64 {
		for _, x := range s.r64[i] {
			w.u64(x)
		}
	}
	w.words(s.pr)
	w.rows(s.local)
	w.u32(uint32(len(s.frames)))
	for _, f := range s.frames {
		for _, x := range [...]uint32{f.parent, f.fn, uint32(f.ret), f.base, f.top, f.stacked} {
			w.u32(x)
		}
	}
	w.u32(uint32(len(s.fragments)))
	for _, f := range s.fragments {
		for _, x := range [...]uint32{f.mask, uint32(f.pc), f.frame, uint32(f.state), f.barrier} {
			w.u32(x)
		}
	}
}

// stateReader takes parts of a state from the front. After the end it gives zeros.
type stateReader struct {
	in    []byte
	short bool // there was less than was asked for
}

func (r *stateReader) take(n int) []byte {
	if n > len(r.in) {
		r.short, r.in = true, nil
		return nil
	}
	b := r.in[:n:n]
	r.in = r.in[n:]
	return b
}

func (r *stateReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *stateReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count is the length of a list whose elements take at least so many bytes.
func (r *stateReader) count(least int) int {
	n := uint64(r.u32())
	if n*uint64(least) > uint64(len(r.in)) {
		r.short, r.in = true, nil
		return 0
	}
	return int(n)
}

func (r *stateReader) bytes() []byte { return append([]byte(nil), r.take(r.count(1))...) }

func (r *stateReader) words() []uint32 {
	list := make([]uint32, r.count(4))
	for i := range list {
		list[i] = r.u32()
	}
	return list
}

func (r *stateReader) rows() [][32]uint32 {
	rows := make([][32]uint32, r.count(32*4))
	for i := range rows {
		for k := range rows[i] {
			rows[i][k] = r.u32()
		}
	}
	return rows
}

func (r *stateReader) flags() (a, b bool) {
	x := r.u32()
	return x&1 != 0, x&2 != 0
}

func (r *stateReader) block() blockState {
	b := blockState{number: r.u64(), cycles: r.u64(), shared: r.bytes()}
	for range r.count(minBarrier) {
		bar := barrierState{id: r.u32(), need: r.u32(), count: r.u32()}
		bar.and, bar.or = r.flags()
		bar.arrived = r.words()
		b.bars = append(b.bars, bar)
	}
	for range r.count(minWarp) {
		b.warps = append(b.warps, r.warp())
	}
	return b
}

func (r *stateReader) warp() warpState {
	s := warpState{live: r.u32(), groups: r.u32()}
	s.boost, s.forced = r.flags()
	s.met, s.passed = r.u32(), r.u32()
	s.r32 = r.rows()
	s.r64 = make([][32]uint64, r.count(32*8))
	for i := range s.r64 {
		for k := range s.r64[i] {
			s.r64[i][k] = r.u64()
		}
	}
	s.pr = r.words()
	s.local = r.rows()
	for range r.count(minFrame) {
		s.frames = append(s.frames, frameState{parent: r.u32(), fn: r.u32(), ret: int32(r.u32()), base: r.u32(), top: r.u32(), stacked: r.u32()})
	}
	for range r.count(minFragment) {
		s.fragments = append(s.fragments, fragmentState{mask: r.u32(), pc: int32(r.u32()), frame: r.u32(), state: ir.State(min(r.u32(), 255)), barrier: r.u32()})
	}
	return s
}
