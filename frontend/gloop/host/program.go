package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
	"pvdrm/internal/yield"
)

// program is one run.
type program struct {
	cfg    Config
	memory *memory
	table  *abi.Table
	stream *cuda.Stream

	sequence uint32 // of the launch; the main loop's own

	mu      sync.Mutex
	running bool
	total   Stats
	ended   chan struct{} // closed when a request ends, and made again
}

func newProgram(cfg Config) (*program, error) {
	p := &program{cfg: cfg, ended: make(chan struct{})}
	var err error
	if p.memory, err = newMemory(&cfg); err != nil {
		return nil, err
	}
	p.table = abi.NewTable(p.memory.blocks)
	if p.stream, err = cfg.Context.NewStreamNonBlocking(); err != nil {
		return nil, errors.Join(err, p.memory.free())
	}
	return p, nil
}

func (p *program) close() error {
	return errors.Join(p.stream.Destroy(), p.memory.free())
}

func (p *program) count(change func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.total)
}

func (p *program) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// begin prepares the next launch.
func (p *program) begin() {
	p.sequence++
	p.memory.signal.Store(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
}

// raise asks the kernel to leave.
func (p *program) raise() { p.memory.signal.Store(1) }

const (
	shortestNap = 20 * time.Microsecond
	longestNap  = time.Millisecond
)

// watch serves requests while a kernel runs, until stop is called, which returns what the kernel did
// wrong.
func (p *program) watch(ctx context.Context) (stop func() error) {
	over, result := make(chan struct{}), make(chan error, 1)
	go func() {
		nap, start := shortestNap, time.Now()
		for {
			select {
			case <-over:
				result <- nil
				return
			default:
			}
			if ctx.Err() != nil || p.cfg.Relaunch != 0 && time.Since(start) >= p.cfg.Relaunch {
				p.raise()
			}
			n, err := p.take()
			if err != nil {
				p.raise()
				<-over
				result <- err
				return
			}
			if n > 0 {
				nap = shortestNap
			}
			yield.Nap(nap)
			nap = min(2*nap, longestNap)
		}
	}()
	return func() error { close(over); return <-result }
}

// serve takes what was handed over while no kernel runs.
func (p *program) serve() error {
	p.mu.Lock()
	p.running = false
	p.mu.Unlock()
	_, err := p.take()
	return err
}

// take starts the requests that were handed over.
func (p *program) take() (int, error) {
	return p.table.Take(func(at abi.Ref, r abi.Request) {
		p.count(func(s *Stats) { s.Requests++ })
		p.start(at, r)
	})
}

// await waits until a request of one of the blocks has ended that its loop has not seen.
func (p *program) await(ctx context.Context, blocks []int, seen []uint64) error {
	start := time.Now()
	defer func() { p.count(func(s *Stats) { s.Waiting += time.Since(start) }) }()
	for {
		p.mu.Lock()
		ended := p.ended
		p.mu.Unlock()
		for i, b := range blocks {
			if p.table.Ended(b, seen[i]) {
				return nil
			}
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// complete ends a request.
func (p *program) complete(at abi.Ref, value int64) {
	p.table.Complete(at, value)
	left, _ := p.table.Report(at.Block, p.sequence)
	_ = left
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	p.ended = make(chan struct{})
}
