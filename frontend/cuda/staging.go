package cuda

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"pvdrm/internal/parallel"
	"pvdrm/internal/yield"
)

// stagingPlan is how copies go through the ring.
type stagingPlan struct {
	sizes   []uint64 // of the ring in bytes, ascending
	pieces  uint64   // into which it is divided: so many are on their way at once
	copiers int      // goroutines that copy a piece from or to pageable memory
}

// Granted memory is dear to make, so the ring starts small and grows in few steps with
// the copies that come. Where both sides have a processor, a ring whose pieces stay
// in its cache is twice as fast as a larger one, and sooner made; where they take
// turns, large pieces save turns. One processor copies a fifth of what PCIe does.
var staged = stagingOn(yield.Ample)

func stagingOn(ample bool) stagingPlan {
	if ample {
		return stagingPlan{sizes: []uint64{1 << 20}, pieces: 4, copiers: 4}
	}
	return stagingPlan{sizes: []uint64{64 << 10, 1 << 20, 8 << 20}, pieces: 2, copiers: 1}
}

// stagingRounds is how often a copy may go round the ring before a larger one is made.
const stagingRounds = 4

// stagingAlign keeps pieces on cache lines of their own.
const stagingAlign = 64

// copyPart is what one of several copiers takes at a time, in bytes: some 6 µs.
const copyPart = 64 << 10

// copierLooks is how often a copier looks for another piece: for longer than it takes
// until there is one, and not so long that a kernel behind the copy misses the processor.
const copierLooks = 100

// staging is the ring of pinned memory through which copies from and to
// pageable memory go, in pieces of at most a half or a quarter of its size, on the default
// stream. Pieces are in flight in the order in which they were queued:
//
//	    tail            head
//	... ├── in flight ──┤ free ...       (both modulo the size)
//
// A copy to the device returns when its last piece is in the ring.
type staging struct {
	mu         sync.Mutex
	block      block
	size       uint64 // 0 before the first copy
	head, tail uint64 // grow for ever
	pieces     []piece
	workers    parallel.Pool
	touching   sync.WaitGroup // touch
}

// piece is a range of the ring up to end, in use until a point is reached.
type piece struct {
	end   uint64
	until point
}

// begin locks the ring for a copy of n bytes, once it is large enough and its pages are
// there.
func (g *staging) begin(c *Context, call string, n uint64) error {
	g.mu.Lock()
	if err := g.grow(c, call, n); err != nil {
		g.mu.Unlock()
		return err
	}
	g.touching.Wait()
	return nil
}

// copyIn copies n bytes of pageable memory to the device.
func (c *Context) copyIn(call string, dst uint64, src io.ReaderAt, n uint64) error {
	g := &c.staging
	if err := g.begin(c, call, n); err != nil {
		return err
	}
	defer g.mu.Unlock()
	for off := uint64(0); off < n; {
		part := min(n-off, g.size/staged.pieces)
		at, err := g.reserve(c, call, part)
		if err != nil {
			return err
		}
		if err := g.spread(g.block.mem[at:at+part], off, src.ReadAt); err != nil {
			return errorf(call, ErrInvalidValue, "reading the source: %w", err)
		}
		if _, err := g.queue(c, call, copyOf(dst+off, g.block.addr+at, part), part); err != nil {
			return err
		}
		off += part
	}
	return nil
}

// copyOut copies n bytes from the device to pageable memory. While the program
// takes one piece out, the device fills the next.
func (c *Context) copyOut(call string, dst io.WriterAt, src, n uint64) error {
	g := &c.staging
	if err := g.begin(c, call, n); err != nil {
		return err
	}
	defer g.mu.Unlock()
	// As many whole pieces as there can be fit only from the start of the ring, and none
	// must be given out again before the program took it.
	if n > g.size/staged.pieces {
		if err := g.drain(c, call); err != nil {
			return err
		}
	}
	type filled struct {
		mem   []byte
		until point
	}
	var coming []filled // oldest first
	taken := uint64(0)
	for left := n; left > 0 || len(coming) > 0; {
		if left > 0 && uint64(len(coming)) < staged.pieces {
			part := min(left, g.size/staged.pieces)
			at, err := g.reserve(c, call, part)
			if err != nil {
				return err
			}
			until, err := g.queue(c, call, copyOf(g.block.addr+at, src, part), part)
			if err != nil {
				return err
			}
			coming = append(coming, filled{g.block.mem[at : at+part], until})
			src, left = src+part, left-part
			continue
		}
		next := coming[0]
		coming = coming[1:]
		if err := c.wait(call, next.until, waitForever); err != nil {
			return err
		}
		if err := g.spread(next.mem, taken, dst.WriteAt); err != nil {
			return errorf(call, ErrInvalidValue, "writing the destination: %w", err)
		}
		taken += uint64(len(next.mem))
	}
	return c.libraryFailure(call)
}

// spread copies a piece by ReadAt or WriteAt, which it calls with parts of mem and where they
// lie, mem itself at off; at once from several goroutines if the piece is large.
func (g *staging) spread(mem []byte, off uint64, do func(p []byte, off int64) (int, error)) error {
	parts := uint64(len(mem)+copyPart-1) / copyPart
	copiers := min(uint64(staged.copiers), parts)
	if copiers < 2 {
		_, err := do(mem, int64(off))
		return err
	}
	var next atomic.Uint64
	errs := make([]error, copiers)
	g.workers.Share(int(copiers), func(member int) {
		for i := next.Add(1) - 1; i < parts && errs[member] == nil; i = next.Add(1) - 1 {
			at := i * copyPart
			_, errs[member] = do(mem[at:min(at+copyPart, uint64(len(mem)))], int64(off+at))
		}
	})
	return errors.Join(errs...)
}

// grow makes the ring large enough for a copy of n bytes. When there is no
// memory for a larger one, the old one stays.
func (g *staging) grow(c *Context, call string, n uint64) error {
	want := staged.sizes[len(staged.sizes)-1]
	for _, s := range staged.sizes {
		if n <= s*stagingRounds {
			want = s
			break
		}
	}
	if want <= g.size {
		return nil
	}
	if err := g.drain(c, call); err != nil {
		return err
	}
	g.touching.Wait() // before the old ring goes
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.system.alloc(want)
	if err != nil {
		err = c.fail(call, fmt.Errorf("%d bytes of pinned memory to copy through: %w", want, err))
		if g.size > 0 && c.lost.Load() == nil {
			return nil
		}
		return err
	}
	old := g.block
	g.block, g.size, g.head, g.tail = b, want, 0, 0
	if staged.copiers > 1 {
		g.touch()
	}
	if old.obj == nil {
		return nil
	}
	if err := m.system.free(old); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// touch has the pages of the ring be there when the first copy comes, without waiting
// for that: each is a fault, which together take longer than the copy.
func (g *staging) touch() {
	mem := g.block.mem
	g.touching.Go(func() {
		const page = 4096
		for i := 0; i < len(mem); i += page {
			mem[i] = 0
		}
	})
}

// reserve finds n bytes in a row, at most a piece, and returns where they
// begin in it. It waits for the oldest pieces where it must.
func (g *staging) reserve(c *Context, call string, n uint64) (at uint64, err error) {
	n = (n + stagingAlign - 1) &^ (stagingAlign - 1)
	for {
		if len(g.pieces) == 0 {
			g.head, g.tail = 0, 0
		}
		at = g.head % g.size
		skip := uint64(0)
		if at+n > g.size {
			skip, at = g.size-at, 0
		}
		if g.head+skip+n-g.tail <= g.size {
			g.head += skip
			return at, nil
		}
		if err := g.release(c, call); err != nil {
			return 0, err
		}
	}
}

// queue submits the copy of a reserved piece of n bytes.
func (g *staging) queue(c *Context, call string, cmd command, n uint64) (point, error) {
	p, err := submit(c, call, c.def, cmd)
	if err != nil {
		return point{}, err
	}
	g.head += (n + stagingAlign - 1) &^ (stagingAlign - 1)
	g.pieces = append(g.pieces, piece{g.head, p})
	return p, nil
}

// release waits for the oldest piece.
func (g *staging) release(c *Context, call string) error {
	p := g.pieces[0]
	if err := c.wait(call, p.until, waitForever); err != nil {
		return err
	}
	g.tail = p.end
	g.pieces = g.pieces[1:]
	return nil
}

func (g *staging) drain(c *Context, call string) error {
	for len(g.pieces) > 0 {
		if err := g.release(c, call); err != nil {
			return err
		}
	}
	return nil
}
