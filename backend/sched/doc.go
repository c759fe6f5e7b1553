// Package sched decides which guest may use an engine of a GPU next.
//
// A Scheduler is the state of one engine: its guests with their shares, who
// waits, who runs, what each has used, and what each is owed. A Policy is the
// part of it that can be chosen by name: fifo, credit or band. A new policy is
// one file with a type that implements Policy and a call of Register.
//
// # Time and events
//
// The package is pure: no goroutine, no lock, no system call, no clock. Every
// event carries the time, counted from any moment that the caller likes, and
// times never go back. The caller reports what happens
//
//	Arrive    a guest has work and waits for the engine
//	Withdraw  it no longer waits
//	Charge    it has used so much of the engine until now, and goes on
//	Complete  it has given the engine back
//	Reclaim   the engine was taken back from it while it did nothing
//
// and after each event, and at the time that the last decision named, calls
// Next and does what it says: give the engine to a guest, ask for it back, or
// wait. A Scheduler belongs to one goroutine at a time.
//
// # Side by side
//
// One guest has the engine at a time, unless its work is such that others may do theirs
// beside it (Scheduler.Beside): rendering on the processors of the host, which one renderer does
// not keep busy at every moment, while the kernel's own scheduler divides them. Then several
// guests have the engine, and each is charged an equal part of the time that goes by. All
// that was said of accounts holds, since these parts add up to the time. Who has got
// ahead of those that run waits until they have caught up, so that shares are kept
// (Policy.Beside).
//
// # Accounts
//
// What a guest uses of the engine is taken off its credit. Each period, as much
// as was taken off in all is given out again as credit to the active guests, by
// share. So credits always add up to the same, however busy the engine is: time
// in which it was idle is not given out, because such credit piles up until it
// decides nothing. For the same reason the time that scheduling takes is charged
// as if it were time of the engine, to all active guests by share.
//
// A guest is active while it waits, runs, or has done so within the last window.
// What an active guest has no use for goes to the others. Credit is bounded: see
// Settings.CreditBound. Utilization is measured over a window that slides.
package sched
