// Package flow analyses the bodies of PTX functions that ptx.Verify has accepted: which statements
// follow each other, which registers are alive where, and what loops there are.
//
// Nothing here is changed once it is made, and the package starts no goroutines.
package flow

import (
	"errors"

	"pvdrm/gpu/ptx"
)

// Errors of functions that cannot be analysed.
var (
	ErrLarge = errors.New("it is too large to analyse")
	ErrRaw   = errors.New("it has an instruction whose registers are not known")
)

// Block is a run of statements that control enters at the first and leaves behind the last.
type Block struct {
	First, Last int32 // statements [First, Last) of Func.Body
	Succs       []int32
	Preds       []int32
}

// Graph is the control flow of one function. Block 0 is its entry.
type Graph struct {
	Func   *ptx.Func
	Blocks []Block
	Of     []int32 // the block of each statement

	effort *ptx.Effort
}

// What a graph takes, in bytes.
const (
	blockBytes = 160
	stmtBytes  = 8
	edgeBytes  = 16
)

// New makes the graph of a function, within an effort.
func New(e *ptx.Effort, f *ptx.Func) *Graph {
	e.Memory(stmtBytes * (len(f.Body) + 1))
	g := &Graph{Func: f, Of: make([]int32, len(f.Body)), effort: e}
	leads := make([]bool, len(f.Body)+1)
	for k, s := range f.Body {
		e.Step()
		switch s := s.(type) {
		case *ptx.Label:
			leads[k] = true
		case *ptx.Instr:
			leads[k+1] = ends(s)
		}
	}
	for k := range f.Body {
		if k == 0 || leads[k] {
			e.Memory(blockBytes)
			g.Blocks = append(g.Blocks, Block{First: int32(k)})
		}
		g.Of[k] = int32(len(g.Blocks)) - 1
		g.Blocks[len(g.Blocks)-1].Last = int32(k) + 1
	}
	seen := make([]int32, len(g.Blocks)) // 1 + the last block with an edge to each
	for b := range g.Blocks {
		g.connect(int32(b), seen)
	}
	return g
}

// ends reports whether control may go on elsewhere than at the next statement.
func ends(i *ptx.Instr) bool {
	switch i.Op {
	case ptx.OpBra, ptx.OpBrx, ptx.OpRet, ptx.OpExit, ptx.OpTrap:
		return true
	}
	return false
}

// connect adds the edges that leave a block.
func (g *Graph) connect(b int32, seen []int32) {
	edge := func(to int32) {
		g.effort.Memory(edgeBytes)
		if seen[to] == b+1 {
			return
		}
		seen[to] = b + 1
		g.Blocks[b].Succs = append(g.Blocks[b].Succs, to)
		g.Blocks[to].Preds = append(g.Blocks[to].Preds, b)
	}
	i := g.Branch(b)
	if i == nil || i.Guard.Name != "" {
		if int(b)+1 < len(g.Blocks) {
			edge(b + 1)
		}
	}
	if i == nil {
		return
	}
	switch i.Op {
	case ptx.OpBra:
		edge(g.Of[i.Args[0].Target])
	case ptx.OpBrx:
		if list, ok := i.Args[1].Ref.(*ptx.Targets); ok {
			for k := range list.Labels {
				edge(g.Of[list.Labels[k].Target])
			}
		}
	}
}

// Branch returns the instruction with which a block ends if it may lead elsewhere than to the next
// block, else nil.
func (g *Graph) Branch(b int32) *ptx.Instr {
	if i, ok := g.Func.Body[g.Blocks[b].Last-1].(*ptx.Instr); ok && ends(i) {
		return i
	}
	return nil
}

// EachInstr calls visit with the instructions of a block and their places in the body.
func (g *Graph) EachInstr(b int32, visit func(at int32, i *ptx.Instr)) {
	for k := g.Blocks[b].First; k < g.Blocks[b].Last; k++ {
		if i, ok := g.Func.Body[k].(*ptx.Instr); ok {
			g.effort.Step()
			visit(k, i)
		}
	}
}
