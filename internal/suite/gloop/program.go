package gloop

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/host"
)

// Version is how a program uses the GPU.
type Version string

// The versions.
const (
	Vanilla  Version = "vanilla"        // ordinary kernels, as few as may be
	GLoop    Version = "gloop"          // callbacks on the event loop
	NoShared Version = "gloop-noshared" // the same, with all slots in device memory
	Split    Version = "split"          // a launch for each scheduling point
)

// Versions lists all versions.
var Versions = []Version{Vanilla, GLoop, NoShared, Split}

// loops reports whether a version runs on the event loop.
func (v Version) loops() bool { return v == GLoop || v == NoShared }

// Program is one of the nine.
type Program struct {
	Name        string
	Description string
	// IO is set where the program reads files or sockets.
	IO      bool
	prepare func(*job) (task, error)
}

// task is a program with its input on the GPU. work may be called several times, and does the same
// each time; check compares what the last returned with the reference.
type task struct {
	work  func() error
	check func() error
	// close gives back what is not the context's; nil for nothing.
	close func() error
}

// Programs lists the programs.
func Programs() []Program {
	return []Program{
		{Name: "throttle", Description: "a chain of a million steps that do next to nothing", prepare: prepareThrottle},
		{Name: "tpacf", Description: "angular correlation of points on a sphere", prepare: prepareTPACF},
		{Name: "lavamd", Description: "forces between particles in boxes", prepare: prepareLavaMD},
		{Name: "mummergpu", Description: "matches of queries in a reference sequence", prepare: prepareMummer},
		{Name: "hybridsort", Description: "bucket and merge sort", prepare: prepareHybrid},
		{Name: "grep", Description: "counts the words of a list in the files of a directory", IO: true, prepare: prepareGrep},
		{Name: "img", Description: "finds images in a database", IO: true, prepare: prepareImg},
		{Name: "echo", Description: "a server that returns what it receives", IO: true, prepare: prepareEcho},
		{Name: "matmul", Description: "a server that multiplies matrices", IO: true, prepare: prepareMatmul},
	}
}

// Find returns a program by its name.
func Find(name string) (Program, error) {
	all := Programs()
	if i := slices.IndexFunc(all, func(p Program) bool { return p.Name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return Program{}, fmt.Errorf("unknown program %q (want %s)", name, strings.Join(names, ", "))
}

// MaxSize is the largest Options.Size.
const MaxSize = 1 << 16

// Options are the settings of a run.
type Options struct {
	Version Version `json:"version"`
	// Size is how many times the work of the smallest input there is to do: 1 to MaxSize.
	Size int `json:"size"`
	// Blocks and Threads of a block are those of throttle; 0 stands for 1. Of grep and img Blocks is how many physical
	// blocks the event loops have.
	Blocks  int `json:"blocks,omitempty"`
	Threads int `json:"threads,omitempty"`
	// Dir is the directory that grep searches; with "" the program makes one. Cold has grep's files
	// read from the disk, not from the cache of the machine's kernel.
	Dir  string `json:"dir,omitempty"`
	Cold bool   `json:"cold,omitempty"`
	// Suspend has the kernels of the event loop leave the GPU after each so many callbacks, in
	// place of when another wants it; 0 for not.
	Suspend int `json:"suspend,omitempty"`
	// Slice is the time slice of the event loop, which looks at its signal each quarter of it; 0 for
	// that of package host.
	Slice time.Duration `json:"slice,omitempty"`
	// Bounce has files and sockets read into device memory by copies, in place of granted memory that
	// the GPU reads.
	Bounce bool `json:"bounce,omitempty"`
	// PTX is a directory with the programs' PTX that another compiler has made of device/*.cu, in place of
	// what is part of this package.
	PTX string `json:"ptx,omitempty"`
	// If has throttle call postTaskIfNecessary in place of postTask.
	If bool `json:"if,omitempty"`
	// Pause is how long a client of a server waits before each request.
	Pause time.Duration `json:"pause,omitempty"`

	// Ready, Again and Done serve a program that goes on: Ready is called when its input is there,
	// the work is repeated for as long as Again returns true, and Done is called after each unit
	// of work: a run of the kernels, or a request to a server, from any goroutine. All may be nil.
	Ready func()      `json:"-"`
	Again func() bool `json:"-"`
	Done  func()      `json:"-"`
}

// Phases are the parts of a run in seconds.
type Phases struct {
	Init   float64 `json:"init"`   // the context and the module
	Data   float64 `json:"data"`   // making memory, and reading the result
	IO     float64 `json:"io"`     // files and sockets, where the host uses them
	Copy   float64 `json:"copy"`   // of the input to the GPU
	Kernel float64 `json:"kernel"` // kernels, and the I/O that goes on meanwhile
	Fin    float64 `json:"fin"`    // the end of the context
}

// Total is the time of all phases.
func (p Phases) Total() float64 { return p.Init + p.Data + p.IO + p.Copy + p.Kernel + p.Fin }

// Result is the outcome of a run.
type Result struct {
	Program  string  `json:"program"`
	Version  Version `json:"version"`
	Size     int     `json:"size"`
	Launches uint64  `json:"launches"`         // of kernels
	Points   uint64  `json:"points,omitempty"` // scheduling points that the program passed
	Units    uint64  `json:"units"`            // of work: see Options.Done
	Seconds  Phases  `json:"seconds"`
	Verified bool    `json:"verified"`
	Error    string  `json:"error,omitempty"`
}

// Run runs a program on the first device of drv. Where it fails, or computes a wrong result, the
// Result has the error. The error returned is that of a wrong name or option.
func Run(drv *cuda.Driver, name string, o Options) (Result, error) {
	p, err := Find(name)
	switch {
	case err != nil:
		return Result{}, err
	case !slices.Contains(Versions, o.Version):
		return Result{}, fmt.Errorf("no version %q; choose of %v", o.Version, Versions)
	case o.Size < 1 || o.Size > MaxSize:
		return Result{}, fmt.Errorf("size %d: choose 1 to %d", o.Size, MaxSize)
	case o.Suspend < 0 || o.Suspend > math.MaxInt32 || o.Slice < 0 || o.Slice > time.Hour || o.Pause < 0 || o.Pause > time.Hour:
		return Result{}, fmt.Errorf("suspend %d, slice %v, pause %v: choose 0 or more, times up to an hour", o.Suspend, o.Slice, o.Pause)
	case o.Blocks < 0 || o.Blocks > maxBlocks || o.Threads < 0 || o.Threads > maxThreads:
		return Result{}, fmt.Errorf("%d blocks of %d threads: choose up to %d of %d", o.Blocks, o.Threads, maxBlocks, maxThreads)
	}
	j := &job{Options: o, drv: drv, name: name}
	err = j.run(p)
	r := Result{Program: name, Version: o.Version, Size: o.Size, Launches: j.launches, Points: j.points,
		Units: j.units.Load(), Seconds: j.phases, Verified: err == nil}
	if err != nil {
		r.Error = err.Error()
	}
	return r, nil
}

// The most of throttle.
const (
	maxBlocks  = 4096
	maxThreads = 1024
)

// job is one run.
type job struct {
	Options
	drv       *cuda.Driver
	name      string
	ctx       *cuda.Context
	pool      *host.Pool
	module    *cuda.Module
	functions map[string]*cuda.Function
	phases    Phases
	launches  uint64
	points    uint64
	units     atomic.Uint64
}

func (j *job) run(p Program) (err error) {
	if err := j.timed(&j.phases.Init, j.open); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.timed(&j.phases.Fin, j.close)) }()
	t, err := p.prepare(j)
	if t.close != nil {
		defer func() { err = errors.Join(err, t.close()) }()
	}
	if err != nil {
		return err
	}
	if j.Ready != nil {
		j.Ready()
	}
	for again := true; again; again = j.Again != nil && j.Again() {
		if err := t.work(); err != nil {
			return err
		}
		if !p.serves() {
			j.unit()
		}
	}
	return t.check()
}

// serves reports whether the program counts its work in requests.
func (p Program) serves() bool { return p.Name == "echo" || p.Name == "matmul" }

// unit counts a unit of work.
func (j *job) unit() {
	j.units.Add(1)
	if j.Done != nil {
		j.Done()
	}
}

// timed adds the time of do to a phase.
func (j *job) timed(phase *float64, do func() error) error {
	began := time.Now()
	err := do()
	*phase += time.Since(began).Seconds()
	return err
}

// Request asks a process for a run.
type Request struct {
	Program string  `json:"program"`
	Options Options `json:"options"`
}

// Spun is what a program did that was repeated.
type Spun struct {
	Units   uint64  `json:"units"` // of work, in Seconds
	Seconds float64 `json:"seconds"`
	Result  Result  `json:"result"`
}
