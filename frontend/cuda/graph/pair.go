package graph

// Mismatch says why two graphs cannot be paired, and at which nodes; either may be nil.
type Mismatch struct {
	Kinds    bool // the nodes differ in kind; otherwise in their edges
	Mine, To *Node
}

// Pair finds for each node of to the node of g in the same place, as an update of an executable
// graph needs it: it pairs the nodes that no other depends on in the order in which they were
// added, and then what they depend on in the order in which the edges were.
func (g *Graph) Pair(to *Graph) (map[*Node]*Node, *Mismatch) {
	pairs, taken := map[*Node]*Node{}, map[*Node]bool{}
	if len(g.nodes) != len(to.nodes) {
		return nil, &Mismatch{}
	}
	type pair struct{ mine, to *Node }
	var todo []pair
	push := func(mine, to []*Node, at pair) *Mismatch {
		if len(mine) != len(to) {
			return &Mismatch{Mine: at.mine, To: at.to}
		}
		for i := range mine {
			todo = append(todo, pair{mine: mine[i], to: to[i]})
		}
		return nil
	}
	if m := push(g.leaves(), to.leaves(), pair{}); m != nil {
		return nil, m
	}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if known := pairs[p.to]; known == p.mine {
			continue
		} else if known != nil || taken[p.mine] {
			return nil, &Mismatch{Mine: p.mine, To: p.to}
		}
		if p.mine.kind != p.to.kind {
			return nil, &Mismatch{Kinds: true, Mine: p.mine, To: p.to}
		}
		pairs[p.to], taken[p.mine] = p.mine, true
		if m := push(p.mine.before, p.to.before, p); m != nil {
			return nil, m
		}
		if p.mine.kind != Child {
			continue
		}
		inner, m := p.mine.child.Pair(p.to.child)
		if m != nil {
			return nil, m
		}
		for of, mine := range inner {
			pairs[of] = mine
		}
	}
	return pairs, nil
}
