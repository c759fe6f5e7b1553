package rewrite

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"pvdrm/gpu/ptx"
)

// Loops of one block, which have most of the instructions that run, cost more to look in than others: a
// look at each round would take a fifth of a short one, and ptxas does not unroll a loop that is entered
// in the middle. So such loops have their block several times between two looks, and short ones with a
// constant number of rounds are left as they are.

// unrolled is how many instructions a loop of one block has at least between two looks, or else its block
// mostUnrolled times.
const (
	unrolled     = 96
	mostUnrolled = 8
)

// single is a loop of one block, which ends with a branch back or, as clang has it, with one out of the
// loop, behind which there is only the one back.
type single struct {
	at     int32  // first statement behind its labels
	branch int32  // the branch
	out    bool   // it leads out of the loop
	rounds int    // constant, or 0 where it is not
	times  int    // that the twin has its block
	weight int    // instructions of a round
	strip  *strip // how it counts; nil where that is not known
}

// singles finds the loops of one block whose statements can be copied, by their first statement.
func (p *pauser) singles() map[int32]*single {
	list := map[int32]*single{}
	for _, h := range p.loops.Heads {
		b := &p.g.Blocks[h]
		i := p.g.Branch(h)
		s := &single{at: p.behindLabels(b.First), branch: b.Last - 1, times: 1, out: p.backOnly(h+1, h)}
		if i == nil || i.Op != ptx.OpBra || p.g.Of[i.Args[0].Target] != h && (!s.out || i.Guard.Name == "") {
			continue
		}
		s.out = p.g.Of[i.Args[0].Target] != h
		plain := true
		for k := s.at; k < b.Last; k++ {
			switch x := p.f.Body[k].(type) {
			case *ptx.Instr:
				s.weight++
				plain = plain && x.Op != ptx.OpBar && x.Op != ptx.OpBarrier
			case *ptx.Loc, *ptx.Pragma:
			default:
				plain = false
			}
		}
		if !plain || p.depth[s.at] > 0 || s.at >= s.branch {
			continue
		}
		s.times = min(mostUnrolled, (unrolled+s.weight-1)/s.weight)
		s.rounds, s.strip = p.rounds(s, i), p.strip(s, i)
		list[s.at] = s
	}
	return list
}

// backOnly reports whether a block has nothing but a branch to another.
func (p *pauser) backOnly(b, to int32) bool {
	if int(b) >= len(p.g.Blocks) {
		return false
	}
	instrs := 0
	p.g.EachInstr(b, func(int32, *ptx.Instr) { instrs++ })
	i := p.g.Branch(b)
	return instrs == 1 && i != nil && i.Op == ptx.OpBra && i.Guard.Name == "" && p.g.Of[i.Args[0].Target] == to
}

// behindLabels is the first statement from one on that is no label.
func (p *pauser) behindLabels(at int32) int32 {
	for int(at) < len(p.f.Body) {
		if _, label := p.f.Body[at].(*ptx.Label); !label {
			break
		}
		at++
	}
	return at
}

// rounds is how many rounds a loop has at most that counts a register from a constant by a constant to a
// constant; 0 where that is not so.
func (p *pauser) rounds(s *single, branch *ptx.Instr) int {
	var counter, step, end int64
	compared := false
	writes, decided := 0, 0
	p.eachIn(s, func(i *ptx.Instr) {
		if i.Op != ptx.OpSetp || branch.Guard.Name == "" || i.Guard.Name != "" || len(i.Args) != 3 || i.Args[0].Kind != ptx.OperandReg || i.Args[0].Reg != branch.Guard.Reg {
			return
		}
		if i.Args[1].Kind == ptx.OperandReg && i.Args[2].Kind == ptx.OperandImm && !i.Mods.Type().Float() && (i.Mods.Cmp == ptx.CmpEQ) == (branch.Guard.Neg != s.out) {
			counter, end, compared = int64(i.Args[1].Reg), int64(i.Args[2].Value), true
		}
	})
	if !compared {
		return 0
	}
	if counter = p.copied(s, int32(counter), end); counter < 0 {
		return 0
	}
	p.eachIn(s, func(i *ptx.Instr) {
		i.EachRegister(func(reg int32, write bool) {
			if write && reg == branch.Guard.Reg {
				decided++
			}
			if write && int64(reg) == counter {
				writes++
				if i.Op == ptx.OpAdd && i.Guard.Name == "" && i.Args[1].Kind == ptx.OperandReg && int64(i.Args[1].Reg) == counter && i.Args[2].Kind == ptx.OperandImm {
					step = int64(i.Args[2].Value)
				}
			}
		})
	})
	if writes != 1 || decided != 1 || step == 0 {
		return 0
	}
	return p.counted(s, int32(counter), step, end)
}

// copied is the register of which a loop compares a copy with a number, as clang does with the lower half of an
// offset; the register itself where it is none, and -1 where the copy is another number.
func (p *pauser) copied(s *single, reg int32, end int64) int64 {
	from, writes := int64(-1), 0
	p.eachIn(s, func(i *ptx.Instr) {
		i.EachRegister(func(r int32, write bool) {
			if !write || r != reg {
				return
			}
			writes++
			whole := i.Op == ptx.OpMov && wide(i.Mods.Types[0]) || i.Op == ptx.OpCvt && wide(i.Mods.Types[0]) && wide(i.Mods.Types[1])
			if whole && i.Guard.Name == "" && len(i.Args) == 2 && i.Args[1].Kind == ptx.OperandReg {
				from = int64(i.Args[1].Reg)
			}
		})
	})
	switch {
	case from < 0:
		return int64(reg)
	case writes != 1 || end < 0 || end > math.MaxInt32:
		return -1
	}
	return from
}

// wide reports whether a type holds whole numbers of 32 or 64 bits.
func wide(t ptx.Type) bool { return t != ptx.Pred && !t.Float() && (t.Size() == 4 || t.Size() == 8) }

// eachIn visits the instructions of a loop of one block.
func (p *pauser) eachIn(s *single, visit func(i *ptx.Instr)) {
	for k := s.at; k <= s.branch; k++ {
		if i, ok := p.f.Body[k].(*ptx.Instr); ok {
			visit(i)
		}
	}
}

// counted is how many steps lead from the constants that a register has outside of a loop to an end.
func (p *pauser) counted(s *single, counter int32, step, end int64) int {
	const most = 1 << 30
	rounds, constant := int64(0), true
	for k, stmt := range p.f.Body {
		i, ok := stmt.(*ptx.Instr)
		if !ok || int32(k) >= s.at && int32(k) <= s.branch {
			continue
		}
		i.EachRegister(func(reg int32, write bool) {
			if !write || reg != counter {
				return
			}
			if i.Op != ptx.OpMov || i.Guard.Name != "" || len(i.Args) != 2 || i.Args[1].Kind != ptx.OperandImm {
				constant = false
				return
			}
			from := int64(i.Args[1].Value)
			n := (end - from) / step
			if n <= 0 || n > most || (end-from)%step != 0 {
				constant = false
				return
			}
			rounds = max(rounds, n)
		})
	}
	if !constant {
		return 0
	}
	return int(rounds)
}

// short reports whether a loop ends so soon that it needs no look.
func (p *pauser) short(s *single) bool {
	return s != nil && s.rounds > 0 && s.rounds <= p.o.Interval/2/s.weight
}

// copies are the rounds of a loop that come before its last one in the twin. Registers that a round does
// not leave to the next one, or to what follows, have other names in each, so that a compiler sees as
// much of them as before, when it joins products and sums.
func (p *pauser) copies(s *single, out string) (list []ptx.Stmt) {
	own := p.own(s)
	for round := range s.times - 1 {
		p.s.e.Memory(int(s.branch-s.at+1) * 2 * stmtBytes)
		names := map[int32]string{}
		for _, r := range own {
			reg := &p.f.Regs[r]
			names[r] = fmt.Sprintf("%%%sown%d_%d_%d", p.s.prefix, s.at, round, r)
			list = append(list, &ptx.Var{Name: names[r], Space: ptx.SpaceReg, Type: reg.Type})
		}
		for k := s.at; k < s.branch; k++ {
			if i, ok := p.f.Body[k].(*ptx.Instr); ok && !p.inFront(k) {
				list = append(list, renamed(i, names))
			}
		}
		switch i := p.f.Body[s.branch].(*ptx.Instr); {
		case s.out:
			list = append(list, renamed(i, names))
		case i.Guard.Name != "":
			not := renamed(i, names)
			not.Guard.Neg = !i.Guard.Neg
			not.Args = []ptx.Operand{{Kind: ptx.OperandName, Name: out}}
			list = append(list, not)
		}
	}
	return list
}

// own are the registers that a loop of one block writes and that are not alive behind it, nor where it begins.
func (p *pauser) own(s *single) (list []int32) {
	kept, seen := map[int32]bool{}, map[int32]bool{}
	ends := []int32{s.at, s.branch + 1}
	if i := p.f.Body[s.branch].(*ptx.Instr); s.out {
		ends = append(ends, i.Args[0].Target)
	}
	for _, at := range ends {
		if int(at) >= len(p.f.Body) {
			continue
		}
		regs, _ := p.live.Before(at)
		for _, r := range regs {
			kept[r] = true
		}
	}
	p.eachIn(s, func(i *ptx.Instr) {
		i.EachRegister(func(reg int32, write bool) {
			if write && !kept[reg] && !seen[reg] && !p.isWanted(reg) && !strings.Contains(p.f.Regs[reg].Name, ".") {
				seen[reg] = true
				list = append(list, reg)
			}
		})
	})
	return list
}

// renamed is a copy of an instruction with other names of registers.
func renamed(i *ptx.Instr, names map[int32]string) *ptx.Instr {
	c := *i
	if name := names[i.Guard.Reg]; i.Guard.Name != "" && name != "" {
		c.Guard.Name = name
	}
	c.Args = renamedList(i.Args, names)
	if i.Call != nil {
		to := *i.Call
		to.Callee = renamedOperand(to.Callee, names)
		to.Args, to.Results = renamedList(to.Args, names), renamedList(to.Results, names)
		c.Call = &to
	}
	return &c
}

func renamedList(list []ptx.Operand, names map[int32]string) []ptx.Operand {
	out := make([]ptx.Operand, len(list))
	for k := range list {
		out[k] = renamedOperand(list[k], names)
	}
	return out
}

func renamedOperand(o ptx.Operand, names map[int32]string) ptx.Operand {
	o.Elems = renamedList(o.Elems, names)
	if o.Kind == ptx.OperandReg || o.Kind == ptx.OperandAddr || o.Kind == ptx.OperandTexel {
		if name := names[o.Reg]; o.Reg >= 0 && name != "" {
			o.Name = name
		}
	}
	return o
}

// outName is the label behind a loop whose block the twin has several times.
func (p *pauser) outName(n int) string { return p.s.prefix + "out" + strconv.Itoa(n) }
