package nvidia

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// A graph of a guest reaches the device as a batch of the same commands at each of its launches. To launch
// them one by one takes the driver several microseconds each. So the worker makes a graph of the driver
// (CUgraphExec) of a run of commands that comes again, and launches that.
//
//	first time   the commands run one by one; how long each takes becomes known
//	second time  they run one by one, and the worker keeps what it was given (entryKeep); it then has the
//	             driver capture the same calls
//	later        one entry of the lane (entryGraph) launches the graph
//
// A run is found by the bytes of its commands, so one with other parameters is another run. What these
// bytes were checked against when the graph was made does not change without the graph being dropped:
// modules that close, and mappings that are removed. Where the driver refuses a graph, the worker starts
// what it has kept one by one.
//
// A run is cut into graphs that are expected to take graphTime at most, since a graph is one command for the
// engines' turns, for the launch limit and for preemption.

// Bounds on graphs of a context.
const (
	graphLeast     = 4        // commands: fewer are launched about as fast one by one
	graphEntries   = 1024     // entries of one graph
	graphSlots     = 256      // graphs of a worker
	graphBytes     = 64 << 10 // of the commands of a run
	graphsBytes    = 4 << 20  // of all runs of a context
	graphsSeen     = 256      // sets of runs that were seen once
	graphSlow      = 3        // times graphTime: a graph that takes longer keeps others waiting
	graphSlowTimes = 3        // in a row: then its run goes one by one
)

// graphTime is what a graph is expected to take at most.
var graphTime = 2 * time.Millisecond

// graphs are the runs of a context of which its worker has graphs of the driver, or makes some. Its lock is
// a leaf.
type graphs struct {
	mu    sync.Mutex
	runs  map[string]*graphRun
	bytes int    // of their keys
	clock uint64 // counts runs that were looked for
	free  []int  // slots that were used before
	slots int    // that were ever used
	seed  maphash.Seed
	seen  [graphsSeen][4]uint64 // hashes, by what is left of them; the newest first
}

// graphRun is a run of commands of a batch that came more than once.
type graphRun struct {
	of      *graphs
	key     string
	pieces  []graphPiece
	counts  []int // entries of each command
	modules []*module
	ranges  []span // memory that the driver may have looked up when it made the graph
	calls   bool   // calls of libraries: they may have had it look up any memory

	ready atomic.Bool // the worker has been given all commands
	dead  atomic.Bool // its slots are no longer its own

	used uint64 // graphs.clock when it was last looked for; under graphs.mu
}

// span is a range of addresses.
type span struct{ va, n uint64 }

// graphPiece is a part of a run: a graph, or commands that go one by one.
type graphPiece struct {
	run      *graphRun
	at, n    int // commands of the run
	slot     int // in the worker; -1: one by one
	entries  int
	launches int
	calls    int    // of libraries
	bytes    uint64 // that it moves
	kernel   string // for messages

	cost atomic.Int64 // what it took the last time, or is expected to take, ns
	slow atomic.Int32 // times in a row that it took longer than graphSlow allows
}

// plan says how commands of a batch go, up to one of them.
type plan struct {
	from, to int
	run      *graphRun // nil: one by one
	keeps    bool      // one by one, and the worker keeps them for graphs
}

// piece is the part of the plan's run that a command lies in; nil if there is no such run any more.
func (p *plan) piece(command int) *graphPiece {
	if p.run == nil || p.run.dead.Load() {
		return nil
	}
	for i := range p.run.pieces {
		if x := &p.run.pieces[i]; command-p.from < x.at+x.n {
			return x
		}
	}
	return nil
}

// reached notes that commands before one were passed to the worker.
func (p *plan) reached(command int) {
	if p.keeps && command == p.to {
		p.run.ready.Store(true)
	}
}

// stale reports whether slots that the work names may be another run's. Entries of that come later, if
// context.laneMu is held from the question on until the work is published.
func (w *work) stale() bool {
	return w.graph != nil && w.graph.run.dead.Load() || w.keeps != nil && w.keeps.dead.Load()
}

// errGraphGone reports that a work is stale: its commands go one by one.
var errGraphGone = errors.New("cuda: the graph was dropped")

// prepare validates the next command of a batch, or the next ones that the worker has a graph of, and makes
// entries of it. A *gpu.LostError is a fault of the context: an address that may not be used.
func (c *channel) prepare(b *batch) (work, error) {
	if b.begun >= b.plan.to {
		b.plan = c.plan(b)
	}
	p := b.plan.piece(b.begun)
	if p == nil || p.slot < 0 {
		return c.single(b, b.begun)
	}
	if !b.plan.keeps {
		entries := b.entry[:]
		if b.started() {
			entries = make([]entry, 1)
		}
		entries[0] = entry{kind: entryGraph, words: [7]uint64{uint64(p.slot)}}
		return work{entries: entries, graph: p, bytes: p.bytes, cost: time.Duration(p.cost.Load())}, nil
	}
	w, err := c.single(b, b.begun)
	if at := b.begun - b.plan.from; err == nil && len(w.entries) != p.run.counts[at] { // what is mapped has changed
		p.run.of.dropIf(func(run *graphRun) bool { return run == p.run })
	} else if err == nil && at == p.at {
		w.keeps = p.run
		w.entries = append([]entry{{kind: entryKeep, words: [7]uint64{uint64(p.slot), uint64(p.entries)}}}, w.entries...)
	}
	return w, err
}

// plan decides how the next commands of a batch go. c.run is held.
func (c *channel) plan(b *batch) plan {
	rest, config := b.cmds[b.begun:], &c.ctx.dev.config
	alone := plan{from: b.begun, to: b.begun + len(rest)}
	if len(rest) < graphLeast || b.task || b.from > 0 || config.NoGraphs || config.Replays || !c.ctx.worker.graphs {
		return alone
	}
	n := c.encodeRun(rest)
	if n < graphLeast {
		alone.to = b.begun + min(n+1, len(rest))
		return alone
	}
	alone.to = b.begun + n
	g := &c.ctx.graphs
	run, again := g.find(c.runKey)
	if again {
		if run = c.design(b, n); run == nil || !g.add(run) {
			return alone
		}
	}
	if run == nil {
		return alone
	}
	alone.run, alone.keeps = run, again
	return alone
}

// encodeRun makes the key of the longest run of commands at the beginning of a list of which the driver could make
// graphs, and returns how many commands that has.
func (c *channel) encodeRun(cmds []gpu.Command) (n int) {
	c.runKey = c.runKey[:0]
	for ; n < len(cmds); n++ {
		before := len(c.runKey)
		if !c.encode(cmds[n]) || len(c.runKey) > graphBytes {
			c.runKey = c.runKey[:before]
			break
		}
	}
	return n
}

// encode appends all that distinguishes a command to the key. It returns false for commands that no graph has.
func (c *channel) encode(cmd gpu.Command) bool {
	words := func(v ...uint64) {
		for _, w := range v {
			c.runKey = binary.LittleEndian.AppendUint64(c.runKey, w)
		}
	}
	switch x := cmd.(type) {
	case *gpu.Launch:
		if x == nil || x.Signal != 0 {
			return false
		}
		f, ok := x.Func.(*function)
		if !ok || f == nil || f.mod.ctx != c.ctx || f.twin != 0 { // one with a twin may have to be cut
			return false
		}
		together := uint64(0)
		if x.Cooperative {
			together = 1
		}
		words(entryLaunch, f.mod.id, f.handle, two(x.Grid[0], x.Grid[1]), two(x.Grid[2], x.Block[0]), two(x.Block[1], x.Block[2]),
			two(x.Cluster[0], x.Cluster[1]), two(x.Cluster[2], x.SharedBytes), together, uint64(len(x.Params)))
		c.runKey = append(c.runKey, x.Params...)
	case *gpu.Copy:
		if x == nil || x.Width == 0 {
			return false
		}
		words(entryCopy, x.Dst, x.Src, x.Width, x.Height, x.DstPitch, x.SrcPitch)
	case *gpu.Fill:
		if x == nil || x.Width == 0 {
			return false
		}
		words(entryFill, x.Dst, two(x.Pattern, x.Size), x.Width, x.Height, x.Pitch)
	case *gpu.Timestamp:
		if x == nil {
			return false
		}
		words(entryTimestamp, x.VA)
	case *gpu.Call:
		if x == nil || !inGraphs(x) {
			return false
		}
		words(entryCall, x.Results, uint64(x.Bytes), uint64(len(x.Args)))
		c.runKey = append(c.runKey, x.Args...)
	default:
		return false
	}
	return true
}

// design cuts the next n commands of a batch, which come again, into graphs. It returns nil where the commands are
// not valid, or how long they take is not known, or no graph is worth it.
func (c *channel) design(b *batch, n int) *graphRun {
	run := &graphRun{of: &c.ctx.graphs, key: string(c.runKey)}
	pieces := []graphPiece{{}}
	var cost time.Duration // of the last piece
	for i := range n {
		w, err := c.single(b, b.begun+i)
		if err != nil || w.cost == unknown || len(w.entries) == 0 {
			return nil
		}
		p := &pieces[len(pieces)-1]
		if p.n > 0 && (cost+w.cost > graphTime || p.entries+len(w.entries) > graphEntries) {
			pieces, cost = append(pieces, graphPiece{at: i}), 0
			p = &pieces[len(pieces)-1]
		}
		cost += w.cost
		run.counts = append(run.counts, len(w.entries))
		p.cost.Store(int64(cost))
		p.add(&w)
		if w.fn != nil && !slices.Contains(run.modules, w.fn.mod) {
			run.modules = append(run.modules, w.fn.mod)
		}
		run.calls = run.calls || w.call != nil
		run.touches(b.cmds[b.begun+i])
	}
	some := false
	for i := range pieces {
		p := &pieces[i]
		p.run, p.slot = run, -1
		if p.n >= graphLeast && p.launches+p.calls > 0 && p.entries <= graphEntries {
			p.slot, some = 0, true // one is chosen later
		}
		if n := p.launches + p.calls; n > 1 {
			p.kernel = fmt.Sprintf("%s, or another of the %d of its graph", p.kernel, n)
		}
	}
	if !some {
		return nil
	}
	run.pieces = pieces
	return run
}

// add counts a command.
func (p *graphPiece) add(w *work) {
	p.n++
	p.entries += len(w.entries)
	p.bytes += w.bytes
	if p.kernel == "" {
		p.kernel = w.name()
	}
	switch {
	case w.fn != nil:
		p.launches++
	case w.call != nil:
		p.calls++
	}
}

// touches notes the memory that the driver looks up for a command.
func (r *graphRun) touches(cmd gpu.Command) {
	add := func(va, width, height, pitch uint64) {
		r.ranges = append(r.ranges, span{va: va, n: width + (height-1)*pitch})
	}
	switch x := cmd.(type) {
	case *gpu.Copy:
		add(x.Dst, x.Width, x.Height, x.DstPitch)
		add(x.Src, x.Width, x.Height, x.SrcPitch)
	case *gpu.Fill:
		add(x.Dst, x.Width, x.Height, x.Pitch)
	case *gpu.Timestamp:
		add(x.VA, 8, 1, 0)
	}
}

// find finds a run by its key. It reports whether one that is not there was seen before.
func (g *graphs) find(key []byte) (run *graphRun, again bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clock++
	if run := g.runs[string(key)]; run != nil {
		run.used = g.clock
		if !run.ready.Load() || run.dead.Load() {
			return nil, false
		}
		return run, false
	}
	if g.runs == nil {
		g.runs, g.seed = map[string]*graphRun{}, maphash.MakeSeed()
	}
	h := maphash.Bytes(g.seed, key)
	set := &g.seen[h%graphsSeen]
	again = slices.Contains(set[:], h)
	if !again {
		copy(set[1:], set[:])
		set[0] = h
	}
	return nil, again
}

// add gives a run slots in the worker. It returns false if there is no room: runs that are in use stay.
// Preconditions: find has been called.
func (g *graphs) add(run *graphRun) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runs[run.key] != nil { // by another channel meanwhile
		return false
	}
	need := 0
	for i := range run.pieces {
		if run.pieces[i].slot >= 0 {
			need++
		}
	}
	for len(g.free)+graphSlots-g.slots < need || g.bytes+len(run.key) > graphsBytes {
		oldest := g.oldest()
		if oldest == nil || g.clock-oldest.used < 4*uint64(len(g.runs)) { // it comes in turns with the others
			return false
		}
		g.drop(oldest)
	}
	for i := range run.pieces {
		if p := &run.pieces[i]; p.slot >= 0 {
			p.slot = g.slot()
		}
	}
	run.used = g.clock
	g.runs[run.key] = run
	g.bytes += len(run.key)
	return true
}

// slot takes a slot. Preconditions: there is one, and g.mu is held.
func (g *graphs) slot() int {
	if n := len(g.free); n > 0 {
		s := g.free[n-1]
		g.free = g.free[:n-1]
		return s
	}
	g.slots++
	return g.slots - 1
}

// oldest is the run that was looked for least recently. g.mu is held.
func (g *graphs) oldest() (run *graphRun) {
	for _, r := range g.runs {
		if run == nil || r.used < run.used {
			run = r
		}
	}
	return run
}

// drop forgets a run. The worker frees its graphs when their slots are used again. g.mu is held.
func (g *graphs) drop(run *graphRun) {
	delete(g.runs, run.key)
	g.bytes -= len(run.key)
	g.vacate(run)
}

// vacate takes the slots of a run. g.mu is held.
func (g *graphs) vacate(run *graphRun) {
	if run.dead.Swap(true) {
		return
	}
	for i := range run.pieces {
		if s := run.pieces[i].slot; s >= 0 {
			g.free = append(g.free, s)
		}
	}
}

// dropIf forgets the runs for which stale returns true.
func (g *graphs) dropIf(stale func(*graphRun) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, run := range g.runs {
		if stale(run) {
			g.drop(run)
		}
	}
}

// unload forgets the runs that launch kernels of a module.
func (g *graphs) unload(m *module) {
	g.dropIf(func(run *graphRun) bool { return slices.Contains(run.modules, m) })
}

// unmap forgets the runs for which the driver may have looked up memory in a range.
func (g *graphs) unmap(va, n uint64) {
	g.dropIf(func(run *graphRun) bool {
		return run.calls || slices.ContainsFunc(run.ranges, func(s span) bool { return s.va < va+n && va < s.va+s.n })
	})
}

// renew forgets all: another worker has none of them.
func (g *graphs) renew() {
	g.dropIf(func(*graphRun) bool { return true })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free, g.slots = nil, 0
}

// ended notes what a graph took, on an engine that others may wait for.
func (p *graphPiece) ended(e *engine, took time.Duration) {
	p.cost.Store(int64(took))
	if e != nil {
		e.countAll(took, p.launches)
	}
	if e == nil || e.gate == nil || took <= graphSlow*graphTime {
		p.slow.Store(0)
		return
	}
	if p.slow.Add(1) == graphSlowTimes {
		g := p.run.of
		g.mu.Lock()
		defer g.mu.Unlock()
		g.vacate(p.run) // it stays where it is found, and so is not made once more
	}
}

// tallyGraphs counts how the worker ran graphs since it was last asked.
func (c *context) tallyGraphs() {
	c.laneMu.Lock()
	defer c.laneMu.Unlock()
	p := c.worker
	ran, apart := p.lane.load(offGraphs), p.lane.load(offGraphsApart)
	c.dev.graphs.Add(uint64(ran - p.graphsRan))
	c.dev.graphsApart.Add(uint64(apart - p.graphsApart))
	p.graphsRan, p.graphsApart = ran, apart
}
