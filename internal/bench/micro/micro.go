// Package micro measures single calls of the DRM and CUDA drivers: what each
// costs, and something beside it to compare with.
//
// It is for one goroutine at a time and starts none.
package micro

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend/carrier"
	"pvdrm/frontend/cuda"
	"pvdrm/hypercall"
)

// Result is one measurement. Times are medians in nanoseconds of one call.
type Result struct {
	Micro      string  `json:"micro"`
	NS         float64 `json:"ns"`
	BaselineNS float64 `json:"baseline_ns"` // of what it is compared with, in the same process; 0: with the same on a bare device
	Exits      *Exits  `json:"exits,omitempty"`
}

// Exits are what the backend counted during a loop in its steady state.
type Exits struct {
	Doorbells  uint64 `json:"doorbells"`
	Interrupts uint64 `json:"interrupts"`
	Grants     uint64 `json:"grants"`
}

// Target is what is measured.
type Target struct {
	// Open opens a DRM file. Where it can tell what the backend counted, as
	// frontend.File does, loops report their exits.
	Open func() (drm.File, error)
	// Carrier opens a connection to the backend for a bare ring; nil where there is none.
	Carrier func() (carrier.Carrier, error)
	// Budget is about how long each measurement may take.
	Budget time.Duration
}

// Micro is one measurement.
type Micro struct {
	Name        string
	Description string // what NS is
	Baseline    string // what BaselineNS is
	measure     func(Target) (Result, error)
	ring        bool // needs Target.Carrier
}

// All returns the measurements in the order in which they are run.
func All() []Micro {
	return []Micro{
		{Name: "null", Description: "a call that asks the backend and does nothing there", Baseline: "getppid()", measure: measureNull},
		{Name: "null-ring", Description: "a null operation of the bare ring, one at a time", Baseline: "getppid()", measure: measureBare, ring: true},
		{Name: "null-batched", Description: "a null operation of the bare ring, many in a batch", Baseline: "one at a time, through the driver", measure: measureBatched, ring: true},
		{Name: "launch-sync", Description: "launch of an empty kernel and cuCtxSynchronize", Baseline: "native", measure: measureLaunch},
		{Name: "launch-loop", Description: "a launch in a loop of ten and one synchronize", Baseline: "native", measure: measureLaunchLoop},
		{Name: "graph-sync", Description: "launch of a graph of ten empty kernels and cuCtxSynchronize", Baseline: "native", measure: measureGraph},
		{Name: "copy-loop", Description: "1 MiB of pageable memory to the device and back", Baseline: "native", measure: measureCopyLoop},
		{Name: "copy-64M", Description: "64 MiB of pinned memory to the device", Baseline: "memcpy of the same bytes", measure: measureCopy},
		{Name: "alloc-64M", Description: "64 MiB of pinned memory until no page of it faults, the second time", Baseline: "the first time", measure: measureAlloc},
	}
}

// Run runs the measurements that the target allows.
func Run(t Target) ([]Result, error) {
	var results []Result
	for _, m := range All() {
		if m.ring && t.Carrier == nil {
			continue
		}
		r, err := m.measure(t)
		if err != nil {
			return results, fmt.Errorf("%s: %w", m.Name, err)
		}
		r.Micro = m.Name
		results = append(results, r)
	}
	return results, nil
}

// least is how often something is measured at least.
const least = 5

// median runs do, which is n calls, again and again for the budget, and returns
// the median time of one call.
func median(budget time.Duration, n int, do func() error) (float64, error) {
	if err := do(); err != nil { // warms up
		return 0, err
	}
	var took []float64
	for begin := time.Now(); len(took) < least || time.Since(begin) < budget; {
		start := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/float64(n))
	}
	return middle(took), nil
}

func middle(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// calls is how many cheap calls are timed at once: reading the clock costs as
// much as one of them, and in an emulated guest more.
const calls = 64

func measureNull(t Target) (r Result, err error) {
	f, err := t.Open()
	if err != nil {
		return r, err
	}
	r.NS, err = median(t.Budget, calls, func() error {
		for range calls {
			if _, err := f.GetParam(drm.ParamVRAMUsed); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, f.Close()); err != nil {
		return r, err
	}
	r.BaselineNS, err = getppid(t.Budget / 4)
	return r, err
}

// getppid is what a system call takes that does next to nothing.
func getppid(budget time.Duration) (float64, error) {
	return median(budget, calls, func() error {
		for range calls {
			unix.Getppid()
		}
		return nil
	})
}

// program is a CUDA context and the file under it.
type program struct {
	*cuda.Context
	drv  *cuda.Driver
	file drm.File
}

func newProgram(t Target) (*program, error) {
	p := &program{}
	var err error
	p.drv, err = cuda.Init(func() (drm.File, error) {
		f, err := t.Open()
		if err == nil {
			p.file = f // that which the context takes over
		}
		return f, err
	})
	if err != nil {
		return nil, err
	}
	dev, err := p.drv.Device(0)
	if err == nil {
		p.Context, err = dev.CreateContext()
	}
	if err != nil {
		return nil, errors.Join(err, p.drv.Close())
	}
	return p, nil
}

// with runs do on a new context.
func with(t Target, do func(p *program) error) error {
	p, err := newProgram(t)
	if err != nil {
		return err
	}
	return errors.Join(do(p), p.Destroy())
}

// emptyKernel does nothing.
const emptyKernel = ".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n\tret;\n}\n"

var oneWarp = cuda.LaunchConfig{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}}

// empty is the empty kernel.
func (p *program) empty() (*cuda.Function, error) {
	mod, err := p.LoadModule("empty.ptx", []byte(emptyKernel))
	if err != nil {
		return nil, err
	}
	return mod.Function("empty")
}

// launches returns a function that launches the empty kernel n times and waits.
func (p *program) launches(n int) (func() error, error) {
	f, err := p.empty()
	if err != nil {
		return nil, err
	}
	return func() error {
		for range n {
			if err := f.Launch(oneWarp); err != nil {
				return err
			}
		}
		return p.Synchronize()
	}, nil
}

func measureLaunch(t Target) (r Result, err error) {
	err = with(t, func(p *program) error {
		do, err := p.launches(1)
		if err == nil {
			r.NS, err = median(t.Budget, 1, do)
		}
		return err
	})
	return r, err
}

// loop is how many kernels launch-loop and graph-sync have.
const loop = 10

// measureGraph queues what a launch of an executable graph queues.
func measureGraph(t Target) (r Result, err error) {
	err = with(t, func(p *program) error {
		f, err := p.empty()
		if err != nil {
			return err
		}
		b := p.NewBatch()
		for range loop {
			if err := b.AddKernel(f, oneWarp, nil); err != nil {
				return err
			}
		}
		r.NS, r.Exits, err = p.steady(t.Budget, 1, func() error {
			if err := b.Queue(nil); err != nil {
				return err
			}
			return p.Synchronize()
		})
		return err
	})
	return r, err
}

func measureLaunchLoop(t Target) (r Result, err error) {
	err = with(t, func(p *program) error {
		do, err := p.launches(loop)
		if err == nil {
			r.NS, r.Exits, err = p.steady(t.Budget, loop, do)
		}
		return err
	})
	return r, err
}

func measureCopyLoop(t Target) (r Result, err error) {
	const size = 1 << 20
	in, out := make([]byte, size), make([]byte, size)
	err = with(t, func(p *program) error {
		mem, err := p.MemAlloc(size)
		if err != nil {
			return err
		}
		r.NS, r.Exits, err = p.steady(t.Budget, 2, func() error {
			if err := p.MemcpyHtoD(mem, in); err != nil {
				return err
			}
			return p.MemcpyDtoH(out, mem)
		})
		return err
	})
	return r, err
}

// steady is median after a few rounds, and what was counted meanwhile.
func (p *program) steady(budget time.Duration, n int, do func() error) (ns float64, e *Exits, err error) {
	for range least {
		if err := do(); err != nil {
			return 0, nil, err
		}
	}
	before, err := p.exits()
	if err != nil {
		return 0, nil, err
	}
	if ns, err = median(budget, n, do); err != nil || before == nil {
		return ns, nil, err
	}
	if e, err = p.exits(); err != nil {
		return ns, nil, err
	}
	e.Doorbells -= before.Doorbells
	e.Interrupts -= before.Interrupts
	e.Grants -= before.Grants
	return ns, e, nil
}

// exits asks the backend, or returns nil where there is none.
func (p *program) exits() (*Exits, error) {
	f, ok := p.file.(interface {
		Counters() (hypercall.Counters, error)
	})
	if !ok {
		return nil, nil
	}
	c, err := f.Counters()
	if err != nil {
		return nil, fmt.Errorf("asking the backend for its counters: %w", err)
	}
	return &Exits{Doorbells: c.Doorbells, Interrupts: c.Interrupts, Grants: c.Grants}, nil
}

const (
	large     = 64 << 20
	pageBytes = 4096
)

func measureCopy(t Target) (r Result, err error) {
	err = with(t, func(p *program) error {
		dst, err := p.MemAlloc(large)
		if err != nil {
			return err
		}
		src, err := p.MemAllocHost(large)
		if err != nil {
			return err
		}
		touch(src.Bytes())
		r.NS, err = median(t.Budget, 1, func() error {
			return errors.Join(p.MemcpyHtoDAsync(dst, src, 0, large, nil), p.Synchronize())
		})
		if err != nil {
			return err
		}
		buf := make([]byte, large)
		r.BaselineNS, err = median(t.Budget, 1, func() error {
			copy(buf, src.Bytes())
			return nil
		})
		return err
	})
	return r, err
}

// touch writes to each page.
func touch(mem []byte) {
	for i := 0; i < len(mem); i += pageBytes {
		mem[i] = 1
	}
}

// measureAlloc measures the first and the second allocation of a context. Each round
// has a context of its own, so that no pool knows the first one.
func measureAlloc(t Target) (r Result, err error) {
	var took [2][]float64
	for begin := time.Now(); len(took[0]) < least || time.Since(begin) < t.Budget; {
		err := with(t, func(p *program) error {
			for i := range took {
				d, err := p.allocate()
				if err != nil {
					return err
				}
				took[i] = append(took[i], float64(d.Nanoseconds()))
			}
			return nil
		})
		if err != nil {
			return r, err
		}
	}
	r.BaselineNS, r.NS = middle(took[0]), middle(took[1])
	return r, nil
}

// strayFaults are how many pages of large may fault for other reasons, since a
// process has others to fault.
const strayFaults = large / pageBytes / 64

// allocate makes pinned memory, uses it and frees it. It returns how long it took
// until the program had it: with its page faults, if it had them still to come, for
// memory whose pages are not there is a promise only.
func (p *program) allocate() (took time.Duration, err error) {
	start := time.Now()
	h, err := p.MemAllocHost(large)
	if err != nil {
		return 0, err
	}
	took = time.Since(start)
	before, err := faults()
	if err != nil {
		return 0, err
	}
	start = time.Now()
	touch(h.Bytes())
	touched := time.Since(start)
	after, err := faults()
	if after-before > strayFaults {
		took += touched
	}
	return took, errors.Join(err, h.Free())
}

// faults is how many page faults this process has had.
func faults() (int64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("counting page faults: %w", err)
	}
	return u.Minflt + u.Majflt, nil
}
