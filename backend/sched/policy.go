package sched

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Never is a time that does not come.
const Never = time.Duration(1<<63 - 1)

// Policy is what can be chosen. A policy may keep what it knows in itself, but
// what has to survive a change of policy belongs in Guest. The Scheduler calls
// it; it calls the methods of the View it is given, and of the guests.
type Policy interface {
	// Pick chooses who is next. ready is not empty: the guests that wait and
	// may run, in the order of View.List. If none is to run now although some
	// wait, Pick returns nil and the time at which it is to be asked again; it
	// is also asked after each event. So that the engine is not left idle
	// without end, that time must be at most Settings.Wait after the last
	// completion.
	Pick(v *View, ready []*Guest) (g *Guest, again time.Duration)
	// Beside is from when on a guest that Pick chose may run beside those that have
	// the engine, if the work of all of them can go on side by side: not after v.Now() for at
	// once. A guest that has had more than its share has to wait, or shares would be
	// nothing but equal parts.
	Beside(v *View, g *Guest) time.Duration
	// Completed is told that a guest has given the engine back and was charged.
	Completed(v *View, g *Guest)
	// Slice is how long a guest that was picked while others wait may go on
	// with command after command. 0 is one command.
	Slice(v *View) time.Duration
}

// Settings are the constants of the policies. Zero values stand for the defaults.
type Settings struct {
	// Period is how often credit is given out, at least.
	Period time.Duration
	// CreditBound is the most credit that a guest can save while it does not
	// wait, and the most that it can owe. If somebody had the engine for longer
	// while others waited, because a command cannot be stopped, that is the most
	// instead: it is owed in full, and those that wait can save as much, for as
	// long as that was within the last windows.
	CreditBound time.Duration
	// Window is the time over which utilization is measured, and for which a
	// guest that has stopped counts as active.
	Window time.Duration
	// Wait is how long BAND leaves the engine idle for the next command of a
	// guest that is behind. NoWait stands for not at all.
	Wait time.Duration
	// Slice is how long a guest may go on while others wait before it has to
	// ask again, in CREDIT and BAND. A command that runs is not stopped.
	// NoWait stands for one command.
	Slice time.Duration
}

// Defaults of Settings.
const (
	DefaultPeriod      = 30 * time.Millisecond
	DefaultCreditBound = 30 * time.Millisecond
	DefaultWindow      = time.Second
	DefaultWait        = 500 * time.Microsecond
	DefaultSlice       = time.Millisecond
)

// NoWait says in Settings that a time is to be none, and not the default.
const NoWait = time.Duration(-1)

// ErrSettings is what Settings are refused with.
var ErrSettings = errors.New("setting not allowed")

// normal fills in what is zero and checks the rest.
func (s Settings) normal() (Settings, error) {
	for _, d := range []struct {
		name      string
		value     *time.Duration
		standard  time.Duration
		low, high time.Duration
	}{
		{"period", &s.Period, DefaultPeriod, time.Millisecond, time.Minute},
		{"credit bound", &s.CreditBound, DefaultCreditBound, time.Millisecond, time.Minute},
		{"window", &s.Window, DefaultWindow, 10 * time.Millisecond, time.Minute},
		{"wait", &s.Wait, DefaultWait, NoWait, time.Second},
		{"slice", &s.Slice, DefaultSlice, NoWait, time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
		if *d.value < d.low || *d.value > d.high {
			return s, fmt.Errorf("%w: %s %v; choose %v to %v", ErrSettings, d.name, *d.value, max(d.low, 0), d.high)
		}
		*d.value = max(*d.value, 0)
	}
	if s.Wait > s.Window {
		return s, fmt.Errorf("%w: wait %v; choose at most the window, %v", ErrSettings, s.Wait, s.Window)
	}
	return s, nil
}

// policies are the registered policies by name.
var policies = map[string]func() Policy{}

// Register adds a policy. It is to be called from an init function, and panics
// when the name is taken.
func Register(name string, make func() Policy) {
	if _, taken := policies[name]; taken {
		panic("sched: two policies are called " + name)
	}
	policies[name] = make
}

// Names are the names of all policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(policies)) }

// ErrPolicy is what an unknown name is refused with.
var ErrPolicy = errors.New("no such scheduling policy")

func newPolicy(name string) (Policy, error) {
	p := policies[name]
	if p == nil {
		return nil, fmt.Errorf("%w: %q; choose %s", ErrPolicy, name, strings.Join(Names(), ", "))
	}
	return p(), nil
}
