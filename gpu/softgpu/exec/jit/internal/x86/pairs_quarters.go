package x86

// Quarters of vectors, from and to memory: a half has two of them.

// quarterEffect is what loading a quarter reads and writes. The first of a half makes no promise about the other.
func (e *effect) quarterEffect(s *step) {
	half := lower(s.d) << (s.arg.Imm / 2)
	if e.writes = half; s.arg.Imm%2 != 0 {
		e.reads = half
	}
}

func (n *lowering) quarter(s *step) {
	h := int(s.arg.Imm / 2)
	if s.arg.Imm%2 == 0 {
		r := n.fresh()
		n.xm(&LOADD, r, 0, s.m, 0)
		n.put(halfOf(s.d, h), r)
		return
	}
	from := n.vector(s.d, h)
	r := n.target(halfOf(s.d, h), from)
	n.ym(&yINSERT, r, from, s.m, 1)
	n.put(halfOf(s.d, h), r)
}

func (n *lowering) quarterOut(s *step) {
	from := n.vector(s.d, int(s.arg.Imm/2))
	if s.arg.Imm%2 == 0 {
		n.xm(&STORED, from, 0, s.m, 0)
		return
	}
	n.ym(&yEXTRACT, from, 0, s.m, 1)
}
