package virgl

import (
	"time"

	"pvdrm/gpu"
)

// turn is the right to use the GPU. One is taken for a row of submissions, so that
// they can be queued on the GPU, and given back when they have ended.
//
//	outside ──enter──► waiting ──admitted──► inside ──leave──► outside
//	   └────────────────enter──────────────────┘
//
// It belongs to the pump's goroutine.
type turn struct {
	gate     gpu.Gate // nil: always inside
	beside   bool     // see Config.Beside
	admitted <-chan struct{}
	waiting  bool
	inside   bool
	began    time.Time // inside, or the first of out
	out      int       // submissions and transfers that have not ended
	counters *counters
}

const (
	// turnLength is after how long no more is begun with a turn for which others
	// wait. What was begun is waited for, so a turn may take longer.
	turnLength = 2 * time.Millisecond
	// longTurn is after how long no more is begun in any case, so that the time is
	// charged before long.
	longTurn = 20 * time.Millisecond
	// maxOut bounds what is out behind a gate: one that runs and one to follow it.
	maxOut = 2
)

// enter reports whether one more may begin now. If not, it may later: when
// t.admitted is closed, or something ends.
func (t *turn) enter() bool {
	switch {
	case t.gate == nil:
		return true
	case t.inside:
		length := time.Since(t.began)
		return t.out < maxOut && (length < turnLength || length < longTurn && !t.gate.Wanted(gpu.EngineCompute))
	case t.waiting:
		return false
	}
	if t.admitted = t.gate.Enter(gpu.EngineCompute, t.beside); t.admitted != nil {
		t.waiting = true
		return false
	}
	t.inside, t.began = true, time.Now()
	return true
}

// enterNow is that the gate has opened.
func (t *turn) enterNow() {
	t.admitted, t.waiting = nil, false
	t.inside, t.began = true, time.Now()
}

// begin counts one more.
func (t *turn) begin() {
	if t.out++; t.out == 1 && t.gate == nil {
		t.began = time.Now()
	}
}

// end counts one less.
func (t *turn) end() {
	if t.out--; t.out == 0 && t.gate == nil {
		t.counters.busy.Add(int64(time.Since(t.began)))
	}
}

// leave gives the turn back if nothing is out. more says that another is wanted.
func (t *turn) leave(more bool) {
	if t.out > 0 || !t.inside {
		return
	}
	used := time.Since(t.began)
	t.inside = false
	t.counters.busy.Add(int64(used))
	t.gate.Leave(gpu.EngineCompute, used, 1, more)
}

// cancel gives up a turn, or the wait for one.
func (t *turn) cancel() {
	if t.waiting {
		t.gate.Cancel(gpu.EngineCompute)
		t.admitted, t.waiting = nil, false
	}
	t.leave(false)
}
