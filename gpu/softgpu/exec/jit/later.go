package jit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Up to how many operations a function is compiled by the worker that finds it hot: that takes less than
// 10 ms, for which a goroutine may have to wait for a processor. Larger functions are compiled in the
// background.
const (
	smallFunction = 4096
	smallPairs    = 512 // for AVX2
)

// maxQueued bounds the functions that wait for a compiler. Those beyond stay interpreted until
// they are hot again.
const maxQueued = 64

// compilers compiles what Code.want leaves to the background, for all programs of the process.
var compilers = pool{most: max(1, runtime.NumCPU()/4)}

// Settle returns when no function is being compiled in the background, or waits for it.
func Settle() { compilers.settle() }

// pool runs jobs on a bounded number of goroutines, which end when there is nothing to do.
type pool struct {
	most int

	mu      sync.Mutex
	queue   []func()
	running int
	waiting []chan struct{} // closed when nothing runs any more
}

// add queues a job. It reports false if too many wait.
func (p *pool) add(job func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) >= maxQueued {
		return false
	}
	p.queue = append(p.queue, job)
	if p.running < p.most {
		p.running++
		go p.serve()
	}
	return true
}

// serve runs jobs until none is left.
func (p *pool) serve() {
	for job := p.next(); job != nil; job = p.next() {
		job()
	}
}

// next takes a job, or returns nil and counts its caller out.
func (p *pool) next() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) != 0 {
		job := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		return job
	}
	if p.running--; p.running == 0 {
		for _, done := range p.waiting {
			close(done)
		}
		p.queue, p.waiting = nil, nil
	}
	return nil
}

func (p *pool) settle() {
	p.mu.Lock()
	if p.running == 0 {
		p.mu.Unlock()
		return
	}
	done := make(chan struct{})
	p.waiting = append(p.waiting, done)
	p.mu.Unlock()
	<-done
}

// ChargeTo makes the nanoseconds for which n is compiled in the background count in charge. It is
// called before the first launch.
func (n *Code) ChargeTo(charge *atomic.Int64) { n.charge = charge }

// isSmall reports whether a function is compiled where it is found hot.
func isSmall(fn *ir.Function, isa ISA) bool {
	if isa != AVX512 {
		return fn.End-fn.Entry <= smallPairs
	}
	return fn.End-fn.Entry <= smallFunction
}

// compileLater has a variant compiled in the background. What waits does not keep the code's program,
// which may be unloaded meanwhile.
func (n *Code) compileLater(v *variant) {
	code, masked := weak.Make(n), v == &n.masked
	added := compilers.add(func() {
		n := code.Value()
		if n == nil {
			return
		}
		v := &n.full
		if masked {
			v = &n.masked
		}
		n.compileCharged(v)
	})
	if !added {
		v.wanted.Store(0)
		return
	}
	// Where no processor is idle, this one compiles: the sooner there is code, the less is interpreted.
	runtime.Gosched()
}

// compileCharged compiles a variant in the background.
func (n *Code) compileCharged(v *variant) {
	start := time.Now()
	n.compile(v)
	if n.charge != nil {
		n.charge.Add(int64(time.Since(start)))
	}
}
