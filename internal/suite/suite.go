// Package suite holds the programs of the Gdev benchmark suite: GPU programs
// with their inputs, kernels and checks, on the CUDA driver API of package cuda.
//
// A program (Bench) makes its input, runs on a context of its own, and checks
// what came back against a reference that the CPU computes in another way. Its
// work on the GPU is timed in five phases; making the input and checking the
// result lie outside of them. Inputs are pseudo-random and the same in each run.
//
// Programs whose sums come out exactly in 32-bit floating point, by the choice
// of their input, are compared for equality; the others state their tolerance
// where they check. The kernels are in folder kernels, in OpenCL C and as PTX.
//
// Nothing in this package is for concurrent use, and it starts no goroutines.
package suite

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"pvdrm/frontend/cuda"

	"golang.org/x/sys/unix"
)

// Bench is one program of the suite.
type Bench struct {
	Name        string
	Description string // what it computes
	Input       string // and on how much, unless it is scaled
	Fixed       bool   // the input is never scaled
	// Instructions says that the kernels have instructions of PTX for which OpenCL C has no words.
	Instructions bool

	// Run makes the input, runs the program and checks its result. Its error
	// says what failed, or how the result is wrong.
	Run func(*Env) error
}

// Env is what one run of a program works in: the way to a GPU context, and the
// times of its phases.
type Env struct {
	open      func() (device, error)
	scale     int // how many times the work of the thesis's input; a power of two
	trial     bool
	apart     bool
	known     string // Options.Known
	digest    string // Result.Digest
	phases    Phases
	passed    func(phase string) // Options.Passed, or nil
	processor float64            // as of Result
	launches  int                // as of Result
	ended     moment             // the end of the last step
	underWay  moment             // the end of a step that left kernels under way, or nothing
}

// What ends a run in place of the check of its result.
var (
	errTrial = errors.New("the result was not checked")
	errKnown = errors.New("the result is one that is known to be right")
)

// side scales the side of a square whose work grows with its cube.
func (e *Env) side(n int) int {
	k := 1
	for k*k*k < e.scale {
		k++
	}
	return k * n
}

// Phases are the parts of a run, in seconds of wall-clock time.
type Phases struct {
	Init   float64 `json:"init"`   // context, module, memory
	HtoD   float64 `json:"htod"`   // copies to the GPU
	Launch float64 `json:"launch"` // kernels, until the last has ended
	DtoH   float64 `json:"dtoh"`   // copies from the GPU
	Close  float64 `json:"close"`  // memory, module and context given back
}

// Total is the time of all phases.
func (p Phases) Total() float64 { return p.Init + p.HtoD + p.Launch + p.DtoH + p.Close }

// Result is the outcome of one run.
type Result struct {
	Bench      string `json:"bench"`
	Verified   bool   `json:"verified"` // the result was checked and is right
	Seconds    Phases `json:"seconds"`
	Doorbells  uint64 `json:"doorbells"`       // rung during the run
	Interrupts uint64 `json:"interrupts"`      // and those of the other direction
	Scale      int    `json:"scale,omitempty"` // of the input, where it is not 1
	// Processor is the processor time of this process in phase launch, in seconds: all of it where the
	// device is in this process, too.
	Processor float64 `json:"processor,omitempty"`
	Launches  int     `json:"launches,omitempty"` // of kernels
	Digest    string  `json:"digest,omitempty"`   // SHA-256 of all that was copied from the GPU, where the input is scaled
	Error     string  `json:"error,omitempty"`    // why it is not verified
}

// Options are the settings of a run.
type Options struct {
	// Exits reads the counters of doorbells and interrupts. Without it both are
	// 0 in the Result.
	Exits func() (doorbells, interrupts uint64)
	// Passed, if it is not nil, is called when a part of a phase has ended, with the phase's
	// name: whatever else has counted since the last call belongs to it.
	Passed func(phase string)
	// Scale makes the input larger, so that there is about as many times the work:
	// a power of two up to MaxScale. 0 is 1, the input that Bench names.
	Scale int
	// Trial leaves out the check of the result, which takes longer than all else where
	// the input is large: for whoever wants the times only. The Result is not verified,
	// and has no error if there was none.
	Trial bool
	// Apart waits for copies to the GPU before the kernels, so that the time of kernels has nothing of copies: CUDA's come
	// back when the program's memory may change again, and go on while the program launches kernels.
	Apart bool
	// Known is the Digest of a run of the same program and scale whose result was checked:
	// if the same bytes come from the GPU, they are right, too, and verified so.
	Known string
}

// MaxScale is the largest Options.Scale.
const MaxScale = 1024

// CheckScale says whether a scale is valid.
func CheckScale(n int) error {
	if n < 1 || n > MaxScale || n&(n-1) != 0 {
		return fmt.Errorf("scale %d: it must be a power of two, from 1 to %d", n, MaxScale)
	}
	return nil
}

// All returns the programs in the order in which they are listed and run.
func All() []Bench {
	return []Bench{
		nopBench, loopBench,
		maddBench, mmulBench, fmaddBench, fmmulBench,
		cpyBench, pincpyBench,
		bpBench, bfsBench, hsBench, ludBench, nnBench, sradBench, srad2Bench,
		longMaddBench,
	}
}

// Run runs a program on the first device of drv. A program that fails, or whose
// result is wrong, gives a Result with Verified false; the error is for a name
// that no program has, or a scale that there is not.
func Run(drv *cuda.Driver, name string, opts Options) (Result, error) {
	b, err := Find(name)
	if err == nil {
		err = CheckScale(max(opts.Scale, 1))
	}
	if err != nil {
		return Result{}, err
	}
	return run(b, func() (device, error) { return openCUDA(drv) }, opts), nil
}

// Find returns the program of that name, of All and Extra.
func Find(name string) (Bench, error) {
	all := append(All(), Extra()...)
	if i := slices.IndexFunc(all, func(b Bench) bool { return b.Name == name }); i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = b.Name
	}
	return Bench{}, fmt.Errorf("unknown program %q (want %s)", name, strings.Join(names, ", "))
}

func run(b Bench, open func() (device, error), opts Options) Result {
	count := opts.Exits
	if count == nil {
		count = func() (uint64, uint64) { return 0, 0 }
	}
	// What the last program left behind is collected now, not in this one's
	// phases; a guest's memory is small.
	debug.FreeOSMemory()
	env := &Env{open: open, scale: max(opts.Scale, 1), trial: opts.Trial, apart: opts.Apart, known: opts.Known, passed: opts.Passed}
	doorbells, interrupts := count()
	err := b.Run(env)
	if err == errKnown {
		err = nil
	}
	res := Result{Bench: b.Name, Verified: err == nil, Seconds: env.phases, Digest: env.digest, Processor: env.processor, Launches: env.launches}
	res.Doorbells, res.Interrupts = count()
	res.Doorbells -= doorbells
	res.Interrupts -= interrupts
	if env.scale > 1 {
		res.Scale = env.scale
	}
	if err != nil && err != errTrial {
		res.Error = err.Error()
	}
	return res
}

// ownProcessorTime is how long processors have run this process, or 0 where that is not known.
func ownProcessorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// moment is a point of time, and the processor time of this process until then.
type moment struct {
	at        time.Time
	processor time.Duration
}

// timed runs one step of a phase and adds its time to *phase. Phase launch goes on from the end of
// a step that left kernels under way: they run on while this process waits for a processor.
func (e *Env) timed(phase *float64, step func() error) error {
	launch := phase == &e.phases.Launch
	start := e.underWay
	if e.underWay = (moment{}); !launch || start.at.IsZero() {
		start = moment{at: time.Now()}
		if launch {
			start.processor = ownProcessorTime()
		}
	}
	err := step()
	e.ended = moment{at: time.Now()}
	*phase += e.ended.at.Sub(start.at).Seconds()
	if launch {
		e.ended.processor = ownProcessorTime()
		e.processor += (e.ended.processor - start.processor).Seconds()
	}
	if e.passed != nil {
		p := &e.phases
		e.passed(map[*float64]string{&p.Init: "init", &p.HtoD: "htod", &p.Launch: "launch", &p.DtoH: "dtoh", &p.Close: "close"}[phase])
	}
	return err
}
