package rewrite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/flow"
)

// The twin of a kernel that can be suspended has one more parameter: the address of a word that is
// the signal, that of memory for the state of its blocks, and how much of it a block has.
const (
	stateBytes = 3 * 8
	stateAlign = 8
)

// AppendState appends what the twin of a kernel takes besides the parameters of the kernel: addresses
// in global memory of the signal, a word of 32 bits, and of the area, of which each block of the launch
// has stride bytes (Suspended.Stride). Of each part the first HeadBytes are zero before the first launch.
func AppendState(params []byte, signal, area, stride uint64) []byte {
	for len(params)%stateAlign != 0 {
		params = append(params, 0)
	}
	for _, v := range []uint64{signal, area, stride} {
		params = binary.LittleEndian.AppendUint64(params, v)
	}
	return params
}

// Suspended is what became of a kernel that was to be suspended.
type Suspended struct {
	Kernel
	Loops  int // that the kernel itself has; those of functions that it calls do not count
	Points int // places where it looks at the signal, or where its blocks stop for others of their threads

	Meets bool // threads of a block share memory, wait for each other or work together as a warp

	thread, shared int // bytes of the area that each thread takes, and that static .shared of a block takes
}

// Stride is how much of the area a block of so many threads takes, with so many bytes of dynamic .shared.
func (s *Suspended) Stride(threads, dynamic uint32) uint64 {
	return headerBytes + uint64(s.thread)*uint64(threads) + uint64(s.shared) + (uint64(dynamic)+15)/16*16
}

// HeadBytes is what at the start of a block's part of the area has to be zero before the first launch, of a block
// of so many threads. The rest is written before it is read.
func HeadBytes(threads uint64) uint64 { return headerBytes + pointBytes*threads }

// headerBytes begin the part of a block: its state, and a count of its threads. See text.go.
const headerBytes = 16

// SuspendOptions say how kernels look at the signal.
type SuspendOptions struct {
	// Interval is how many instructions, about, a thread runs between two looks. 0 stands for
	// DefaultInterval.
	Interval int
	// Count makes the signal a number: each look takes one from it, and kernels stop from the look on
	// that finds one or less. It is for tests.
	Count bool
}

// DefaultInterval makes looks cost little, and takes a fraction of a millisecond.
const DefaultInterval = 1 << 13

// Suspend adds to a module, which ptx.Verify has accepted and whose source is given, a twin of each
// kernel that can be suspended: it looks at a signal at heads of its loops, and when that is set, its
// threads save their registers, the block's shared memory and their local memory, and end. The same
// launch goes on from there, and has ended when no block has something to do any more.
func Suspend(e *ptx.Effort, m *ptx.Module, source []byte, o SuspendOptions) (source2 []byte, list []Suspended, err error) {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	s := &splitter{e: e, prefix: fresh(e, source), facts: map[*ptx.Func]*facts{}}
	for _, d := range m.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Defined {
			s.facts[f] = look(e, f)
			s.order = append(s.order, f)
		}
	}
	var added []*ptx.Func
	for _, f := range kernels(m) {
		p := &pauser{s: s, m: m, f: f, o: o, out: Suspended{Kernel: Kernel{Name: f.Name}}}
		if twin := p.twin(); twin != nil {
			p.out.Twin, p.out.Meets = twin.Name, p.mode != alone
			added = append(added, twin)
		}
		list = append(list, p.out)
	}
	source2, err = appended(e, source, added)
	return source2, list, err
}

// Modes of a kernel, by how its threads depend on each other.
type mode uint8

const (
	// alone: threads do not. Each stops by itself.
	alone mode = iota
	// blocks: they share memory or wait for each other at barriers. A thread that stops waits at a
	// barrier for the others of its block, which learn there, or at the barriers of the kernel, that
	// they stop, too. Shared memory is saved when all have stopped.
	blocks
	// warps: instructions work on a warp together. Threads stop only at barriers of the kernel, where
	// all of the block are.
	warps
)

// The twin of a kernel whose threads meet has one more word in .shared. Variables there take up to mostShared bytes.
const (
	wishBytes  = 16
	mostShared = 48 << 10
)

// pauser makes the twin of one kernel.
type pauser struct {
	s    *splitter
	m    *ptx.Module
	f    *ptx.Func
	o    SuspendOptions
	out  Suspended
	mode mode

	g     *flow.Graph
	live  *flow.Live
	loops *flow.Loops

	top    map[int32]bool // registers that statements outside of inner braces mention
	inner  []*ptx.Var     // declarations in inner braces
	depth  []int32        // of braces, by statement
	local  []*ptx.Var     // variables in .local that are to be saved
	static []*ptx.Var     // and in .shared
	extern *ptx.Var       // dynamic .shared; nil without

	lifted map[int32]int32   // statements that can precede all others, by the register that they write
	wanted map[int32]bool    // those of them that do
	within map[*ptx.Var]bool // what inner braces declare

	single   map[int32]*single // loops of one block, by the statement behind their labels
	looks    map[int32]int     // points at heads of loops, by the statement that they stand before
	barriers map[int32]int     // those at barriers
	saves    [][]int32         // registers to save, by point
	async    bool              // it copies to .shared in the background
	together bool              // threads count barriers, see meet.go
	apart    int               // instructions between two of them, about
}

// no notes why the kernel has no twin.
func (p *pauser) no(format string, args ...any) {
	if p.out.Why == "" {
		p.out.Why = fmt.Sprintf(format, args...)
	}
}

// twin makes the twin; nil if that is not possible.
func (p *pauser) twin() *ptx.Func {
	if p.m.AddressSize != 64 || p.m.Unsized {
		p.no("has addresses of 32 bits")
	}
	if v := private(p.m); v != "" {
		p.no("is in a module with the variable %s of each thread outside functions", ptx.Clip(v))
	}
	if n := paramBytes(p.f); (n+stateAlign-1)/stateAlign*stateAlign+stateBytes > maxParams {
		p.no("has parameters of %d bytes, which leave no room for another", n)
	}
	p.classify()
	if p.out.Why != "" {
		return nil
	}
	p.g = flow.New(p.s.e, p.f)
	var err error
	if p.live, err = p.g.Liveness(); err != nil {
		p.no("cannot be analysed: %v", err)
		return nil
	}
	p.loops = p.g.Loops()
	p.out.Loops = len(p.loops.Heads)
	p.scopes()
	p.variables()
	if p.out.Why == "" {
		p.lifts()
		p.choose()
	}
	if p.out.Why != "" {
		return nil
	}
	return p.build()
}

// classify finds the mode of the kernel, or why it has no twin, from the instructions that it and the
// functions that it calls have.
func (p *pauser) classify() {
	if p.f.Cluster.Explicit || p.f.Cluster.Required != [3]uint32{} {
		p.no("has clusters of blocks")
	}
	list, indirect := p.s.reach(p.f)
	for n, f := range list {
		for _, stmt := range f.Body {
			p.s.e.Step()
			if i, ok := stmt.(*ptx.Instr); ok {
				p.instr(i, n > 0)
			}
		}
	}
	if indirect && p.mode != alone {
		p.no("calls functions by their addresses, and its threads wait for each other")
	}
	if p.mode != alone && (p.m.Version[0] < 6) {
		p.no("is of PTX %d.%d, which has no barriers for some threads of a warp", p.m.Version[0], p.m.Version[1])
	}
}

// instr takes an instruction into account, of the kernel or a function that it calls.
func (p *pauser) instr(i *ptx.Instr, called bool) {
	for k := range i.Args {
		o := &i.Args[k]
		if o.Kind == ptx.OperandSpecial && o.Special == ptx.GridID {
			p.no("reads %%gridid, which differs from one launch to the next")
		}
		if v, ok := o.Ref.(*ptx.Var); ok && v.Space == ptx.SpaceShared {
			p.mode = max(p.mode, blocks)
		}
	}
	switch {
	case i.Mods.Space == ptx.SpaceSharedCluster || i.Mods.Scope == ptx.ScopeCluster:
		p.no("has instructions of clusters (%s)", i.Name())
	case i.Mods.Space == ptx.SpaceShared || i.Mods.Space == ptx.SpaceSharedCTA:
		p.mode = max(p.mode, blocks)
	}
	switch i.Op {
	case ptx.OpShfl, ptx.OpVote, ptx.OpMatch, ptx.OpRedux, ptx.OpActivemask, ptx.OpElect, ptx.OpMma, ptx.OpWmma, ptx.OpLdmatrix, ptx.OpStmatrix, ptx.OpMovmatrix:
		p.mode = warps
	case ptx.OpBar, ptx.OpBarrier:
		p.barrier(i, called)
	case ptx.OpMbarrier, ptx.OpWgmma, ptx.OpSetmaxnreg, ptx.OpMapa, ptx.OpGetctarank, ptx.OpTensormap, ptx.OpGriddepcontrol, ptx.OpAlloca, ptx.OpStacksave, ptx.OpStackrestore:
		p.no("has the instruction %s, whose state cannot be saved", i.Name())
	case ptx.OpCp:
		p.background(i)
	case ptx.OpRaw:
		p.no("has the instruction %s, of which no more is known", ptx.Clip(i.Name()))
	case ptx.OpCall:
		if f, ok := i.Call.Callee.Ref.(*ptx.Func); ok && f.Def == nil && !harmless[f.Name] && f.Name != "__assertfail" {
			p.no("calls %s, of which no more is known", ptx.Clip(f.Name))
		}
	}
}

// background allows for copies in the background that a group waits for.
func (p *pauser) background(i *ptx.Instr) {
	switch i.Mods.Mode {
	case ptx.ModeCommitGroup, ptx.ModeWaitGroup, ptx.ModeWaitAll, ptx.ModeNone:
		if strings.HasPrefix(i.Name(), "cp.async.") && !strings.Contains(i.Name(), "bulk") && !i.Mods.Has(ptx.Barrier) {
			p.async, p.mode = true, max(p.mode, blocks)
			return
		}
	}
	p.no("has the instruction %s, whose state cannot be saved", i.Name())
}

// barrier allows for barriers of all threads of a block.
func (p *pauser) barrier(i *ptx.Instr, called bool) {
	if i.Mods.Mode == ptx.ModeWarp {
		p.mode = warps
		return
	}
	p.mode = max(p.mode, blocks)
	n := 0
	if i.Mods.Mode == ptx.ModeRed {
		n = 1
	}
	count := 1
	if i.Mods.Mode == ptx.ModeRed {
		count = 3
	}
	all := len(i.Args) == count && i.Args[n].Kind == ptx.OperandImm && i.Args[n].Value == 0
	switch {
	case i.Mods.Mode == ptx.ModeArrive || !all:
		p.no("has barriers of some threads of a block (%s)", i.Name())
	case called:
		p.no("calls a function with barriers")
	}
}

// scopes finds what inner braces declare. Other statements cannot name it.
func (p *pauser) scopes() {
	p.s.e.Memory(4*len(p.f.Body) + 16*len(p.f.Regs))
	p.depth, p.top = make([]int32, len(p.f.Body)), map[int32]bool{}
	depth := int32(0)
	for k, stmt := range p.f.Body {
		switch x := stmt.(type) {
		case *ptx.Scope:
			if x.Open {
				depth++
			} else {
				depth--
			}
		case *ptx.Var:
			if depth > 0 {
				p.inner = append(p.inner, x)
			}
		case *ptx.Instr:
			if depth == 0 {
				x.EachRegister(func(reg int32, _ bool) { p.top[reg] = true })
			}
		}
		p.depth[k] = depth
	}
}

// nameable reports whether a register can be named outside of inner braces, if that is known.
func (p *pauser) nameable(reg int32) (yes, known bool) {
	if p.top[reg] {
		return true, true
	}
	name := p.f.Regs[reg].Name
	for _, v := range p.inner {
		if v.Space == ptx.SpaceReg && (v.Range == 0 && v.Name == name || v.Range > 0 && strings.HasPrefix(name, v.Name)) {
			return false, false
		}
	}
	return true, true
}

// variables finds the memory that is to be saved.
func (p *pauser) variables() {
	for _, v := range p.f.Locals {
		inner := slices.Contains(p.inner, v)
		switch {
		case v.Space == ptx.SpaceLocal && inner, v.Space == ptx.SpaceShared && inner:
			p.no("declares %s in inner braces", ptx.Clip(v.Name))
		case v.Space == ptx.SpaceLocal:
			p.local = append(p.local, v)
		case v.Space == ptx.SpaceShared:
			p.static = append(p.static, v)
		}
	}
	seen := map[*ptx.Var]bool{}
	list, _ := p.s.reach(p.f)
	for n, f := range list {
		for _, v := range f.Locals {
			if n > 0 && v.Space == ptx.SpaceShared {
				p.no("calls %s, which declares variables in .shared", ptx.Clip(f.Name))
			}
		}
		for _, stmt := range f.Body {
			i, ok := stmt.(*ptx.Instr)
			if !ok {
				continue
			}
			for k := range i.Args {
				v, ok := i.Args[k].Ref.(*ptx.Var)
				if !ok || v.Space != ptx.SpaceShared || seen[v] || slices.Contains(f.Locals, v) {
					continue
				}
				seen[v] = true
				if v.Linkage == ptx.LinkExtern && v.Array && v.Dims[0] == 0 {
					p.extern = v
				} else {
					p.static = append(p.static, v)
				}
			}
		}
	}
	bytes := uint64(wishBytes)
	for _, v := range p.static {
		bytes += v.Size()
	}
	if p.mode != alone && bytes > mostShared {
		p.no("leaves no room in .shared for another word")
	}
	const most = 256
	if len(p.local)+len(p.static) > most {
		p.no("has more than %d variables to save", most)
	}
	bySize := func(a, b *ptx.Var) int { return step(b) - step(a) }
	slices.SortStableFunc(p.local, bySize)
	slices.SortStableFunc(p.static, bySize)
}

// step is in how many bytes a variable is copied at a time.
func step(v *ptx.Var) int {
	s := 8
	for v.Size()%uint64(s) != 0 || max(v.Alignment(), 1)%uint64(s) != 0 {
		s /= 2
	}
	return s
}
