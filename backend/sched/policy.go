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

// Policy decides which guest runs next. A policy may have state of its own; state that
// has to survive a change of policy belongs in Guest. The Scheduler calls the policy,
// which calls the methods of the View that it gets, and of the guests.
type Policy interface {
	// Pick chooses the next guest. ready is not empty: it has the guests that wait
	// and may run, in the order of View.List. To run none of them yet, Pick returns
	// nil and the time of the next call; the Scheduler also calls it after each
	// event. That time must be at most Settings.Wait after the last completion, so
	// that the engine does not stay idle.
	Pick(v *View, ready []*Guest) (g *Guest, again time.Duration)
	// Beside returns the time from which a guest that Pick chose may run concurrently with
	// those that have the engine, if the work of all of them allows that; a time not after
	// v.Now() means at once. A guest that has had more than its share has to wait, otherwise
	// all shares would be equal.
	Beside(v *View, g *Guest) time.Duration
	// Completed reports that a guest has returned the engine and was charged.
	Completed(v *View, g *Guest)
	// Slice returns the time for which a guest that was picked while others wait may
	// run command after command. 0 is one command.
	Slice(v *View) time.Duration
}

// Watcher is a Policy that keeps account of when guests become active.
type Watcher interface {
	Policy
	// Arrived reports that a guest has work. The guest does not wait yet. A guest
	// that returns the engine and waits again at once was not inactive, so the
	// Scheduler does not call Arrived for it.
	Arrived(v *View, g *Guest)
}

// Preemptive is a Policy that takes the engine away from a guest whose command does not end.
type Preemptive interface {
	Policy
	// Preempt reports whether the command of a guest that has had the engine for its slice is
	// to be stopped now, because one of those that wait goes before it. If not, again is when to
	// ask again; the Scheduler also asks after each event. ready is as in Pick.
	Preempt(v *View, running *Guest, ready []*Guest) (now bool, again time.Duration)
}

// Disengaged is a Policy that lets guests have the engine together whose work the GPU serves in turn,
// because it measures what each of them uses.
type Disengaged interface {
	Policy
	// Disengages reports whether it does so at a time.
	Disengages(now time.Duration) bool
}

// Divider is a Preemptive policy that says itself how long a command may run while others wait.
type Divider interface {
	Preemptive
	// Part returns that time, in place of one by share.
	Part(v *View, g *Guest) time.Duration
}

// Holder is a Policy that says itself for how long a guest has the engine while others wait, in place
// of Slice.
type Holder interface {
	Policy
	// Hold returns that time, for the guest that Pick chose; 0 is one command. With keep the guest has
	// the engine for all of it, whether it has commands or not, and needs no message for each of them.
	Hold(v *View, g *Guest) (d time.Duration, keep bool)
}

// Stayer is a Policy that lets a guest go on for another slice while others wait.
type Stayer interface {
	Policy
	// Stays reports whether a guest whose slice is over would have the engine next, too.
	Stays(v *View, running *Guest, ready []*Guest) bool
}

// Observer is a Policy that counts the commands of a guest while it has the engine. Before each call
// of Next the caller calls Charge for those who have it.
type Observer interface {
	Policy
	// Enough returns when the guest has to return the engine before its time is over, or when to ask
	// again.
	Enough(v *View, g *Guest) time.Duration
}

// Settings are the constants of the policies. Zero values stand for the defaults.
type Settings struct {
	// Period is the longest time between two distributions of credit.
	Period time.Duration
	// CreditBound is the most credit that a guest can save while it does not
	// wait, and the most that it can owe. If a guest had the engine for longer
	// while others waited, because a command cannot be stopped, that is the most
	// instead: it is owed in full, and those that wait can save as much, for as
	// long as that was within the last windows.
	CreditBound time.Duration
	// Window is the time over which utilization is measured, and for which a
	// guest that has stopped counts as active.
	Window time.Duration
	// Wait is the time for which BAND leaves the engine idle for the next command of
	// a guest that is behind. NoWait stands for none.
	Wait time.Duration
	// Slice is the time for which a guest may go on while others wait before it has
	// to ask again, in CREDIT and BAND. It does not stop a command that runs.
	// NoWait stands for one command.
	Slice time.Duration
	// Preempt is the time for which a command may run while others wait before a policy that
	// preempts may stop it, for a guest with the mean share of the active ones. Others get time
	// by share, but at least a quarter of this. NoWait means that no command is stopped.
	Preempt time.Duration
	// Round is the time in which each of the guests that keep commands queued on a GPU which serves them in turn
	// (Scheduler.Turns) has one turn, by share, under a policy that preempts by the order of guests. It is longer
	// where a mean turn would have less than 6 ms. With a guest that waits for each of its commands it is 12 ms at most.
	Round time.Duration
	// Keep makes timeslice leave the engine idle while the guest whose slice it is has no command, as
	// the original does.
	Keep bool
}

// Defaults of Settings.
const (
	DefaultPeriod      = 30 * time.Millisecond
	DefaultCreditBound = 30 * time.Millisecond
	DefaultWindow      = time.Second
	DefaultWait        = 500 * time.Microsecond
	DefaultSlice       = time.Millisecond
	DefaultPreempt     = time.Millisecond
	DefaultRound       = 32 * time.Millisecond
)

// NoWait stands in Settings for no time, where 0 stands for the default.
const NoWait = time.Duration(-1)

// ErrSettings is the error of invalid Settings.
var ErrSettings = errors.New("setting not allowed")

// normal fills in defaults and checks the rest.
func (s Settings) normal() (Settings, error) {
	for _, d := range []struct {
		name      string
		value     *time.Duration
		standard  time.Duration
		low, high time.Duration
	}{
		{name: "period", value: &s.Period, standard: DefaultPeriod, low: time.Millisecond, high: time.Minute},
		{name: "credit bound", value: &s.CreditBound, standard: DefaultCreditBound, low: time.Millisecond, high: time.Minute},
		{name: "window", value: &s.Window, standard: DefaultWindow, low: 10 * time.Millisecond, high: time.Minute},
		{name: "wait", value: &s.Wait, standard: DefaultWait, low: NoWait, high: time.Second},
		{name: "slice", value: &s.Slice, standard: DefaultSlice, low: NoWait, high: time.Second},
		{name: "preempt", value: &s.Preempt, standard: DefaultPreempt, low: NoWait, high: time.Second},
		{name: "round", value: &s.Round, standard: DefaultRound, low: time.Millisecond, high: time.Second},
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
var policies = map[string]registered{}

type registered struct {
	about  string
	create func() Policy
}

// Register adds a policy, with a line of text for the help of commands. Call it from an
// init function. It panics if the name is taken.
func Register(name, about string, create func() Policy) {
	if _, taken := policies[name]; taken {
		panic("sched: two policies are called " + name)
	}
	policies[name] = registered{about: about, create: create}
}

// Names returns the names of all policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(policies)) }

// About describes each policy in a line, for the help of commands.
func About() string {
	var b strings.Builder
	for _, name := range Names() {
		fmt.Fprintf(&b, "  %-14s %s\n", name, policies[name].about)
	}
	return b.String()
}

// ErrPolicy is the error of an unknown name.
var ErrPolicy = errors.New("no such scheduling policy")

func newPolicy(name string) (Policy, error) {
	p, ok := policies[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q; choose %s", ErrPolicy, name, strings.Join(Names(), ", "))
	}
	return p.create(), nil
}
