package run

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Bounds of what kernels launch. NVIDIA's GPUs have the first two; memory bounds the third there.
const (
	MaxNesting   = 2048    // a kernel at this depth cannot launch
	maxTails     = 2048    // tail launches of a kernel
	maxTreeBytes = 8 << 20 // memory of all launches that wait on a device
	pendingBytes = 288     // of one, without its parameters: in its list, and in those of two states
)

// Tree is the launches that kernels make, of one launch of the host: those that the kernel which
// runs has made, and those of kernels before it that wait. They run one after the other, a launch
// with all that it launches itself before the next one; tail launches run after all others of their
// parent.
type Tree struct {
	waiting *Waiting // counts bytes; nil: the tree is bounded by itself

	mu     sync.Mutex
	made   level   // by the kernel that runs
	levels []level // of kernels that have ended, the outermost first
	depth  uint32  // of the kernel that runs; 0: the host launched it
	child  bool    // a kernel has launched the one that runs
	bytes  int
	errors map[thread]uint32 // of the blocks that run

	reserved int // bytes that the kernel that runs counts for, because it is to wait for its launches
	stopped  int // bytes that all that wait count for
}

// Waiting counts the memory of the launches that wait, in all trees of a device, so that a guest
// cannot have more of it by more channels.
type Waiting struct {
	bytes   atomic.Int64
	stopped atomic.Int64 // of kernels that wait for what they have launched
}

func (w *Waiting) take(n int) bool {
	if w == nil || w.bytes.Add(int64(n)) <= maxTreeBytes {
		return true
	}
	w.bytes.Add(int64(-n))
	return false
}

func (w *Waiting) give(n int) {
	if w != nil {
		w.bytes.Add(int64(-n))
	}
}

// NewTree makes a tree whose launches count for w, until Release.
func NewTree(w *Waiting) *Tree { return &Tree{waiting: w} }

// Charge lets the launches of a tree of a State count for w, until Release. It reports whether w has
// room for them.
func (t *Tree) Charge(w *Waiting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !w.take(t.bytes) {
		return false
	}
	if !w.stop(t.stopped) {
		w.give(t.bytes)
		return false
	}
	t.waiting = w
	return true
}

// Release gives back what the launches of a tree count for. The tree is not used any more.
func (t *Tree) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.give(t.bytes)
	t.waiting.goOn(t.stopped)
	t.bytes, t.stopped, t.waiting = 0, 0, nil
}

// level is what one kernel has launched, in order.
type level struct {
	next, tails []Pending
	ran         int     // of the list that is running: launches in front of it that are still in memory
	parent      *parent // goes on behind next, and before the tails; nil: it has ended
}

// pop takes the first launch of a level. The memory of those that ran is kept for as long as they
// are no more than those that wait.
func (l *level) pop() Pending {
	list := &l.next
	if len(*list) == 0 {
		list = &l.tails
	}
	p := (*list)[0]
	(*list)[0] = Pending{} // its parameters are not to be kept
	*list = (*list)[1:]
	switch l.ran++; {
	case len(*list) == 0:
		*list, l.ran = nil, 0
	case l.ran > len(*list):
		*list, l.ran = slices.Clone(*list), 0
	}
	return p
}

// Pending is a launch that waits.
type Pending struct {
	Kernel      string
	Grid, Block [3]uint32
	Shared      uint32
	Params      []byte

	// Of a kernel that has waited for its launches, as its first launch had them.
	From        *State // it goes on from here
	Cluster     [3]uint32
	Cooperative bool

	depth uint32
	by    uint64
}

func byBlock(a, b Pending) int { return cmp.Compare(a.by, b.by) }

// thread is a thread of a grid.
type thread struct {
	block  uint64
	number uint32
}

func (p *Pending) size() int { return pendingBytes + len(p.Kernel) + len(p.Params) }

// launcher takes the launches of the kernel that runs.
type launcher struct {
	*Tree
	limits *Limits
}

// Launch implements ir.Launcher.
func (t launcher) Launch(c *ir.Child) uint32 {
	if t.limits.check(c.Kernel, c.Grid, c.Block, c.Shared) != nil {
		return ir.ErrConfiguration
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Pending{Kernel: c.Kernel.Name, Grid: c.Grid, Block: c.Block, Shared: c.Shared, Params: c.Params, depth: t.depth + 1, by: c.By}
	list := &t.made.next
	if c.Tail {
		p.depth = t.depth // a kernel that tail launches itself is a loop
		list = &t.made.tails
	}
	if p.depth > MaxNesting || c.Tail && len(*list) >= maxTails || t.bytes+p.size() > maxTreeBytes || !t.waiting.take(p.size()) {
		return ir.ErrPendingCount
	}
	t.bytes += p.size()
	*list = append(*list, p)
	return 0
}

// LastError implements ir.Launcher.
func (t launcher) LastError(block uint64, number uint32, code uint32, set bool) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := thread{block, number}
	old := t.errors[at]
	switch {
	case !set:
	case code == 0:
		delete(t.errors, at)
	default:
		if t.errors == nil {
			t.errors = map[thread]uint32{}
		}
		t.errors[at] = code
	}
	return old
}

// forget drops the errors of a block that has ended.
func (t *Tree) forget(block uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errors) > 0 {
		maps.DeleteFunc(t.errors, func(at thread, _ uint32) bool { return at.block == block })
	}
}

// Next returns what is to run when a kernel has ended, nil where all is done.
func (t *Tree) Next() *Pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.sort()
	t.errors = nil
	t.unreserve()
	t.levels = append(t.levels, t.made)
	t.made = level{}
	for len(t.levels) > 0 {
		top := &t.levels[len(t.levels)-1]
		if top.parent != nil && len(top.next) == 0 {
			return t.goOn()
		}
		if len(top.next)+len(top.tails) == 0 {
			t.levels = t.levels[:len(t.levels)-1]
			continue
		}
		p := top.pop()
		if top.parent == nil && len(top.next)+len(top.tails) == 0 {
			t.levels = t.levels[:len(t.levels)-1]
		}
		t.bytes -= p.size()
		t.waiting.give(p.size())
		t.depth, t.child = p.depth, true
		return &p
	}
	return nil
}

// unreserve gives up what the kernel that ran counts for, if it did not come to wait.
func (t *Tree) unreserve() {
	t.stopped -= t.reserved
	t.waiting.goOn(t.reserved)
	t.reserved = 0
}

// clone copies a tree for a State, or of one.
func (t *Tree) clone() *Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &Tree{made: t.made.clone(), depth: t.depth, child: t.child, bytes: t.bytes, errors: maps.Clone(t.errors), stopped: t.stopped - t.reserved}
	for _, l := range t.levels {
		c.levels = append(c.levels, l.clone())
	}
	return c
}

func (l level) clone() level {
	return level{next: slices.Clone(l.next), tails: slices.Clone(l.tails), parent: l.parent.clone()}
}

// Tree is a copy of the launches that wait for that of the state; nil if its kernels make none.
func (s *State) Tree() *Tree {
	if s.tree == nil {
		return nil
	}
	return s.tree.clone()
}

// Child is the launch that goes on, where a kernel made it; nil for that of the host.
func (s *State) Child() *Pending {
	if s.tree == nil || !s.tree.child {
		return nil
	}
	p := s.pending()
	p.From = nil
	return p
}

// Launches reports whether the kernel's program launches kernels.
func (k *Kernel) Launches() bool { return k.prog.Launches }

// The fewest bytes that the parts of a tree are encoded in.
const (
	minLevel   = 4 + 4 + 4
	minPending = 4 + 7*4 + 4 + 4 + 8
	errorBytes = 8 + 4 + 4
)

// tree appends a tree, or that there is none.
func (w *stateWriter) tree(t *Tree) {
	if t == nil {
		w.flags(false)
		return
	}
	w.flags(true, t.child)
	w.u32(t.depth)
	w.u32(uint32(len(t.levels)))
	for _, l := range append(t.levels[:len(t.levels):len(t.levels)], t.made) {
		w.pending(l.next)
		w.pending(l.tails)
		w.parent(l.parent)
	}
	w.errors(t.errors)
}

func (w *stateWriter) errors(errors map[thread]uint32) {
	w.u32(uint32(len(errors)))
	order := slices.SortedFunc(maps.Keys(errors), func(a, b thread) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.number, b.number))
	})
	for _, at := range order {
		w.u64(at.block)
		w.u32(at.number)
		w.u32(errors[at])
	}
}

func (w *stateWriter) pending(list []Pending) {
	w.u32(uint32(len(list)))
	for i := range list {
		p := &list[i]
		w.bytes([]byte(p.Kernel))
		for i := range 3 {
			w.u32(p.Grid[i])
			w.u32(p.Block[i])
		}
		w.u32(p.Shared)
		w.bytes(p.Params)
		w.u32(p.depth)
		w.u64(p.by)
	}
}

// tree decodes a tree. What its launches say is checked when they run.
func (r *stateReader) tree() *Tree {
	present, child := r.flags()
	if !present {
		return nil
	}
	t := &Tree{child: child, depth: r.u32()}
	for range r.count(minLevel) {
		l := level{next: r.pending(t), tails: r.pending(t), parent: r.parent(t)}
		r.short = r.short || l.parent == nil && len(l.next)+len(l.tails) == 0 // Next leaves none such
		t.levels = append(t.levels, l)
	}
	t.made = level{next: r.pending(t), tails: r.pending(t), parent: r.parent(t)}
	r.short = r.short || t.made.parent != nil
	t.errors = r.errors()
	return t
}

func (r *stateReader) errors() (errors map[thread]uint32) {
	for range r.count(errorBytes) {
		if errors == nil {
			errors = map[thread]uint32{}
		}
		at := thread{r.u64(), r.u32()}
		errors[at] = r.u32()
	}
	return errors
}

func (r *stateReader) pending(t *Tree) (list []Pending) {
	for range r.count(minPending) {
		p := Pending{Kernel: string(r.bytes())}
		for i := range 3 {
			p.Grid[i], p.Block[i] = r.u32(), r.u32()
		}
		p.Shared, p.Params = r.u32(), r.bytes()
		p.depth, p.by = r.u32(), r.u64()
		list = append(list, p)
		t.bytes += p.size()
		r.short = r.short || p.depth > MaxNesting || t.bytes > maxTreeBytes
	}
	return list
}
