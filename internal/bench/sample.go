package bench

import "pvdrm/internal/suite"

// Mode is where a program runs.
type Mode string

// Modes.
const (
	Native Mode = "native"   // linked onto the device, with nothing between
	Local  Mode = "local"    // a local guest: a process of the host
	VM     Mode = "vm"       // in a virtual machine
	Floor  Mode = "vm-floor" // in the same machine, without a GPU
)

// Driver is the mode of micro-benchmarks in C on the driver of a real GPU.
const Driver Mode = "driver"

// Modes lists all modes of programs, in the order in which they are reported.
var Modes = []Mode{Native, Local, VM, Floor}

// Full is the name of the configuration with everything on.
const Full = "full"

// Series is one place.
type Series struct {
	Mode   Mode
	Config string
}

func (s Series) String() string {
	if s.Config == Full {
		return string(s.Mode)
	}
	return string(s.Mode) + " " + s.Config
}

// Phase is a part of a run; Total is all of it.
type Phase int

// Phases, in the order of a run.
const (
	Total Phase = iota
	Init
	HtoD
	Launch
	DtoH
	Close
	phases
)

var phaseNames = [phases]string{"total", "init", "htod", "launch", "dtoh", "close"}

func (p Phase) String() string { return phaseNames[p] }

// Sample is one run of a program.
type Sample struct {
	Bench      string
	Series     Series
	Round      int // from 0
	Scale      int // of the input; 0 where it is not scaled
	Seconds    [phases]float64
	Device     float64 // seconds in which the engines of the device worked; native only
	Processor  float64 // processor time of the program's process in phase launch, seconds
	Launches   int     // of kernels
	Processors int     // that the place has; 0 where it has all
	Doorbells  uint64
	Interrupts uint64
	Verified   bool
	Error      string // why it is not verified
}

// NewSample makes a Sample of what gdev reports.
func NewSample(s Series, round int, r suite.Result, device float64) Sample {
	p := r.Seconds
	return Sample{
		Bench: r.Bench, Series: s, Round: round, Device: device, Scale: r.Scale, Processor: r.Processor, Launches: r.Launches,
		Seconds:   [phases]float64{p.Total(), p.Init, p.HtoD, p.Launch, p.DtoH, p.Close},
		Doorbells: r.Doorbells, Interrupts: r.Interrupts, Verified: r.Verified, Error: r.Error,
	}
}
