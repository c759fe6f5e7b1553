package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/frontend/gloop/abi"
	"pvdrm/internal/yield"
)

// program is one run.
type program struct {
	cfg Config
	*kit
	table *abi.Table

	handles handles
	lent    []lent
	living  context.Context // canceled when the program ends
	end     context.CancelFunc
	served  sync.WaitGroup // requests
	threads chan struct{}  // holds one for each request that reads or writes a file

	made   time.Time
	active atomic.Int64 // when a request was taken or has ended, in ns since made

	sequence uint32 // of the launch. The main loop writes it while nothing watches

	mu    sync.Mutex
	total Stats
	ended chan struct{} // closed when a request ends, and made again
}

func newProgram(cfg Config) (*program, error) {
	p := &program{
		cfg: cfg, made: time.Now(), ended: make(chan struct{}),
		handles: handles{most: cfg.Handles}, threads: make(chan struct{}, cfg.Threads),
	}
	for _, h := range cfg.Memory {
		p.lent = append(p.lent, lent{at: uint64(h.DevicePtr()), bytes: h.Bytes()})
	}
	var err error
	if p.kit, err = newKit(&p.cfg); err != nil {
		return nil, err
	}
	p.table = abi.NewTable(p.memory.blocks[:cfg.Blocks])
	p.stream.After(cfg.Context.DefaultStream()) // what the caller has prepared
	p.living, p.end = context.WithCancel(context.Background())
	return p, nil
}

// close ends the requests that are under way, and gives all back: to the pool if the run was as it should be.
func (p *program) close(failed bool) error {
	p.end()
	err := p.handles.closeAll()
	p.served.Wait()
	if failed {
		return errors.Join(err, p.kit.close())
	}
	return errors.Join(err, p.cfg.Pool.give(p.kit))
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
}

// raise asks the kernel to leave.
func (p *program) raise() { p.memory.signal.Store(1) }

// The poller looks without a pause for attention after it had something to do, in which a block that
// waits for a read gets it and asks for the next one. Then it naps for a share of the time since, so
// that a request waits for little longer than the block has worked on the one before.
const (
	attention   = 50 * time.Microsecond
	napShare    = 8
	shortestNap = 10 * time.Microsecond
	busyNap     = 100 * time.Microsecond // at most, while requests are under way
	longestNap  = time.Millisecond
)

// watch serves requests while a kernel runs, until stop is called, which returns what the kernel did
// wrong.
func (p *program) watch(ctx context.Context) (stop func() error) {
	over, result := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		start := time.Now()
		p.active.Store(int64(start.Sub(p.made)))
		for !isClosed(over) {
			n := 0
			if err == nil {
				n, err = p.take()
			}
			if err != nil || ctx.Err() != nil || p.cfg.Relaunch != 0 && time.Since(start) >= p.cfg.Relaunch || p.missed() {
				p.raise()
			}
			if n > 0 {
				p.attend()
			}
			p.pause()
		}
		result <- err
	}()
	return func() error { close(over); return <-result }
}

// attend has the poller look without a pause for a while.
func (p *program) attend() { p.active.Store(int64(time.Since(p.made))) }

// pause gives the processor away between two looks.
func (p *program) pause() {
	quiet := time.Since(p.made) - time.Duration(p.active.Load())
	if quiet < attention {
		yield.Processor()
		return
	}
	most := longestNap
	if p.table.UnderWay() > 0 {
		most = busyNap
	}
	p.napper.Nap(min(max(quiet/napShare, shortestNap), most))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// missed reports whether a request has ended for a block that has left the running kernel to wait for
// it. Only the next launch runs its callback.
func (p *program) missed() bool {
	for b := range p.cfg.Blocks {
		r, left := p.table.Report(b, p.sequence)
		if left && r.State == abi.StateWaiting && p.table.Ended(b, r.Seen) {
			return true
		}
	}
	return false
}

// take starts the requests that were handed over.
func (p *program) take() (int, error) {
	return p.table.Take(func(at abi.Ref, r abi.Request) {
		p.count(func(s *Stats) { s.Requests++ })
		p.start(at, r)
	})
}

// pulse is how often a program that waits without a kernel asks whether its device is still there.
const pulse = time.Second

// await waits until a request of one of the blocks has ended that its loop has not seen.
func (p *program) await(ctx context.Context, blocks []int, seen []uint64) error {
	start, tick := time.Now(), time.NewTicker(pulse)
	defer tick.Stop()
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
		case <-tick.C:
			if _, _, err := p.cfg.Context.MemGetInfo(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// complete ends a request.
func (p *program) complete(at abi.Ref, value int64) {
	p.table.Complete(at, value)
	p.attend()
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.ended)
	p.ended = make(chan struct{})
}
