package graph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// random makes a graph of n nodes, numbered in their order, in which each depends on some before it.
func random(t *testing.T, r *rand.Rand, n int) *Graph {
	g := New()
	fill(t, r, g, n)
	return g
}

func fill(t *testing.T, r *rand.Rand, g *Graph, n int) {
	for i := range n {
		var before []*Node
		for _, b := range g.Nodes() {
			if r.IntN(3) == 0 {
				before = append(before, b)
			}
		}
		if r.IntN(4) == 0 && n > 2 {
			child, err := g.AddChild(random(t, r, n/3), before)
			require.NoError(t, err)
			child.Work = i
			continue
		}
		if r.IntN(4) == 0 && n > 2 {
			made, err := g.AddConditional(i, 1+r.IntN(3), before)
			require.NoError(t, err)
			for _, body := range made.Bodies() {
				fill(t, r, body, n/3)
			}
			continue
		}
		_, err := g.Add(Kind(r.IntN(3)), i, before)
		require.NoError(t, err)
	}
}

// checkEdges checks that both ends of each edge know it, and the set of edges too.
func checkEdges(t *testing.T, g *Graph) {
	sum := 0
	for _, n := range g.Nodes() {
		require.Same(t, g, n.Graph())
		for _, a := range n.After() {
			require.Contains(t, a.Before(), n)
			require.Contains(t, g.edges, Edge{From: n, To: a})
		}
		sum += len(n.Before())
	}
	require.Len(t, g.edges, sum)
	require.Len(t, g.Edges(), sum)
}

// same reports whether two graphs have the same work, kinds and edges in the same order.
func same(a, b *Graph) bool {
	return slices.EqualFunc(a.Nodes(), b.Nodes(), func(m, n *Node) bool {
		ends := func(list []*Node, of *Graph) (all []int) {
			for _, e := range list {
				all = append(all, slices.Index(of.Nodes(), e))
			}
			return all
		}
		return m.Work == n.Work && m.Kind() == n.Kind() && slices.Equal(ends(m.Before(), a), ends(n.Before(), b)) &&
			slices.Equal(ends(m.After(), a), ends(n.After(), b)) && slices.EqualFunc(m.Inner(), n.Inner(), same)
	})
}

func TestRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		g := random(t, r, 1+r.IntN(12))
		checkEdges(t, g)

		order, err := g.Order()
		require.NoError(t, err)
		require.ElementsMatch(t, g.Nodes(), order)
		for i, n := range order {
			for _, b := range n.Before() {
				require.Contains(t, order[:i], b)
			}
		}

		c := g.Clone()
		checkEdges(t, c)
		require.True(t, same(g, c))
		pairs, mismatch := c.Pair(g)
		require.Nil(t, mismatch)
		var all func(*Graph) int
		all = func(g *Graph) int {
			sum := len(g.Nodes())
			for _, n := range g.Nodes() {
				for _, inner := range n.Inner() {
					require.Same(t, n, inner.Owner())
					require.Same(t, inner.Root(), n.Graph().Root())
					sum += all(inner)
				}
			}
			return sum
		}
		require.Len(t, pairs, all(g))
		for n, twin := range pairs {
			require.Same(t, twin, c.Twin(n))
			require.Nil(t, g.Twin(n))
		}
		gone := c.Nodes()[r.IntN(len(c.Nodes()))]
		gone.Remove()
		checkEdges(t, c)
		for n, twin := range pairs {
			if twin == gone {
				require.Nil(t, c.Twin(n))
			}
		}
		require.True(t, same(g, g.Clone()), "the original is as it was")
		_, mismatch = c.Pair(g)
		require.NotNil(t, mismatch)
	}
}

func add(t *testing.T, g *Graph, before ...*Node) *Node {
	n, err := g.Add(Empty, nil, before)
	require.NoError(t, err)
	return n
}

func TestEdges(t *testing.T) {
	g := New()
	a, b := add(t, g), add(t, g)
	c := add(t, g, a, b)
	stranger := add(t, New())
	for _, edges := range [][]Edge{
		{{From: a, To: a}}, {{From: a, To: c}}, {{From: a, To: b}, {From: b, To: c}}, {{From: a, To: b}, {From: a, To: b}},
	} {
		require.ErrorIs(t, g.Connect(edges), ErrEdge)
	}
	require.ErrorIs(t, g.Connect([]Edge{{From: a, To: b}, {From: stranger, To: c}}), ErrForeign)
	require.ErrorIs(t, g.Connect([]Edge{{From: a}}), ErrForeign)
	require.ErrorIs(t, g.Disconnect([]Edge{{From: a, To: c}, {From: a, To: b}}), ErrEdge)
	_, err := g.Add(Empty, nil, []*Node{a, a})
	require.ErrorIs(t, err, ErrEdge)
	_, err = g.Add(Empty, nil, []*Node{stranger})
	require.ErrorIs(t, err, ErrForeign)
	require.Len(t, g.Nodes(), 3)
	require.Equal(t, []Edge{{From: a, To: c}, {From: b, To: c}}, g.Edges(), "what fails changes nothing")
	require.Equal(t, []*Node{a, b}, g.Roots())

	require.NoError(t, g.Connect([]Edge{{From: c, To: a}}))
	_, err = g.Order()
	require.ErrorIs(t, err, ErrCycle)
	require.NoError(t, g.Disconnect([]Edge{{From: a, To: c}}))
	order, err := g.Order()
	require.NoError(t, err)
	require.Equal(t, []*Node{b, c, a}, order)

	a.Remove()
	require.Nil(t, a.Graph())
	require.ErrorIs(t, g.Connect([]Edge{{From: b, To: a}}), ErrForeign)
	checkEdges(t, g)
}

// Work of children runs in the place of their nodes; what is skipped, with its children.
func TestWalk(t *testing.T) {
	inner := New()
	first, err := inner.Add(Kernel, "inner 1", nil)
	require.NoError(t, err)
	_, err = inner.Add(Kernel, "inner 2", []*Node{first})
	require.NoError(t, err)
	g := New()
	a, err := g.Add(Host, "a", nil)
	require.NoError(t, err)
	child, err := g.AddChild(inner, []*Node{a})
	require.NoError(t, err)
	_, err = g.Add(Fill, "z", []*Node{child})
	require.NoError(t, err)
	first.Work = "changed later"

	walk := func(skip *Node) (all []any) {
		require.NoError(t, g.Walk(func(n *Node) bool { return n == skip }, func(n *Node) error {
			all = append(all, n.Work)
			return nil
		}))
		return all
	}
	require.Equal(t, []any{"a", "inner 1", "inner 2", "z"}, walk(nil))
	require.Equal(t, []any{"inner 1", "inner 2", "z"}, walk(a))
	require.Equal(t, []any{"a", "z"}, walk(child))
	stop := errors.New("stop")
	require.ErrorIs(t, g.Walk(func(*Node) bool { return false }, func(n *Node) error {
		if n.Work == "inner 2" {
			return stop
		}
		require.NotEqual(t, "z", n.Work)
		return nil
	}), stop)
	require.Contains(t, g.Dot(func(n *Node) string { s, _ := n.Work.(string); return s }), `"graph_0_node_0" -> "graph_0_node_1";`)
}

func TestPairTellsWhatDiffers(t *testing.T) {
	build := func(kind Kind, edge bool) *Graph {
		g := New()
		a := add(t, g)
		n, err := g.Add(kind, nil, nil)
		require.NoError(t, err)
		last := add(t, g, a)
		if edge {
			require.NoError(t, g.Connect([]Edge{{From: n, To: last}}))
		}
		return g
	}
	g := build(Kernel, true)
	_, mismatch := g.Pair(build(Fill, true))
	require.True(t, mismatch.Kinds)
	require.Equal(t, Kernel, mismatch.Mine.Kind())
	require.Equal(t, Fill, mismatch.To.Kind())
	_, mismatch = g.Pair(build(Kernel, false))
	require.False(t, mismatch.Kinds)
	_, mismatch = g.Pair(New())
	require.Equal(t, &Mismatch{}, mismatch)

	// As many nodes and ends, but a node with two dependents was one with one.
	diamond := func(cross bool) *Graph {
		g := New()
		a, b := add(t, g), add(t, g)
		add(t, g, a)
		add(t, g, map[bool]*Node{false: b, true: a}[cross])
		return g
	}
	_, mismatch = diamond(false).Pair(diamond(true))
	require.NotNil(t, mismatch)
}
