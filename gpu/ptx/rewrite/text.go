package rewrite

import (
	"fmt"
	"strconv"
	"strings"

	"pvdrm/gpu/ptx"
)

// The part of the area that a block has:
//
//	0   state of the block: blockFresh, blockBegun, blockStopped (not of kernels whose threads stop alone)
//	4   threads that have come to save .shared
//	16  of each thread: its point, then .local, then registers, in words of 8 bytes. Word n of all threads
//	    lies side by side, so that a warp accesses them together, and before their words n+1
//	    .shared: variables, then the dynamic part
//
// The point of a thread is 0 before it begins and, of kernels whose threads wait for each other, when it
// has ended; pointBegun when it has begun or ended; and else pointFirst + the number of the point where
// it stopped. The word behind the signal becomes 1 when a thread ends that has more to do.
const (
	blockFresh = iota
	blockBegun
	blockStopped
)

const (
	pointBegun = 1 + iota
	pointFirst
)

// pointBytes is where .local begins, of a thread.
const pointBytes = 8

// text is PTX that is written.
type text struct {
	strings.Builder
	prefix string
	labels int
}

// line adds an instruction or declaration. In it, "%:name" is a register of the twin, and ":name" a label
// or parameter.
func (t *text) line(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	s = strings.ReplaceAll(s, "%:", "%"+t.prefix)
	t.WriteString("\t" + strings.ReplaceAll(s, " :", " "+t.prefix) + ";\n")
}

// label adds a label.
func (t *text) label(name string) { t.WriteString(t.prefix + name + ":\n") }

// stmts makes statements of the text, which ends with an instruction.
func (t *text) stmts() *ptx.Instr {
	return &ptx.Instr{Op: ptx.OpRaw, Raw: strings.TrimSuffix(strings.TrimPrefix(t.String(), "\t"), ";\n")}
}

func (p *pauser) text() *text { return &text{prefix: p.s.prefix} }

// build writes the twin.
func (p *pauser) build() *ptx.Func {
	p.out.thread, p.out.shared = p.layout()
	t := *p.f
	t.Name = p.s.prefix + p.f.Name
	t.Params = append(t.Params[:len(t.Params):len(t.Params)], &ptx.Var{Name: p.s.prefix + "state", Space: ptx.SpaceParam, Type: ptx.B8, Align: stateAlign, Array: true, Dims: []int64{stateBytes}})
	p.s.e.Memory(stmtBytes * len(p.f.Body))
	t.Text, t.Body = "", p.front()
	put := map[int32][]ptx.Stmt{} // in place of statements
	for k, s := range p.f.Body {
		if n, ok := p.looks[int32(k)]; ok {
			t.Body = append(t.Body, p.check(n, p.weight(int32(k))), &ptx.Label{Name: p.s.prefix + "back" + strconv.Itoa(n)})
			switch x := p.single[int32(k)]; {
			case x != nil && x.strip != nil:
				t.Body = append(t.Body, p.aim(n, x.strip), &ptx.Label{Name: p.inName(n)})
				p.strips(n, x, put)
			case x != nil:
				t.Body = append(t.Body, p.copies(x, p.outName(n))...)
				if !x.out {
					put[x.branch] = []ptx.Stmt{p.f.Body[x.branch], &ptx.Label{Name: p.outName(n)}}
				}
			}
		}
		n, barrier := p.barriers[int32(k)]
		switch {
		case barrier && p.together:
			t.Body = append(append(t.Body, p.count(n)...), s, &ptx.Label{Name: p.met(n)})
		case barrier:
			t.Body = append(t.Body, p.agree(n, p.weight(int32(k)))...)
		}
		_, loc := s.(*ptx.Loc)
		if i, ok := s.(*ptx.Instr); loc || p.inFront(int32(k)) || barrier && ok && i.Mods.Mode != ptx.ModeRed {
			continue
		}
		if list := put[int32(k)]; list != nil {
			t.Body = append(t.Body, list...)
			continue
		}
		t.Body = append(t.Body, s)
	}
	t.Body = append(t.Body, p.cold())
	return &t
}

// layout returns what a thread takes of the area, and what static .shared takes.
func (p *pauser) layout() (thread, shared int) {
	thread = p.registersAt()
	most := 0
	for _, regs := range p.saves {
		n := 0
		for _, r := range regs {
			n += p.f.Regs[r].Type.Size()
		}
		most = max(most, n)
	}
	thread = (thread + most + 7) / 8 * 8
	for _, v := range p.static {
		shared += int(v.Size())
	}
	return thread, (shared + 15) / 16 * 16
}

// registersAt is where the registers of a thread begin.
func (p *pauser) registersAt() int {
	at := pointBytes
	for _, v := range p.local {
		at += (int(v.Size()) + 7) / 8 * 8
	}
	return at
}

// entry is what precedes the body: it finds out whether the thread is to begin, to go on or to end.
func (p *pauser) entry() *ptx.Instr {
	t := p.text()
	t.line(".reg .pred %%:p, %%:q")
	t.line(".reg .b32 %%:left, %%:t, %%:n, %%:tid, %%:point, %%:rank, %%:by")
	t.line(".reg .b64 %%:head, %%:base, %%:threads, %%:a, %%:b, %%:v, %%:w")
	p.nears(t)
	p.place(t)
	if p.mode == alone {
		p.field(t, "%:a", 0)
		t.line("ld.global.u32 %%:point, [%%:a]")
		t.line("setp.eq.u32 %%:p, %%:point, %d", pointBegun)
		t.line("@%%:p exit")
		t.line("setp.ne.u32 %%:p, %%:point, 0")
		t.line("@%%:p bra :resume")
		p.see(t, true)
		t.line("@%%:q bra :later")
		t.line("mov.u32 %%:point, %d", pointBegun)
		t.line("st.global.u32 [%%:a], %%:point")
	} else {
		p.decide(t)
	}
	t.line("mov.u32 %%:left, %d", p.o.Interval)
	return t.stmts()
}

// What the first thread of a block decides at the entry, in the word wish. It is 0 where the block begins, and then the
// number of a barrier.
const (
	wishOver = 0xffffffff - iota
	wishResume
	wishLater
)

// decide has the first thread find out what the block is to do, for the others. A thread that is ahead may write
// the word before another has read it, but only where the block has begun. The barrier is plain: with one that has a result
// native code of the software GPU would leave at all barriers of the kernel.
func (p *pauser) decide(t *text) {
	t.line(".reg .b32 %%:phase")
	t.line(".shared .align 4 .u32 :wish")
	t.line("setp.eq.u32 %%:p, %%:tid, 0")
	t.line("ld.param.u64 %%:b, [%sstate]", t.prefix)
	t.line("@%%:p ld.volatile.global.u32 %%:n, [%%:head]")
	t.line("@%%:p ld.volatile.global.u32 %%:t, [%%:b]")
	t.line("setp.%s %%:q, %%:t, 0", map[bool]string{false: "ne.u32", true: "le.s32"}[p.o.Count])
	t.line("selp.u32 %%:phase, %d, 0, %%:q", wishLater)
	t.line("setp.eq.u32 %%:q, %%:n, %d", blockBegun)
	t.line("selp.u32 %%:phase, %d, %%:phase, %%:q", wishOver)
	t.line("setp.eq.u32 %%:q, %%:n, %d", blockStopped)
	t.line("selp.u32 %%:phase, %d, %%:phase, %%:q", wishResume)
	t.line("setp.eq.and.u32 %%:q, %%:phase, 0, %%:p")
	t.line("mov.u32 %%:n, %d", blockBegun)
	t.line("@%%:q st.global.u32 [%%:head], %%:n")
	t.line("@%%:p st.volatile.shared.u32 [%swish], %%:phase", t.prefix)
	t.line("mov.u32 %%:phase, 1")
	t.line("barrier.sync 0")
	t.line("ld.volatile.shared.u32 %%:n, [%swish]", t.prefix)
	t.line("setp.eq.u32 %%:q, %%:n, %d", wishOver)
	t.line("@%%:q exit")
	t.line("setp.eq.u32 %%:q, %%:n, %d", wishResume)
	t.line("@%%:q bra :resume")
	t.line("setp.eq.u32 %%:q, %%:n, %d", wishLater)
	t.line("@%%:q bra :later")
}

// place finds the block's part of the area, the thread's number and the number of threads.
func (p *pauser) place(t *text) {
	t.line("mov.u32 %%:t, %%ctaid.z")
	t.line("cvt.u64.u32 %%:a, %%:t")
	for _, axis := range []string{"y", "x"} {
		t.line("mov.u32 %%:t, %%nctaid.%s", axis)
		t.line("cvt.u64.u32 %%:b, %%:t")
		t.line("mov.u32 %%:t, %%ctaid.%s", axis)
		t.line("cvt.u64.u32 %%:v, %%:t")
		t.line("mad.lo.u64 %%:a, %%:a, %%:b, %%:v")
	}
	t.line("ld.param.u64 %%:b, [%sstate+8]", t.prefix)
	t.line("ld.param.u64 %%:v, [%sstate+16]", t.prefix)
	t.line("mad.lo.u64 %%:head, %%:a, %%:v, %%:b")
	t.line("add.u64 %%:base, %%:head, %d", headerBytes)
	t.line("mov.u32 %%:tid, %%tid.z")
	t.line("mov.u32 %%:by, %%ntid.z")
	for _, axis := range []string{"y", "x"} {
		t.line("mov.u32 %%:t, %%ntid.%s", axis)
		t.line("mul.lo.u32 %%:by, %%:by, %%:t")
		t.line("mov.u32 %%:n, %%tid.%s", axis)
		t.line("mad.lo.u32 %%:tid, %%:tid, %%:t, %%:n")
	}
	t.line("cvt.u64.u32 %%:threads, %%:by")
}

// field computes where a word of the thread lies, of which offset is a byte.
func (p *pauser) field(t *text, to string, offset int) {
	t.line("mad.lo.u64 %s, %%:threads, %d, %%:base", to, offset/8*8)
	t.line("mad.wide.u32 %s, %%:tid, 8, %s", to, to)
}

// see looks at the signal: q becomes whether the thread is to stop, or, at its entry, not to begin.
func (p *pauser) see(t *text, entry bool) {
	t.line("ld.param.u64 %%:b, [%sstate]", t.prefix)
	switch {
	case !p.o.Count:
		t.line("ld.volatile.global.u32 %%:t, [%%:b]")
		t.line("setp.ne.u32 %%:q, %%:t, 0")
	case entry:
		t.line("ld.volatile.global.u32 %%:t, [%%:b]")
		t.line("setp.le.s32 %%:q, %%:t, 0")
	default:
		t.line("atom.global.add.u32 %%:t, [%%:b], -1")
		t.line("setp.le.s32 %%:q, %%:t, 1")
	}
}

// check is what stands at the head of a loop.
func (p *pauser) check(n, weight int) *ptx.Instr {
	t := p.text()
	t.line("sub.s32 %%:left, %%:left, %d", weight)
	t.line("setp.le.s32 %%:p, %%:left, 0")
	t.line("@%%:p bra :look%d", n)
	return t.stmts()
}

// agree is what stands in place of a barrier, or before one with a result: the threads that come there
// learn whether one of their block stops. Such a one has written down before which barrier it does, so that
// one that is past this barrier already, and stops before the next one, stops no thread here. (A barrier with
// a result would say the same, but on an H200 threads of one warp that wait at two of them wait for good.)
func (p *pauser) agree(n, weight int) []ptx.Stmt {
	t := p.text()
	t.line("setp.ne.u32 %%:q, %%:left, %%:left")
	if p.mode == warps {
		t.line("sub.s32 %%:left, %%:left, %d", weight)
		t.line("setp.le.s32 %%:p, %%:left, 0")
		t.line("@%%:p bra :look%d", n)
	}
	after := p.text()
	p.agreed(after)
	after.line("@%%:p bra :halt%d", n)
	return []ptx.Stmt{t.stmts(), &ptx.Label{Name: p.s.prefix + "back" + strconv.Itoa(n)}, after.stmts()}
}

// cold is what stands behind the body: looks, and how threads stop and go on.
func (p *pauser) cold() *ptx.Instr {
	t := p.text()
	t.line("ret")
	for n := range p.saves {
		p.look(t, n)
	}
	p.leave(t)
	p.stop(t)
	p.resume(t)
	return t.stmts()
}

// isBarrier reports whether a point is at a barrier.
func (p *pauser) isBarrier(n int) bool {
	for _, m := range p.barriers {
		if m == n {
			return true
		}
	}
	return false
}

// look is a look at the signal, and what follows where the thread stops.
func (p *pauser) look(t *text, n int) {
	barrier := p.isBarrier(n)
	switch {
	case p.together:
		p.lookTogether(t, n)
	case !barrier || p.mode == warps:
		t.label("look" + strconv.Itoa(n))
		t.line("mov.u32 %%:left, %d", p.o.Interval)
		p.see(t, false)
	}
	switch {
	case !barrier:
		t.line("@!%%:q bra :back%d", n)
	case p.mode == warps && !p.together:
		t.line("bra :back%d", n)
	}
	if barrier && !p.together {
		t.label("halt" + strconv.Itoa(n))
	}
	t.line("mov.u32 %%:point, %d", pointFirst+n)
	t.line("bra :leave")
}

// stop saves what is left, and ends the thread.
func (p *pauser) stop(t *text) {
	t.label("stop")
	p.locals(t, true)
	p.field(t, "%:a", 0)
	t.line("st.global.u32 [%%:a], %%:point")
	if p.mode != alone {
		t.line("atom.global.add.u32 %%:rank, [%%:head+4], 1")
		if p.async {
			t.line("cp.async.wait_all")
		}
		t.line("barrier.sync 0")
		t.line("ld.volatile.global.u32 %%:by, [%%:head+4]")
		p.sharedMemory(t, true)
		t.line("mov.u32 %%:n, %d", blockStopped)
		t.line("st.global.u32 [%%:head], %%:n")
	}
	t.label("later")
	t.line("ld.param.u64 %%:b, [%sstate]", t.prefix)
	t.line("mov.u32 %%:t, 1")
	t.line("st.global.u32 [%%:b+4], %%:t")
	t.line("exit")
}

// resume restores what was saved.
func (p *pauser) resume(t *text) {
	t.label("resume")
	if p.mode != alone {
		t.line("mov.u32 %%:rank, %%:tid")
		p.sharedMemory(t, false)
	}
	p.field(t, "%:a", 0)
	t.line("ld.global.u32 %%:point, [%%:a]")
	t.line("mov.u32 %%:n, %d", map[bool]int{true: pointBegun, false: 0}[p.mode == alone])
	t.line("st.global.u32 [%%:a], %%:n")
	p.locals(t, false)
	if p.mode != alone {
		t.line("setp.eq.u32 %%:p, %%:tid, 0")
		t.line("mov.u32 %%:n, 0")
		t.line("@%%:p st.global.u32 [%%:head+4], %%:n")
		t.line("mov.u32 %%:n, %d", blockBegun)
		t.line("@%%:p st.global.u32 [%%:head], %%:n")
		t.line("barrier.sync 0")
		t.line("setp.eq.u32 %%:p, %%:point, 0")
		t.line("@%%:p exit")
	}
	for n := range p.saves {
		t.line("setp.eq.u32 %%:p, %%:point, %d", pointFirst+n)
		t.line("@%%:p bra :go%d", n)
	}
	t.line("trap")
	for n := range p.saves {
		t.label("go" + strconv.Itoa(n))
		p.registers(t, n, false)
		t.line("mov.u32 %%:left, %d", p.o.Interval)
		t.line("setp.ne.u32 %%:q, %%:left, %%:left")
		t.line("bra :back%d", n)
	}
	t.line("exit")
}

// locals saves or restores the variables in .local.
func (p *pauser) locals(t *text, save bool) {
	at := pointBytes
	for _, v := range p.local {
		s, words, rest := step(v), int(v.Size()/8), int(v.Size()%8)
		p.field(t, "%:a", at)
		at += (int(v.Size()) + 7) / 8 * 8
		t.line("mov.u64 %%:b, %s", v.Name)
		if words > 0 {
			loop := p.loop(t)
			t.line("mul.lo.u64 %%:w, %%:threads, 8")
			t.line("mov.u32 %%:n, %d", words)
			t.label(loop)
			p.move(t, "local", s, 8, save)
			t.line("add.u64 %%:a, %%:a, %%:w")
			t.line("add.u64 %%:b, %%:b, 8")
			t.line("sub.u32 %%:n, %%:n, 1")
			t.line("setp.ne.u32 %%:p, %%:n, 0")
			t.line("@%%:p bra :%s", loop)
		}
		p.move(t, "local", s, rest, save)
	}
}

// loop returns a label that is new.
func (p *pauser) loop(t *text) string {
	t.labels++
	p.s.e.Step()
	return fmt.Sprintf("loop%d_%d", t.Len(), t.labels)
}

// move moves n bytes, s at a time, between the area, at a, and a variable, at b.
func (p *pauser) move(t *text, space string, s, n int, save bool) {
	for k := 0; k < n; k += s {
		if save {
			t.line("ld.%s.b%d %%:v, [%%:b+%d]", space, 8*s, k)
			t.line("st.global.b%d [%%:a+%d], %%:v", 8*s, k)
		} else {
			t.line("ld.global.b%d %%:v, [%%:a+%d]", 8*s, k)
			t.line("st.%s.b%d [%%:b+%d], %%:v", space, 8*s, k)
		}
	}
}

// sharedMemory saves or restores .shared, of which each thread has every by-th piece from rank on.
func (p *pauser) sharedMemory(t *text, save bool) {
	at := 0
	for _, v := range p.static {
		t.line("mov.u32 %%:t, %d", v.Size()/uint64(step(v)))
		p.pieces(t, v.Name, at, step(v), save)
		at += int(v.Size())
	}
	if p.extern != nil {
		s := 1 // of the size nothing is known
		t.line("mov.u32 %%:t, %%dynamic_smem_size")
		p.pieces(t, p.extern.Name, p.out.shared, s, save)
	}
}

// pieces moves t pieces of a variable.
func (p *pauser) pieces(t *text, name string, at, s int, save bool) {
	loop, done := p.loop(t), p.loop(t)
	t.line("mov.u64 %%:w, %s", name)
	t.line("mov.u32 %%:n, %%:rank")
	t.label(loop)
	t.line("setp.ge.u32 %%:p, %%:n, %%:t")
	t.line("@%%:p bra :%s", done)
	t.line("mad.lo.u64 %%:a, %%:threads, %d, %%:base", p.out.thread)
	t.line("add.u64 %%:a, %%:a, %d", at)
	t.line("mad.wide.u32 %%:a, %%:n, %d, %%:a", s)
	t.line("mad.wide.u32 %%:b, %%:n, %d, %%:w", s)
	p.move(t, "shared", s, s, save)
	t.line("add.u32 %%:n, %%:n, %%:by")
	t.line("bra :%s", loop)
	t.label(done)
}
