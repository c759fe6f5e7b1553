//go:build amd64 && linux

package jit

import (
	"math"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Vector registers: z0 to z27 hold parts of the warp's registers, the others are
// scratch of one operation. A part of a 32-bit register is 16 lanes, of a 64-bit
// register 8.
const (
	cacheSize = 28
	t0        = x86.Z(28)
	t1        = x86.Z(29)
	t2        = x86.Z(30)
	t3        = x86.Z(31)
)

// Mask registers. Of a warp that does not run with all lanes, k1 to k4 are the active
// lanes from lane 0, 16, 8 and 24 on; the others are scratch.
const (
	kActive = x86.K(1)
	k5      = x86.K(5)
	k6      = x86.K(6)
	k7      = x86.K(7)
)

// General registers. The stack pointer and rbp stay what they are: a fault in
// native code looks like one of the function that called it.
const (
	rFrame  = x86.RDI // *nativeFrame
	rTable  = x86.RSI // *constants
	r32base = x86.R8
	r64base = x86.R9
	rPreds  = x86.R10
	rSites  = x86.R11
	rMask   = x86.R12 // the active lanes
)

// value is where a register of the warp is while a run of operations executes.
type value struct {
	z       [4]x86.Z // of its parts; noZ: in memory
	uniform bool     // z[0] holds the value of all lanes; it has no other parts
	dirty   uint8    // parts that memory does not have yet
	raw     bool     // NaNs are still to be made canonical
	shape            // how its lanes follow one another; parts that have no vector come from z[0] then
}

const noZ = x86.Z(0xff)

var inMemoryOnly = value{z: [4]x86.Z{noZ, noZ, noZ, noZ}}

// owner is what a vector register holds.
type owner struct {
	file ir.RegKind // InMemory: nothing
	reg  uint32
	part uint8
	pin  bool  // in use by the operation that is compiled
	used int32 // when last
}

// cache maps registers of the warp to vector registers.
type cache struct {
	vals32, vals64 []value
	owners         [cacheSize]owner
	clock          int32
}

func newCache(fn *ir.Function) cache {
	c := cache{vals32: make([]value, fn.Regs32), vals64: make([]value, fn.Regs64)}
	for i := range c.vals32 {
		c.vals32[i] = inMemoryOnly
	}
	for i := range c.vals64 {
		c.vals64[i] = inMemoryOnly
	}
	return c
}

func (c *cache) at(file ir.RegKind, reg uint32) *value {
	if file == ir.In64 {
		return &c.vals64[reg]
	}
	return &c.vals32[reg]
}

// parts is how many parts a register of a file has.
func parts(file ir.RegKind) int {
	if file == ir.In64 {
		return 4
	}
	return 2
}

// home is where part p of a register is in memory.
func home(file ir.RegKind, reg uint32, p int) x86.Mem {
	if file == ir.In64 {
		return x86.Mem{Base: r64base, Disp: int32(reg)*256 + int32(p)*64}
	}
	return x86.Mem{Base: r32base, Disp: int32(reg)*128 + int32(p)*64}
}

// clear forgets everything.
func (c *cache) clear() {
	for i := range c.owners {
		if o := &c.owners[i]; o.file != ir.InMemory {
			*c.at(o.file, o.reg) = inMemoryOnly
			*o = owner{}
		}
	}
}

// drop forgets a register.
func (c *cache) drop(file ir.RegKind, reg uint32) {
	v := c.at(file, reg)
	for p := range v.z {
		if v.z[p] != noZ {
			c.owners[v.z[p]] = owner{}
		}
	}
	*v = inMemoryOnly
}

// unpin ends the operation: its registers may be taken from now on.
func (c *cache) unpin() {
	for i := range c.owners {
		c.owners[i].pin = false
	}
}

// pinned is the set of registers that are pinned, and keepPinned unpins all others.
func (c *cache) pinned() (set uint32) {
	for i := range c.owners {
		if c.owners[i].pin {
			set |= 1 << i
		}
	}
	return set
}

func (c *cache) keepPinned(set uint32) {
	for i := range c.owners {
		c.owners[i].pin = c.owners[i].pin && set>>i&1 != 0
	}
}

// take finds a vector register for a part, and pins it.
func (e *emitter) take(file ir.RegKind, reg uint32, part int) x86.Z {
	best, oldest := -1, int32(math.MaxInt32)
	for i := range e.owners {
		o := &e.owners[i]
		if o.file == ir.InMemory && !o.pin {
			best = i
			break
		}
		if !o.pin && o.used < oldest {
			best, oldest = i, o.used
		}
	}
	if o := &e.owners[best]; o.file != ir.InMemory {
		e.evict(o.file, o.reg, int(o.part))
	}
	e.clock++
	e.owners[best] = owner{file: file, reg: reg, part: uint8(part), pin: true, used: e.clock}
	return x86.Z(best)
}

// evict writes one part to memory, if it must, and forgets it.
func (e *emitter) evict(file ir.RegKind, reg uint32, part int) {
	v := e.at(file, reg)
	if v.uniform || v.stride != 0 && part == 0 {
		e.writeBack(file, reg)
		e.drop(file, reg)
		return
	}
	if v.stride != 0 {
		e.owners[v.z[part]] = owner{}
		v.z[part] = noZ
		return
	}
	if v.dirty>>part&1 != 0 {
		e.store(file, reg, part, v.z[part], v.raw)
		v.dirty &^= 1 << part
	}
	e.owners[v.z[part]] = owner{}
	v.z[part] = noZ
	if firstPart(v) == noZ {
		*v = inMemoryOnly // nothing else would forget that it was raw
	}
}

// store writes a vector to a part of a register.
func (e *emitter) store(file ir.RegKind, reg uint32, part int, z x86.Z, raw bool) {
	if raw {
		e.canonical(z, 0)
	}
	e.a.VM(&x86.STORED, z, 0, home(file, reg, part), x86.Arg{})
}

// canonical makes NaNs of the lanes k of a vector the one that f32 arithmetic gives.
func (e *emitter) canonical(z x86.Z, k x86.K) {
	e.a.VK(&x86.CMPPS, k7, z, z, x86.Arg{Mask: k, Imm: cmpUnordered})
	e.a.VM(&x86.BROADCASTD, z, 0, constant(offNaN), x86.Arg{Mask: k7})
}

// writeBack writes to memory what it does not have of a register.
func (e *emitter) writeBack(file ir.RegKind, reg uint32) {
	v := e.at(file, reg)
	if v.raw {
		e.settle(file, reg)
	}
	if v.dirty == 0 {
		return
	}
	if v.stride != 0 {
		e.storeStride(file, reg, v)
		return
	}
	for p := range parts(file) {
		if z := v.part(p); v.dirty>>p&1 != 0 {
			e.store(file, reg, p, z, false)
		}
	}
	v.dirty = 0
}

// settle makes the NaNs of a register canonical.
func (e *emitter) settle(file ir.RegKind, reg uint32) {
	v := e.at(file, reg)
	if !v.raw {
		return
	}
	v.raw = false
	for p := range v.z {
		if v.z[p] != noZ {
			e.canonical(v.z[p], 0)
		}
	}
}

// part is the vector register of part p.
func (v *value) part(p int) x86.Z {
	if v.uniform {
		return v.z[0]
	}
	return v.z[p]
}

// use brings a register into vector registers and pins it. Raw says that the
// operation does not tell NaNs apart.
func (e *emitter) use(file ir.RegKind, reg uint32, raw bool) *value {
	v := e.at(file, reg)
	if v.raw && !raw {
		e.settle(file, reg)
	}
	if firstPart(v) == noZ && (e.constant(file, reg) || e.isSame(file, reg)) {
		v.z[0], v.uniform = e.take(file, reg, 0), true
		op := &x86.BROADCASTD
		if file == ir.In64 {
			op = &x86.BROADCASTQ
		}
		e.a.VM(op, v.z[0], 0, home(file, reg, 0), x86.Arg{})
	}
	if firstPart(v) == noZ && !v.uniform {
		v.shape = e.claims.find(file, reg).shape
	}
	n := parts(file)
	if v.uniform {
		n = 1
	}
	for p := range n {
		e.clock++
		if v.z[p] == noZ && p > 0 && v.stride != 0 {
			v.z[p] = e.take(file, reg, p)
			e.derive(file, v.z[p], v.z[0], p, v.stride)
		} else if v.z[p] == noZ {
			v.z[p] = e.take(file, reg, p)
			e.a.VM(&x86.LOADD, v.z[p], 0, home(file, reg, p), x86.Arg{})
		} else {
			e.owners[v.z[p]].pin, e.owners[v.z[p]].used = true, e.clock
		}
	}
	return v
}

// define makes room for a new value of a register, which is uniform or has all
// its parts. Sources of the operation are pinned already; what the register held
// stays in its vectors until part by part is overwritten.
func (e *emitter) define(file ir.RegKind, reg uint32, uniform bool) (z [4]x86.Z) {
	v := e.at(file, reg)
	n := parts(file)
	z = inMemoryOnly.z
	switch {
	case v.uniform && uniform:
		z[0] = v.z[0]
		e.owners[z[0]].pin = true
	case v.uniform:
		// The old value may be a source: it keeps its vector until the end.
		old := v.z[0]
		e.owners[old] = owner{pin: true}
		*v = inMemoryOnly
	case uniform:
		for p := 1; p < n; p++ {
			if v.z[p] != noZ {
				e.owners[v.z[p]] = owner{}
				v.z[p] = noZ
			}
		}
	}
	if uniform {
		n = 1
	}
	for p := range n {
		if z[p] = v.z[p]; z[p] == noZ {
			z[p] = e.take(file, reg, p)
		} else {
			e.clock++
			e.owners[z[p]].pin, e.owners[z[p]].used = true, e.clock
		}
	}
	*v = value{z: z, uniform: uniform, dirty: 1<<parts(file) - 1}
	return z
}

// merge is define for an operation that writes some lanes: the vectors hold the old
// value.
func (e *emitter) merge(file ir.RegKind, reg uint32) [4]x86.Z {
	v := e.use(file, reg, false)
	if v.uniform {
		old := v.z[0]
		e.owners[old] = owner{pin: true}
		*v = inMemoryOnly
		for p := range parts(file) {
			v.z[p] = e.take(file, reg, p)
			e.a.V(&x86.MOVD, v.z[p], 0, old, x86.Arg{})
		}
	}
	v.dirty, v.shape = 1<<parts(file)-1, shape{}
	return v.z
}
