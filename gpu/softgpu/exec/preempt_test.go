package exec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// pausing is a memory whose kernel is preempted each time it looks for a page.
type pausing struct {
	*exectest.Memory
	control *Control
}

// Lookup implements Space.
func (p pausing) Lookup(va uint64) ([]byte, uint64, gpu.Prot, bool) {
	p.control.Preempt()
	return p.Memory.Lookup(va)
}

// preemptions counts how often launches of runPreempted stopped.
var preemptions atomic.Int64

// runPreempted runs a launch that is preempted most times, interpreted and compiled in
// turns, and goes on each time from what was encoded.
func runPreempted(k *Kernel, l Launch, m *exectest.Memory, workers int, most int) error {
	for n := range most {
		c := new(Control)
		l.Native = []Native{NativeAtOnce, NativeNever}[n%2]
		err := Run(k, l, pausing{Memory: m, control: c}, c, workers)
		var stopped *Preempted
		if !errors.As(err, &stopped) {
			return err
		}
		preemptions.Add(1)
		code, err := stopped.State.MarshalBinary()
		if err != nil {
			return err
		}
		l.From = new(State)
		if err := l.From.UnmarshalBinary(code); err != nil {
			return err
		}
	}
	return Run(k, l, m, new(Control), workers)
}

// preemptRuns makes runKernel preempt what it runs.
var preemptRuns bool

// TestPreempted checks that kernels give the same results when they are preempted at the
// heads of their loops, at calls, and between blocks.
func TestPreempted(t *testing.T) {
	preemptRuns = true
	defer func() { preemptRuns = false }()
	for name, test := range map[string]func(*testing.T){
		"matrix": TestMatrix, "collatz": TestCollatz, "reduce": TestReduce, "recursion": TestRecursion, "structs": TestStructs,
		"local arrays": TestLocalArrays, "histogram": TestHistogram,
	} {
		before := preemptions.Load()
		t.Run(name, test)
		require.Positive(t, preemptions.Load()-before, name)
	}
}

// TestPreemptedAtAnyTime checks launches that are preempted by another goroutine.
func TestPreemptedAtAnyTime(t *testing.T) {
	const n = 1 << 12
	in := make([]int32, n)
	for i := range in {
		in[i] = int32(i + 1)
	}
	for _, native := range []Native{NativeNever, NativeAtOnce} {
		m := exectest.NewMemory(4096)
		k := kernel(t, buildFile(t, "mixed.ptx", m), "collatz")
		writeAll(m, exectest.BufA, in)
		m.Map(exectest.BufB, 4*n)
		l := Launch{Grid: grid(n/256, 1, 1), Block: grid(256, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), int32(n)), Native: native}
		stops := 0
		for {
			c := new(Control)
			var space Space = m
			if stops == 0 { // a busy host may let the kernel end before any timer
				space = pausing{Memory: m, control: c}
			}
			timer := time.AfterFunc(time.Duration(50+stops)*time.Microsecond, c.Preempt)
			err := Run(k, l, space, c, 3)
			timer.Stop()
			var stopped *Preempted
			if !errors.As(err, &stopped) {
				require.NoError(t, err)
				break
			}
			stops++
			l.From = stopped.State
		}
		require.Positive(t, stops)
		want := exectest.NewMemory(4096)
		k = kernel(t, buildFile(t, "mixed.ptx", want), "collatz")
		writeAll(want, exectest.BufA, in)
		want.Map(exectest.BufB, 4*n)
		l.From = nil
		require.NoError(t, Run(k, l, want, new(Control), 1))
		require.Equal(t, want.Read(exectest.BufB, 4*n), m.Read(exectest.BufB, 4*n))
	}
}

// endless are kernels that never end: what stands at module scope and in the kernel.
var endless = map[string][2]string{
	"loop":      {"", "L: bra L;"},
	"divergent": {"", "L: setp.lt.u32 %p1, %r2, 5; @%p1 bra L; M: bra M;"},
	"indexed":   {"", "A: and.b32 %r4, %r2, 1; T: .branchtargets A, B; brx.idx %r4, T; B: bra A;"},
	"spin":      {"", "L: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;"},
	"barrier":   {"", "L: bar.sync 0; bra L;"},
	"some wait": {"", "setp.lt.u32 %p1, %r2, 5; @%p1 bra L; bar.sync 0; L: bra L;"},
	"calls":     {".func f() { ret; }", "L: call f; bra L;"},
	"tree":      {".func f(.reg .u32 %n)\n{ .reg .u32 %m; .reg .pred %p; setp.eq.u32 %p, %n, 0; @%p ret; sub.u32 %m, %n, 1; call f, (%m); call f, (%m); ret; }", "call f, (60);"},
	"sleep":     {"", "L: nanosleep.u32 1000000; bra L;"},
	"alloca":    {".func f(.reg .u64 %n) { .reg .u64 %a; alloca.u64 %a, %n; L: bra L; }", "cvt.u64.u32 %rd5, %r2; call f, (%rd5);"},
}

// TestPreemptEndless checks that kernels which never end are preempted and go on, wherever
// they loop, and that they can be stopped after that.
func TestPreemptEndless(t *testing.T) {
	for name, text := range endless {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", source(text[0], text[1]), m), "k")
			m.Map(exectest.BufA, 8192)
			l := endlessLaunch()
			for n := range 12 {
				c := new(Control)
				l.Native = []Native{NativeNever, NativeAtOnce}[n%2]
				time.AfterFunc(time.Millisecond, c.Preempt)
				var stopped *Preempted
				require.ErrorAs(t, Run(k, l, m, c, 2), &stopped)
				code, err := stopped.State.MarshalBinary()
				require.NoError(t, err)
				l.From = new(State)
				require.NoError(t, l.From.UnmarshalBinary(code))
			}
			c := new(Control)
			time.AfterFunc(time.Millisecond, func() { c.Stop(gpu.LostTimeout) })
			require.Equal(t, gpu.LostTimeout, lost(t, Run(k, l, m, c, 2)).Cause)
		})
	}
}

// endlessLaunch is a launch of the kernels that source makes.
func endlessLaunch() Launch {
	return Launch{Grid: grid(5, 1, 1), Block: grid(96, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(0))}
}

// preempted is a launch of a kernel that never ends, and the state where it was preempted.
func preempted(t testing.TB, text [2]string) (*Kernel, Launch, *exectest.Memory, *State) {
	t.Helper()
	return preemptedLaunch(t, source(text[0], text[1]), endlessLaunch())
}

func preemptedLaunch(t testing.TB, text []byte, l Launch) (*Kernel, Launch, *exectest.Memory, *State) {
	t.Helper()
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", text, m), "k")
	m.Map(exectest.BufA, 8192)
	c := new(Control)
	time.AfterFunc(time.Millisecond, c.Preempt)
	var stopped *Preempted
	require.ErrorAs(t, Run(k, l, m, c, 2), &stopped)
	return k, l, m, stopped.State
}

// TestPreemptBeforeTheRun checks that a launch which was preempted before it ran has
// begun nothing, and that one which is over is not preempted.
func TestPreemptBeforeTheRun(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", "st.global.u32 [%rd1], 7;"), m), "k")
	m.Map(exectest.BufA, 8192)
	c := new(Control)
	c.Preempt()
	l := endlessLaunch()
	var stopped *Preempted
	require.ErrorAs(t, Run(k, l, m, c, 1), &stopped)
	require.Equal(t, []uint32{0}, readAll[uint32](m, exectest.BufA, 1))
	l.From = stopped.State
	c = new(Control)
	require.NoError(t, Run(k, l, m, c, 1))
	c.Preempt()
	require.Equal(t, []uint32{7}, readAll[uint32](m, exectest.BufA, 1))
}

// TestStateOfAnother checks that a launch refuses the state of another one.
func TestStateOfAnother(t *testing.T) {
	k, l, m, state := preempted(t, endless["calls"])
	other, _, _, another := preempted(t, endless["barrier"])
	for name, c := range map[string]struct {
		kernel *Kernel
		change func(*Launch)
	}{
		"program":    {other, func(l *Launch) { l.From = state }},
		"state":      {k, func(l *Launch) { l.From = another }},
		"grid":       {k, func(l *Launch) { l.Grid[0]++ }},
		"block":      {k, func(l *Launch) { l.Block[0]++ }},
		"shared":     {k, func(l *Launch) { l.SharedBytes = 4 }},
		"parameters": {k, func(l *Launch) { l.Params = make([]byte, len(l.Params)) }},
	} {
		l := l
		l.From = state
		c.change(&l)
		require.ErrorIs(t, Run(c.kernel, l, m, new(Control), 1), gpu.ErrInvalid, name)
	}
	code, err := state.MarshalBinary()
	require.NoError(t, err)
	for n := range code {
		require.ErrorIs(t, new(State).UnmarshalBinary(code[:n]), gpu.ErrInvalid, n)
	}
	require.ErrorIs(t, new(State).UnmarshalBinary(append(code, 0)), gpu.ErrInvalid)
}

// fuzzKernel has what a state may hold: calls, barriers, votes, local memory, sleep.
var fuzzKernel = [2]string{`.func f(.reg .u32 %n) { .local .b32 l[4]; .reg .u32 %m; .reg .u64 %a; .reg .pred %p; cvt.u64.u32 %a, %n; and.b64 %a, %a, 12;
	st.local.u32 [l], %n; setp.eq.u32 %p, %n, 0; @%p ret; sub.u32 %m, %n, 1; bar.warp.sync -1; call f, (%m); call f, (%m); ret; }`,
	"setp.lt.u32 %p1, %r2, 5; @%p1 bra L; bar.sync 0; L: call f, (%r2); shfl.sync.bfly.b32 %r4|%p2, %r2, 1, 31, -1; @%p2 bra M; bar.sync 1; M: nanosleep.u32 10; st.global.u32 [%rd1], %r4; bra L;"}

// fuzzClusters has what the state of a cluster may hold: a barrier of all its blocks, which threads of a
// warp reach one after another.
const fuzzClusters = `.version 8.0
.target sm_90
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
{
	.reg .b32 %r<8>; .reg .pred %p1;
	.shared .b32 s[4];
	mov.u32 %r2, %tid.x; mov.u32 %r5, s; mapa.shared::cluster.u32 %r6, %r5, 1;
L:	barrier.cluster.arrive; setp.lt.u32 %p1, %r2, 5; @%p1 bra M; add.u32 %r4, %r4, 1;
M:	barrier.cluster.wait; ld.shared::cluster.u32 %r7, [%r6]; red.relaxed.cluster.shared::cluster.add.u32 [%r6], 1;
	barrier.cluster.arrive.aligned; bar.sync 0; barrier.cluster.wait.aligned; bra L;
}
`

// stateTarget is a launch that goes on from states of its own.
type stateTarget struct {
	k    *Kernel
	l    Launch
	m    *exectest.Memory
	head []byte // what tells programs and launches apart stays as it is
}

// newStateTarget adds some states of the launch to the seeds.
func newStateTarget(f *testing.F, text []byte, l Launch) *stateTarget {
	var s stateTarget
	for range 4 {
		k, l, m, state := preemptedLaunch(f, text, l)
		code, err := state.MarshalBinary()
		require.NoError(f, err)
		s = stateTarget{k: k, l: l, m: m, head: code[:8+4+len("k")+8+9*4+4+4+len(l.Params)]}
		f.Add(code[len(s.head):])
		for _, waits := range [][]byte{nil, code[8:]} {
			tree := withTree(code[len(s.head):], waits)
			require.NoError(f, new(State).UnmarshalBinary(append(s.head[:len(s.head):len(s.head)], tree...)))
			f.Add(tree)
		}
	}
	return &s
}

// FuzzState goes on from any state. Nothing that it says may crash the engine, or reach
// memory that is not the kernel's.
func FuzzState(f *testing.F) {
	clusters := endlessLaunch()
	clusters.Grid, clusters.Cluster = grid(6, 1, 1), grid(2, 1, 1)
	targets := []*stateTarget{newStateTarget(f, source(fuzzKernel[0], fuzzKernel[1]), endlessLaunch()), newStateTarget(f, []byte(fuzzClusters), clusters)}
	f.Fuzz(func(t *testing.T, rest []byte) {
		for _, target := range targets {
			target.goOn(t, rest)
		}
	})
}

func (target *stateTarget) goOn(t *testing.T, rest []byte) {
	s := new(State)
	if err := s.UnmarshalBinary(append(append([]byte(nil), target.head...), rest...)); err != nil {
		require.ErrorIs(t, err, gpu.ErrInvalid)
		return
	}
	if tree := s.Tree(); tree != nil {
		for range len(rest) + 1 { // each launch takes some bytes
			if tree.Next() == nil {
				break
			}
		}
		require.Nil(t, tree.Next())
	}
	for _, native := range []Native{NativeNever, NativeAtOnce} {
		l := target.l
		l.From, l.Native, l.Tree = s, native, s.Tree()
		c := &Control{Deadline: time.Now().Add(2 * time.Millisecond)}
		stop := time.AfterFunc(2*time.Millisecond, func() { c.Stop(gpu.LostTimeout) })
		err := Run(target.k, l, target.m, c, 2)
		stop.Stop()
		var fault *gpu.LostError
		switch {
		case err == nil, errors.Is(err, gpu.ErrInvalid):
		case !errors.As(err, &fault):
			t.Fatalf("neither a fault nor a bad launch: %v", err)
		case fault.Cause == gpu.LostDevice:
			t.Fatalf("the engine failed: %v", err)
		}
	}
}

// withTree puts two launches by kernels that wait, and an error of a thread, into an encoded state, of
// which rest begins with the number of the launch. Waits is the state of a kernel that waits for one of them,
// nil for none.
func withTree(rest, waits []byte) []byte {
	const at = 8 + 8 + 4 + 8
	out := append([]byte(nil), rest[:at]...)
	u32 := func(list ...uint32) {
		for _, x := range list {
			out = binary.LittleEndian.AppendUint32(out, x)
		}
	}
	pending := func() {
		u32(1, 1)
		out = append(out, 'k')
		u32(1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0)
	}
	u32(3, 1, 1) // there is one, of a child; its depth; levels
	pending()
	u32(0)
	if waits == nil {
		u32(0)
	} else {
		u32(1, 0, 1, 0, 0, 3, 7) // there is one, of the host, that has an error
		out = append(out, waits...)
	}
	u32(0)
	pending()
	u32(0, 1, 0, 0, 5, 9)
	return append(out, rest[at+4:]...)
}

// TestSleep checks that threads which sleep give the processor away, wake, and lose no
// value, whichever lanes sleep for how long.
func TestSleep(t *testing.T) {
	const body = `mul.lo.u32 %r4, %r2, 3000; mov.u32 %r5, 0;
L:	nanosleep.u32 %r4; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 8; @%p1 bra L;
	bar.sync 0; mul.wide.u32 %rd5, %r2, 4; add.u64 %rd5, %rd5, %rd1; st.global.u32 [%rd5], %r5;`
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
	m.Map(exectest.BufA, 8192)
	c := new(Control)
	require.NoError(t, Run(k, endlessLaunch(), m, c, 1))
	require.Positive(t, c.Slept())
	require.GreaterOrEqual(t, c.Sleeps(), uint64(8*5/2), "about once for each time that the longest sleepers of a block sleep")
	for i, got := range readAll[uint32](m, exectest.BufA, 96) {
		require.EqualValues(t, 8, got, fmt.Sprint("thread ", i))
	}
}

// TestSleepOfOthers checks that a warp which computes is not held up by one that sleeps.
func TestSleepOfOthers(t *testing.T) {
	const body = `setp.lt.u32 %p1, %r2, 32; @%p1 bra S;
L:	add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 100000; @%p2 bra L; st.volatile.global.u32 [%rd1], 1; bra E;
S:	nanosleep.u32 50000; ld.volatile.global.u32 %r5, [%rd1]; setp.eq.u32 %p2, %r5, 0; @%p2 bra S;
E:	bar.sync 0;`
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
	m.Map(exectest.BufA, 8192)
	l := endlessLaunch()
	l.Grid = grid(1, 1, 1)
	require.NoError(t, Run(k, l, m, new(Control), 1))
}

// TestSleepEnds checks that a kernel which only sleeps ends when it is stopped or its time
// is over, and that it lets go of mappings meanwhile.
func TestSleepEnds(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", endless["sleep"][1]), m), "k")
	m.Map(exectest.BufA, 8192)
	c := &Control{Deadline: time.Now().Add(5 * time.Millisecond)}
	require.Equal(t, gpu.LostTimeout, lost(t, Run(k, endlessLaunch(), m, c, 2)).Cause)
	require.Less(t, c.Sleeps(), uint64(1000), "it sleeps, and does not look at the time again and again")

	c = new(Control)
	ended := make(chan error)
	go func() { ended <- Run(k, endlessLaunch(), m, c, 2) }()
	for range 20 {
		c.FlushTLB()
	}
	c.Stop(gpu.LostTrap)
	require.Equal(t, gpu.LostTrap, lost(t, <-ended).Cause)
}
