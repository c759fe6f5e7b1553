package suite

import (
	"fmt"
	"math"
	"time"

	"pvdrm/frontend/cuda"
)

// spins are the kernels that Spin can run, as their programs do: what the
// fairness experiment of the thesis (section 4.3.3) has its guests run.
var spins = map[string]func(*session){
	"madd": func(s *session) {
		s.launch("madd", rowsGrid, rowsBlock, s.mem[0], s.mem[1], s.mem[2], uint32(matrixVecs))
	},
	"long-madd": func(s *session) {
		s.launch("longmadd", rowsGrid, rowsBlock, s.mem[0], s.mem[1], s.mem[2], uint32(matrixVecs), uint32(matrixSide-1), uint32(longRounds))
	},
}

// spinModules says which kernels those of spins are in.
var spinModules = map[string]string{"madd": "madd", "long-madd": "longmadd"}

// How many kernels are queued at a time, so that the GPU need not wait for the
// program: enough for spinAhead where it is known how long they take.
const (
	spinDepth    = 4
	spinDeepest  = 64
	spinAhead    = 4 * time.Millisecond
	longestTimed = time.Second
)

// Spin runs the kernel of a program again and again until stop is closed: madd,
// long-madd, or one that takes the time that name is, such as 100us, when it has
// the GPU for itself. It calls ready when the first has ended, and done with the
// number of kernels whenever some have ended.
func Spin(drv *cuda.Driver, name string, stop <-chan struct{}, ready func(), done func(kernels int)) error {
	e := &Env{open: func() (device, error) { return openCUDA(drv) }}
	depth := spinDepth
	var s *session
	var launch func(*session)
	if took, err := time.ParseDuration(name); err == nil {
		if took <= 0 || took > longestTimed {
			return fmt.Errorf("a kernel of %v: from 1ns to %v", took, longestTimed)
		}
		s = e.begin("loop", loopThreads*4)
		launch = timedKernel(s, took)
		depth = min(max(int(spinAhead/took), spinDepth), spinDeepest)
	} else {
		if launch = spins[name]; launch == nil {
			return fmt.Errorf("no kernel of %q runs for ever; madd, long-madd and times such as 100us do", name)
		}
		s = e.begin(spinModules[name], matrixBytes, matrixBytes, matrixBytes)
	}
	launch(s)
	s.sync()
	if s.err == nil {
		ready()
	}
	for s.err == nil {
		select {
		case <-stop:
			return s.end()
		default:
		}
		for range depth {
			launch(s)
		}
		s.sync()
		if s.err == nil {
			done(depth)
		}
	}
	return s.end()
}

// loopThreads is the number of threads of a timed kernel, enough to keep a
// software GPU's processors busy.
const loopThreads = 32 * 128

// timedKernel launches kernel loop with so many rounds that it takes that long.
func timedKernel(s *session, took time.Duration) func(*session) {
	run := func(s *session, rounds uint32) {
		s.launch("loop", dim{loopThreads / 128, 1}, dim{128, 1}, s.mem[0], uint32(1664525), uint32(1013904223), rounds)
	}
	// The time of two kernels of different length has what a launch costs in both.
	measure := func(rounds uint32) time.Duration {
		best := time.Duration(math.MaxInt64)
		for range 5 {
			begin := time.Now()
			run(s, rounds)
			s.sync()
			best = min(best, time.Since(begin))
		}
		return best
	}
	const first = 256
	base := measure(first)
	rounds := uint32(2 * first)
	var longer time.Duration
	for s.err == nil {
		longer = measure(rounds) - base
		if longer >= min(took, 20*time.Millisecond) || rounds >= 1<<30 {
			break
		}
		rounds *= 2
	}
	each := float64(longer) / float64(rounds-first)
	rounds = uint32(min(max(float64(took)/each, 1), 1<<31))
	return func(s *session) { run(s, rounds) }
}
