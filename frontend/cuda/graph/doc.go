// Package graph holds graphs of work as CUDA's API describes them, and the state of stream
// capture. It knows neither handles nor C nor a device: the work of a node is a value that the
// caller chose, and streams and events are keys.
//
// A Graph owns its nodes. Edges may form a cycle, since CUDA refuses one only when the graph is
// instantiated: Order then returns ErrCycle.
//
// A node of kind Child owns a graph, which nothing else changes. One of kind Conditional owns its
// bodies, to which the program adds nodes.
//
// # Capture
//
// Captures is the table of captures in progress. A capture begins on one stream, its origin.
// Other streams join it when they wait for an event that was recorded in it. For each stream it
// holds the tips: the nodes that the next node of the stream depends on.
//
//	           Begin
//	(none) ──────────────▶ active ───┐ Add, Record, Wait
//	   ▲                    │   ▲────┘
//	   │ End, Drop          │ what is prohibited
//	   │                    ▼
//	   └─────────────── invalidated
//
// The callers serialise calls: nothing here has a lock.
package graph
