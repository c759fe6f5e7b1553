package simt

import (
	"math/bits"

	"pvdrm/gpu"
)

// frame is one activation of a function. All lanes that made the call together
// share it; lanes that called the same function apart have frames of their own,
// which may lie in the same rows of the stores, since a lane owns its column.
type frame struct {
	parent  *frame
	fn      *function
	site    *callSite // of the call; nil for a kernel
	ret     int32     // position after the call
	depth   int32
	base32  int
	base64  int
	basePr  int
	base    int // first row of local memory
	top     int // row after the frame's local memory; grows by alloca
	stacked int // bytes of the call stack up to and with this frame
}

// callSite describes a call: which memory or registers of the caller become
// the callee's parameters, and which receive its results.
type callSite struct {
	fn      *function   // nil for an indirect call
	may     []*function // what an indirect call may reach by its declaration; nil: any
	args    []actual
	results []actual
	// Sizes in bytes that an indirect call expects of its callee.
	paramSizes, resultSizes []int
}

// actual is an argument or the place of a result on the caller's side.
type actual struct {
	offset int // in the caller's local memory
	reg    uint32
	kind   regKind
}

// view makes f the running frame.
func (w *warp) view(f *frame) {
	w.frame = f
	w.r32 = w.store32[f.base32 : f.base32+f.fn.regs32]
	w.r64 = w.store64[f.base64 : f.base64+f.fn.regs64]
	w.pr = w.storePr[f.basePr : f.basePr+f.fn.preds]
}

// start prepares the warp for a block of the kernel. Constants are written only
// once in the life of the warp, since nothing overwrites them.
func (w *warp) start(fn *function) {
	f := &w.root
	if f.fn != fn {
		*f = frame{fn: fn, top: fn.localBytes / 4, stacked: fn.frameBytes}
		w.reserve(f)
		w.view(f)
		w.mask, w.live = allLanes, allLanes
		w.writeConstants(fn)
	}
	w.view(f)
	w.warm()
	f.top = fn.localBytes / 4
	w.mask, w.live, w.pc = w.exist, w.exist, fn.entry
	w.limit = noLimit
	w.rest = w.rest[:0]
	w.boost, w.forced = false, false
	w.clear(f)
}

// reserve makes the stores large enough for f.
func (w *warp) reserve(f *frame) {
	w.store32 = grow(w.store32, f.base32+f.fn.regs32)
	w.store64 = grow(w.store64, f.base64+f.fn.regs64)
	w.storePr = grow(w.storePr, f.basePr+f.fn.preds)
	w.local = grow(w.local, f.top)
}

// grow returns s with at least n elements.
func grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n <= cap(s) {
		return s[:n]
	}
	size := n
	if len(s) != 0 {
		size = max(n, 2*len(s))
	}
	t := make([]T, n, size)
	copy(t, s)
	return t
}

// writeConstants writes the constants of fn for the active lanes of the running frame.
func (w *warp) writeConstants(fn *function) {
	for _, c := range fn.const32 {
		fill(&w.r32[c.reg], c.value, w.mask, w.live)
	}
	for _, c := range fn.const64 {
		fill(&w.r64[c.reg], c.value, w.mask, w.live)
	}
}

// clear zeroes what the running frame f may read before it writes it: some
// registers, and its local memory.
func (w *warp) clear(f *frame) {
	for _, r := range f.fn.zero32 {
		fill(&w.r32[r], 0, w.mask, w.live)
	}
	for _, r := range f.fn.zero64 {
		fill(&w.r64[r], 0, w.mask, w.live)
	}
	for _, p := range f.fn.zeroPr {
		w.pr[p] &^= w.mask
	}
	rows := w.local[f.base:f.top]
	if w.mask == w.live {
		clear(rows)
		return
	}
	for i := range rows {
		fill(&rows[i], 0, w.mask, w.live)
	}
}

// fill sets the lanes in mask to v; lanes beyond live do not matter.
func fill[T uint32 | uint64](d *[32]T, v T, mask, live uint32) {
	if mask == live {
		fillLanes(d, v)
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		d[bits.TrailingZeros32(m)&31] = v
	}
}

// fill32 and fill64 are fillEach, or its SIMD twin.
var fill32, fill64 = fillEach[uint32], fillEach[uint64]

// fillEach gives all lanes the value v.
func fillEach[T uint32 | uint64](d *[32]T, v T) {
	for i := range d {
		d[i] = v
	}
}

// call runs a call of the active lanes.
func (w *warp) call(in *inst) {
	site := in.x.call
	w.passHead()
	if site.fn != nil {
		w.enter(site, site.fn)
		return
	}
	// Lanes that call different functions part.
	targets := &w.r64[in.a]
	after := w.pc
	lane := w.first()
	fn := w.block.prog.funcAt(targets[lane], site)
	if fn == nil {
		w.failLane(lane, gpu.LostInstruction, "indirect call of what is no function of the declared type")
	}
	same := uint32(0)
	for m := w.mask; m != 0; m &= m - 1 {
		if i := firstOf(m); targets[i] == targets[lane] {
			same |= 1 << i
		}
	}
	if others := w.mask &^ same; others != 0 {
		w.add(fragment{mask: others, pc: after - 1, frame: w.frame})
		w.mask = same
	}
	w.enter(site, fn)
}

// enter makes a frame for fn, copies the arguments and goes there.
func (w *warp) enter(site *callSite, fn *function) {
	up := w.frame
	f := &frame{
		parent: up, fn: fn, site: site, ret: w.pc, depth: up.depth + 1,
		base32: up.base32 + up.fn.regs32, base64: up.base64 + up.fn.regs64, basePr: up.basePr + up.fn.preds,
		base: up.top, top: up.top + fn.localBytes/4,
	}
	f.stacked = up.stackBytes() + fn.frameBytes
	if f.stacked > w.block.limits.StackBytes {
		w.failLane(w.first(), gpu.LostStack, "call of "+fn.name)
	}
	w.reserve(f)
	w.view(f)
	w.writeConstants(fn)
	w.clear(f)
	for i, p := range fn.params {
		w.move(f, place{p.offset, p.reg, p.kind}, up, place(site.args[i]), p.size)
	}
	w.pc = fn.entry
	w.limit = noLimit
	if len(w.rest) != 0 {
		w.reschedule()
	}
}

// ret returns the active lanes to the caller.
func (w *warp) ret() {
	f := w.frame
	up := f.parent
	for i, r := range f.fn.results {
		if i < len(f.site.results) {
			w.move(up, place(f.site.results[i]), f, place{r.offset, r.reg, r.kind}, r.size)
		}
	}
	w.view(up)
	w.pc = f.ret
	w.limit = noLimit
	if len(w.rest) != 0 {
		w.reschedule()
	}
}

// place is a parameter in a frame: local memory or a register.
type place struct {
	offset int
	reg    uint32
	kind   regKind
}

// move copies size bytes from one frame to another for the active lanes.
func (w *warp) move(df *frame, d place, sf *frame, s place, size int) {
	for n := 0; n < size; n += 4 {
		var row *[32]uint32
		switch s.kind {
		case inMemory:
			row = &w.local[sf.base+(s.offset+n)/4]
		case in32:
			row = &w.store32[sf.base32+int(s.reg)]
		case in64:
			row = w.half(&w.store64[sf.base64+int(s.reg)], n)
		}
		switch d.kind {
		case inMemory:
			copyLanes(&w.local[df.base+(d.offset+n)/4], row, w.mask, w.live)
		case in32:
			copyLanes(&w.store32[df.base32+int(d.reg)], row, w.mask, w.live)
		case in64:
			r := &w.store64[df.base64+int(d.reg)]
			for m := w.mask; m != 0; m &= m - 1 {
				i := firstOf(m)
				r[i] = r[i]&^(math32<<(8*n)) | uint64(row[i])<<(8*n)
			}
		}
	}
}

const math32 = 1<<32 - 1

// half returns the lower (n = 0) or upper (n = 4) words of a 64-bit register.
func (w *warp) half(r *[32]uint64, n int) *[32]uint32 {
	var row [32]uint32
	for i := range row {
		row[i] = uint32(r[i] >> (8 * n))
	}
	return &row
}

// copyLanes copies the lanes in mask; lanes beyond live do not matter.
func copyLanes(d, s *[32]uint32, mask, live uint32) {
	if mask == live {
		*d = *s
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		d[i] = s[i]
	}
}

func firstOf(m uint32) int { return bits.TrailingZeros32(m) & 31 }
