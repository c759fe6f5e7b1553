package gpu

import (
	"fmt"
	"time"
)

// Engine names a part of a device that runs one command at a time.
type Engine uint16

// The engines of a device.
const (
	EngineCompute Engine = iota // kernels
	EngineCopy                  // copies, fills and timestamps
	Engines                     // their number
)

func (e Engine) String() string {
	switch e {
	case EngineCompute:
		return "compute"
	case EngineCopy:
		return "copy"
	}
	return fmt.Sprintf("engine %d", uint16(e))
}

// Gate decides when a device may use its engines, where several processes share
// what is behind them. A device calls it for each command, or part of a long
// copy; for one engine at most one Enter is open at a time.
type Gate interface {
	// Enter returns nil if the engine may be used at once, and otherwise a channel
	// that is closed as soon as it may. Leave follows, or Cancel of a wait. With beside,
	// such uses of other devices may go on at the same time.
	Enter(e Engine, beside bool) <-chan struct{}
	Cancel(Engine)
	// Wanted reports, of an engine that is in use, whether others may be waiting for it.
	Wanted(Engine) bool
	// Turn reports, of an engine that is in use, whether others wait for it, and the device has it for
	// more than one command: a moment between two of them costs less than to hand the engine over.
	Turn(Engine) bool
	// Preempted reports, of an engine that is in use, whether the command is to stop where it
	// can go on later, and Leave the engine; the rest of the command Enters again. It costs a
	// load of memory. Any goroutine may call it between an Enter that was admitted and its
	// Leave. A device that cannot stop commands does not ask.
	Preempted(Engine) bool
	// Revoked reports, of an engine that is in use for a command that has held it for a time, whether the
	// command is to end soon if it can do so without loss: others wait, and what it was given is over.
	// It costs as much as Preempted, and is for the same callers.
	Revoked(e Engine, held time.Duration) bool
	// Alone reports whether the engine stays with this device from one command to the
	// next, because nobody else wants it. It may be called at any time, by any goroutine.
	Alone(Engine) bool
	// Charge reports a part of a use that goes on, of that length and with so many commands that
	// have ended, so that what each user does can be counted before Leave.
	Charge(e Engine, used time.Duration, commands uint64)
	// Leave ends the use, which took that long and ran so many commands since it was charged last,
	// of which parts of copies count as one each, and kernels when they end. more announces that another Enter follows at once.
	Leave(e Engine, used time.Duration, commands uint64, more bool)
}

// Parter is a Gate of an engine whose work runs on processors of the host, which are there for several devices.
type Parter interface {
	Gate
	// EnterPart is Enter for a use of at most so many processors, which can do with as few as least. Uses of other devices
	// that were entered so may go on at the same time, as long as there are processors for all of them.
	EnterPart(e Engine, processors, least int) <-chan struct{}
	// Part returns, of an engine that is in use, how many processors it may use; 0 stands for as many as it asked for.
	Part(e Engine) int
}

// EnterPart enters by Gate.EnterPart where a gate has it, and alone otherwise.
func EnterPart(g Gate, e Engine, processors, least int) <-chan struct{} {
	if p, ok := g.(Parter); ok {
		return p.EnterPart(e, processors, least)
	}
	return g.Enter(e, false)
}

// PartOf returns Parter.Part where a gate has it, and 0 otherwise.
func PartOf(g Gate, e Engine) int {
	if p, ok := g.(Parter); ok {
		return p.Part(e)
	}
	return 0
}
