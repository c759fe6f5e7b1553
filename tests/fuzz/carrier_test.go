package fuzz

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/backend/session"
)

const page = 4096

// ringID is the resource of a file's ring object; those of other grants are below it.
const ringID = 100

// carrier is a session.Carrier in memory. It is the frontend's side, too: the owner of
// the granted pages, who takes them back.
type carrier struct {
	mu       sync.Mutex
	grants   map[uint32]*grant
	notified atomic.Uint64
}

func newCarrier() *carrier { return &carrier{grants: map[uint32]*grant{}} }

// Grant implements session.Carrier.
func (c *carrier) Grant(id uint32) (session.Grant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.grants[id]; g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("grant %d: %w", id, syscall.ENOENT)
}

// Notify implements session.Carrier.
func (c *carrier) Notify() { c.notified.Add(1) }

// Counts implements session.Carrier.
func (c *carrier) Counts() (doorbells, interrupts uint64) { return 0, c.notified.Load() }

// add grants pages, in so many runs of so many pages each.
func (c *carrier) add(id uint32, runs, pages int) *grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grants[id] != nil {
		return nil
	}
	g := newGrant(runs, pages)
	c.grants[id] = g
	return g
}

// remove makes a grant unknown to the session, which may still use it.
func (c *carrier) remove(id uint32) *grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.grants[id]
	delete(c.grants, id)
	return g
}

// grant is granted memory. Each run lies between pages that must not be touched.
type grant struct {
	mapped []byte
	runs   [][]byte
	users  atomic.Int64 // that have acquired it
	gone   atomic.Bool  // it was taken back: it must not be used
}

func newGrant(runs, pages int) *grant {
	mapped, err := unix.Mmap(-1, 0, (1+runs*(pages+1))*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err)
	}
	g := &grant{mapped: mapped}
	for i := range runs {
		at := (1 + i*(pages+1)) * page
		run := mapped[at : at+pages*page : at+pages*page]
		if err := unix.Mprotect(run, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			panic(err)
		}
		g.runs = append(g.runs, run)
	}
	return g
}

// Size implements session.Grant.
func (g *grant) Size() (n uint64) {
	for _, r := range g.runs {
		n += uint64(len(r))
	}
	return n
}

// Acquire implements session.Grant.
func (g *grant) Acquire() (runs [][]byte, release func(), err error) {
	if g.gone.Load() {
		return nil, nil, syscall.ENOENT
	}
	g.users.Add(1)
	var once atomic.Bool
	return append([][]byte(nil), g.runs...), func() {
		if once.Swap(true) {
			panic("a grant was released twice")
		}
		g.users.Add(-1)
	}, nil
}

// MapContiguous implements session.Grant.
func (g *grant) MapContiguous() (mem []byte, release func(), err error) {
	if len(g.runs) != 1 {
		return nil, nil, syscall.EINVAL
	}
	runs, release, err := g.Acquire()
	if err != nil {
		return nil, nil, err
	}
	return runs[0], release, nil
}

// takeBack is for when the session says that it no longer uses the pages: any access
// from now on is a fault of the host.
func (g *grant) takeBack() {
	if n := g.users.Load(); n != 0 {
		panic(fmt.Sprintf("the session gave a grant back that it holds %d times", n))
	}
	g.gone.Store(true)
	if err := unix.Mprotect(g.mapped, unix.PROT_NONE); err != nil {
		panic(err)
	}
}

// free unmaps the pages. Preconditions: the session has ended.
func (g *grant) free() {
	if n := g.users.Load(); n != 0 {
		panic(fmt.Sprintf("the session ended and holds a grant %d times", n))
	}
	if err := unix.Munmap(g.mapped); err != nil {
		panic(err)
	}
}
