package flow

import "slices"

// Loops are the cycles of a graph.
type Loops struct {
	// Heads are the blocks, in order, that an edge leads back to from a block that they lead to: each
	// cycle has one at least.
	Heads []int32
	// Of is the number of the maximal set of blocks that lead to each other, by block; -1 for a block
	// that does not lead to itself.
	Of []int32
	// Reached reports by block whether the entry leads to it.
	Reached []bool
}

// Loops finds the cycles of the blocks that the entry leads to.
func (g *Graph) Loops() *Loops {
	n := len(g.Blocks)
	g.effort.Memory(n * 64)
	l := &Loops{Of: make([]int32, n), Reached: make([]bool, n)}
	for b := range l.Of {
		l.Of[b] = -1
	}
	if n > 0 {
		w := walk{g: g, l: l, index: make([]int32, n), low: make([]int32, n), open: make([]bool, n), onPath: make([]bool, n), head: make([]bool, n)}
		w.run()
	}
	return l
}

// walk is Tarjan's search for strongly connected components, without recursion, because a source
// decides how deep it would be.
type walk struct {
	g           *Graph
	l           *Loops
	index, low  []int32 // 1-based order of visits; 0: not yet
	open        []bool  // on stack
	onPath      []bool  // visited, and not left
	head        []bool
	stack, path []int32
	next        []int // edge to look at next, of each block of path
	visited     int32
	components  int32
}

func (w *walk) run() {
	w.enter(0)
	for len(w.path) > 0 {
		b := w.path[len(w.path)-1]
		k := w.next[len(w.next)-1]
		w.g.effort.Step()
		if k == len(w.g.Blocks[b].Succs) {
			w.leave(b)
			continue
		}
		w.next[len(w.next)-1]++
		s := w.g.Blocks[b].Succs[k]
		if w.index[s] == 0 {
			w.enter(s)
			continue
		}
		if w.onPath[s] {
			w.head[s] = true
		}
		if w.open[s] {
			w.low[b] = min(w.low[b], w.index[s])
		}
	}
	for b, head := range w.head {
		if head {
			w.l.Heads = append(w.l.Heads, int32(b))
		}
	}
}

func (w *walk) enter(b int32) {
	w.visited++
	w.index[b], w.low[b] = w.visited, w.visited
	w.open[b], w.onPath[b], w.l.Reached[b] = true, true, true
	w.stack, w.path, w.next = append(w.stack, b), append(w.path, b), append(w.next, 0)
}

// leave ends the visit of a block, and with it perhaps of a component.
func (w *walk) leave(b int32) {
	w.onPath[b] = false
	w.path, w.next = w.path[:len(w.path)-1], w.next[:len(w.next)-1]
	if len(w.path) > 0 {
		above := w.path[len(w.path)-1]
		w.low[above] = min(w.low[above], w.low[b])
	}
	if w.low[b] != w.index[b] {
		return
	}
	at := len(w.stack) - 1
	for w.stack[at] != b {
		at--
	}
	cyclic := len(w.stack)-at > 1 || slices.Contains(w.g.Blocks[b].Succs, b)
	for _, x := range w.stack[at:] {
		w.open[x] = false
		if cyclic {
			w.l.Of[x] = w.components
		}
	}
	if cyclic {
		w.components++
	}
	w.stack = w.stack[:at]
}
