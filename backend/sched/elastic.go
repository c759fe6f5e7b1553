package sched

import (
	"math"
	"time"
)

func init() {
	Register("elastic", "class latency first, by --sla; on one GPU",
		func() Policy { return &ordered{before: elastic, over: displaces} })
}

// DefaultSLA is the SLA of a guest of class Latency whose share names none.
const DefaultSLA = 200 * time.Millisecond

// elastic is the order of TReM's policy of that name, for one engine. The guests of class
// Latency need Needed engines; as soon as one of them has work that is at least
// this one, and a guest of class Batch runs when none of them waits. Among guests
// of class Latency the earliest deadline is first: the time of arrival and the
// SLA. Among those of class Batch it is the least virtual time, as in wfq.
//
// Where commands can be preempted, a guest of class Latency waits for that of a guest of class
// Batch; otherwise it waits for the whole command that runs. On one engine there is one victim, so
// only package cluster, which simulates several GPUs that can be revoked, applies Victim. A guest
// that has waited for Settings.Window gets a turn, as in priority.
func elastic(a, b *Guest) bool {
	switch {
	case a.Share.Class != b.Share.Class:
		return a.Share.Class == Latency
	case a.Share.Class == Latency && a.Waiting && b.Waiting:
		return a.deadline() < b.deadline()
	}
	return a.virtual.time < b.virtual.time
}

// displaces reports whether the command of b is stopped for a. Commands of class Latency run to
// their ends: they are in the order of their deadlines.
func displaces(a, b *Guest) bool {
	if a.Share.Class != b.Share.Class {
		return a.Share.Class == Latency
	}
	return a.Share.Class == Batch && a.virtual.time < b.virtual.time
}

// deadline returns the time by which a guest that waits has to be served.
func (g *Guest) deadline() time.Duration {
	if g.Share.SLA == 0 {
		return g.since + DefaultSLA
	}
	return g.since + g.Share.SLA
}

// Needed returns how many of the GPUs the tasks of class Latency need for their
// SLA: U = ceil(l·q/SLA), with l the mean of their execution times and q the
// number of those outstanding.
func Needed(mean time.Duration, outstanding int, sla time.Duration, gpus int) int {
	if outstanding <= 0 || mean <= 0 {
		return 0
	}
	if sla <= 0 {
		sla = DefaultSLA
	}
	need := math.Ceil(float64(mean) * float64(outstanding) / float64(sla))
	return int(min(need, float64(gpus)))
}

// Running is a task of class Batch that has a GPU.
type Running struct {
	Started  time.Duration
	Expected time.Duration // execution time; 0 if unknown
	// Revocations counts how often the task has been taken off a GPU.
	Revocations int
}

// Victim chooses the task to take off its GPU, so that a task of class Latency
// gets it: the one that started last, because it loses the least. A task that
// ends before it could be revoked is left, and so is one that has been revoked
// maxRevocations times, if that is not 0. It returns -1 if there is none.
func Victim(tasks []Running, now, latency time.Duration, maxRevocations int) int {
	victim := -1
	for i, t := range tasks {
		switch {
		case t.Expected > 0 && t.Started+t.Expected-now < latency:
		case maxRevocations > 0 && t.Revocations >= maxRevocations:
		case victim < 0 || t.Started > tasks[victim].Started:
			victim = i
		}
	}
	return victim
}
