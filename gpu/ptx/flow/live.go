package flow

import (
	"math/bits"

	"pvdrm/gpu/ptx"
)

// maxLiveWords bounds the sets of liveness, in words of 64 registers.
const maxLiveWords = 1 << 22

// Live are the registers whose values may be read later, by block.
type Live struct {
	g     *Graph
	words int
	in    []uint64 // of each block, where it begins
}

// carry stands for the carry flag, behind the registers of the function.
func (g *Graph) carry() int32 { return int32(len(g.Func.Regs)) }

// Liveness finds the live registers. It is ErrLarge for a function with too many blocks and
// registers, and ErrRaw for one with an instruction whose registers are not known.
func (g *Graph) Liveness() (*Live, error) {
	l := &Live{g: g, words: (len(g.Func.Regs) + 1 + 63) / 64}
	n := l.words * len(g.Blocks)
	if n > maxLiveWords {
		return nil, ErrLarge
	}
	g.effort.Memory(8 * (2*n + 2*l.words))
	defer g.effort.Free(8 * (n + 2*l.words))
	l.in = make([]uint64, n)
	set := make([]uint64, l.words)
	// A block is looked at again when a successor's set has grown.
	work := make([]int32, 0, len(g.Blocks))
	waits := make([]bool, len(g.Blocks))
	for b := range g.Blocks {
		work, waits[b] = append(work, int32(b)), true
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work, waits[b] = work[:len(work)-1], false
		l.atEnd(b, set)
		if err := l.back(b, g.Blocks[b].First, set); err != nil {
			return nil, err
		}
		in, grown := l.at(b), false
		for w, x := range set {
			grown = grown || x&^in[w] != 0
			in[w] |= x
		}
		if !grown {
			continue
		}
		for _, p := range g.Blocks[b].Preds {
			if !waits[p] {
				work, waits[p] = append(work, p), true
			}
		}
	}
	return l, nil
}

func (l *Live) at(b int32) []uint64 { return l.in[int(b)*l.words:][:l.words] }

// atEnd sets set to what is live at the end of a block.
func (l *Live) atEnd(b int32, set []uint64) {
	clear(set)
	for _, s := range l.g.Blocks[b].Succs {
		l.g.effort.Steps(1 + l.words/4)
		for w, x := range l.at(s) {
			set[w] |= x
		}
	}
}

// back takes set from the end of a block to before statement at of it.
func (l *Live) back(b, at int32, set []uint64) error {
	for k := l.g.Blocks[b].Last - 1; k >= at; k-- {
		i, ok := l.g.Func.Body[k].(*ptx.Instr)
		if !ok {
			continue
		}
		l.g.effort.Step()
		if !i.EachRegister(func(reg int32, write bool) {
			if write && i.Guard.Name == "" {
				set[reg/64] &^= 1 << (reg % 64)
			}
		}) {
			return ErrRaw
		}
		c := l.g.carry()
		if writesCarry(i) && i.Guard.Name == "" {
			set[c/64] &^= 1 << (c % 64)
		}
		if readsCarry(i) {
			set[c/64] |= 1 << (c % 64)
		}
		i.EachRegister(func(reg int32, write bool) {
			if !write {
				set[reg/64] |= 1 << (reg % 64)
			}
		})
	}
	return nil
}

func writesCarry(i *ptx.Instr) bool { return i.Mods.Has(ptx.CC) }

func readsCarry(i *ptx.Instr) bool {
	return i.Op == ptx.OpAddc || i.Op == ptx.OpSubc || i.Op == ptx.OpMadc
}

// Before returns the registers that are live before a statement, in order, and whether the carry
// flag is, too.
func (l *Live) Before(at int32) (regs []int32, carry bool) {
	b := l.g.Of[at]
	set := make([]uint64, l.words)
	l.atEnd(b, set)
	if l.back(b, at, set) != nil { // Liveness went over it without an error
		return nil, false
	}
	for w, x := range set {
		for ; x != 0; x &= x - 1 {
			regs = append(regs, int32(64*w+bits.TrailingZeros64(x)))
		}
	}
	if n := len(regs); n > 0 && regs[n-1] == l.g.carry() {
		return regs[:n-1], true
	}
	return regs, false
}
