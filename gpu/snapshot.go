package gpu

import (
	"context"
	"io"
)

// Preempter is a Context that can be stopped and made to go on, as a scheduler or a
// migration needs it.
//
//	running ──Preempt──► stopped ──Resume──► running
//	running ──Snapshot─► stopped
//
// While a context is stopped its engines do nothing for it, Submit queues, and calls that change
// memory, mappings and modules work as ever; those for which the device needs its engines may wait
// until the context goes on. Close ends it. A fault of a context that is lost is reported to the
// batches that are queued, stopped or not.
type Preempter interface {
	// Preempt stops the context: kernels at their next preemption point (a loop head or between
	// blocks; on a GPU, an instruction), copies between two slices; no command begins. It returns when no
	// engine works for the context. When ctx ends first the context goes on, and the error
	// is ctx's. ErrUnsupported where the device cannot stop it.
	Preempt(ctx context.Context) error
	// Resume makes a stopped context go on where it stopped. A context that is not
	// stopped stays as it is.
	Resume() error
}

// Revoker is a Context whose work can be taken off the device without keeping how far it came, to run
// again: for devices that cannot stop a kernel, and to compare with those that can.
//
//	running or stopped ──Revoke──► stopped ──Resume──► running: kernels begin again
type Revoker interface {
	Preempter
	// Revoke stops the context as Preempt does, and gives up the progress of its kernels: those that
	// have begun and not ended begin again from their start when the context goes on. Commands that
	// have ended are not run again, and what the context has stays as it is, but for what was saved of
	// it before a kernel began, which is put back. Time that was lost so does not count against a
	// limit of launches.
	//
	// ErrUnsupported where that would change what the kernels leave, or cannot be told: they write
	// what they read, print, or talk to the host. The error says which and why, and the context is as
	// it was before the call. A kernel whose module was closed meanwhile may end with ErrInvalid.
	Revoke(ctx context.Context) error
}

// Snapshotter is a Context that can be written down and built again by a Restorer, on
// the same machine or another one.
type Snapshotter interface {
	Preempter
	// Snapshot stops the context and writes its state to w: memory with what VRAM
	// contains, mappings, modules, channels with the batches that have not ended. Kernels
	// are preempted; other commands that have begun run to their end first. When ctx ends before
	// that, the context goes on, and the error is ctx's. A batch that has ended before Snapshot
	// returned has called its done function, and is not in the state; one that is in the
	// state calls it after Resume or Close. What system memory contains is its owner's to
	// save. A context that does not live has no state: the error is what Err returns.
	Snapshot(ctx context.Context, w io.Writer) (*Objects, error)
}

// Restorer is a Device that builds contexts from what Snapshot wrote.
type Restorer interface {
	// Restore reads one state from r and makes a context of it, which is stopped until
	// Resume. It trusts nothing that it reads: a state that is malformed, or that this
	// device has no room for, is an error and leaves nothing behind. Addresses, the
	// contents of VRAM, variables of modules and the numbers of batches are as they were;
	// the device's clock is another one.
	Restore(ctx context.Context, label string, r io.Reader, owner Owner) (*Objects, error)
}

// Owner supplies what a state does not contain, because it belongs to the owner of the
// context.
type Owner struct {
	// System returns the pages of the system memory with index i in Objects.Memories, as
	// for Context.NewSystem.
	System func(i int, size uint64) ([][]byte, error)
	// Done returns the done function of a batch: the channel is an index in
	// Objects.Channels, and the batch counts those that were submitted to the channel
	// since it was made, from 0.
	Done func(channel int, batch uint64) func(Result)
	// Reserve is asked as in Context.LoadModule, for each module with variables and for the
	// heap of the context, if it has one; it may be nil.
	Reserve Reserve
}

// Objects are what a context holds, in the order in which its state has them: entry i of
// those that Snapshot returns and entry i of those that Restore returns are the same.
type Objects struct {
	Context  Context
	Memories []Memory
	Modules  []Module
	Channels []Channel
}
