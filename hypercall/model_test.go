package hypercall

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An explicit-state model checker, as small as it can be: a model is a few
// threads that share one comparable state, a thread is a list of atomic steps,
// and check walks every interleaving of them once per distinct state.

// Where a thread goes after a step: the name of a step, or one of these.
const (
	next    = ""        // to the step below
	blocked = "blocked" // nowhere: the step cannot be taken now
	ended   = "ended"   // past the last step
)

// step is one atomic action of a thread. If code is not empty, it is the place
// in ring.go that does the same, as "Function: operation"; TestModelIsTheCode
// compares the two. Steps without code are local, or done by the carrier.
type step[S comparable] struct {
	name string
	code string
	run  func(*S) (goTo string)
}

// thread is a program. It ends when it runs past its last step.
type thread[S comparable] struct {
	name  string
	steps []step[S]
}

const maxThreads = 5

var errWithoutEnd = errors.New("an execution without end")

// model is a set of threads with what must hold of them.
type model[S comparable] struct {
	threads []thread[S]
	start   S
	always  func(S) error // holds in every state
	atEnd   func(S) error // holds when no thread can take a step any more
}

// world is a state with the place of each thread.
type world[S comparable] struct {
	vars S
	pc   [maxThreads]int8
}

// violation is a broken promise with the schedule that leads to it.
type violation struct {
	err   error
	trace []string
}

func (v *violation) Error() string {
	return fmt.Sprintf("%v, after:\n  %s", v.err, strings.Join(v.trace, "\n  "))
}

func (v *violation) Unwrap() error { return v.err }

// check explores all interleavings from the start state and returns the number
// of distinct states, and the first violation that it finds. A cycle is one
// too: in these models each thread waits rather than spins, so that every
// execution ends.
func (m *model[S]) check() (states int, err error) {
	const onPath, done = 1, 2
	seen := map[world[S]]int{}
	var trace []string
	fail := func(err error) error { return &violation{err, slices.Clone(trace)} }

	var visit func(world[S]) error
	visit = func(w world[S]) error {
		if err := m.always(w.vars); err != nil {
			return fail(err)
		}
		seen[w] = onPath
		moved := false
		for t := range m.threads {
			after, label, ok := m.advance(w, t)
			if !ok {
				continue
			}
			moved = true
			trace = append(trace, label)
			switch seen[after] {
			case onPath:
				return fail(errWithoutEnd)
			case 0:
				if err := visit(after); err != nil {
					return err
				}
			}
			trace = trace[:len(trace)-1]
		}
		seen[w] = done
		if !moved {
			if err := m.atEnd(w.vars); err != nil {
				return fail(err)
			}
		}
		return nil
	}
	err = visit(world[S]{vars: m.start})
	return len(seen), err
}

// advance takes the next step of thread t, if it can be taken.
func (m *model[S]) advance(w world[S], t int) (after world[S], label string, ok bool) {
	steps := m.threads[t].steps
	if int(w.pc[t]) >= len(steps) {
		return w, "", false
	}
	s := steps[w.pc[t]]
	goTo := s.run(&w.vars)
	switch goTo {
	case blocked:
		return w, "", false
	case next:
		w.pc[t]++
	case ended:
		w.pc[t] = int8(len(steps))
	default:
		i := slices.IndexFunc(steps, func(s step[S]) bool { return s.name == goTo })
		if i < 0 {
			panic("no step is called " + goTo) // a typing error in a test
		}
		w.pc[t] = int8(i)
	}
	return w, m.threads[t].name + ": " + s.name, true
}

// exchanged returns the program with two steps in each other's place: a mutant.
func exchanged[S comparable](p []step[S], a, b string) []step[S] {
	p = slices.Clone(p)
	at := func(name string) int {
		return slices.IndexFunc(p, func(s step[S]) bool { return s.name == name })
	}
	i, j := at(a), at(b)
	p[i], p[j] = p[j], p[i]
	return p
}

// replaced returns the program with another action for one step: a mutant.
func replaced[S comparable](p []step[S], name string, run func(*S) string) []step[S] {
	p = slices.Clone(p)
	i := slices.IndexFunc(p, func(s step[S]) bool { return s.name == name })
	p[i].run = run
	return p
}
