package nvidia

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// BenchmarkSubmit is what a launch takes on its way through the backend: until it is
// in the lane, and from there, its fence being there at once, until it is done. It needs
// neither a GPU nor a worker.
func BenchmarkSubmit(b *testing.B) { benchmarkSubmit(b, 1, false) }

// BenchmarkSubmitGraph is the same for a batch of ten kernels that the worker has a graph of.
func BenchmarkSubmitGraph(b *testing.B) { benchmarkSubmit(b, 10, true) }

func benchmarkSubmit(b *testing.B, launches int, graphs bool) {
	mem, err := unix.Mmap(-1, 0, laneBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(b, err)
	p := &process{lane: lane{mem}, wake: -1, graphs: graphs}
	d := &device{props: gpu.Properties{MaxThreads: 1024, MaxGridDim: [3]int{1, 1, 1}, MaxBlockDim: [3]int{1, 1, 1}, MaxParamBytes: 4096}}
	c := &context{dev: d, worker: p, over: make(chan struct{})}
	ch := &channel{ctx: c, stop: make(chan struct{}), ended: make(chan struct{})}
	ch.wake.L = &ch.mu
	go ch.loop()
	f := &function{mod: &module{ctx: c}, attrs: gpu.FunctionAttributes{MaxThreads: 1024, ParamBytes: 200}}
	f.cost.Store(1000)
	var cmds []gpu.Command
	for i := range launches {
		cmds = append(cmds, &gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: make([]byte, 200), SharedBytes: 0})
		cmds[i].(*gpu.Launch).Params[0] = byte(i)
	}
	done := make(chan gpu.Result, 1)
	tell := func(r gpu.Result) { done <- r }
	number, seen := uint32(0), uint32(0)
	take := func() { // what the worker has been given, as if it was done at once
		for p.lane.ready(number) {
			e, _ := p.lane.take(number)
			number++
			p.lane.store(offTail, number)
			if e.last {
				seen = e.number
				p.lane.store(offFences, seen)
			}
		}
	}
	run := func() {
		if err := ch.Submit(cmds, tell); err != nil {
			b.Fatal(err)
		}
		for len(done) == 0 {
			take()
			ch.Poll()
		}
		if r := <-done; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	for range 4 {
		run()
	}
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
	b.StopTimer()
	ch.mu.Lock()
	ch.closed = true
	ch.mu.Unlock()
	ch.tell()
	<-ch.ended
	require.NoError(b, unix.Munmap(mem))
}
