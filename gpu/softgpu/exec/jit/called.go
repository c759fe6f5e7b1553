//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// What calls in native code move, and how the function begins that is called.

// moved is an end of a move between a function and one that it calls. The registers in view are of the first.
type moved struct {
	to       ir.Actual
	inCalled bool
}

// row is where a word of it is in local memory.
func (m moved) row(word int) x86.Mem {
	base := rowsHere
	if m.inCalled {
		base = rowsCalled
	}
	return x86.Mem{Base: base, Disp: int32(m.to.Offset/4+word) * rowBytes}
}

// part is where part p of it is, if it is a register.
func (m moved) part(e *emitter, p int) x86.Mem {
	reg := m.to.Reg
	switch {
	case m.inCalled && m.to.Kind == ir.In64:
		reg += uint32(e.fn.Regs64)
	case m.inCalled:
		reg += uint32(e.fn.Regs32)
	}
	return home(m.to.Kind, reg, p)
}

// laneMode is what operations write that the lanes do that run.
func (e *emitter) laneMode() maskMode {
	if e.masked {
		return active
	}
	return allOfThem
}

// move copies an argument or a result of the lanes that run, of the kinds that isCallable lets pass.
func (e *emitter) move(fn *ir.Function, to, from moved, size int) {
	a := &e.a
	e.mode = e.laneMode()
	z := [4]x86.Z{0, 1, 2, 3} // nothing is in vector registers
	if to.to.Kind != ir.In64 && from.to.Kind != ir.In64 {
		for word := range (size + 3) / 4 {
			for p := range 2 {
				src, dst := plus(from.row(word), 64*p), plus(to.row(word), 64*p)
				if from.to.Kind == ir.In32 {
					src = from.part(e, p)
				}
				if to.to.Kind == ir.In32 {
					dst = to.part(e, p)
				}
				a.VM(&x86.LOADD, z[p], 0, src, x86.Arg{})
				a.VM(&x86.STORED, z[p], 0, dst, x86.Arg{Mask: e.lanes(false, p)})
			}
		}
		return
	}
	v := value{z: z}
	switch {
	case from.to.Kind == ir.InMemory:
		for p := range 4 { // what lanes keep that do not run
			if e.masked {
				a.VM(&x86.LOADD, z[p], 0, to.part(e, p), x86.Arg{})
			}
		}
		e.loadRow(from.row(0), z, ir.In64)
	default:
		for p := range 4 {
			a.VM(&x86.LOADD, z[p], 0, from.part(e, p), x86.Arg{})
		}
	}
	if to.to.Kind == ir.InMemory {
		e.storeRow(to.row(0), &v, ir.In64)
		return
	}
	for p := range 4 {
		a.VM(&x86.STOREQ, z[p], 0, to.part(e, p), x86.Arg{Mask: e.lanes(true, p)})
	}
}

// calledCode is where native code calls the function: it makes what the interpreter makes when it enters one, arguments
// aside. It returns 0 if only the interpreter calls it.
func (e *emitter) calledCode() x86.Label {
	if e.fn.Kernel || e.fn.Grows || e.fn.LocalBytes > maxCleared {
		return 0
	}
	l := e.a.NewLabel()
	e.a.Entry(l)
	e.a.Bind(l)
	e.clear()
	e.mode = e.laneMode()
	e.loadView()
	e.forgetAllKept()
	e.fillConstants()
	e.fillZeros()
	e.a.Jump(e.labels[0])
	return l
}

// fill gives the lanes that run of a register the value in rax.
func (e *emitter) fill(file ir.RegKind, reg uint32) {
	from, store := &x86.FROMGPD, &x86.STORED
	if file == ir.In64 {
		from, store = &x86.FROMGPQ, &x86.STOREQ
	}
	e.a.FromGP(from, t0, x86.RAX, x86.Arg{})
	for p := range parts(file) {
		e.a.VM(store, t0, 0, home(file, reg, p), x86.Arg{Mask: e.lanes(file == ir.In64, p)})
	}
}

// fillConstants writes the function's constants. Addresses in .shared are those of the block.
func (e *emitter) fillConstants() {
	shared := func(list []int, i int, file ir.RegKind) {
		for _, n := range list {
			if n == i {
				e.a.RM(x86.ADD, file == ir.In64, x86.RAX, frameAt(offOwn))
			}
		}
	}
	for i, c := range e.fn.Const32 {
		e.a.RI(x86.MOV, false, x86.RAX, int32(c.Value))
		shared(e.fn.Shared32, i, ir.In32)
		e.fill(ir.In32, c.Reg)
	}
	for i, c := range e.fn.Const64 {
		e.a.Imm64(x86.RAX, c.Value)
		shared(e.fn.Shared64, i, ir.In64)
		e.fill(ir.In64, c.Reg)
	}
}

// fillZeros zeroes what the function may read before it writes it, but for its parameters.
func (e *emitter) fillZeros() {
	fn := e.fn
	given := map[regRef]bool{}
	rows := make([]bool, fn.LocalBytes/4)
	for i := range fn.Params {
		p := &fn.Params[i]
		if given[regRef{p.Kind, p.Reg}] = true; p.Kind == ir.InMemory {
			for n := range (p.Size + 3) / 4 {
				rows[p.Offset/4+n] = true
			}
		}
	}
	e.a.RI(x86.MOV, false, x86.RAX, 0)
	for _, r := range fn.Zero32 {
		if !given[regRef{ir.In32, r}] {
			e.fill(ir.In32, r)
		}
	}
	for _, r := range fn.Zero64 {
		if !given[regRef{ir.In64, r}] {
			e.fill(ir.In64, r)
		}
	}
	e.a.RR(x86.MOV, false, x86.RDX, rMask)
	e.a.Not(x86.RDX)
	for _, p := range fn.ZeroPr {
		e.a.RM(x86.MOV, false, x86.RCX, pred(p))
		e.a.RR(x86.AND, false, x86.RCX, x86.RDX)
		e.a.Store(false, pred(p), x86.RCX)
	}
	e.zeroRows(rows)
}

// zeroRows zeroes the rows of local memory that are not given.
func (e *emitter) zeroRows(given []bool) {
	if len(given) == 0 {
		return
	}
	a := &e.a
	a.RM(x86.MOV, true, x86.RBX, frameAt(offRows))
	a.FromGP(&x86.FROMGPD, t0, x86.RAX, x86.Arg{})
	for n := 0; n < len(given); {
		last := n
		for last < len(given) && !given[last] {
			last++
		}
		e.zeroRun(n, last)
		n = last + 1
	}
}

// zeroRun zeroes rows [n, last) of the memory at rbx, with the zeros of t0.
func (e *emitter) zeroRun(n, last int) {
	a := &e.a
	row := func(at x86.R, n int) {
		for p := range 2 {
			a.VM(&x86.STORED, t0, 0, x86.Mem{Base: at, Disp: int32(n*rowBytes + 64*p)}, x86.Arg{Mask: e.lanes(false, p)})
		}
	}
	if last-n <= 8 {
		for ; n < last; n++ {
			row(x86.RBX, n)
		}
		return
	}
	next := a.NewLabel()
	a.RR(x86.MOV, true, x86.RDX, x86.RBX)
	a.RI(x86.ADD, true, x86.RDX, int32(n*rowBytes))
	a.RI(x86.MOV, false, x86.RCX, int32(last-n))
	a.Bind(next)
	row(x86.RDX, 0)
	a.RI(x86.ADD, true, x86.RDX, rowBytes)
	a.RI(x86.SUB, false, x86.RCX, 1)
	a.JumpIf(x86.NotEqual, next)
}
