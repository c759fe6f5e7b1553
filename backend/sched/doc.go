// Package sched decides which guest may use an engine of a GPU next.
//
// A Scheduler is the state of one engine: its guests with their shares, which of
// them wait and run, and the time that each has used and is owed. A Policy is the
// part of it that can be chosen by name, such as fifo, credit or band. A new policy
// is one file with a type that implements Policy and a call of Register.
//
// # Time and events
//
// The package is pure: it has no goroutine, lock, system call or clock. Every
// event carries the time since an origin that the caller chooses, and times never
// go back. The caller reports these events
//
//	Arrive    a guest has work and waits for the engine
//	Withdraw  it no longer waits
//	Charge    it has used the engine for so long until now, and goes on
//	Complete  it has returned the engine
//	Reclaim   the engine was taken from it while it was idle
//
// and after each event, and at the time that the last decision named, calls Next
// and follows its decision: give the engine to a guest, ask for it back, or wait.
// A Scheduler belongs to one goroutine at a time.
//
// # Concurrent work
//
// One guest has the engine at a time, unless its work may run concurrently with that of
// others (Scheduler.Beside): rendering on the processors of the host, which one renderer
// does not keep busy all the time, and which the kernel's own scheduler divides. Then
// several guests have the engine, and each is charged an equal part of the time that
// passes. The rules of accounts still hold, since these parts add up to that time. A guest
// that is ahead of those that run waits until they have caught up, which keeps the shares
// (Policy.Beside).
//
// # Processors
//
// A software GPU runs kernels on processors of the host, and one with few blocks leaves some of them idle.
// Work that uses some of them (Scheduler.Processors) has the engine together with such work of others as long as the
// processors suffice, under policies that preempt by an order of guests. As long as there are processors for all active
// guests it owes nothing: the others lose nothing by it. While one is active for which they do not suffice, it owes the time, also
// in a pause of that one, which saves no more than Settings.CreditBound so. When a guest comes for which there is no room, those that run share the time that
// passes by their processors, so that it is charged as a whole; the policy decides which of them stop for the guest
// that waits, and no guest behind that one gets in before it.
//
// A guest whose work can run on fewer processors than it asked for fills those that others leave idle
// (Scheduler.Fills). It pays for them, and counts as waiting for the rest: others stop for it as if it waited. It stops
// itself to go on with more when it is alone for Settings.Wait, or when it is the policy's next and all others have stopped.
//
// # Turns
//
// A GPU that runs what guests have queued in a stream takes long to pass from one guest to another, and what one has in
// flight is lost on the way. Guests with such work (Scheduler.Turns) have turns of some milliseconds under a policy that
// preempts by an order of guests: its Preempt tells when one ends, with a margin (View.margin) of half a turn. So what a
// guest had too little of in one turn, it gets in the next ones. A guest that comes late, because it needs little, needs no
// margin. One that is behind and pauses is waited for, up to PauseMost.
//
// # Accounts
//
// The Scheduler takes the time for which a guest uses the engine off its credit. Each
// period it distributes the sum of that time as credit to the active guests, by share. So
// the sum of credits is constant, however busy the engine is. Idle time is not distributed,
// because such credit would grow until it decides nothing. For the same reason the time
// that scheduling takes is charged like time of the engine, to all active guests by share.
//
// A guest is active while it waits or runs, and for one window after. The other guests
// get the time that an active guest does not use. Credit is bounded: see
// Settings.CreditBound. Utilization is measured over a sliding window.
package sched
