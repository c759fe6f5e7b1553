package graph

import (
	"errors"
	"maps"
	"slices"
)

// Mode is a CUstreamCaptureMode: which calls a capture prohibits to whom.
type Mode uint32

// Modes of capture.
const (
	Global Mode = iota
	ThreadLocal
	Relaxed
)

// Errors of capture. Each is one of CUDA's.
var (
	ErrState       = errors.New("the stream is captured already, or is not captured")
	ErrUnsupported = errors.New("a call that is not permitted while a stream is captured")
	ErrInvalidated = errors.New("an earlier error has invalidated the capture")
	ErrMerge       = errors.New("the event would merge two captures")
	ErrUnmatched   = errors.New("the capture began on another stream")
	ErrUnjoined    = errors.New("a stream of the capture was not joined to the stream on which it began")
	ErrIsolation   = errors.New("the event was not recorded in the capture")
	ErrImplicit    = errors.New("the legacy stream would wait for a stream that is captured")
	ErrThread      = errors.New("the capture began on another thread")
	ErrEvent       = errors.New("the event was recorded in a capture")
	ErrEnded       = errors.New("the event was recorded in a capture that has ended")
)

// Capture is a graph in the making.
type Capture[S comparable] struct {
	Graph *Graph
	ID    uint64 // no other capture of the table has or had it
	Given bool   // the graph was there before; for the caller of Begin to set

	origin  S
	thread  uint64
	mode    Mode
	streams map[S][]*Node        // the tips
	data    map[S]map[*Node]Data // of the edges from tips to the next node, where it is not 0
	dropped []*Node              // tips of streams that are destroyed
	invalid bool
	ended   bool
}

// Invalid reports whether an error has invalidated the capture.
func (c *Capture[S]) Invalid() bool { return c.invalid }

// Tips lists the nodes that the next one of a stream depends on.
func (c *Capture[S]) Tips(s S) []*Node { return c.streams[s] }

// Data lists the data of the edges from the tips of a stream.
func (c *Capture[S]) Data(s S) []Data {
	all := make([]Data, len(c.streams[s]))
	for i, n := range c.streams[s] {
		all[i] = c.data[s][n]
	}
	return all
}

// SetData sets the data of the edges from those tips of a stream that are kernels and have none.
func (c *Capture[S]) SetData(s S, d Data) {
	for i, now := range c.Data(s) {
		if n := c.streams[s][i]; n.kind == Kernel && now == 0 {
			c.note(s, []*Node{n}, []Data{d})
		}
	}
}

// Invalidate ends the use of the capture: it can only be ended.
func (c *Capture[S]) Invalidate() { c.invalid = true }

// mark is what an event stands for that was recorded in a capture.
type mark[S comparable] struct {
	capture *Capture[S]
	nodes   []*Node
}

// Ended reports whether the capture is over.
func (c *Capture[S]) Ended() bool { return c.ended }

// Captures is the table of captures in progress. S names streams, E events. Its zero value is
// empty.
type Captures[S, E comparable] struct {
	streams map[S]*Capture[S]
	events  map[E]mark[S]
	last    uint64
}

// Of returns the capture that a stream takes part in, or nil.
func (t *Captures[S, E]) Of(s S) *Capture[S] { return t.streams[s] }

// Active reports whether any stream is captured.
func (t *Captures[S, E]) Active() bool { return len(t.streams) > 0 }

// Marked reports whether an event was recorded in a capture, which may have ended.
func (t *Captures[S, E]) Marked() bool { return len(t.events) > 0 }

// Streams lists the streams that are captured, in no order.
func (t *Captures[S, E]) Streams() []S { return slices.Collect(maps.Keys(t.streams)) }

// Stands reports whether an event stands for a part of a capture in progress.
func (t *Captures[S, E]) Stands(e E) bool {
	m, marked := t.events[e]
	return marked && !m.capture.ended
}

// Begin begins a capture. Its nodes go to a graph that may have some already, of which the first
// ones of the stream depend on tips, by edges with data if there is any.
func (t *Captures[S, E]) Begin(s S, thread uint64, mode Mode, into *Graph, tips []*Node, data []Data) error {
	if t.streams[s] != nil {
		return ErrState
	}
	if err := into.own(tips); err != nil {
		return err
	}
	if t.streams == nil {
		t.streams, t.events = map[S]*Capture[S]{}, map[E]mark[S]{}
	}
	t.last++
	c := &Capture[S]{Graph: into, ID: t.last, origin: s, thread: thread, mode: mode, streams: map[S][]*Node{}, data: map[S]map[*Node]Data{}}
	t.join(c, s, tips)
	c.note(s, tips, data)
	return nil
}

// note keeps the data of edges from nodes to the next node of a stream.
func (c *Capture[S]) note(s S, nodes []*Node, data []Data) {
	for i, d := range data {
		if c.data[s] == nil {
			c.data[s] = map[*Node]Data{}
		}
		c.data[s][nodes[i]] = d
	}
}

// join lets the next node of s depend on nodes too.
func (t *Captures[S, E]) join(c *Capture[S], s S, nodes []*Node) {
	tips := slices.Clone(c.streams[s])
	for _, n := range nodes {
		if n.graph == c.Graph && !slices.Contains(tips, n) {
			tips = append(tips, n)
		}
	}
	c.streams[s], t.streams[s] = tips, c
}

// End ends the capture of a stream and returns its graph.
func (t *Captures[S, E]) End(s S, thread uint64) (*Graph, error) {
	c := t.streams[s]
	switch {
	case c == nil:
		return nil, ErrState
	case c.origin != s:
		c.invalid = true
		return nil, ErrUnmatched
	case c.mode != Relaxed && c.thread != thread:
		return nil, ErrThread
	}
	t.end(c)
	switch {
	case c.invalid:
		return nil, ErrInvalidated
	case !c.joined():
		return nil, ErrUnjoined
	}
	return c.Graph, nil
}

func (t *Captures[S, E]) end(c *Capture[S]) {
	c.ended = true
	for s := range c.streams {
		delete(t.streams, s)
	}
}

// Drop forgets a stream that is destroyed. A capture that began there ends without a graph. One
// that the stream has joined goes on; its origin still has to come after what the stream captured.
func (t *Captures[S, E]) Drop(s S) {
	c := t.streams[s]
	if c == nil {
		return
	}
	if c.origin == s {
		c.invalid = true
		t.end(c)
		return
	}
	c.dropped = append(c.dropped, c.streams[s]...)
	delete(c.streams, s)
	delete(c.data, s)
	delete(t.streams, s)
}

// joined reports whether the origin comes after all that the other streams captured.
func (c *Capture[S]) joined() bool {
	reached := map[*Node]bool{}
	todo := slices.Clone(c.streams[c.origin])
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !reached[n] {
			reached[n] = true
			todo = append(todo, n.before...)
		}
	}
	others := slices.Clone(c.dropped)
	for s, tips := range c.streams {
		if s != c.origin {
			others = append(others, tips...)
		}
	}
	return !slices.ContainsFunc(others, func(n *Node) bool { return !reached[n] })
}

// Put adds a node that add makes to the capture of a stream. It depends on the tips of the
// stream, and becomes the only tip.
func (t *Captures[S, E]) Put(s S, add func(g *Graph, before []*Node) (*Node, error)) error {
	c := t.streams[s]
	if c.invalid {
		return ErrInvalidated
	}
	before := c.streams[s]
	n, err := add(c.Graph, before)
	if err != nil {
		return err
	}
	for _, b := range before {
		c.Graph.SetData(Edge{From: b, To: n}, c.data[s][b])
	}
	c.streams[s] = []*Node{n}
	delete(c.data, s)
	return nil
}

// Record lets an event stand for what a captured stream captured so far.
func (t *Captures[S, E]) Record(e E, s S) error {
	c := t.streams[s]
	if c.invalid {
		return ErrInvalidated
	}
	t.events[e] = mark[S]{capture: c, nodes: c.streams[s]}
	return nil
}

// Forget is for an event that was recorded outside of captures, or destroyed.
func (t *Captures[S, E]) Forget(e E) { delete(t.events, e) }

// Ask returns why the program may not wait for an event or ask for its state, if it may not. It
// invalidates the capture of the event.
func (t *Captures[S, E]) Ask(e E) error {
	m, marked := t.events[e]
	switch {
	case !marked:
		return nil
	case m.capture.ended:
		return ErrEnded
	}
	m.capture.invalid = true
	return ErrEvent
}

// Await lets a stream wait for an event. It returns false where neither takes part in a capture.
func (t *Captures[S, E]) Await(s S, e E) (bool, error) {
	c := t.streams[s]
	m, marked := t.events[e]
	switch {
	case c == nil && !marked:
		return false, nil
	case c != nil && c.invalid:
		return true, ErrInvalidated
	case !marked:
		c.invalid = true
		return true, ErrIsolation
	case m.capture.ended:
		if c == nil {
			return true, ErrEnded
		}
		c.invalid = true
		return true, ErrIsolation
	case m.capture.invalid:
		return true, ErrInvalidated
	case c != nil && c != m.capture:
		c.invalid, m.capture.invalid = true, true
		return true, ErrMerge
	}
	t.join(m.capture, s, m.nodes)
	return true, nil
}

// Update adds nodes to the tips of a stream, or sets them, with the data of the edges from them if
// there is any.
func (t *Captures[S, E]) Update(s S, nodes []*Node, data []Data, set bool) error {
	c := t.streams[s]
	switch {
	case c == nil:
		return ErrState
	case c.invalid:
		return ErrInvalidated
	}
	if err := c.Graph.own(nodes); err != nil {
		return err
	}
	if set {
		c.streams[s] = nil
		delete(c.data, s)
	}
	t.join(c, s, nodes)
	c.note(s, nodes, data)
	return nil
}

// Unsafe returns ErrUnsupported where a thread with a mode of its own may not make a call that
// could disturb a capture, and invalidates those captures: its own that are not relaxed and,
// if its mode is Global, the global ones of all threads.
func (t *Captures[S, E]) Unsafe(thread uint64, mode Mode) error {
	var err error
	for _, c := range t.streams {
		own := c.thread == thread && c.mode != Relaxed
		if mode != Relaxed && own || mode == Global && c.mode == Global {
			c.invalid = true
			err = ErrUnsupported
		}
	}
	return err
}

// Into reports whether a capture adds to a graph.
func (t *Captures[S, E]) Into(g *Graph) bool {
	for _, c := range t.streams {
		if c.Graph == g {
			return true
		}
	}
	return false
}
