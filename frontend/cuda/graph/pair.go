package graph

import (
	"maps"
	"slices"
)

// Mismatch says why two graphs cannot be paired, and at which nodes; either may be nil.
type Mismatch struct {
	Kinds    bool // the nodes differ in kind
	Bodies   bool // they differ in the number of their bodies; otherwise in their edges
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
		if !g.sameData(p.mine, to, p.to) {
			return nil, &Mismatch{Mine: p.mine, To: p.to}
		}
		if m := push(p.mine.before, p.to.before, p); m != nil {
			return nil, m
		}
		mine, to := p.mine.Inner(), p.to.Inner()
		if len(mine) != len(to) {
			return nil, &Mismatch{Bodies: true, Mine: p.mine, To: p.to}
		}
		for i := range mine {
			inner, m := mine[i].Pair(to[i])
			if m != nil {
				return nil, m
			}
			maps.Copy(pairs, inner)
		}
	}
	return pairs, nil
}

// sameData reports whether the edges to two nodes have the same data in the same order.
func (g *Graph) sameData(mine *Node, other *Graph, to *Node) bool {
	return slices.EqualFunc(mine.before, to.before, func(a, b *Node) bool {
		return g.edges[Edge{From: a, To: mine}] == other.edges[Edge{From: b, To: to}]
	})
}
