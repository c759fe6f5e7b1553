//go:build amd64 && linux

package jit

import (
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Accesses of .shared by one register to words that follow one another, where each lane has a row of words for itself: a gather
// or a scatter of each word takes the lanes one by one. Where the rows of all lanes are equally far from one another, and
// do not overlap, four words of each lane are moved at once, and turned in vectors. That is looked at where the first of such a
// run of accesses begins; between them are only operations that do not leave native code, so that no order can be seen
// from outside: no lane accesses what another one does. Where lanes lie otherwise, each access is compiled as it is.

const (
	quadWords  = 4
	maxRow     = 64  // words of a row
	quadAhead  = 192 // how far a run goes
	leastQuads = 6   // accesses of a run
	maxStride  = 1 << 16
)

// quadRun is a run of such accesses.
type quadRun struct {
	first, last int32 // positions
	ref         regRef
	low         uint64 // the offset of the first word
	align       int32
	loads       [maxRow]int32 // by word: the position, or 0
	stores      [maxRow]int32
	held        [maxRow][2]x86.Z // by word: what is loaded and not asked for yet
	holds       uint32           // the vector registers that have those
}

// word is which word of the run an access is of.
func (r *quadRun) word(in *ir.Inst) (w int, ok bool) {
	d := in.Imm - r.low
	return int(d / 4 % maxRow), d%4 == 0 && d/4 < maxRow
}

// words is how many words the rows have, in whole quads.
func (r *quadRun) words() (n int) {
	for w := range maxRow {
		if r.loads[w] != 0 || r.stores[w] != 0 {
			n = w/quadWords*quadWords + quadWords
		}
	}
	return n
}

// cut takes what lies behind a position from the run, and reports whether enough is left.
func (r *quadRun) cut(last int32) bool {
	n := 0
	r.last = last
	for w := range maxRow {
		for _, at := range []*int32{&r.loads[w], &r.stores[w]} {
			if *at > last {
				*at = 0
			} else if *at != 0 {
				n++
			}
		}
	}
	return n >= leastQuads
}

// isWordOfShared reports whether an operation is an access of a run.
func (e *emitter) isWordOfShared(in *ir.Inst) bool {
	switch in.Op {
	case ir.OpLoad, ir.OpStore, ir.OpLoadWide, ir.OpStoreWide:
		return in.Space == ir.SpaceShared && in.Target == 4 && in.Guard == 0 && e.known(in)
	}
	return false
}

// staysBetween reports whether an operation may stand between the accesses of a run: native code does it whatever its operands are.
func (e *emitter) staysBetween(in *ir.Inst) bool {
	switch {
	case in.Guard != 0 || !e.known(in) || e.helped(in):
		return false
	case in.Kind == ir.KCompare:
		return true
	case in.Kind != ir.KLane32 && in.Kind != ir.KLane64 || in.Op < ir.OpRow:
		return false
	}
	return rowOps[in.Op-ir.OpRow].check == nil
}

// quadRunAt finds the run that begins at pc, before the end of its block, or nil.
func (e *emitter) quadRunAt(pc, end int32) *quadRun {
	in := &e.code[pc]
	if e.masked || pc == e.fn.Entry || e.looked > maxLooked || !e.isWordOfShared(in) {
		return nil
	}
	r := &quadRun{first: pc, ref: regRef{addressFile(in.Op), in.A}, low: in.Imm, align: int32(in.Align)}
	if e.constant(r.ref.kind, r.ref.index) || e.isSame(r.ref.kind, r.ref.index) || e.at(r.ref.kind, r.ref.index).uniform {
		return nil
	}
	open, loading, whole := -1, -1, int32(-1) // the quads that are stored and loaded, and where none of the first kind is open
	var loaded [maxRow / quadWords]bool
	for at := pc; at < min(end, pc+quadAhead); at++ {
		in := &e.code[at]
		e.looked++
		mine := e.isWordOfShared(in) && in.A == r.ref.index && addressFile(in.Op) == r.ref.kind && int32(in.Align) == r.align
		w, ok := r.word(in)
		switch {
		case mine && !ok, !mine && !e.staysBetween(in):
			at = end
			continue
		case mine && stores(in.Op):
			if quad := w / quadWords; r.stores[w] != 0 || open >= 0 && quad != open {
				at = end
				continue
			} else if r.stores[w], open = at, quad; r.isStored(quad) {
				open = -1
			}
		case mine:
			quad := w / quadWords
			if r.loads[w] != 0 || r.stores[w] != 0 || quad != loading && loaded[quad] {
				at = end
				continue
			}
			r.loads[w], loading, loaded[quad] = at, quad, true
		}
		over := false
		registers(in, func(file ir.RegKind, reg uint32, write bool) {
			over = over || write && regRef{file, reg} == r.ref
		})
		if over {
			break
		}
		if mine && open < 0 {
			whole = at
		}
	}
	if whole < 0 || !r.cut(whole) {
		return nil
	}
	return r
}

// isStored reports whether all words of a quad are stored.
func (r *quadRun) isStored(quad int) bool {
	return !slices.Contains(r.stores[quad*quadWords:][:quadWords], 0)
}

// byQuads looks whether the lanes lie as a run needs it, and has them run code that moves quads then, which goes on behind the run. Else
// it goes on here.
func (e *emitter) byQuads(r *quadRun, end int32, kills [][]regRef) {
	quads := e.a.NewLabel()
	e.mode = allOfThem
	e.inStride(r, quads)
	e.unpin()
	was, holds, mine := e.cache.clone(), e.claims.holds, slices.Clone(kills[:r.last+1-r.first])
	for i := range mine {
		mine[i] = slices.Clone(mine[i])
	}
	e.later = append(e.later, func() {
		cache, places := e.cache, e.places
		e.cache, e.places, e.end, e.stays = was, map[regRef]placed{}, end, true
		e.claims.holds, e.claims.heldTo = holds, r.first
		e.a.Bind(quads)
		for pc := r.first; pc <= r.last; pc++ {
			e.holdAt(pc)
			e.ending = mine[pc-r.first]
			e.inQuads(r, pc)
			e.unpin()
			e.hold(r.holds)
			e.forgetPlaces(&e.code[pc])
			for _, k := range e.ending {
				e.drop(k.kind, k.index)
			}
		}
		e.save(e.unsaved(nil))
		e.a.Jump(e.entries[r.last+1-e.fn.Entry])
		e.cache, e.places, e.stays = cache, places, false
	})
}

// clone copies a cache.
func (c *cache) clone() cache {
	d := *c
	d.vals32, d.vals64 = slices.Clone(c.vals32), slices.Clone(c.vals64)
	return d
}

// inStride goes to a label where the rows of the run's lanes are equally far from one another, do not overlap, and lie in .shared. It
// has the host's address of the first one in Frame.groups, and how far they are, in bytes.
func (e *emitter) inStride(r *quadRun, quads x86.Label) {
	a, wide, other := &e.a, r.ref.kind == ir.In64, e.a.NewLabel()
	v := *e.use(r.ref.kind, r.ref.index, false)
	e.writeBack(r.ref.kind, r.ref.index)
	at, bytes := home(r.ref.kind, r.ref.index, 0), int32(4*r.words())
	size := 4
	if wide {
		size = 8
	}
	a.RM(x86.MOV, wide, x86.RAX, at)
	a.RM(x86.MOV, wide, x86.RCX, plus(at, size))
	a.RR(x86.SUB, wide, x86.RCX, x86.RAX)
	a.RI(x86.CMP, true, x86.RCX, bytes)
	a.JumpIf(x86.Below, other)
	a.RI(x86.CMP, true, x86.RCX, maxStride)
	a.JumpIf(x86.Above, other)
	e.equallyFar(&v, wide, other)
	a.Imm64(x86.RDX, r.low)
	a.RR(x86.ADD, wide, x86.RDX, x86.RAX)
	a.RM(x86.SUB, wide, x86.RDX, frameAt(offOwn))
	a.RR(x86.MOV, true, x86.RBX, x86.RDX)
	a.RR(x86.OR, true, x86.RBX, x86.RCX)
	a.RI(x86.AND, true, x86.RBX, r.align)
	a.JumpIf(x86.NotEqual, other)
	a.RM(x86.CMP, true, x86.RDX, frameAt(offLimits+8)) // how many bytes there are
	a.JumpIf(x86.AboveEqual, other)
	a.RR(x86.MOV, true, x86.RBX, x86.RCX)
	for range 5 {
		a.RR(x86.ADD, true, x86.RBX, x86.RBX)
	}
	a.RR(x86.SUB, true, x86.RBX, x86.RCX)
	a.RR(x86.ADD, true, x86.RBX, x86.RDX)
	a.RI(x86.ADD, true, x86.RBX, bytes)
	a.RM(x86.CMP, true, x86.RBX, frameAt(offLimits+8))
	a.JumpIf(x86.Above, other)
	a.RM(x86.ADD, true, x86.RDX, frameAt(offShared))
	a.Store(true, groupAt(0), x86.RDX)
	a.Store(true, groupAt(1), x86.RCX)
	a.Jump(quads)
	a.Bind(other)
}

// equallyFar goes to a label unless lane n of a register is what is in rax and n times what is in rcx, below 1<<17.
func (e *emitter) equallyFar(v *value, wide bool, other x86.Label) {
	a, differ := &e.a, t3
	if !wide {
		a.FromGP(&x86.FROMGPD, t0, x86.RCX, x86.Arg{})
		a.FromGP(&x86.FROMGPD, t1, x86.RAX, x86.Arg{})
		for p := range 2 {
			a.VM(&x86.PMULLD, t2, t0, constant(offLanes+int32(64*p)), x86.Arg{})
			a.V(&x86.PADDD, t2, t2, t1, x86.Arg{})
			if p == 0 {
				a.V(&x86.PXORD, differ, t2, v.z[p], x86.Arg{})
				continue
			}
			a.V(&x86.PTERNLOGD, differ, t2, v.z[p], x86.Arg{Imm: orXor})
		}
	} else {
		a.FromGP(&x86.FROMGPQ, t0, x86.RCX, x86.Arg{})
		a.FromGP(&x86.FROMGPQ, t1, x86.RAX, x86.Arg{})
		for p := range 4 {
			if p == 2 {
				a.V(&x86.PSLLQ, t2, 0, t0, x86.Arg{Imm: 4})
				a.V(&x86.PADDQ, t1, t1, t2, x86.Arg{})
			}
			a.VM(&x86.PMULUDQ, t2, t0, constant(offStep64+int32(64*(p%2))), x86.Arg{})
			a.V(&x86.PADDQ, t2, t2, t1, x86.Arg{})
			if p == 0 {
				a.V(&x86.PXORQ, differ, t2, v.z[p], x86.Arg{})
				continue
			}
			a.V(&x86.PTERNLOGQ, differ, t2, v.z[p], x86.Arg{Imm: orXor})
		}
	}
	a.VK(&x86.PTESTMD, k7, differ, differ, x86.Arg{})
	a.KK(&x86.KORTESTD, k7, 0, k7)
	a.JumpIf(x86.NotEqual, other)
}

// inQuads compiles the operation at pc, which is part of a run: the first load of a quad loads all of it, and the last store of one stores it.
func (e *emitter) inQuads(r *quadRun, pc int32) {
	in := &e.code[pc]
	if !isAccess(in) {
		e.operation(pc, in)
		return
	}
	e.mode = allOfThem
	w, _ := r.word(in)
	quad, at := w/quadWords, r.loads[:]
	if stores(in.Op) {
		v := *e.use(ir.In32, in.D, false)
		for h := range 2 {
			e.a.VM(&x86.STORED, v.part(h), 0, quadRow(w%quadWords, h), x86.Arg{})
		}
		if at = r.stores[:]; pc == slices.Max(at[quad*quadWords:][:quadWords]) {
			e.unpin()
			e.storeQuad(quad)
		}
		return
	}
	words := at[quad*quadWords:][:quadWords]
	if pc == firstOf(words) {
		var regs [quadWords][2]x86.Z
		for k := range regs {
			regs[k] = [2]x86.Z{e.scratch(), e.scratch()}
		}
		e.loadQuad(quad, &regs)
		for k, at := range words {
			if at != 0 {
				r.held[quad*quadWords+k] = regs[k]
				r.holds |= 1<<regs[k][0] | 1<<regs[k][1]
			}
		}
	}
	d, _ := e.write(ir.In32, in.D, false)
	for h, z := range r.held[w] {
		e.a.V(&x86.MOVD, d[h], 0, z, x86.Arg{})
		r.holds &^= 1 << z
	}
}

// firstOf is the first position of a list in which 0 is none.
func firstOf(list []int32) (first int32) {
	for _, at := range list {
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// hold keeps vector registers from other use, until the next operation has been compiled.
func (e *emitter) hold(set uint32) {
	for i := range e.owners {
		if set>>i&1 != 0 {
			e.owners[i].pin = true
		}
	}
}

// quadRow is where a word of a quad waits for the others, of half h of the warp.
func quadRow(word, h int) x86.Mem { return frameAt(offQuad + int32(128*word+64*h)) }

// eachRow calls move with where a quad of each lane is: half of the warp, which vector and quarter of it the lane has.
func (e *emitter) eachRow(quad int, move func(h, row, quarter int, at x86.Mem)) {
	a, rows := &e.a, [2]x86.R{x86.RAX, x86.RBX}
	a.RM(x86.MOV, true, rows[0], groupAt(0))
	a.RM(x86.MOV, true, x86.RCX, groupAt(1))
	a.RR(x86.MOV, true, rows[1], x86.RCX)
	for range 4 {
		a.RR(x86.ADD, true, rows[1], rows[1])
	}
	a.RR(x86.ADD, true, rows[1], rows[0])
	for lane := range 16 {
		for h, r := range rows {
			move(h, lane%quadWords, lane/quadWords, x86.Mem{Base: r, Disp: int32(4 * quadWords * quad)})
			if lane < 15 {
				a.RR(x86.ADD, true, r, x86.RCX)
			}
		}
	}
}

// loadQuad loads four words of each lane.
func (e *emitter) loadQuad(quad int, regs *[quadWords][2]x86.Z) {
	e.eachRow(quad, func(h, row, quarter int, at x86.Mem) {
		z, op := regs[row][h], &x86.INSERTX4
		if quarter == 0 {
			op = &x86.LOADX4
			e.a.VM(op, z, 0, at, x86.Arg{})
			return
		}
		e.a.VM(op, z, z, at, x86.Arg{Imm: uint8(quarter)})
	})
	for h := range 2 {
		e.turn([4]x86.Z{regs[0][h], regs[1][h], regs[2][h], regs[3][h]})
	}
}

// storeQuad stores four words of each lane.
func (e *emitter) storeQuad(quad int) {
	var regs [2][4]x86.Z
	for h := range regs {
		for k := range regs[h] {
			regs[h][k] = e.scratch()
			e.a.VM(&x86.LOADD, regs[h][k], 0, quadRow(k, h), x86.Arg{})
		}
		e.turn(regs[h])
	}
	e.eachRow(quad, func(h, row, quarter int, at x86.Mem) {
		op := &x86.EXTRACTX4
		if quarter == 0 {
			op = &x86.STOREX4
		}
		e.a.VM(op, regs[h][row], 0, at, x86.Arg{Imm: uint8(quarter)})
	})
}

// turn turns four words by four lanes in each quarter of four vectors.
func (e *emitter) turn(z [4]x86.Z) {
	a := &e.a
	for _, u := range []struct {
		op      *x86.Op
		d, s, r x86.Z
	}{
		{op: &x86.UNPCKLD, d: t0, s: z[0], r: z[1]}, {op: &x86.UNPCKHD, d: t1, s: z[0], r: z[1]},
		{op: &x86.UNPCKLD, d: t2, s: z[2], r: z[3]}, {op: &x86.UNPCKHD, d: t3, s: z[2], r: z[3]},
		{op: &x86.UNPCKLQ, d: z[0], s: t0, r: t2}, {op: &x86.UNPCKHQ, d: z[1], s: t0, r: t2},
		{op: &x86.UNPCKLQ, d: z[2], s: t1, r: t3}, {op: &x86.UNPCKHQ, d: z[3], s: t1, r: t3},
	} {
		a.V(u.op, u.d, u.s, u.r, x86.Arg{})
	}
}
