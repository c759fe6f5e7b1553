// Package cluster simulates jobs of two classes on several GPUs in virtual time:
// user-facing tasks of milliseconds that have to meet an SLA, among batch tasks of
// minutes. A task that is revoked loses what it has done and begins again. It
// applies the decisions of package sched that are about several GPUs (sched.Needed,
// sched.Victim), and is for figures only: nothing here schedules a device.
//
// The workload is TReM's: jobs arrive at random (exponential intervals), last for
// a Pareto-distributed time, and consist of tasks of one program each. A
// user-facing job issues tasks at random, as many as keep one GPU busy; a batch
// job has up to MaxOutstanding tasks waiting or running.
package cluster
