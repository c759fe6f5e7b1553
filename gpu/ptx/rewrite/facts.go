package rewrite

import (
	"strings"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/flow"
)

// facts are what decides whether the kernels that run a function can be divided.
type facts struct {
	grid     bool        // it reads where its block is in the grid
	indirect bool        // it calls functions by their addresses
	polls    bool        // it reads a word of memory that others may write meanwhile
	why      string      // its blocks have to run together; "" where nothing shows that
	calls    []*ptx.Func // that it calls by name, with a body
	known    map[int32]uint64
}

// gridRegister reports whether a special register depends on where a block is in its grid.
func gridRegister(s ptx.Special) bool {
	return s >= ptx.CTAIDX && s <= ptx.NCTAIDZ || s >= ptx.ClusterIDX && s <= ptx.NClusterIDZ
}

// harmless are functions of the driver that do not depend on the grid.
var harmless = map[string]bool{"vprintf": true, "malloc": true, "free": true}

// look finds the facts of a function.
func look(e *ptx.Effort, f *ptx.Func) *facts {
	x := &facts{known: constants(e, f)}
	e.Memory(128)
	because := func(why string) {
		if x.why == "" {
			x.why = why
		}
	}
	if c := &f.Cluster; c.Explicit || c.Required != [3]uint32{} && c.Required != [3]uint32{1, 1, 1} {
		because("has clusters of blocks")
	}
	for _, t := range f.OtherTuning {
		if strings.HasPrefix(t, ".blocksareclusters") {
			because("has clusters of blocks")
		}
	}
	for _, s := range f.Body {
		e.Step()
		if i, ok := s.(*ptx.Instr); ok {
			x.instr(e, i, because)
		}
	}
	return x
}

// instr adds what an instruction tells.
func (x *facts) instr(e *ptx.Effort, i *ptx.Instr, because func(string)) {
	for k := range i.Args {
		if o := &i.Args[k]; o.Kind == ptx.OperandSpecial {
			switch s := o.Special; {
			case gridRegister(s):
				x.grid = true
			case s == ptx.GridID:
				because("reads %gridid, which differs from one launch to the next")
			case s >= ptx.EnvReg0 && s <= ptx.EnvReg31:
				because("reads " + s.String() + ", as kernels do whose blocks wait for each other")
			}
		}
	}
	x.polls = x.polls || polls(i, x.known, false)
	switch i.Op {
	case ptx.OpGriddepcontrol:
		because("waits for other launches (griddepcontrol)")
	case ptx.OpRaw:
		if strings.Contains(i.Raw, "%") && rawGrid(i.Raw) || strings.HasPrefix(i.Raw, "clusterlaunchcontrol") {
			because("has the instruction " + ptx.Clip(i.Name()) + ", which may depend on the grid")
		}
	case ptx.OpCall:
		f, ok := i.Call.Callee.Ref.(*ptx.Func)
		switch {
		case !ok:
			x.indirect = true
		case f.Def != nil:
			e.Memory(16)
			x.calls = append(x.calls, f.Def)
		case !harmless[f.Name]:
			because("calls " + ptx.Clip(f.Name) + ", which may depend on the grid")
		}
	}
}

// rawGrid reports whether the text of an instruction names a register of the grid.
func rawGrid(text string) bool {
	for _, name := range []string{"%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%gridid", "%envreg"} {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// polls reports whether an instruction may be there to wait for a word that other blocks write: it
// reads one past the caches, or by an atomic operation that leaves the word as it is. Constants are
// the values of registers that are known. With block, it may be there
// for any thread, which may hold a lock: atomic operations that change a word count, too, and so does
// the block's memory.
func polls(i *ptx.Instr, constants map[int32]uint64, block bool) bool {
	switch i.Mods.Space {
	case ptx.SpaceGeneric, ptx.SpaceGlobal:
	case ptx.SpaceShared, ptx.SpaceSharedCTA:
		if !block {
			return false
		}
	default:
		return false
	}
	m := &i.Mods
	switch i.Op {
	case ptx.OpLd:
		return m.Order > ptx.OrderWeak || m.Has(ptx.MMIO) || m.Cache == ptx.CacheCV || m.Cache == ptx.CacheCG
	case ptx.OpAtom:
		return block || unchanging(i, constants)
	}
	return false
}

// unchanging reports whether an atomic operation may leave the word as it is whatever the word is.
// One whose operand is not known is taken to change it.
func unchanging(i *ptx.Instr, constants map[int32]uint64) bool {
	value := func(n int) (uint64, bool) {
		if n >= len(i.Args) {
			return 0, false
		}
		o := &i.Args[n]
		if o.Kind == ptx.OperandImm {
			return o.Value, true
		}
		v, ok := constants[o.Reg]
		return v, ok && o.Kind == ptx.OperandReg
	}
	b, known := value(2)
	switch i.Mods.Atomic {
	case ptx.AtomicCas:
		if len(i.Args) < 4 {
			return false
		}
		c, too := value(3)
		same := i.Args[2].Kind == ptx.OperandReg && i.Args[3].Kind == ptx.OperandReg && i.Args[2].Reg == i.Args[3].Reg
		return same || known && too && b == c
	case ptx.AtomicAnd, ptx.AtomicMin:
		return known && b != 0
	case ptx.AtomicExch:
		return false
	case ptx.AtomicMax:
		return known
	}
	return known && b == 0
}

// constants finds the registers of a function that have one value only.
func constants(e *ptx.Effort, f *ptx.Func) map[int32]uint64 {
	values, other := map[int32]uint64{}, map[int32]bool{}
	for _, s := range f.Body {
		i, ok := s.(*ptx.Instr)
		if !ok {
			continue
		}
		e.Memory(64)
		constant := i.Op == ptx.OpMov && len(i.Args) == 2 && i.Args[1].Kind == ptx.OperandImm && i.Args[0].Kind == ptx.OperandReg
		i.EachRegister(func(reg int32, write bool) {
			if !write || other[reg] {
				return
			}
			if v, set := values[reg]; constant && (!set || v == i.Args[1].Value) {
				values[reg] = i.Args[1].Value
				return
			}
			delete(values, reg)
			other[reg] = true
		})
	}
	return values
}

// waits returns why a function may wait for other blocks, which may not have begun; "" where nothing
// shows that it does. A loop waits if what it reads past the caches decides how it goes on: that is how
// grid barriers and locks of memory are made. With block, it may wait for threads of its block. Callee
// tells whether a function polls.
func waits(e *ptx.Effort, f *ptx.Func, known map[int32]uint64, block bool, callee func(*ptx.Func) bool) string {
	g := flow.New(e, f)
	loops := g.Loops()
	sets := map[int32]*loopFacts{}
	for b := range g.Blocks {
		n := loops.Of[b]
		if n < 0 {
			continue
		}
		if sets[n] == nil {
			e.Memory(256)
			sets[n] = &loopFacts{tainted: map[int32]bool{}}
		}
		sets[n].blocks = append(sets[n].blocks, int32(b))
	}
	for n := range int32(len(sets)) {
		if why := sets[n].waits(e, g, known, block, callee); why != "" {
			return why
		}
	}
	return ""
}

// loopFacts says what a loop reads and waits for.
type loopFacts struct {
	blocks  []int32
	tainted map[int32]bool // registers that depend on what is polled
	memory  bool           // and memory of the block that does
}

const (
	whyWaits  = "has a loop that waits for memory, perhaps for a block that has not begun"
	whyUnread = "has an instruction whose registers are not known, in a loop that reads memory past the caches"
)

func (l *loopFacts) waits(e *ptx.Effort, g *flow.Graph, known map[int32]uint64, block bool, callee func(*ptx.Func) bool) (why string) {
	for grew := true; grew && why == ""; {
		grew = false
		for _, b := range l.blocks {
			g.EachInstr(b, func(_ int32, i *ptx.Instr) {
				switch {
				case i.Op == ptx.OpNanosleep:
					why = whyWaits
				case i.Op == ptx.OpCall:
					if f, ok := i.Call.Callee.Ref.(*ptx.Func); ok && f.Def != nil && callee(f.Def) {
						why = whyWaits
					}
				}
				if l.spread(e, i, polls(i, known, block)) {
					grew = true
				}
			})
		}
	}
	if why != "" || len(l.tainted) == 0 && !l.memory {
		return why
	}
	for _, b := range l.blocks {
		g.EachInstr(b, func(_ int32, i *ptx.Instr) {
			if i.Op == ptx.OpRaw {
				why = whyUnread
			}
		})
		i := g.Branch(b)
		if i == nil {
			continue
		}
		i.EachRegister(func(reg int32, write bool) {
			if !write && l.tainted[reg] {
				why = whyWaits
			}
		})
	}
	return why
}

// spread adds what depends on what is tainted, and reports whether there is more of it.
func (l *loopFacts) spread(e *ptx.Effort, i *ptx.Instr, from bool) (grew bool) {
	tainted := from || l.memory && i.Op == ptx.OpLd && i.Mods.Space != ptx.SpaceGlobal && i.Mods.Space != ptx.SpaceConst && i.Mods.Space != ptx.SpaceParam
	i.EachRegister(func(reg int32, write bool) {
		tainted = tainted || !write && l.tainted[reg]
	})
	if !tainted {
		return false
	}
	if i.Op == ptx.OpSt && !l.memory {
		l.memory, grew = true, true
	}
	i.EachRegister(func(reg int32, write bool) {
		if write && !l.tainted[reg] {
			e.Memory(32)
			l.tainted[reg], grew = true, true
		}
	})
	return grew
}
