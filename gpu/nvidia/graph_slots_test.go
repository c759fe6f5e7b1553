package nvidia

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// designed is a run of some graphs, as design makes it.
func designed(g *graphs, name string, pieces int) *graphRun {
	run := &graphRun{of: g, key: name, pieces: make([]graphPiece, pieces)}
	for i := range run.pieces {
		run.pieces[i] = graphPiece{run: run, at: 4 * i, n: 4, launches: 4}
	}
	return run
}

// looked finds a run that may have been seen before.
func looked(g *graphs, name string) bool {
	run, again := g.find([]byte(name))
	return run != nil || again
}

// Each graph has a slot of its own. Runs that come in turns keep theirs, and those that no longer come lose them.
func TestSlotsOfGraphs(t *testing.T) {
	g := &graphs{}
	name := func(i int) string { return fmt.Sprintf("run %d", i) }
	taken := map[int]bool{}
	for i := range graphSlots / 2 {
		require.False(t, looked(g, name(i)), "never seen")
		require.True(t, looked(g, name(i)))
		run := designed(g, name(i), 2)
		require.True(t, g.add(run))
		require.False(t, g.add(designed(g, name(i), 1)), "it is there")
		require.False(t, looked(g, name(i)), "the worker has not got it")
		run.ready.Store(true)
		require.True(t, looked(g, name(i)))
		for p := range run.pieces {
			require.Less(t, run.pieces[p].slot, graphSlots)
			require.False(t, taken[run.pieces[p].slot])
			taken[run.pieces[p].slot] = true
		}
	}
	for range 3 {
		for i := range graphSlots / 2 {
			require.True(t, looked(g, name(i)))
		}
		require.False(t, g.add(designed(g, "one more", 1)), "all are in use")
	}
	first, _ := g.find([]byte(name(0)))
	for range 5 * graphSlots {
		looked(g, "something else")
		looked(g, name(1))
	}
	long := designed(g, "long", graphSlots-2)
	require.True(t, g.add(long))
	require.True(t, first.dead.Load())
	require.True(t, looked(g, name(1)), "that was in use all the time")
	seen := map[int]bool{}
	for i := range long.pieces {
		seen[long.pieces[i].slot] = true
	}
	require.Len(t, seen, graphSlots-2)
	require.False(t, g.add(designed(g, "too long", graphSlots+1)))

	g.dropIf(func(run *graphRun) bool { return run == long })
	require.True(t, g.add(designed(g, string(make([]byte, graphsBytes/2)), 1)))
	require.False(t, g.add(designed(g, string(make([]byte, graphsBytes)), 1)), "more bytes than all may have")
	g.renew()
	require.Zero(t, g.bytes)
	require.Empty(t, g.runs)
}

// A run with a graph that keeps others waiting goes one by one, and stays known.
func TestSlowGraph(t *testing.T) {
	g := &graphs{}
	looked(g, "slow")
	run := designed(g, "slow", 2)
	require.True(t, g.add(run))
	run.ready.Store(true)
	p, e := &run.pieces[0], &engine{}
	for range 2 * graphSlowTimes {
		p.ended(e, time.Second) // no one else can want the engine
	}
	e.gate = openGate{}
	for range graphSlowTimes - 1 {
		p.ended(e, time.Second)
	}
	p.ended(e, graphTime)
	for range graphSlowTimes {
		require.True(t, looked(g, "slow"))
		p.ended(e, time.Second)
	}
	found, again := g.find([]byte("slow"))
	require.Nil(t, found)
	require.False(t, again)
	require.Len(t, g.free, 2)
	times, sum := e.ended()
	require.EqualValues(t, 4*(4*graphSlowTimes), times.Count())
	require.Equal(t, time.Duration(4*graphSlowTimes-1)*time.Second+graphTime, sum)
}

// A work that was prepared for a graph which is dropped meanwhile is not begun: its slot may be another's.
func TestStaleWork(t *testing.T) {
	g := &graphs{}
	looked(g, "run")
	run := designed(g, "run", 1)
	require.True(t, g.add(run))
	launch, keep := work{graph: &run.pieces[0]}, work{keeps: run}
	require.False(t, launch.stale() || keep.stale())
	b := plan{to: 4, run: run}
	require.NotNil(t, b.piece(3))
	g.unload(&module{})
	g.unmap(0, 1<<63)
	require.False(t, launch.stale(), "it has nothing of these")
	run.calls = true
	g.unmap(1, 1)
	require.True(t, launch.stale() && keep.stale())
	require.Nil(t, b.piece(3), "its commands go one by one")
}

// openGate is one that all may pass, and that others use.
type openGate struct{ gpu.Gate }
