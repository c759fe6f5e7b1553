package graph

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

type table = Captures[int, string]

func put(t *table, s int) error {
	return t.Put(s, func(g *Graph, before []*Node) (*Node, error) { return g.Add(Kernel, s, before) })
}

// A step of a script about captures: what is done, and the error that it has.
type step struct {
	do   func(t *table) error
	want error
}

func begin(s int, thread uint64, mode Mode) func(*table) error {
	return func(t *table) error { return t.Begin(s, thread, mode, New(), nil, nil) }
}

func end(s int, thread uint64) func(*table) error {
	return func(t *table) error { _, err := t.End(s, thread); return err }
}

func work(s int) func(*table) error { return func(t *table) error { return put(t, s) } }

func record(e string, s int) func(*table) error {
	return func(t *table) error { return t.Record(e, s) }
}

func await(s int, e string) func(*table) error {
	return func(t *table) error { _, err := t.Await(s, e); return err }
}

func ask(e string) func(*table) error { return func(t *table) error { return t.Ask(e) } }

func drop(s int) func(*table) error { return func(t *table) error { t.Drop(s); return nil } }

func unsafeCall(thread uint64, mode Mode) func(*table) error {
	return func(t *table) error { return t.Unsafe(thread, mode) }
}

func TestCaptures(t *testing.T) {
	for name, script := range map[string][]step{
		"one stream":           {{do: begin(1, 1, Global)}, {do: begin(1, 1, Global), want: ErrState}, {do: work(1)}, {do: end(1, 1)}, {do: end(1, 1), want: ErrState}},
		"two threads":          {{do: begin(1, 1, Global)}, {do: end(1, 2), want: ErrThread}, {do: end(1, 1)}},
		"two threads, relaxed": {{do: begin(1, 1, Relaxed)}, {do: end(1, 2)}},
		"fork and join": {
			{do: begin(1, 1, Global)}, {do: work(1)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: work(2)},
			{do: record("e", 2)}, {do: await(1, "e")}, {do: end(1, 1)}, {do: ask("e"), want: ErrEnded},
		},
		"fork without work":   {{do: begin(1, 1, Global)}, {do: work(1)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: end(1, 1)}},
		"not joined":          {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: work(2)}, {do: end(1, 1), want: ErrUnjoined}, {do: begin(2, 1, Global)}},
		"work after the join": {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: work(2)}, {do: record("e", 2)}, {do: await(1, "e")}, {do: work(2)}, {do: end(1, 1), want: ErrUnjoined}},
		"joined through third": {
			{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: work(2)}, {do: record("e", 2)}, {do: await(3, "e")}, {do: work(3)},
			{do: record("f", 3)}, {do: await(1, "f")}, {do: end(1, 1)},
		},
		"end on another":    {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: end(2, 1), want: ErrUnmatched}, {do: end(1, 1), want: ErrInvalidated}},
		"event asked for":   {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: ask("e"), want: ErrEvent}, {do: work(1), want: ErrInvalidated}, {do: record("e", 1), want: ErrInvalidated}, {do: end(1, 1), want: ErrInvalidated}},
		"event from before": {{do: begin(1, 1, Global)}, {do: await(1, "e"), want: ErrIsolation}, {do: await(1, "e"), want: ErrInvalidated}, {do: end(1, 1), want: ErrInvalidated}},
		"event of an ended capture": {
			{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: end(1, 1)}, {do: await(2, "e"), want: ErrEnded},
			{do: begin(1, 1, Global)}, {do: await(1, "e"), want: ErrIsolation},
		},
		"event of an invalid capture": {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: unsafeCall(1, Global), want: ErrUnsupported}, {do: await(2, "e"), want: ErrInvalidated}},
		"merge":                       {{do: begin(1, 1, Global)}, {do: begin(2, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e"), want: ErrMerge}, {do: end(1, 1), want: ErrInvalidated}, {do: end(2, 1), want: ErrInvalidated}},
		"neither":                     {{do: await(1, "e")}, {do: ask("e")}, {do: unsafeCall(1, Global)}},
		"forgotten":                   {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: func(t *table) error { t.Forget("e"); return nil }}, {do: ask("e")}, {do: end(1, 1)}},
		"dropped origin":              {{do: begin(1, 1, Global)}, {do: drop(1)}, {do: end(1, 1), want: ErrState}},
		"dropped fork":                {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: drop(2)}, {do: drop(3)}, {do: end(1, 1)}},
		"dropped fork with work":      {{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: work(2)}, {do: drop(2)}, {do: end(1, 1), want: ErrUnjoined}},
		"dropped fork that joined": {
			{do: begin(1, 1, Global)}, {do: record("e", 1)}, {do: await(2, "e")}, {do: work(2)}, {do: record("f", 2)}, {do: await(1, "f")}, {do: drop(2)}, {do: end(1, 1)},
		},
		"tips of another graph": {{do: func(t *table) error { return t.Begin(1, 1, Global, New(), []*Node{{}}, nil) }, want: ErrForeign}},
		"update of none":        {{do: func(t *table) error { return t.Update(1, nil, nil, true) }, want: ErrState}},
	} {
		t.Run(name, func(t *testing.T) {
			var c table
			for i, s := range script {
				require.ErrorIs(t, s.do(&c), s.want, "step %d", i)
			}
		})
	}
}

// A call is prohibited by captures of its thread that are not relaxed, and by global ones of others.
func TestUnsafe(t *testing.T) {
	for mode := range Relaxed + 1 {
		for captured := range Relaxed + 1 {
			for _, own := range []bool{false, true} {
				want := mode != Relaxed && own && captured != Relaxed || mode == Global && captured == Global
				thread := uint64(2)
				if own {
					thread = 1
				}
				var c table
				require.NoError(t, c.Begin(1, 1, captured, New(), nil, nil))
				require.Equal(t, want, c.Unsafe(thread, mode) != nil, "mode %d, captured %d, own %t", mode, captured, own)
				require.Equal(t, want, c.Of(1).Invalid())
			}
		}
	}
}

// Whatever streams do with each other's events, a graph that comes of it has exactly the order
// that the streams and events asked for.
func TestRandomCaptures(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	ended := 0
	for range 2000 {
		var c table
		into := New()
		require.NoError(t, c.Begin(0, 1, Global, into, nil, nil))
		// What each stream and event comes after, kept by brute force.
		type set = map[*Node]bool
		streams, events, after := map[int]set{0: {}}, map[string]set{}, map[*Node]set{}
		union := func(a, b set) set {
			all := set{}
			for n := range a {
				all[n] = true
			}
			for n := range b {
				all[n] = true
			}
			return all
		}
		for range r.IntN(30) {
			s, e := r.IntN(4), string(rune('a'+r.IntN(3)))
			switch r.IntN(3) {
			case 0:
				if streams[s] != nil {
					require.NoError(t, put(&c, s))
					n := into.Nodes()[len(into.Nodes())-1]
					after[n] = streams[s]
					streams[s] = union(streams[s], set{n: true})
				}
			case 1:
				if streams[s] != nil {
					require.NoError(t, c.Record(e, s))
					events[e] = streams[s]
				}
			case 2:
				if events[e] != nil {
					captured, err := c.Await(s, e)
					require.True(t, captured)
					require.NoError(t, err)
					streams[s] = union(streams[s], events[e])
				}
			}
		}
		joined := len(streams[0]) == len(into.Nodes())
		g, err := c.End(0, 1)
		if !joined {
			require.ErrorIs(t, err, ErrUnjoined)
			continue
		}
		ended++
		require.NoError(t, err)
		order, err := g.Order()
		require.NoError(t, err)
		reach := map[*Node]set{}
		for _, n := range order {
			reach[n] = set{}
			for _, b := range n.Before() {
				reach[n] = union(union(reach[n], reach[b]), set{b: true})
			}
			require.Equal(t, after[n], reach[n])
		}
		require.False(t, c.Active())
	}
	require.Greater(t, ended, 100)
}

// The data of the edges to the next node of a stream goes to them, and is forgotten.
func TestDataOfTips(t *testing.T) {
	const port Data = 1 | 1<<16
	for _, kind := range []Kind{Kernel, Fill} {
		var c table
		g := New()
		a, b := add(t, g), add(t, g)
		require.NoError(t, c.Begin(1, 1, Global, g, []*Node{a, b}, []Data{0, port}))
		require.Equal(t, []Data{0, port}, c.Of(1).Data(1))
		next := func() *Node {
			require.NoError(t, c.Put(1, func(g *Graph, before []*Node) (*Node, error) { return g.Add(kind, nil, before) }))
			return c.Of(1).Tips(1)[0]
		}
		n := next()
		require.Equal(t, []Data{0, port}, []Data{g.Data(Edge{From: a, To: n}), g.Data(Edge{From: b, To: n})})
		require.Equal(t, []Data{0}, c.Of(1).Data(1))
		c.Of(1).SetData(1, 2)
		require.Equal(t, []Data{map[Kind]Data{Kernel: 2}[kind]}, c.Of(1).Data(1))
		c.Of(1).data = map[int]map[*Node]Data{}
		require.NoError(t, c.Update(1, []*Node{a}, []Data{port}, false))
		require.Equal(t, []Data{0, port}, c.Of(1).Data(1))
		require.NoError(t, c.Update(1, []*Node{a}, nil, true))
		require.Equal(t, []Data{0}, c.Of(1).Data(1))
	}
}
