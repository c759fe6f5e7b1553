package host

import (
	"errors"
	"sync"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/yield"
)

// Pool keeps what runs in a context have allocated, for the next ones: memory of their blocks, which takes
// some milliseconds to make on a GPU with many multiprocessors, bounce buffers and streams. Several runs
// may use it at the same time.
type Pool struct {
	ctx *cuda.Context

	mu     sync.Mutex
	closed bool
	kits   []*kit
}

// NewPool makes a pool of a context.
func NewPool(ctx *cuda.Context) *Pool { return &Pool{ctx: ctx} }

// Close frees what is kept. Runs that go on free theirs at their ends.
func (p *Pool) Close() error {
	p.mu.Lock()
	kits := p.kits
	p.kits, p.closed = nil, true
	p.mu.Unlock()
	var errs []error
	for _, k := range kits {
		errs = append(errs, k.close())
	}
	return errors.Join(errs...)
}

// Prepare makes what a run with a configuration allocates, so that the run itself, and others that need no more, find
// it in Config.Pool.
func Prepare(cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.Pool == nil {
		return errors.New("gloop: Prepare needs Config.Pool")
	}
	f, err := cfg.Module.Function(cfg.Kernel)
	if err != nil {
		return err
	}
	cfg.place(f)
	k, err := newKit(&cfg)
	if err != nil {
		return err
	}
	return cfg.Pool.give(k)
}

// take takes a kit with room for a run; nil if there is none. Of a nil pool it is always nil. A kit without the
// room is freed: one with more follows.
func (p *Pool) take(c *Config) (*kit, error) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	var small *kit
	for i, k := range p.kits {
		if k.memory.fits(c) {
			p.kits = append(p.kits[:i], p.kits[i+1:]...)
			p.mu.Unlock()
			return k, nil
		}
	}
	if n := len(p.kits); n > 0 {
		small, p.kits = p.kits[n-1], p.kits[:n-1]
	}
	p.mu.Unlock()
	if small == nil {
		return nil, nil
	}
	return nil, small.close()
}

// give keeps a kit whose run has ended, or frees it.
func (p *Pool) give(k *kit) error {
	if p == nil {
		return k.close()
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return k.close()
	}
	defer p.mu.Unlock()
	p.kits = append(p.kits, k)
	return nil
}

// kit is what a run allocates.
type kit struct {
	memory  *memory
	bounces *bounces
	stream  *cuda.Stream
	napper  *yield.Napper // the poller's
}

// newKit takes a kit of the pool or makes one, and prepares it for a run.
func newKit(c *Config) (k *kit, err error) {
	if k, err = c.Pool.take(c); err != nil {
		return nil, err
	}
	if k == nil {
		if k, err = makeKit(c); err != nil {
			return nil, err
		}
	}
	if err := k.memory.reset(c); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func makeKit(c *Config) (k *kit, err error) {
	k = &kit{bounces: newBounces()}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if k.memory, err = newMemory(c); err != nil {
		return nil, err
	}
	if k.napper, err = yield.NewNapper(); err != nil {
		return nil, err
	}
	if k.stream, err = c.Context.NewStreamNonBlocking(); err != nil {
		return nil, err
	}
	return k, nil
}

// close frees it. No kernel uses it any more.
func (k *kit) close() error {
	errs := []error{k.bounces.close()}
	if k.stream != nil {
		errs = append(errs, k.stream.Destroy())
	}
	if k.memory != nil {
		errs = append(errs, k.memory.free())
	}
	if k.napper != nil {
		errs = append(errs, k.napper.Close())
	}
	return errors.Join(errs...)
}
