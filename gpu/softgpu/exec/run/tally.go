package run

import (
	"cmp"
	"slices"
	"sync"

	"pvdrm/gpu/softgpu/exec/jit"
)

// Bounds of a Tally. Names and numbers of kernels are a guest's.
const (
	maxTallied   = 256 // kernels; the rest are counted together
	maxTallyName = 128 // bytes of a name
	maxTallySpot = 16  // operations that a worker tells apart, and lines of a kernel that are kept
)

// otherKernels is the name under which a Tally counts the kernels beyond maxTallied.
const otherKernels = "(other kernels)"

// Tally counts what of launches ran as native code, and why the rest did not. It is safe for
// concurrent use: workers count by themselves, and add to it when they end. The zero value is ready.
type Tally struct {
	mu      sync.Mutex
	kernels map[string]*Tallied
}

// Tallied is what a Tally has of the kernels of one name.
type Tallied struct {
	Kernel      string
	Launches    uint64
	Entered     uint64             // times that a warp entered native code
	Interpreted [jit.Causes]uint64 // instructions of warps, by cause
	Lines       []Line             // with operations that are not compiled, most often interpreted first
}

// Line is a line of a module's source.
type Line struct {
	Number int32
	Count  uint64 // at least so often it was interpreted
}

// All returns how many instructions were interpreted.
func (t *Tallied) All() (n uint64) {
	for _, c := range t.Interpreted {
		n += c
	}
	return n
}

// counts is what one worker counts in one launch.
type counts struct {
	entered     uint64
	interpreted [jit.Causes]uint64
	spots       [maxTallySpot]spot // by position, modulo their number
}

// spot is an operation that is not compiled. Where two have the same place the more frequent stays.
type spot struct {
	pc int32
	n  uint64
}

// counts makes room for what a worker counts, or returns nil for a nil Tally.
func (t *Tally) counts() *counts {
	if t == nil {
		return nil
	}
	return new(counts)
}

// interpret counts the instruction at pc, which a warp is about to interpret.
func (c *counts) interpret(w *warp, pc int32, entered bool) {
	if entered {
		c.entered++
	}
	c.count(w.native.Why(pc, w.Mask), pc)
}

// count counts the instruction at pc for a cause.
func (c *counts) count(cause jit.Cause, pc int32) {
	c.interpreted[cause]++
	if cause != jit.Operation {
		return
	}
	switch s := &c.spots[uint32(pc)%maxTallySpot]; {
	case s.n == 0:
		*s = spot{pc: pc, n: 1}
	case s.pc == pc:
		s.n++
	default:
		s.n--
	}
}

// add takes what a worker of a launch has counted.
func (t *Tally) add(r *run, id int, c *counts) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.of(r.kernel.attrs.Name)
	if id == 0 && r.launch.From == nil {
		k.Launches++
	}
	k.Entered += c.entered
	for i, n := range c.interpreted {
		k.Interpreted[i] += n
	}
	lines := r.kernel.prog.Lines
	for _, s := range c.spots {
		if s.n != 0 && int(s.pc) < len(lines) && k.Kernel != otherKernels {
			k.line(lines[s.pc], s.n)
		}
	}
}

// of returns the row of a kernel. The caller holds mu.
func (t *Tally) of(name string) *Tallied {
	name = name[:min(len(name), maxTallyName)]
	k := t.kernels[name]
	if k == nil && len(t.kernels) >= maxTallied {
		name = otherKernels
		k = t.kernels[name]
	}
	if k == nil {
		if t.kernels == nil {
			t.kernels = map[string]*Tallied{}
		}
		k = &Tallied{Kernel: name}
		t.kernels[name] = k
	}
	return k
}

// line counts operations of a line. Where there are too many lines, the rarest goes.
func (k *Tallied) line(number int32, n uint64) {
	at := slices.IndexFunc(k.Lines, func(l Line) bool { return l.Number == number })
	switch {
	case at >= 0:
		k.Lines[at].Count += n
	case len(k.Lines) < maxTallySpot:
		k.Lines = append(k.Lines, Line{Number: number, Count: n})
	case k.Lines[maxTallySpot-1].Count < n:
		k.Lines[maxTallySpot-1] = Line{Number: number, Count: n}
	}
	slices.SortStableFunc(k.Lines, func(a, b Line) int { return cmp.Compare(b.Count, a.Count) })
}

// Rows returns copies of all rows, those of which most was interpreted first.
func (t *Tally) Rows() []Tallied {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make([]Tallied, 0, len(t.kernels))
	for _, k := range t.kernels {
		row := *k
		row.Lines = slices.Clone(k.Lines)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Tallied) int {
		return cmp.Or(cmp.Compare(b.All(), a.All()), cmp.Compare(a.Kernel, b.Kernel))
	})
	return rows
}
