package rewrite

import (
	"encoding/binary"
	"fmt"
	"strings"

	"pvdrm/gpu/ptx"
)

// The twin of a kernel has one more parameter: the first block of the launch, and the blocks of the
// whole grid.
const (
	rangeBytes = 6 * 4
	rangeAlign = 4
)

// AppendRange appends what the twin of a kernel takes besides the parameters of the kernel: the
// launch has the blocks from first on of a grid, x fastest, and is itself a grid of one dimension.
func AppendRange(params []byte, first uint64, grid [3]uint32) []byte {
	for len(params)%rangeAlign != 0 {
		params = append(params, 0)
	}
	x, y := uint64(grid[0]), uint64(grid[1])
	for _, v := range []uint32{uint32(first % x), uint32(first / x % y), uint32(first / x / y), grid[0], grid[1], grid[2]} {
		params = binary.LittleEndian.AppendUint32(params, v)
	}
	return params
}

// MaxRange is how many blocks a launch of a twin may have.
const MaxRange = 1<<31 - 1

// splitter makes the twins of a module.
type splitter struct {
	e      *ptx.Effort
	prefix string
	facts  map[*ptx.Func]*facts
	order  []*ptx.Func          // with facts, in the order of the module
	grid   map[*ptx.Func]bool   // it, or what it calls, reads the grid
	polls  map[*ptx.Func]bool   // it, or what it calls, polls
	waits  map[*ptx.Func]string // why it may wait for other blocks
	twins  map[*ptx.Func]bool   // functions that have one, or get it
	queue  []*ptx.Func          // those that get it
	added  []*ptx.Func
}

// Split adds to a module, which ptx.Verify has accepted and whose source is given, a twin of each
// kernel that can be divided: launches of it with AppendRange's parameter run parts of the grid.
func Split(e *ptx.Effort, m *ptx.Module, source []byte) (*Result, error) {
	s := &splitter{e: e, prefix: fresh(e, source), facts: map[*ptx.Func]*facts{}, waits: map[*ptx.Func]string{}, twins: map[*ptx.Func]bool{}}
	for _, d := range m.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Defined {
			s.facts[f] = look(e, f)
			s.order = append(s.order, f)
		}
	}
	s.grid = s.spread(func(x *facts) bool { return x.grid })
	s.polls = s.spread(func(x *facts) bool { return x.polls })
	r := &Result{}
	for _, f := range kernels(m) {
		k := Kernel{Name: f.Name}
		if v := private(m); v != "" {
			k.Why = "is in a module with the variable " + ptx.Clip(v) + " of each thread outside functions"
		} else if k.Why = s.indivisible(f); k.Why == "" {
			k.Twin = s.prefix + f.Name
			s.add(f)
		}
		r.Kernels = append(r.Kernels, k)
	}
	var err error
	r.Source, err = appended(e, source, s.added)
	return r, err
}

// spread finds the functions of which something holds, or of a function that they call.
func (s *splitter) spread(holds func(*facts) bool) map[*ptx.Func]bool {
	found, callers := map[*ptx.Func]bool{}, map[*ptx.Func][]*ptx.Func{}
	var work []*ptx.Func
	for _, f := range s.order {
		for _, to := range s.facts[f].calls {
			s.e.Memory(32)
			callers[to] = append(callers[to], f)
		}
		if holds(s.facts[f]) {
			s.e.Memory(48)
			found[f] = true
			work = append(work, f)
		}
	}
	for len(work) > 0 {
		f := work[len(work)-1]
		work = work[:len(work)-1]
		for _, by := range callers[f] {
			s.e.Step()
			if !found[by] {
				s.e.Memory(48)
				found[by] = true
				work = append(work, by)
			}
		}
	}
	return found
}

// reach returns the functions that a kernel runs, itself first, and whether it calls some by their
// addresses.
func (s *splitter) reach(kernel *ptx.Func) (list []*ptx.Func, indirect bool) {
	seen := map[*ptx.Func]bool{kernel: true}
	list = []*ptx.Func{kernel}
	for k := 0; k < len(list); k++ {
		indirect = indirect || s.facts[list[k]].indirect
		for _, f := range s.facts[list[k]].calls {
			s.e.Step()
			if !seen[f] {
				seen[f] = true
				list = append(list, f)
			}
		}
	}
	return list, indirect
}

// indivisible returns why a kernel has to run whole; "" if it need not.
func (s *splitter) indivisible(kernel *ptx.Func) string {
	if n := paramBytes(kernel); (n+rangeAlign-1)/rangeAlign*rangeAlign+rangeBytes > maxParams {
		return fmt.Sprintf("has parameters of %d bytes, which leave no room for another", n)
	}
	list, indirect := s.reach(kernel)
	if indirect {
		for _, f := range s.order {
			if !f.Entry && (s.grid[f] || s.facts[f].why != "" || s.facts[f].polls) {
				return "calls functions by their addresses, and " + ptx.Clip(f.Name) + " of the module depends on the grid"
			}
		}
	}
	for _, f := range list {
		why := s.facts[f].why
		if why == "" {
			why = s.mayWait(f)
		}
		if why != "" && f != kernel {
			return "calls " + ptx.Clip(f.Name) + ", which " + why
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// mayWait returns why a function may wait for other blocks; "" where nothing shows that it does.
func (s *splitter) mayWait(f *ptx.Func) string {
	why, ok := s.waits[f]
	if !ok {
		s.e.Memory(64)
		why = waits(s.e, f, s.facts[f].known, false, func(f *ptx.Func) bool { return s.polls[f] })
		s.waits[f] = why
	}
	return why
}

// axes are the names of the dimensions.
const axes = "xyz"

// register is the name of the register with a coordinate of the block (n from 0 to 2) or a size of
// the grid (3 to 5).
func (s *splitter) register(n int) string {
	if n < 3 {
		return "%" + s.prefix + "at" + axes[n:n+1]
	}
	return "%" + s.prefix + "of" + axes[n-3:n-2]
}

// add makes the twin of a kernel, and those of the functions that it calls.
func (s *splitter) add(f *ptx.Func) {
	t := s.copy(f)
	param := s.prefix + "range"
	t.Params = append(t.Params[:len(t.Params):len(t.Params)], &ptx.Var{Name: param, Space: ptx.SpaceParam, Type: ptx.B8, Align: rangeAlign, Array: true, Dims: []int64{rangeBytes}})
	if s.grid[f] {
		t.Text = s.prologue(param)
	}
	s.added = append(s.added, t)
	for len(s.queue) > 0 {
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.added = append(s.added, s.function(f))
	}
}

// prologue finds the place of the block: the first one's, and what %ctaid.x counts from there on.
func (s *splitter) prologue(param string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\t"+format+";\n", args...) }
	carry, part := "%"+s.prefix+"carry", "%"+s.prefix+"part"
	line(".reg .b32 %s, %s", carry, part)
	for n := range 6 {
		line(".reg .b32 %s", s.register(n))
		line("ld.param.u32 %s, [%s+%d]", s.register(n), param, 4*n)
	}
	line("mov.u32 %s, %%ctaid.x", carry)
	for n := range 3 {
		at, of := s.register(n), s.register(3+n)
		line("add.u32 %s, %s, %s", at, at, carry)
		if n < 2 {
			line("div.u32 %s, %s, %s", carry, at, of)
			line("mul.lo.u32 %s, %s, %s", part, carry, of)
			line("sub.u32 %s, %s, %s", at, at, part)
		}
	}
	return b.String()
}

// function returns the function that stands for one that reads the grid: it has what it reads as
// parameters.
func (s *splitter) function(f *ptx.Func) *ptx.Func {
	t := s.copy(f)
	t.Params = t.Params[:len(t.Params):len(t.Params)]
	for n := range 6 {
		t.Params = append(t.Params, &ptx.Var{Name: s.register(n), Space: ptx.SpaceReg, Type: ptx.B32})
	}
	return t
}

// copy copies a function, whose blocks belong to a larger grid.
func (s *splitter) copy(f *ptx.Func) *ptx.Func {
	t := *f
	t.Name = s.prefix + f.Name
	s.e.Memory(stmtBytes * len(f.Body))
	t.Body = make([]ptx.Stmt, 0, len(f.Body))
	for _, x := range f.Body {
		switch x := x.(type) {
		case *ptx.Loc:
		case *ptx.Instr:
			t.Body = append(t.Body, s.instr(x))
		default:
			t.Body = append(t.Body, x)
		}
	}
	return &t
}

// stmtBytes is what a statement of a copy takes.
const stmtBytes = 16 + 256

// instr is an instruction of a copy.
func (s *splitter) instr(i *ptx.Instr) *ptx.Instr {
	if i.Op == ptx.OpCall {
		if f, ok := i.Call.Callee.Ref.(*ptx.Func); ok && f.Def != nil && s.grid[f.Def] {
			return s.call(i, f.Def)
		}
		return i
	}
	for k := range i.Args {
		if o := &i.Args[k]; o.Kind == ptx.OperandSpecial && gridRegister(o.Special) {
			return s.read(i, k)
		}
	}
	return i
}

// read is a mov or cvt that reads a register of the grid.
func (s *splitter) read(i *ptx.Instr, k int) *ptx.Instr {
	n := 0
	switch r := i.Args[k].Special; {
	case r >= ptx.ClusterIDX: // each block is a cluster
		n = int(r - ptx.ClusterIDX)
	default:
		n = int(r - ptx.CTAIDX)
	}
	c := *i
	c.Args = append([]ptx.Operand(nil), i.Args...)
	c.Args[k] = ptx.Operand{Kind: ptx.OperandName, Name: s.register(n), Reg: ptx.NoReg}
	if i.Op == ptx.OpMov && i.Mods.Type().Size() == 2 { // as old versions of PTX have it
		c.Op, c.Form = ptx.OpCvt, nil
		c.Mods = ptx.Mods{Types: [4]ptx.Type{ptx.U16, ptx.U32}}
	}
	return &c
}

// call is a call of a function that reads the grid.
func (s *splitter) call(i *ptx.Instr, f *ptx.Func) *ptx.Instr {
	if !s.twins[f] {
		s.e.Memory(64)
		s.twins[f] = true
		s.queue = append(s.queue, f)
	}
	c, to := *i, *i.Call
	to.Callee.Name = s.prefix + f.Name
	to.Args = append([]ptx.Operand(nil), to.Args...)
	for n := range 6 {
		to.Args = append(to.Args, ptx.Operand{Kind: ptx.OperandName, Name: s.register(n), Reg: ptx.NoReg})
	}
	c.Call = &to
	return &c
}
