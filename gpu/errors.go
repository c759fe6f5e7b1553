package gpu

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that a device returns, wrapped with what happened.
var (
	ErrInvalid      = errors.New("invalid argument")
	ErrExists       = errors.New("address range already mapped")
	ErrNotFound     = errors.New("not found")
	ErrNoMemory     = errors.New("out of device memory")
	ErrBusy         = errors.New("no channel left")
	ErrClosed       = errors.New("closed")
	ErrTooLarge     = errors.New("module too large")
	ErrCanceled     = errors.New("canceled because earlier work of the channel failed")
	ErrGridTooLarge = errors.New("too many blocks for a cooperative launch")
	ErrCluster      = errors.New("clusters that are not possible")
	ErrUnsupported  = errors.New("the device does not support it")
)

// Diagnostic is one complaint about a source text.
type Diagnostic struct {
	File      string
	Line, Col int // 1-based
	Message   string
}

func (d Diagnostic) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", d.File, d.Line, d.Col, d.Message)
}

// BuildError says why a module was refused. It has at least one diagnostic.
type BuildError struct{ Diagnostics []Diagnostic }

func (e *BuildError) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// LostCause is the kind of fault that ended a context.
type LostCause uint32

// Causes of a lost context. The values are part of the wire protocol.
const (
	LostNone        LostCause = iota
	LostAddress               // access to an address that is not mapped, or not with that right
	LostAlign                 // misaligned access
	LostInstruction           // illegal instruction, bad jump, barrier in divergent code
	LostTrap                  // trap or assert
	LostTimeout               // ran longer than allowed
	LostStack                 // call stack exhausted
	LostDevice                // the device itself failed
)

var lostNames = [...]string{"none", "illegal address", "misaligned address", "illegal instruction",
	"trap", "launch timed out", "stack overflow", "device failure"}

func (c LostCause) String() string {
	if int(c) < len(lostNames) {
		return lostNames[c]
	}
	return fmt.Sprintf("cause %d", uint32(c))
}

// LostError says what ended a context. Every later command of the context fails with it.
type LostError struct {
	Cause  LostCause
	Kernel string    // "" for a copy or fill
	Addr   uint64    // for LostAddress and LostAlign; 0 where the device does not tell, nor then Write, Block and Thread
	Write  bool      // for LostAddress and LostAlign
	Block  [3]uint32 // ctaid of the faulting thread
	Thread [3]uint32 // tid
	Detail string    // further words; may be empty
}

// maxShown bounds how much of a kernel's name messages have: those of templates would fill them.
const maxShown = 1024

// ShownKernel returns the kernel's name as messages have it.
func (e *LostError) ShownKernel() string {
	if len(e.Kernel) > maxShown {
		return e.Kernel[:maxShown] + "…"
	}
	return e.Kernel
}

func (e *LostError) Error() string {
	var b strings.Builder
	b.WriteString(e.Cause.String())
	if e.Cause == LostAddress || e.Cause == LostAlign {
		dir := "read"
		if e.Write {
			dir = "write"
		}
		fmt.Fprintf(&b, ": %s at 0x%x", dir, e.Addr)
	}
	if e.Kernel != "" {
		fmt.Fprintf(&b, " in kernel %s, block (%d,%d,%d), thread (%d,%d,%d)", e.ShownKernel(),
			e.Block[0], e.Block[1], e.Block[2], e.Thread[0], e.Thread[1], e.Thread[2])
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}
