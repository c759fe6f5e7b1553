package ptx

import "strings"

// Selector names parts of the operand of a video instruction (sections 9.7.16 and 9.7.17):
// bytes or halves, by number. The zero value names none.
type Selector uint16

// A Selector has 3 bits for each number, the lowest part first, then how many there are, and
// whether they are halves.
const (
	selectorBits  = 3
	selectorCount = 12
	selectorHalf  = 15
)

// parseSelector reads a selector without its dot, such as "h1" or "b7654".
func parseSelector(word string) (s Selector, ok bool) {
	if len(word) < 2 || len(word) > 5 || word[0] != 'b' && word[0] != 'h' {
		return 0, false
	}
	if word[0] == 'h' {
		s = 1 << selectorHalf
	}
	digits := word[1:]
	s |= Selector(len(digits)) << selectorCount
	for n := range len(digits) {
		d := digits[len(digits)-1-n]
		if d < '0' || d > '7' {
			return 0, false
		}
		s |= Selector(d-'0') << (selectorBits * n)
	}
	return s, true
}

// Half reports whether the parts are halves, not bytes.
func (s Selector) Half() bool { return s>>selectorHalf != 0 }

// Len returns how many parts there are.
func (s Selector) Len() int { return int(s >> selectorCount & 7) }

// At returns the number of part n, counted from the lowest.
func (s Selector) At(n int) int { return int(s >> (selectorBits * n) & 7) }

// String returns the selector without its dot.
func (s Selector) String() string {
	var b strings.Builder
	if s.Half() {
		b.WriteByte('h')
	} else {
		b.WriteByte('b')
	}
	for n := s.Len() - 1; n >= 0; n-- {
		b.WriteByte('0' + byte(s.At(n)))
	}
	return b.String()
}

// selection is which parts of an operand may be selected.
type selection uint8

const (
	selectNone   selection = iota
	selectPart             // a byte or a half
	selectMerge            // as selectPart, into which the result goes; c has the rest
	selectHalves           // two of the four halves of a and b
	selectBytes            // four of the eight bytes of a and b
	selectHalf             // the halves of the result that are written
	selectByte             // and the bytes
)

// selectionNames are how a row of the table and the documentation name them.
var selectionNames = [...]string{"", "part", "dsel", "hxy", "bxyzw", "hmask", "bmask"}

// takes reports whether s may stand where a selection is allowed.
func (k selection) takes(s Selector) bool {
	count, most, half := 1, 3, s.Half()
	switch k {
	case selectNone:
		return false
	case selectPart, selectMerge:
		if half {
			most = 1
		}
		return s.Len() == 1 && s.At(0) <= most
	case selectHalves, selectBytes:
		if count = 2; k == selectBytes {
			count, most = 4, 7
		}
		for n := range s.Len() {
			if s.At(n) > most {
				return false
			}
		}
		return s.Len() == count && half == (k == selectHalves)
	}
	if k == selectHalf {
		most = 1
	}
	for n := range s.Len() {
		if s.At(n) > most || n > 0 && s.At(n) <= s.At(n-1) {
			return false
		}
	}
	return half == (k == selectHalf)
}

// Video reports whether o is a video instruction.
func (o Op) Video() bool { return o >= OpVabsdiff && o <= OpVsub4 && o != OpVote }

// Lanes returns how many values a video instruction computes at once: 1, 2 or 4.
func (o Op) Lanes() int {
	switch name := o.String(); name[len(name)-1] {
	case '2':
		return 2
	case '4':
		return 4
	}
	return 1
}

// minus reports whether a name follows the sign here, and goes to it.
func (p *parser) minus() bool {
	at := p.pos
	p.pos++
	if class[p.skip()]&chStart != 0 && !p.warpSize() {
		return true
	}
	p.pos = at
	return false
}

// selected checks the parts that an operand of a video instruction names, and its sign.
func (v *verifier) selected(i *Instr, a *argSpec, o *Operand, n int) bool {
	switch {
	case o.Minus && !a.minus:
		return v.mismatch(i, o, n, "cannot be negated")
	case o.Sel != 0 && !a.parts.takes(o.Sel):
		return v.mismatch(i, o, n, "cannot select .%s", o.Sel)
	case (o.Sel != 0 || o.Minus || i.Op.Video() && i.Op.Lanes() > 1) && o.Kind != OperandReg:
		return v.mismatch(i, o, n, "must be a register")
	}
	return true
}

// video checks the operands of a video instruction together.
func (v *verifier) video(i *Instr) {
	if i.Form.args[0].parts == selectMerge && i.Args[0].Sel != 0 && len(i.Args) < len(i.Form.args) {
		v.fail(i.Pos, "instruction '%s' needs an operand c for the rest of d", i.Name())
	}
	if i.Op != OpVmad {
		return
	}
	product, sum := i.Args[1].Minus != i.Args[2].Minus, i.Args[3].Minus
	if (i.Args[1].Minus || i.Args[2].Minus || sum) && i.Mods.Has(PlusOne) || product && sum {
		v.fail(i.Pos, "instruction '%s' negates one of product and sum, and neither with .po", i.Name())
	}
}

// videoForms are the video instructions: 9.7.16, and several values at once: 9.7.17.
func videoForms() []Form {
	const s = "9.7.16"
	word, sat := typ(U32, S32), opt(flag(Sat))
	second := pick(fieldAtomic, AtomicAdd, AtomicMin, AtomicMax)
	cmp := pick(fieldCmp, span(CmpEQ, CmpGE)...)
	const merging, combining = "=d:u32.dsel a:u32.part b:u32.part c:u32?", "=d:u32 a:u32.part b:u32.part c:u32"
	var f []Form
	for _, op := range []Op{OpVadd, OpVsub, OpVabsdiff, OpVmin, OpVmax} {
		f = append(f, form(op, s, merging, word, word, word, sat), form(op, s, combining, word, word, word, sat, second))
	}
	mode := pick(fieldMode, ModeClamp, ModeWrap)
	for _, op := range []Op{OpVshl, OpVshr} {
		f = append(f, form(op, s, merging, word, word, typ(U32), sat, mode), form(op, s, combining, word, word, typ(U32), sat, mode, second))
	}
	scale, vmad := opt(flag(Shift7|Shift15)), "=d:u32 a:u32.-part b:u32.-part c:u32.-"
	f = append(f,
		form(OpVmad, s, vmad, word, word, word, sat, scale), form(OpVmad, s, vmad, word, word, word, flag(PlusOne), sat, scale),
		form(OpVset, s, merging, word, word, cmp), form(OpVset, s, combining, word, word, cmp, second))
	add := pick(fieldAtomic, AtomicAdd)
	for _, lanes := range []struct {
		ops  []Op
		set  Op
		args string
	}{
		{ops: []Op{OpVadd2, OpVsub2, OpVavrg2, OpVabsdiff2, OpVmin2, OpVmax2}, set: OpVset2, args: "=d:u32.hmask a:u32.hxy b:u32.hxy c:u32"},
		{ops: []Op{OpVadd4, OpVsub4, OpVavrg4, OpVabsdiff4, OpVmin4, OpVmax4}, set: OpVset4, args: "=d:u32.bmask a:u32.bxyzw b:u32.bxyzw c:u32"},
	} {
		const s = "9.7.17"
		for _, op := range lanes.ops {
			f = append(f, form(op, s, lanes.args, word, word, word, sat), form(op, s, lanes.args, word, word, word, add))
		}
		f = append(f, form(lanes.set, s, lanes.args, word, word, cmp), form(lanes.set, s, lanes.args, word, word, cmp, add))
	}
	return f
}
