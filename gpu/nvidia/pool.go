package nvidia

import "sync"

// pool keeps workers that were started ahead of the contexts that will have them: a worker takes some
// hundred milliseconds to start, most of them in the driver. New contexts take workers of it, and
// contexts that are rebuilt. It is filled again in the background.
//
// A worker that waits has a CUDA context, which takes VRAM of its own (half a GiB on an H100). So
// only devices that revoke have more than the first, which New starts to ask what the GPU is.
type pool struct {
	keeper keeper
	want   int // workers that are to wait
	filler sync.WaitGroup

	mu      sync.Mutex
	ready   []*process // oldest first
	filling bool
	closed  bool
}

func newPool(k keeper, want int, first *process) *pool {
	p := &pool{keeper: k, want: want, ready: []*process{first}}
	p.fill()
	return p
}

// take returns a worker for a context. It starts one if none is ready. Fill is to be called when the
// context needs no more of the driver for a while: while a worker starts the driver makes others wait.
func (p *pool) take() (*process, error) {
	for {
		w := p.pop()
		if w == nil {
			return p.keeper.startProcess()
		}
		if !w.Over() {
			return w, nil
		}
		w.discard() // another process killed it while it waited
	}
}

// pop takes the oldest worker that is ready, or returns nil.
func (p *pool) pop() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ready) == 0 {
		return nil
	}
	w := p.ready[0]
	p.ready = p.ready[1:]
	return w
}

// ended reports whether the pool was closed.
func (p *pool) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// fill starts what is missing, without waiting for it. One that does not start is missing until the
// next worker is taken: that call reports the reason.
func (p *pool) fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.filling || len(p.ready) >= p.want {
		return
	}
	p.filling = true
	p.filler.Go(func() {
		for {
			w, err := p.keeper.startProcess()
			p.mu.Lock()
			if err == nil && !p.closed {
				p.ready = append(p.ready, w)
				w = nil
			}
			more := err == nil && !p.closed && len(p.ready) < p.want
			p.filling = more
			p.mu.Unlock()
			if err == nil && w != nil {
				w.end()
			}
			if !more {
				return
			}
		}
	})
}

// close ends the workers that wait, and lets none start. Those that are being started end with the
// keeper; await then waits for them.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	ready := p.ready
	p.ready = nil
	p.mu.Unlock()
	for _, w := range ready {
		w.Kill() // all at once
	}
	for _, w := range ready {
		w.end()
	}
}

// await waits until nothing of a closed pool is left. Precondition: the keeper has ended.
func (p *pool) await() { p.filler.Wait() }
