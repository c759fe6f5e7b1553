package ref

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// barriers is how many a block has (section 9.7.12).
const barriers = 16

// barrier is one of them.
type barrier struct {
	here  []bool // threads that have arrived, by number
	used  bool   // someone has
	need  uint64 // threads that complete it; 0: all that have not exited
	count int    // arrivals
	yes   int    // of bar.red: those whose predicate holds
}

func (b *barrier) reset(threads int) { *b = barrier{here: make([]bool, threads)} }

// barrierArgs splits the operands of bar and barrier: the barrier, the number of
// threads if it is there, and the predicate of .red.
func barrierArgs(i *ptx.Instr) (id, count, pred *ptx.Operand) {
	args := i.Args
	if i.Mods.Mode == ptx.ModeRed {
		pred = &args[len(args)-1]
		args = args[1 : len(args)-1]
	}
	if len(args) > 1 {
		count = &args[1]
	}
	return &args[0], count, pred
}

// barrier is bar and barrier: t arrives and, but for .arrive, waits.
func (t *thread) barrier(i *ptx.Instr) {
	id, count, pred := barrierArgs(i)
	n, need, size := t.get(id, ptx.U32), uint64(0), uint64(len(t.b.threads))
	if n >= barriers {
		t.fail(gpu.LostInstruction, fmt.Sprintf("barrier %d of %d", n, barriers))
	}
	if count != nil {
		if need = t.get(count, ptx.U32); need == 0 || need%warpSize != 0 || need > (size+warpSize-1)/warpSize*warpSize {
			t.fail(gpu.LostInstruction, fmt.Sprintf("barrier %d for %d threads", n, need))
		}
	}
	bar := &t.b.bars[n]
	switch {
	case bar.used && bar.need != need:
		t.fail(gpu.LostInstruction, fmt.Sprintf("barrier %d for %d threads, while others wait at it for %d", n, need, bar.need))
	case bar.here[t.n]:
		t.fail(gpu.LostInstruction, fmt.Sprintf("a thread arrives at barrier %d twice", n))
	}
	bar.used, bar.need, bar.here[t.n] = true, need, true
	bar.count++
	if pred != nil {
		bar.yes += int(t.get(pred, ptx.Pred))
	}
	if i.Mods.Mode != ptx.ModeArrive {
		t.state, t.wait, t.bar = atBarrier, i, int(n)
	}
	t.b.settle(int(n))
}

// arrivals looks at all barriers, because a thread has exited.
func (b *block) arrivals() {
	for n := range b.bars {
		if b.bars[n].used {
			b.settle(n)
		}
	}
}

// settle releases the threads at barrier n if all have arrived. A warp of which
// all threads that have not exited are here counts as 32 threads.
func (b *block) settle(n int) {
	bar := &b.bars[n]
	if bar.need == 0 && bar.count < b.live {
		return
	}
	arrived, all := uint64(0), true
	for first := 0; first < len(b.threads); first += warpSize {
		here, missing := uint64(0), false
		for _, t := range b.threads[first].warp() {
			here += bit(bar.here[t.n])
			missing = missing || !bar.here[t.n] && t.state != exited
		}
		if here > 0 && !missing {
			here = warpSize
		}
		arrived += here
		all = all && !missing
	}
	if bar.need == 0 && !all || bar.need != 0 && arrived < bar.need {
		return
	}
	for _, t := range b.threads {
		if t.state == atBarrier && t.bar == n {
			t.state = running
			t.reduced(bar)
		}
	}
	bar.reset(len(b.threads))
}

// reduced gives t the result of bar.red.
func (t *thread) reduced(bar *barrier) {
	if t.wait.Mods.Mode != ptx.ModeRed {
		return
	}
	d := &t.wait.Args[0]
	switch t.wait.Mods.Bool {
	case ptx.BoolPopc:
		t.set(d, uint64(bar.yes), ptx.U32)
	case ptx.BoolAnd:
		t.set(d, bit(bar.yes == bar.count), ptx.Pred)
	case ptx.BoolOr:
		t.set(d, bit(bar.yes > 0), ptx.Pred)
	}
}
