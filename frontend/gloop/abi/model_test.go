package abi

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The protocol of a slot as a model: a few threads of atomic steps on one comparable state, of which
// explore visits every interleaving once. Writes to shared memory go through buffers of each side,
// which drain in any order but for fences, as they may over a bus.

const rounds = 3 // requests of the slot, one after another

// slotWorld is the state. Small numbers stand for words; requests and results are numbers of rounds.
type slotWorld struct {
	// Shared memory.
	request, posted, result, done, report int8
	// Writes on their way; -1 is none.
	toRequest, toPosted, toResult, toDone int8
	// The device's own words: kept by its context while no kernel runs.
	devicePosted, seen, round, waits int8
	// The host's own.
	taken, copied, hostDone, served, events, grabbed int8
	running                                          bool
	pc                                               [4]int8
	broken                                           string
}

// Steps return the number of the step to go to, or one of these.
const (
	stay = -1 // the step cannot be taken now
	over = -2
)

type program []func(*slotWorld) int8

// protocol is what mutants change.
type protocol struct {
	deviceFence, hostFence bool
	postFirst, doneFirst   bool // the word that hands over is written first
	freeEarly              bool // the slot is used again before its result was taken
	checkFirst             bool // the main loop looks at the events before it notes how many there were
	forgets                bool // a context does not keep seen
}

var right = protocol{deviceFence: true, hostFence: true}

// device posts a request, waits, takes the result; it may leave while it waits.
func (p protocol) device() program {
	request := func(w *slotWorld) { w.toRequest = w.round + 1 }
	post := func(w *slotWorld) {
		w.devicePosted ^= 1
		w.toPosted = w.devicePosted
	}
	first, second := request, post
	if p.postFirst {
		first, second = post, request
	}
	fenced := func(w *slotWorld) bool { return !p.deviceFence || w.toRequest < 0 && w.toPosted < 0 }
	return program{
		0: func(w *slotWorld) int8 {
			if !w.running {
				return stay
			}
			if w.round == rounds {
				w.report, w.running = int8(StateDone), false
				return over
			}
			first(w)
			return 1
		},
		1: func(w *slotWorld) int8 {
			if !fenced(w) {
				return stay
			}
			second(w)
			w.waits = 1
			return 2
		},
		2: func(w *slotWorld) int8 { // looks at Done
			if !w.running {
				return stay
			}
			if p.freeEarly && w.toPosted < 0 && w.round+1 < rounds && w.waits == 1 {
				w.waits = 2
				w.toRequest = w.round + 2 // the next one's
			}
			if w.done == w.seen {
				return 3
			}
			w.seen = w.done
			return 4
		},
		3: func(w *slotWorld) int8 { // leaves, with its stores done
			if w.toRequest >= 0 || w.toPosted >= 0 {
				return 2
			}
			w.report, w.running = int8(StateWaiting), false
			return 5
		},
		4: func(w *slotWorld) int8 {
			if w.result != w.round+1 {
				w.broken = fmt.Sprintf("round %d got the result of %d", w.round, w.result-1)
			}
			w.round++
			w.waits = 0
			return 0
		},
		5: func(w *slotWorld) int8 { // resumes
			if !w.running {
				return stay
			}
			if p.forgets {
				w.seen = 0
			}
			return 2
		},
	}
}

// host takes a request, copies it, serves it and completes it.
func (p protocol) host() program {
	result := func(w *slotWorld) { w.toResult = w.copied }
	done := func(w *slotWorld) {
		w.hostDone ^= 1
		w.toDone = w.hostDone
	}
	first, second := result, done
	if p.doneFirst {
		first, second = done, result
	}
	return program{
		0: func(w *slotWorld) int8 {
			if w.served == rounds {
				return over
			}
			if w.posted == w.taken {
				return stay
			}
			w.taken = w.posted
			return 1
		},
		1: func(w *slotWorld) int8 {
			w.copied = w.request
			if w.copied != w.served+1 {
				w.broken = fmt.Sprintf("the host read request %d as the %d.", w.copied-1, w.served)
			}
			return 2
		},
		2: func(w *slotWorld) int8 { first(w); return 3 },
		3: func(w *slotWorld) int8 {
			if p.hostFence && (w.toResult >= 0 || w.toDone >= 0) {
				return stay
			}
			second(w)
			return 4
		},
		4: func(w *slotWorld) int8 { // tells the main loop, once the words are there
			if w.toResult >= 0 || w.toDone >= 0 {
				return stay
			}
			w.events++
			w.served++
			return 0
		},
	}
}

// loop is the main loop of the host: it launches again when an event has ended that the block has
// not seen.
func (p protocol) loop() program {
	grab := func(w *slotWorld) { w.grabbed = w.events }
	return program{
		0: func(w *slotWorld) int8 {
			if w.running {
				return stay
			}
			if w.report == int8(StateDone) {
				return over
			}
			if p.checkFirst {
				return 1
			}
			grab(w)
			return 1
		},
		1: func(w *slotWorld) int8 {
			if w.hostDone != w.seen && w.toDone < 0 && w.toResult < 0 {
				w.running = true
				return 0
			}
			return 2
		},
		2: func(w *slotWorld) int8 {
			if p.checkFirst {
				grab(w)
			}
			return 3
		},
		3: func(w *slotWorld) int8 {
			if w.events == w.grabbed {
				return stay
			}
			return 0
		},
	}
}

// drain is one write that arrives in shared memory.
func drain(from, to *int8) bool {
	if *from < 0 {
		return false
	}
	*to, *from = *from, -1
	return true
}

var errStuck = errors.New("nothing can go on before all is served")

// explore visits all states, and returns how many there are and what is wrong.
func (p protocol) explore() (int, error) {
	programs := []program{p.device(), p.host(), p.loop()}
	start := slotWorld{toRequest: -1, toPosted: -1, toResult: -1, toDone: -1, running: true}
	seen, todo := map[slotWorld]bool{start: true}, []slotWorld{start}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if w.broken != "" {
			return len(seen), errors.New(w.broken)
		}
		moved := false
		next := func(n slotWorld) {
			moved = true
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
		for i, prog := range programs {
			n := w
			if w.pc[i] == over {
				continue
			}
			if to := prog[w.pc[i]](&n); to != stay {
				n.pc[i] = to
				next(n)
			}
		}
		for i := range 4 {
			n := w
			if drain([]*int8{&n.toRequest, &n.toPosted, &n.toResult, &n.toDone}[i], []*int8{&n.request, &n.posted, &n.result, &n.done}[i]) {
				next(n)
			}
		}
		if !moved && (w.round != rounds || w.served != rounds || w.report != int8(StateDone)) {
			return len(seen), fmt.Errorf("%w: %+v", errStuck, w)
		}
	}
	return len(seen), nil
}

// The protocol holds over all interleavings, with suspensions anywhere; each change that breaks it is
// found.
func TestModel(t *testing.T) {
	states, err := right.explore()
	require.NoError(t, err)
	require.Greater(t, states, 100)
	t.Logf("%d states", states)
	for name, change := range map[string]func(*protocol){
		"no fence before posted":              func(p *protocol) { p.deviceFence = false },
		"no fence before done":                func(p *protocol) { p.hostFence = false },
		"posted first":                        func(p *protocol) { p.postFirst = true },
		"done first":                          func(p *protocol) { p.doneFirst = true },
		"a slot is used again early":          func(p *protocol) { p.freeEarly = true },
		"the main loop checks, then notes":    func(p *protocol) { p.checkFirst = true },
		"a context forgets what it has taken": func(p *protocol) { p.forgets = true },
	} {
		mutant := right
		change(&mutant)
		_, err := mutant.explore()
		require.Error(t, err, name)
	}
}

// The code writes in the order of the model.
func TestCodeKeepsTheOrder(t *testing.T) {
	for _, tc := range []struct {
		file, from, to string
		steps          []string
	}{
		{file: "../device/gloop_loop.h", from: "inline void Loop::hand(", to: "\n}\n", steps: []string{"to[w] = from[w]", "platform::fence()", "platform::store(&b->posted"}},
		{file: "table.go", from: "func (t *Table) Complete(", to: "\n}\n", steps: []string{"StoreInt64(&b.Results", "StoreUint64(&b.Done"}},
		{file: "table.go", from: "func (t *Table) Take(", to: "\n}\n", steps: []string{"t.take(b)", "Requests[i].load()"}},
		{file: "../host/program.go", from: "func (p *program) await(", to: "\n}\n", steps: []string{"ended := p.ended", "p.table.Ended(", "<-ended"}},
	} {
		text, err := os.ReadFile(tc.file)
		require.NoError(t, err)
		_, body, ok := strings.Cut(string(text), tc.from)
		require.True(t, ok, tc.from)
		body, _, _ = strings.Cut(body, tc.to)
		var at []int
		for _, s := range tc.steps {
			where := regexp.MustCompile(regexp.QuoteMeta(s)).FindAllStringIndex(body, -1)
			require.Len(t, where, 1, "%s in %s", s, tc.from)
			at = append(at, where[0][0])
		}
		require.True(t, slices.IsSorted(at), tc.from)
	}
}
