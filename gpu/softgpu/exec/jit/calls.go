package jit

import (
	"cmp"
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Calls stay in native code where the function that is called has code for the lanes that call it. Native code makes
// what the interpreter makes: constants and memory that the function expects, its arguments, its results. Instead of
// an ir.Frame it has an entry of Calls, of which Go makes frames where native code leaves (unwind), so that the
// interpreter goes on as if it had made the call. It leaves before a call, and the interpreter makes it, where
//
//   - the function has no code yet, or none for some lanes;
//   - the stack of the threads, or what the warp has of registers and local memory, does not suffice: the interpreter
//     makes room, or ends the kernel;
//   - so many calls are open that Calls is full;
//   - lanes are in other functions of the same depth, whose turn may be next;
//   - a register has what is no address of a function that the call may reach, or one of too many: native code compares it
//     with those that it knows, and jumps to no address of the kernel's.
//
// Functions whose frames grow (alloca) are the interpreter's, too. Barriers in functions are a crew's (crew.go), of which warps go on
// that the interpreter has run in a function, as if native code had made the calls (reopen.go). Lanes that exit in a function are none of
// it any more: those that wait there run, or return, without them.
//
// The fragments of a warp that wait (apart.go) lie one function above the other: those of the function that runs are the
// last ones, behind one that is none and has the highest position. A function's lanes return when the last of them comes to
// its end, those before as lanes that wait for them: none of the caller's could run before.
//
// A call counts as a head of a loop, as it does for the interpreter, and takes as much of the fuel as the function that is
// called has operations: what it runs between two looks at the fuel is its own.

// Bounds on calls in native code. Those beyond them are the interpreter's.
const (
	maxCalls   = 16      // that are open
	maxCases   = 32      // functions that a call through a register is compared with
	maxAll     = 256     // and those of one function together
	maxMoved   = 64      // words of arguments and results
	maxCleared = 4096    // bytes of local memory of a function that is called
	maxOwn     = 1 << 20 // and of one that calls
	maxLooks   = 1 << 16 // functions that one function's calls through registers are compared with, when it is compiled
)

// nativeCalls finds the calls of a function that native code can make, and the functions that each may reach.
func nativeCalls(p *ir.Program, fn *ir.Function) map[*ir.Inst][]*ir.Function {
	if fn.Grows || fn.LocalBytes > maxOwn {
		return nil
	}
	all, looks, cases := map[*ir.Inst][]*ir.Function{}, maxLooks, 0
	for pc := fn.Entry; pc < fn.End; pc++ {
		in := &p.Code[pc]
		if in.Kind != ir.KCall {
			continue
		}
		site := in.X.Call
		list := site.May
		switch {
		case site.Fn != nil:
			list = []*ir.Function{site.Fn}
		case list == nil:
			list = p.Funcs
		}
		for _, to := range list[:min(len(list), looks)] {
			if site.Fn == nil {
				if looks--; cases == maxAll || len(all[in]) == maxCases || !p.MayCall(to, site) {
					continue
				}
				cases++
			}
			if isCallable(to, site) {
				all[in] = append(all[in], to)
			}
		}
	}
	return all
}

// isCallable reports whether native code can call a function from a site.
func isCallable(fn *ir.Function, site *ir.CallSite) bool {
	words := 0
	moves := func(to, from ir.RegKind, size int) bool {
		n := (size + 3) / 4
		words += n
		switch {
		case to == ir.InPred || from == ir.InPred:
			return false
		case to == from && to == ir.InMemory:
			return true
		case to == ir.In64 || from == ir.In64:
			return n == 2 && to != ir.In32 && from != ir.In32
		}
		return n == 1
	}
	for i := range fn.Params {
		if p := &fn.Params[i]; !moves(p.Kind, site.Args[i].Kind, p.Size) {
			return false
		}
	}
	for i := range min(len(fn.Results), len(site.Results)) {
		if r := &fn.Results[i]; !moves(site.Results[i].Kind, r.Kind, r.Size) {
			return false
		}
	}
	return !fn.Kernel && !fn.Grows && fn.LocalBytes <= maxCleared && words <= maxMoved && max(fn.Regs32, fn.Regs64, fn.Preds) <= maxNativeRegs
}

// IsBounded reports whether a call ends without a head of a loop, but for those of what it calls.
func IsBounded(site *ir.CallSite) bool { return site.Fn != nil && site.Fn.Depth < ir.AnyDepth }

// Reach finds the functions that n's kernel may call. Code returns the code of one, or nil.
func (n *Code) Reach(code func(fn *ir.Function) *Code) {
	n.reach.Do(func() {
		list, _ := reached(n.prog, n.fn)
		for _, fn := range list[1:] {
			if n.table == nil {
				n.table = make([]*Code, len(n.prog.Funcs))
			}
			n.table[fn.Number] = code(fn)
		}
	})
}

// reached lists a function, and those that native code may call from there. All says whether no other one is called.
func reached(p *ir.Program, fn *ir.Function) (list []*ir.Function, all bool) {
	seen := map[*ir.Function]bool{fn: true}
	list, all = append(list, fn), true
	for i := 0; i < len(list); i++ {
		calls := nativeCalls(p, list[i])
		for pc := list[i].Entry; pc < list[i].End; pc++ {
			in := &p.Code[pc]
			if in.Kind != ir.KCall {
				continue
			}
			all = all && in.X.Call.Fn != nil && len(calls[in]) != 0
			for _, to := range calls[in] {
				if !seen[to] {
					seen[to] = true
					list = append(list, to)
				}
			}
		}
	}
	return list, all
}

// Calls reports whether native code of n's kernel makes calls.
func (n *Code) Calls() bool { return n.table != nil }

// codeAt returns the code of the function that a warp is in, which has left native code of n; nil: the interpreter went there.
func (n *Code) codeAt(f *Frame, w *ir.Warp) *Code {
	if f.calls == nil || w.Frame.Fn == n.fn {
		return n
	}
	return f.calls.codes[w.Frame.Fn.Number]
}

// MayCall gives a warp of n's kernel room for the calls of native code. It is called behind Prepare.
func (f *Frame) MayCall(n *Code, c *Calls) {
	c.codes = n.table
	f.calls = c
	c.prepare()
}

// open is how many calls native code has made that have not returned.
func (f *Frame) open() int {
	if f.calls == nil {
		return 0
	}
	return int(f.calls.depth) / int(callBytes)
}

// framesInto makes the frames of the open calls, in list, which is as long as they are.
func (f *Frame) framesInto(list []ir.Frame) {
	p, up := f.warp.Block.Prog, f.calls.base
	for i := range list {
		call := &f.calls.open[i]
		list[i] = up.Called(p.Funcs[call.fn], p.Code[call.pc].X.Call, call.pc+1)
		up = &list[i]
	}
}

// waited is a fragment that began to wait in a turn.
type waited struct {
	turn uint64
	ir.Fragment
}

// unwind makes frames of the open calls, and has the warp be in the last one. It returns the fragments in them that wait, and
// those that have returned.
func (f *Frame) unwind(w *ir.Warp) (list []waited) {
	c, n := f.calls, f.open()
	if c == nil {
		return nil
	}
	if w.Grace = int(c.grace); n == 0 {
		return nil
	}
	frames := make([]ir.Frame, n)
	f.framesInto(frames)
	in := f.mask | ^f.live
	for i := n - 1; i >= 0; i-- {
		call := &c.open[i]
		for at := call.count + int64(waitBytes); at <= f.count; at += int64(waitBytes) {
			o := &f.waits[at/int64(waitBytes)]
			in |= o.mask
			list = append(list, waited{f.turns[at/int64(waitBytes)], ir.Fragment{Mask: o.mask, PC: o.pc, Frame: &frames[i]}})
		}
		f.count = call.count - int64(waitBytes)
		if back := call.mask &^ in; back != 0 {
			lane.Return(w, back, &frames[i])
			list = append(list, waited{call.turn - 1, ir.Fragment{Mask: back, PC: call.pc + 1, Frame: frames[i].Parent}})
		}
		in = call.mask | ^f.live
	}
	f.full, f.masked, c.depth = c.open[0].full, c.open[0].masked, 0
	w.View(&frames[n-1])
	return list
}

// giveBackCalled is giveBack for a warp whose page Leave did not look up, since it was in a function that is called.
func (n *Code) giveBackCalled(f *Frame, w *ir.Warp, sites *Sites) {
	called := f.open() != 0
	if f.giveBack(w); called && f.pc >= 0 {
		n.codeAt(f, w).findPage(w, sites, f.pc)
	}
}

// InCalled has a warp see the registers of the function that native code is in, while Go does something for it.
func (f *Frame) InCalled(w *ir.Warp, do func()) {
	n := f.open()
	if n == 0 {
		do()
		return
	}
	if f.calls.frames == nil {
		f.calls.frames = make([]ir.Frame, maxCalls)
	}
	f.framesInto(f.calls.frames[:n])
	w.View(&f.calls.frames[n-1])
	do()
	w.View(f.calls.base)
}

// addWaiting adds fragments to those of a warp in the order of their turns, each to its like if there is one.
func addWaiting(w *ir.Warp, list []waited) {
	slices.SortStableFunc(list, func(a, b waited) int { return cmp.Compare(a.turn, b.turn) })
	for _, f := range list {
		at := slices.IndexFunc(w.Rest, func(o ir.Fragment) bool { return o.State == ir.Ready && o.PC == f.PC && o.Frame == f.Frame })
		if at >= 0 {
			w.Rest[at].Mask |= f.Mask
			continue
		}
		w.Rest = append(w.Rest, f.Fragment)
	}
}
