package jit

import "pvdrm/gpu/softgpu/exec/ir"

// Cause says why an instruction was interpreted.
type Cause uint8

const (
	Unavailable Cause = iota // there is no native code on this machine, or none is wanted
	Cold                     // the function has not run often enough
	Beyond                   // the function is too large, or code has no room
	Failed                   // the compiler failed
	Operation                // native code has no form of the operation
	Barrier                  // warps wait here
	Ends                     // the warp, or a function, ends here
	Parts                    // lanes part at a branch, a turn ends, or the code for some lanes is not made yet
	Page                     // an access of a page that was not seen before, or of none
	Between                  // native code cannot be entered here
	Called                   // a call of a function that has no code yet, or that native code cannot make; see calls.go
	Causes                   // their number
)

// String says a cause in words.
func (c Cause) String() string {
	return [...]string{
		Unavailable: "no native code on this machine", Cold: "not hot yet", Beyond: "function too large", Failed: "the compiler failed",
		Operation: "operations that are not compiled", Barrier: "barriers", Ends: "ends", Parts: "lanes part",
		Page: "new pages", Between: "between entries", Called: "calls",
	}[c]
}

// Why returns why the instruction at pc is interpreted for the given lanes. A nil n has no code.
func (n *Code) Why(pc int32, mask uint32) Cause {
	if n == nil {
		return Unavailable
	}
	full := n.full.code.Load()
	at := int(pc - n.first)
	switch {
	case full == nil:
		return Cold
	case full.failed:
		return Failed
	case at < 0 || at >= len(full.at):
		return Beyond
	}
	n.classed.Do(n.classify)
	cause := n.classes[at]
	if mask != ir.AllLanes && (cause == Page || cause == Between) && n.masked.code.Load() == nil {
		return Parts
	}
	return cause
}

// classify finds the cause for each instruction of the function: they are looked up for each
// that is interpreted.
func (n *Code) classify() {
	n.classes = make([]Cause, n.fn.End-n.fn.Entry)
	for i := range n.classes {
		in := &n.prog.Code[int(n.first)+i]
		cause := Between
		switch in.Kind {
		case ir.KBarrier, ir.KSleep, ir.KWarpSync, ir.KChildren:
			cause = Barrier
			if in.Kind == ir.KWarpSync && !compiles(in, n.isa) {
				cause = Operation
			}
		case ir.KCall:
			cause = Called
		case ir.KRet, ir.KExit, ir.KTrap:
			cause = Ends
		case ir.KJump, ir.KBranch, ir.KCompareBranch, ir.KIndexed, ir.KPass:
			cause = Parts
		default:
			if !compiles(in, n.isa) {
				cause = Operation
			} else if hasPage(in) {
				cause = Page
			}
		}
		n.classes[i] = cause
	}
}
