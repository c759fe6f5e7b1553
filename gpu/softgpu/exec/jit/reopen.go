package jit

import "pvdrm/gpu/softgpu/exec/ir"

// A warp that the interpreter has run in a function enters a crew as if native code had made its calls: they are open again, each with
// the code that it returns to. That is so where all lanes that have not exited are in the one frame, for then they all come back to
// each caller together, and where each frame lies where native code would have it.

// codeOf returns the code of a function that native code of n's kernel may call, or of the kernel; nil: there is none.
func (n *Code) codeOf(fn *ir.Function) *Code {
	switch {
	case fn == n.fn:
		return n
	case n.table == nil:
		return nil
	}
	return n.table[fn.Number]
}

// reopens returns the code of the function of a frame, and whether the calls that have led there can be open in native code for the
// lanes of a mask, which are all of the warp.
func (n *Code) reopens(at *ir.Frame, mask uint32) (here *Code, ok bool) {
	if at.Depth > maxCalls {
		return nil, false
	}
	if here = n.codeOf(at.Fn); here == nil {
		return nil, false
	}
	for ; at.Depth != 0; at = at.Parent {
		up := at.Parent
		code := n.codeOf(up.Fn).running(mask)
		if code == nil || code.backs[callOf{at.Ret - 1, at.Fn.Number}] == 0 {
			return nil, false
		}
		if want := up.Called(at.Fn, at.Site, at.Ret); up.Top != up.Base+up.Fn.LocalBytes/4 || *at != want {
			return nil, false
		}
	}
	return here, at.Fn == n.fn
}

// running is the code that runs lanes of a warp; nil: there is none.
func (n *Code) running(mask uint32) *machineCode {
	switch {
	case n == nil:
		return nil
	case mask == ir.AllLanes:
		return n.full.code.Load()
	}
	return n.masked.code.Load()
}

// reopen opens the calls that have led to the frame that a warp is in, which has entered the code of its function. The warp sees the
// kernel's registers then. Precondition: reopens.
func (n *Code) reopen(f *Frame, w *ir.Warp) {
	at := w.Frame
	if at.Depth == 0 {
		return
	}
	c := f.calls
	c.depth, f.count, f.limit = int64(at.Depth)*int64(callBytes), int64(at.Depth)*int64(waitBytes), noLimit
	for ; at.Depth != 0; at = at.Parent {
		up := n.codeOf(at.Parent.Fn)
		call := &c.open[at.Depth-1]
		*call = openCall{
			ret: up.running(w.Mask).backs[callOf{at.Ret - 1, at.Fn.Number}], count: int64(at.Depth) * int64(waitBytes),
			mask: w.Mask, fn: uint32(at.Fn.Number), pc: at.Ret - 1,
		}
		call.full.holds(up.full.code.Load())
		call.masked.holds(up.masked.code.Load())
		f.waits[at.Depth] = waiting{pc: noLimit}
	}
	c.base = at
	w.View(at)
}
