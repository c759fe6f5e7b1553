// Package bench runs the Gdev suite in several places side by side, and
// reports how they compare: as a table, JSON, CSV and a page of HTML.
//
// A place is a Series: a mode (on the bare device, as a local guest, in a virtual
// machine) and a configuration of the frontend. A Plan runs its programs in
// rounds: in each, every program runs once in each series, one after the other,
// so that what disturbs the machine disturbs all of them. The first round warms
// up and is thrown away. Ratios are taken within a round.
//
// The package starts no goroutines and is not for concurrent use.
package bench
