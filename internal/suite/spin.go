package suite

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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
	spinDeepest  = 256
	spinAhead    = 16 * time.Millisecond
	longestTimed = time.Second
)

// Endless is the name of kernels that do not end before the program does.
const Endless = "endless"

// Spin runs the kernel of a program again and again until stop is closed: madd,
// long-madd, or one that takes the time that name is, such as 100us, when it has
// the GPU for itself. 100us@0.8 waits for each and, alone, leaves the GPU idle for that
// part of the time. 100us/1, and endless/1, have one block, in place of enough to fill a GPU. It calls ready when the first has ended, and done with the
// number of kernels whenever some have ended. Those of Endless are left to run.
func Spin(drv *cuda.Driver, name string, stop <-chan struct{}, ready func(), done func(kernels int)) error {
	e := &Env{open: func() (device, error) { return openCUDA(drv) }}
	depth := spinDepth
	var s *session
	var launch func(*session)
	think := time.Duration(0)
	if strings.HasPrefix(name, Endless) {
		return spinEndless(e, name, stop, ready)
	}
	if x, err := parseTimed(name); err == nil {
		s = e.begin("loop", loopThreads*4)
		if x.rounds == 0 {
			x.rounds = calibrate(s, x)
		}
		launch = func(s *session) { spinLoop(s, x.blocks, x.rounds) }
		depth = min(max(int(spinAhead/x.took), spinDepth), spinDeepest)
		if x.waits {
			depth, think = 1, time.Duration(float64(x.took)*x.off/(1-x.off))
		}
	} else {
		if launch = spins[name]; launch == nil {
			return fmt.Errorf("no kernel of %q runs for ever; madd, long-madd, "+Endless+" and times such as 100us, up to %v, do", name, longestTimed)
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
		if think > 0 {
			time.Sleep(think)
		}
	}
	return s.end()
}

// spinEndless queues kernels of many seconds. They end with the program.
func spinEndless(e *Env, name string, stop <-chan struct{}, ready func()) error {
	name, blocks, err := parseBlocks(name)
	if err != nil || name != Endless {
		return fmt.Errorf("no kernel of %q: %w", name, err)
	}
	s := e.begin("loop", loopThreads*4)
	for range spinDepth * spinDepth {
		spinLoop(s, blocks, math.MaxInt32)
	}
	if s.err != nil {
		return s.end()
	}
	ready()
	<-stop
	return nil
}

// loopThreads is the number of threads of a timed kernel, enough to keep a
// software GPU's processors busy.
const loopThreads = 32 * 128

// loopBlocks is how many blocks they are.
const loopBlocks = loopThreads / 128

// spinLoop launches kernel loop with so many blocks and rounds.
func spinLoop(s *session, blocks, rounds uint32) {
	s.launch("loop", dim{blocks, 1}, dim{128, 1}, s.mem[0], uint32(1664525), uint32(1013904223), rounds)
}

// timed is a kernel that takes a given time.
type timed struct {
	took   time.Duration
	rounds uint32 // what Rounds found; 0 if it is not known
	blocks uint32
	waits  bool    // for each
	off    float64 // part of the time for which the GPU is left idle
}

// mostOff bounds the pauses between kernels to a hundred times their length.
const mostOff = 0.99

// parseBlocks splits the number of blocks off a name, if it has one.
func parseBlocks(name string) (rest string, blocks uint32, err error) {
	rest, n, found := strings.Cut(name, "/")
	if !found {
		return rest, loopBlocks, nil
	}
	v, err := strconv.ParseUint(n, 10, 32)
	if err != nil || v == 0 || v > loopBlocks {
		return rest, 0, fmt.Errorf("%q is no number of blocks; choose 1 to %d", n, loopBlocks)
	}
	return rest, uint32(v), nil
}

// parseTimed reads the name of a kernel that takes a given time: 100us, 100us/BLOCKS, or
// 100us:ROUNDS with what Rounds found, and @OFF behind it if each is waited for.
func parseTimed(name string) (x timed, err error) {
	name, off, waits := strings.Cut(name, "@")
	name, n, found := strings.Cut(name, ":")
	if name, x.blocks, err = parseBlocks(name); err != nil {
		return x, err
	}
	if x.took, err = time.ParseDuration(name); err != nil {
		return x, err
	}
	if x.took <= 0 || x.took > longestTimed {
		return x, fmt.Errorf("a kernel of %v: from 1ns to %v", x.took, longestTimed)
	}
	if found {
		v, err := strconv.ParseUint(n, 10, 31)
		if err != nil || v == 0 {
			return x, fmt.Errorf("%q is no number of rounds", n)
		}
		x.rounds = uint32(v)
	}
	if x.waits = waits; waits {
		if x.off, err = strconv.ParseFloat(off, 64); err != nil || !(x.off >= 0 && x.off <= mostOff) {
			return x, fmt.Errorf("%q is no part of the time; choose 0 to %g", off, mostOff)
		}
	}
	return x, nil
}

// Rounds finds out, while nobody else uses the GPU, with how many rounds kernel
// loop takes so long.
func Rounds(drv *cuda.Driver, name string) (uint32, error) {
	x, err := parseTimed(name)
	if err != nil {
		return 0, err
	}
	e := &Env{open: func() (device, error) { return openCUDA(drv) }}
	s := e.begin("loop", loopThreads*4)
	rounds := calibrate(s, x)
	return rounds, s.end()
}

// calibrate finds the number of rounds for Rounds. A GPU that was idle raises its
// clock first.
func calibrate(s *session, x timed) uint32 {
	const (
		warmUp = 300 * time.Millisecond
		least  = 10 * time.Millisecond // that is measured
		first  = 1024
	)
	rounds := uint32(first)
	for begin := time.Now(); s.err == nil && time.Since(begin) < warmUp; {
		spinLoop(s, x.blocks, rounds)
		s.sync()
	}
	measure := func(rounds uint32) time.Duration {
		best := time.Duration(math.MaxInt64)
		for range 5 {
			begin := time.Now()
			spinLoop(s, x.blocks, rounds)
			s.sync()
			best = min(best, time.Since(begin))
		}
		return best
	}
	// The time of two kernels of different length has what a launch costs in both.
	base := measure(first)
	var longer time.Duration
	for s.err == nil && longer < least && rounds < 1<<30 {
		rounds *= 2
		longer = measure(rounds) - base
	}
	each := float64(longer) / float64(rounds-first)
	return uint32(min(max(float64(x.took)/each, 1), 1<<31-1))
}
