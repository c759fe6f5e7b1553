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
func BenchmarkSubmit(b *testing.B) {
	mem, err := unix.Mmap(-1, 0, laneBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(b, err)
	p := &process{lane: lane{mem}, wake: -1}
	d := &device{props: gpu.Properties{MaxThreads: 1024, MaxGridDim: [3]int{1, 1, 1}, MaxBlockDim: [3]int{1, 1, 1}}}
	c := &context{dev: d, worker: p, over: make(chan struct{})}
	ch := &channel{ctx: c, stop: make(chan struct{}), ended: make(chan struct{})}
	ch.wake.L = &ch.mu
	go ch.loop()
	f := &function{mod: &module{ctx: c}, attrs: gpu.FunctionAttributes{MaxThreads: 1024}}
	f.cost.Store(1000)
	cmds := []gpu.Command{&gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}}
	done := make(chan gpu.Result, 1)
	tell := func(r gpu.Result) { done <- r }
	number := uint32(0)
	b.ReportAllocs()
	for b.Loop() {
		if err := ch.Submit(cmds, tell); err != nil {
			b.Fatal(err)
		}
		for !p.lane.ready(number) { // the goroutine may be the one to begin it
			ch.Poll()
		}
		number++
		p.lane.store(offTail, number)
		p.lane.store(offFences, number)
		for len(done) == 0 {
			ch.Poll()
		}
		if r := <-done; r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	b.StopTimer()
	ch.mu.Lock()
	ch.closed = true
	ch.mu.Unlock()
	ch.tell()
	<-ch.ended
	require.NoError(b, unix.Munmap(mem))
}
