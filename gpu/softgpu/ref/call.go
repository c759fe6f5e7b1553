package ref

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// linkBytes is what a frame takes of the call stack beside its local memory.
const linkBytes = 16

// runtimeFunctions are those of the CUDA run-time that need no definition.
var runtimeFunctions = map[string]bool{"vprintf": true, "__assertfail": true, "__assert_fail": true, "malloc": true, "free": true}

// enter makes a frame for fn, with registers and local memory of zeros. Registers
// do not count as part of the call stack.
func (t *thread) enter(fn *function, call *ptx.Instr) {
	base := uint64(len(t.local))
	size := base + fn.local + linkBytes*uint64(len(t.frames)+1)
	t.b.regCount += len(fn.f.Regs)
	if size > uint64(t.b.limits.StackBytes) || t.b.regCount > maxRegisters {
		t.fail(gpu.LostStack, "call of "+fn.f.Name)
	}
	t.local = append(t.local, make([]byte, fn.local)...)
	t.frame = &frame{fn: fn, regs: make([]uint64, len(fn.f.Regs)), base: base, site: call}
	t.frames = append(t.frames, t.frame)
}

// leave is ret (section 9.7.11): it returns to the caller, or ends the thread.
func (t *thread) leave() {
	if len(t.frames) == 1 {
		t.exit()
		return
	}
	callee := t.frame
	var values [][]byte
	next := 0
	for _, v := range callee.fn.f.Results {
		values = append(values, t.parameter(callee, v, &next))
	}
	t.b.regCount -= len(callee.regs)
	t.frames = t.frames[:len(t.frames)-1]
	t.frame = t.frames[len(t.frames)-1]
	results, _ := signature(callee.site.Call)
	for n, v := range results {
		o := &callee.site.Call.Results[n]
		if p, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
			copy(t.local[t.base+t.fn.offsets[p]:], values[n])
		} else {
			t.set(o, read(values[n]), v.Type)
		}
	}
	t.local = t.local[:callee.base]
}

func (t *thread) exit() {
	t.state = exited
	t.b.live--
	t.b.arrivals()
	t.b.cluster.complete()
}

// parameter is the bytes of a parameter in frame f. Parameters in registers are
// the first registers of a function, which *next counts.
func (t *thread) parameter(f *frame, v *ptx.Var, next *int) []byte {
	if v.Space == ptx.SpaceParam {
		return append([]byte(nil), t.local[f.base+f.fn.offsets[v]:][:v.Size()]...)
	}
	b := make([]byte, 8)
	write(b, f.regs[*next])
	*next++
	return b
}

// call is call (section 9.7.11).
func (t *thread) call(i *ptx.Instr) {
	c := i.Call
	var fn *function
	if c.Callee.Kind == ptx.OperandSymbol {
		f := c.Callee.Ref.(*ptx.Func)
		if fn = t.b.k.prog.funcs[definition(f)]; fn == nil {
			t.runtime(i, f.Name)
			return
		}
	} else if fn = t.target(c); fn == nil {
		t.fail(gpu.LostInstruction, "indirect call of what is no function of the declared type")
	}
	var values [][]byte
	_, params := signature(c)
	for n, v := range params {
		o := &c.Args[n]
		if p, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
			values = append(values, append([]byte(nil), t.local[t.base+t.fn.offsets[p]:][:v.Size()]...))
			continue
		}
		b := make([]byte, 8)
		write(b, t.get(o, v.Type))
		values = append(values, b)
	}
	t.enter(fn, i)
	next := 0
	for _, v := range fn.f.Results {
		if v.Space == ptx.SpaceReg {
			next++
		}
	}
	for n, v := range fn.f.Params {
		if v.Space == ptx.SpaceReg {
			t.regs[next] = read(values[n]) & mask(t.fn.f.Regs[next].Type)
			next++
		} else {
			copy(t.local[t.base+fn.offsets[v]:][:v.Size()], values[n])
		}
	}
}

// target is what an indirect call calls, or nil if that is not what it declares.
func (t *thread) target(c *ptx.Call) *function {
	addr, funcs := t.get(&c.Callee, ptx.U64), t.b.k.prog.byAddr
	n := (addr - funcBase) / funcStep
	if addr < funcBase || n >= uint64(len(funcs)) || funcs[n].addr != addr || funcs[n].f.Entry {
		return nil
	}
	fn := funcs[n]
	switch via := c.Via.Ref.(type) {
	case *ptx.Prototype:
		if sameSizes(fn.f.Params, via.Params) && sameSizes(fn.f.Results, via.Results) {
			return fn
		}
	case *ptx.Targets:
		for _, l := range via.Labels {
			first := via.Labels[0].Func
			if definition(l.Func) == fn.f && sameSizes(fn.f.Params, first.Params) && sameSizes(fn.f.Results, first.Results) {
				return fn
			}
		}
	}
	return nil
}

// signature is what a call declares: the function's own parameters, or those of
// a prototype or list, which have the same sizes.
func signature(c *ptx.Call) (results, params []*ptx.Var) {
	switch d := c.Via.Ref.(type) {
	case *ptx.Prototype:
		return d.Results, d.Params
	case *ptx.Targets:
		return d.Labels[0].Func.Results, d.Labels[0].Func.Params
	}
	f := definition(c.Callee.Ref.(*ptx.Func))
	return f.Results, f.Params
}

func sameSizes(a, b []*ptx.Var) bool {
	if len(a) != len(b) {
		return false
	}
	for n := range a {
		if a[n].Size() != b[n].Size() {
			return false
		}
	}
	return true
}

// runtime runs a function of the CUDA run-time.
func (t *thread) runtime(i *ptx.Instr, name string) {
	c := i.Call
	switch name {
	case "malloc":
		t.malloc(c)
		return
	case "free":
		t.free(c)
		return
	case "__assertfail", "__assert_fail":
		t.assertion(c)
	}
	if len(c.Args) != 2 || len(c.Results) > 1 {
		t.fail(gpu.LostInstruction, "vprintf takes a format and a buffer")
	}
	n := t.print(t.pointer(&c.Args[0]), t.pointer(&c.Args[1]))
	if len(c.Results) == 0 {
		return
	}
	o := &c.Results[0]
	if v, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
		write(t.local[t.base+t.fn.offsets[v]:][:min(4, v.Size())], n)
	} else {
		t.set(o, n, ptx.S32)
	}
}

// pointer is the value of an argument of 8 bytes.
func (t *thread) pointer(o *ptx.Operand) uint64 {
	v, ok := o.Ref.(*ptx.Var)
	if !ok || o.Kind != ptx.OperandSymbol {
		return t.get(o, ptx.B64)
	}
	return read(t.local[t.base+t.fn.offsets[v]:][:min(8, v.Size())])
}

// alloca is alloca (9.7.15): memory from the end of the frame, of which there
// is more than that until the function returns or stackrestore.
func (t *thread) alloca(i *ptx.Instr) {
	size, align := t.get(&i.Args[1], ptx.U64), uint64(16)
	if len(i.Args) > 2 {
		align = max(align, i.Args[2].Value)
	}
	at := alignUp(uint64(len(t.local)), align)
	if limit := uint64(t.b.limits.StackBytes); size > limit || at+size+linkBytes*uint64(len(t.frames)) > limit {
		t.fail(gpu.LostStack, fmt.Sprintf("alloca of %d bytes", size))
	}
	t.local = append(t.local, make([]byte, alignUp(at+size, 16)-uint64(len(t.local)))...)
	t.set(&i.Args[0], at, ptx.U64)
}

// restore is stackrestore: it gives back what alloca took since stacksave.
func (t *thread) restore(i *ptx.Instr) {
	if to := t.get(&i.Args[0], ptx.U64); to >= t.base+t.fn.local && to <= uint64(len(t.local)) {
		t.local = t.local[:to]
	}
}
