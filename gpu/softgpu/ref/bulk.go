package ref

import (
	"errors"
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/tensormap"
)

// at evaluates operand n as an address in a state space.
func (t *thread) at(i *ptx.Instr, n int, s ptx.Space) (ptx.Space, uint64) {
	in := *i
	in.Mods.Space = s
	s, addr := t.address(&in, &i.Args[n])
	if s == ptx.SpaceGeneric {
		return window(addr)
	}
	return s, addr
}

// shares reports whether a state space is shared memory.
func shares(s ptx.Space) bool {
	return s == ptx.SpaceShared || s == ptx.SpaceSharedCTA || s == ptx.SpaceSharedCluster
}

// bulk is cp.async.bulk and cp.reduce.async.bulk (9.7.8): bytes, or boxes of tensors. Copies are made at once, and
// groups are complete.
func (t *thread) bulk(i *ptx.Instr) {
	m := &i.Mods
	if !m.HasWord(ptx.Multicast) {
		t.bulkTo(i, itself)
		return
	}
	at := len(i.Args) - 1
	if m.Has(ptx.Hint) {
		at--
	}
	mask := t.get(&i.Args[at], ptx.U16)
	for rank := range 16 {
		if mask>>rank&1 != 0 {
			t.bulkTo(i, rank)
		}
	}
}

// itself stands for the block that an address names, in place of one of a multicast.
const itself = -1

// in is where an address lies in the block of a rank.
func in(rank int, s ptx.Space, addr uint64) (ptx.Space, uint64) {
	if rank == itself {
		return s, addr
	}
	return ptx.SpaceSharedCluster, addr&(1<<rankShift-1) | uint64(rank)<<rankShift
}

// bulkTo is bulk for one block.
func (t *thread) bulkTo(i *ptx.Instr, rank int) {
	m := &i.Mods
	switch {
	case m.Mode != ptx.ModeNone:
	case m.HasWord(ptx.Tensor):
		t.bulkBox(i, rank)
	case !m.HasWord(ptx.Prefetched):
		t.bulkBytes(i, rank)
	default:
		if _, addr := t.at(i, 0, m.Space); addr%16 != 0 {
			t.fail(gpu.LostAlign, "prefetch")
		}
	}
}

// bulkBytes copies or reduces bytes.
func (t *thread) bulkBytes(i *ptx.Instr, rank int) {
	toSpace, to := t.at(i, 0, i.Mods.Space)
	toSpace, to = in(rank, toSpace, to)
	fromSpace, from := t.at(i, 1, i.AddressSpace(1))
	if shares(fromSpace) && shares(toSpace) && !t.b.cluster.explicit {
		t.fail(gpu.LostInstruction, "a copy between blocks, of a launch that asked for no clusters")
	}
	size := t.get(&i.Args[2], ptx.U32) & 0xffff0 // the other bits do not count on an H100
	if to%16 != 0 || from%16 != 0 {
		t.fail(gpu.LostAlign, "bulk copy")
	}
	data := make([]byte, 0)
	for n := uint64(0); n < size; n += 16 { // the first bytes beyond shared memory end it
		data = append(data, t.bytes(fromSpace, from+n, 16, false)...)
	}
	step := uint64(16)
	if i.Mods.HasWord(ptx.Reduced) {
		step = uint64(i.Mods.Type().Size())
	}
	for n := uint64(0); n < size; n += step {
		target := t.bytes(toSpace, to+n, step, true)
		if i.Mods.HasWord(ptx.Reduced) {
			write(target, t.bulkReduced(i.Mods.Atomic, i.Mods.Type(), read(target), read(data[n:n+step]), !shares(toSpace)))
		} else {
			copy(target, data[n:])
		}
	}
	if i.Mods.HasWord(ptx.TxBytes) {
		s, bar := t.at(i, 3, i.Mods.Space)
		s, bar = in(rank, s, bar)
		t.complete(s, bar, size)
	}
}

// complete counts bytes at an mbarrier as complete.
func (t *thread) complete(s ptx.Space, addr, n uint64) {
	memory := t.bytes(s, addr, 8, true)
	word := read(memory)
	left := int64(pendingBytes.of(word)<<42)>>42 - int64(n)
	if left < -maxArrivals {
		t.fail(gpu.LostInstruction, fmt.Sprintf("%d bytes complete at an mbarrier that expects fewer", n))
	}
	pendingBytes.set(&word, uint64(left))
	write(memory, t.arrive(word, 0, false))
}

// bulkReduced is what a reduction makes of what is there.
func (t *thread) bulkReduced(op ptx.Atomic, ty ptx.Type, old, x uint64, global bool) uint64 {
	switch op {
	case ptx.AtomicAdd:
		if ty == ptx.F16 || ty == ptx.BF16 {
			return formatOf(ty).sum(old, x)
		}
		if ty.Float() {
			return atomicSum(ty, old, x, global)
		}
	case ptx.AtomicInc, ptx.AtomicDec:
		return counted(op, old, x)
	case ptx.AtomicXor:
		return old ^ x
	case ptx.AtomicMin, ptx.AtomicMax:
		if ty.Float() {
			return t.extreme(op == ptx.AtomicMin, ty, old, x)
		}
	}
	return reduced(op, ty, old, x)
}

// extreme is the smaller or larger of two numbers; a NaN beside a number does not count.
func (t *thread) extreme(least bool, ty ptx.Type, a, b uint64) uint64 {
	f := formatOf(ty)
	x, y := f.decode(a), f.decode(b)
	switch {
	case x.kind == notANumber && y.kind == notANumber:
		return f.encode(x, ptx.RN)
	case x.kind == notANumber:
		return b
	case y.kind == notANumber:
		return a
	}
	zero := func(bits uint64) bool { return bits<<1&mask(ty) == 0 }
	below := compare(ptx.CmpLT, ty, a, b) || zero(a) && zero(b) && a > b // -0 is below +0
	if below == least {
		return a
	}
	return b
}

// tensorTypes are the types of PTX for the elements of tensors.
var tensorTypes = map[tensormap.Type]ptx.Type{
	tensormap.U32: ptx.U32, tensormap.S32: ptx.S32, tensormap.U64: ptx.U64, tensormap.S64: ptx.S64, tensormap.F16: ptx.F16,
	tensormap.BF16: ptx.BF16, tensormap.F32: ptx.F32, tensormap.F64: ptx.F64, tensormap.F32FTZ: ptx.F32,
	tensormap.TF32: ptx.F32, tensormap.TF32FTZ: ptx.F32,
}

// reducible reports whether elements of a tensor have an operation.
func reducible(op ptx.Atomic, ty ptx.Type) bool {
	switch op {
	case ptx.AtomicAdd:
		return ty != ptx.S64
	case ptx.AtomicMin, ptx.AtomicMax:
		return !ty.Float() || ty.Size() == 2
	case ptx.AtomicInc, ptx.AtomicDec:
		return ty == ptx.U32
	}
	return !ty.Float() && ty != ptx.S64
}

// tensor reads the tensor map of operand n.
func (t *thread) tensor(i *ptx.Instr, n int) *tensormap.Map {
	s, addr := t.at(i, n, ptx.SpaceGeneric)
	if addr%tensormap.Align != 0 {
		t.fail(gpu.LostAlign, "tensor map")
	}
	var raw [tensormap.Size]byte
	for k := uint64(0); k < tensormap.Size; k += 8 {
		copy(raw[k:], t.bytes(s, addr+k, 8, false))
	}
	m := new(tensormap.Map)
	switch err := m.Decode(&raw); {
	case errors.Is(err, tensormap.ErrAlign):
		t.fail(gpu.LostAlign, err.Error())
	case err != nil:
		t.fail(gpu.LostInstruction, err.Error())
	}
	pixels := i.Mods.HasWord(ptx.Im2col) || i.Mods.HasWord(ptx.Im2colNoOffs)
	if m.Rank != i.Mods.Geometry.Axes() || m.Im2col != pixels {
		t.fail(gpu.LostInstruction, "the tensor map is of another rank or mode than the instruction")
	}
	return m
}

// bulkBox copies a box of a tensor, element by element.
func (t *thread) bulkBox(i *ptx.Instr, rank int) {
	mods := &i.Mods
	loads, at := mods.HasWord(ptx.FromGlobal), 0
	if loads {
		at = 1
	}
	if mods.HasWord(ptx.Prefetched) {
		at = 0
	}
	m := t.tensor(i, at)
	var start [tensormap.MaxRank]int64
	for n, o := range i.Args[at].Coordinates() {
		start[n] = int64(int32(t.get(&o, ptx.S32)))
	}
	t.checkStart(m, &start, !loads && !mods.HasWord(ptx.Prefetched))
	if mods.HasWord(ptx.Prefetched) {
		return
	}
	s, box := t.at(i, 1-at, map[bool]ptx.Space{true: mods.Space, false: ptx.SpaceSharedCTA}[loads])
	s, box = in(rank, s, box)
	if !shares(s) {
		t.fail(gpu.LostAddress, "a box outside of .shared")
	}
	if box%128 != 0 {
		t.fail(gpu.LostAlign, "box of a tensor")
	}
	var offsets [3]int64
	if mods.HasWord(ptx.Im2col) {
		for n, o := range elements(&i.Args[3]) {
			offsets[n] = int64(t.get(&o, ptx.U16))
		}
	}
	where := t.boxElements(m, &start)
	if m.Im2col {
		where = t.columnElements(m, &start, &offsets)
	}
	row := int(m.Channels) // elements of a row; with a swizzle a row takes its whole span
	if !m.Im2col {
		row = int(m.Box[0])
		if m.Interleave != tensormap.InterleaveNone {
			row = (row + int(m.Step[0]) - 1) / int(m.Step[0])
		}
	}
	pitch := uint64(row) * m.Unit()
	if m.Swizzle != tensormap.SwizzleNone && m.Interleave == tensormap.InterleaveNone {
		pitch = max(pitch, 16<<m.Swizzle)
	}
	for n, c := range where {
		t.boxUnit(i, m, s, box+uint64(n/row)*pitch+uint64(n%row)*m.Unit(), c)
	}
	if loads {
		s, bar := t.at(i, 2, mods.Space)
		s, bar = in(rank, s, bar)
		t.complete(s, bar, m.BoxBytes())
	}
}

// checkStart ends the kernel where a copy must not begin.
func (t *thread) checkStart(m *tensormap.Map, start *[tensormap.MaxRank]int64, writes bool) {
	if m.Interleave == tensormap.InterleaveNone && start[0]*int64(m.Type.Size())%16 != 0 {
		t.fail(gpu.LostInstruction, "a box that is not aligned to 16 bytes")
	}
	for n := range m.Rank {
		pixel := m.Im2col && n > 0 && n < m.Rank-1
		switch {
		case writes && start[n] < 0:
			t.fail(gpu.LostInstruction, "writes in front of a tensor")
		case pixel && (start[n] < int64(m.Lower[n-1]) || start[n] >= int64(m.Dim[n])+int64(m.Upper[n-1])):
			t.fail(gpu.LostInstruction, "a column outside of its corners")
		}
	}
}

// boxUnit moves one element of a box, or one slice of channels, which lies at coordinate c of the tensor.
func (t *thread) boxUnit(i *ptx.Instr, m *tensormap.Map, s ptx.Space, at uint64, c [tensormap.MaxRank]int64) {
	in, addr := true, m.Base+uint64(c[0])*m.Unit()
	if chunk := int64(16 / m.Type.Size()); !i.Mods.HasWord(ptx.FromGlobal) && m.Interleave == tensormap.InterleaveNone {
		c[0] -= c[0] % chunk // what is written ends with 16 bytes, not with an element
	}
	for n := range m.Rank {
		in = in && c[n] >= 0 && c[n] < int64(m.Dim[n])
		if n > 0 {
			addr += uint64(c[n]) * m.Stride[n]
		}
	}
	for k := uint64(0); k < m.Unit(); k += m.Type.Size() {
		t.boxElement(i, m, s, at+k, addr+k, in)
	}
}

// boxElement moves one element between shared memory, before the swizzle, and the tensor.
func (t *thread) boxElement(i *ptx.Instr, m *tensormap.Map, s ptx.Space, at, addr uint64, in bool) {
	size, line := m.Type.Size(), at // bits 4 to 6 change by those of the line of 128 bytes
	for n := range uint64(m.Swizzle) {
		line ^= line >> (7 + n) & 1 << (4 + n)
	}
	shared := t.bytes(s, line, size, true)
	switch {
	case i.Mods.HasWord(ptx.FromGlobal):
		var fill [8]byte
		m.FillElement(&fill)
		copy(shared, fill[:])
		if in {
			copy(shared, t.bytes(ptx.SpaceGlobal, addr, size, false))
			m.Type.Convert(shared)
		}
	case !in:
	case i.Mods.HasWord(ptx.Reduced):
		ty, ok := tensorTypes[m.Type]
		if !ok || !reducible(i.Mods.Atomic, ty) {
			t.fail(gpu.LostInstruction, "the tensor's elements do not have this operation")
		}
		target := t.bytes(ptx.SpaceGlobal, addr, size, true)
		write(target, t.bulkReduced(i.Mods.Atomic, ty, read(target), read(shared), true))
	default:
		copy(t.bytes(ptx.SpaceGlobal, addr, size, true), shared)
	}
}

// boxElements are the coordinates of the elements of a box, in the order in which they lie in shared memory.
func (t *thread) boxElements(m *tensormap.Map, start *[tensormap.MaxRank]int64) (list [][tensormap.MaxRank]int64) {
	t.bound(m)
	list = append(list, *start)
	for n := range m.Rank { // each dimension repeats what the dimensions below it have
		step, count := int64(m.Step[n]), (int64(m.Box[n])+int64(m.Step[n])-1)/int64(m.Step[n])
		if n == 0 && m.Interleave == tensormap.InterleaveNone {
			step, count = 1, int64(m.Box[0])
		}
		if n == m.Rank-2 && m.Interleave != tensormap.InterleaveNone {
			count = 1 // slice of channels
		}
		inner := len(list)
		for k := int64(1); k < count; k++ {
			for _, c := range list[:inner] {
				c[n] += k * step
				list = append(list, c)
			}
		}
	}
	return list
}

// columnElements are the same of a column of pixels: those that a walk along W, H, D and N visits, which
// turns at the corners.
func (t *thread) columnElements(m *tensormap.Map, start *[tensormap.MaxRank]int64, offsets *[3]int64) (list [][tensormap.MaxRank]int64) {
	t.bound(m)
	pixel, outer := *start, m.Rank-1
	for range m.Pixels {
		for k := range m.Channels {
			c := pixel
			c[0] += int64(k)
			for n := 1; n < outer; n++ {
				c[n] += offsets[n-1]
			}
			list = append(list, c)
		}
		pixel[1] += int64(m.Step[1])
		for n := 1; n < outer && pixel[n] >= int64(m.Dim[n])+int64(m.Upper[n-1]); n++ {
			pixel[n] = int64(m.Lower[n-1])
			pixel[n+1] += int64(m.Step[n+1])
		}
	}
	return list
}

// bound ends the kernel before a box is listed that shared memory cannot hold.
func (t *thread) bound(m *tensormap.Map) {
	if m.BoxBytes() > uint64(len(t.b.shared)) {
		t.fail(gpu.LostAddress, "a box larger than .shared")
	}
}

// tensormap is tensormap.replace and tensormap.cp_fenceproxy (9.7.8, 9.7.12).
func (t *thread) tensormap(i *ptx.Instr) {
	m := &i.Mods
	if m.HasWord(ptx.CopyFence) {
		_, to := t.at(i, 0, ptx.SpaceGlobal)
		s, from := t.at(i, 1, ptx.SpaceSharedCTA)
		for n := uint64(0); n < tensormap.Size; n += 16 {
			copy(t.bytes(ptx.SpaceGlobal, to+n, 16, true), t.bytes(s, from+n, 16, false))
		}
		return
	}
	fields := map[ptx.Words]tensormap.Field{
		ptx.FieldAddress: tensormap.FieldAddress, ptx.FieldRank: tensormap.FieldRank, ptx.FieldBox: tensormap.FieldBox, ptx.FieldDim: tensormap.FieldDim,
		ptx.FieldStride: tensormap.FieldStride, ptx.FieldStep: tensormap.FieldStep, ptx.FieldType: tensormap.FieldType,
		ptx.FieldInterleave: tensormap.FieldInterleave, ptx.FieldSwizzle: tensormap.FieldSwizzle, ptx.FieldFill: tensormap.FieldFill,
	}
	s, addr := t.at(i, 0, m.Space)
	if addr%tensormap.Align != 0 {
		t.fail(gpu.LostAlign, "tensor map")
	}
	var raw [tensormap.Size]byte
	for n := uint64(0); n < tensormap.Size; n += 8 {
		copy(raw[n:], t.bytes(s, addr+n, 8, true))
	}
	value, ord := &i.Args[1], 0
	if len(i.Args) == 3 {
		value, ord = &i.Args[2], int(i.Args[1].Value)
	}
	for word, f := range fields {
		if m.HasWord(word) {
			tensormap.Replace(&raw, f, ord, t.get(value, m.Type()))
		}
	}
	for n := uint64(0); n < tensormap.Size; n += 8 {
		copy(t.bytes(s, addr+n, 8, true), raw[n:])
	}
}

// prefetch is prefetch (9.7.8), of which only an unaligned tensor map is an error.
func (t *thread) prefetch(i *ptx.Instr) {
	if !i.Mods.HasWord(ptx.TensormapOf) {
		return
	}
	if _, addr := t.at(i, 0, i.Mods.Space); addr%tensormap.Align != 0 {
		t.fail(gpu.LostAlign, "tensor map")
	}
}
