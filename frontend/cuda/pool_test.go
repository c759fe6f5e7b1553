package cuda

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/cudatest"
)

func mustAsync(t require.TestingT, c *Context, n uint64, s *Stream) DevicePtr {
	p, err := c.MemAllocAsync(n, s)
	require.NoError(t, err)
	return p
}

func amount(t require.TestingT, p *Pool, a PoolAttribute) uint64 {
	v, err := p.Attribute(a)
	require.NoError(t, err)
	return v
}

// only leaves one way of reuse to a pool, or none.
func only(t *testing.T, p *Pool, way PoolAttribute) {
	t.Helper()
	for _, a := range []PoolAttribute{PoolReuseFollowEventDependencies, PoolReuseAllowOpportunistic, PoolReuseAllowInternalDependencies} {
		v := uint64(0)
		if a == way {
			v = 1
		}
		require.NoError(t, p.SetAttribute(a, v))
	}
}

// newPooled is newAdder with two streams that the default stream does not order.
func newPooled(t *testing.T) (c *Context, f *Function, a, b *Stream) {
	t.Helper()
	_, c, f, a, b = newPooledOn(t)
	return c, f, a, b
}

func newPooledOn(t *testing.T) (g *cudatest.GPU, c *Context, f *Function, a, b *Stream) {
	t.Helper()
	g, c, f, _ = newAdder(t)
	for _, s := range []**Stream{&a, &b} {
		var err error
		*s, err = c.NewStreamNonBlocking()
		require.NoError(t, err)
	}
	return g, c, f, a, b
}

// Memory that is freed on a stream can be used by that stream at once, and no other's before the work is done.
func TestPoolReusesInStreamOrder(t *testing.T) {
	c, f, a, b := newPooled(t)
	only(t, c.dev.DefaultPool(), 0)
	p := mustAsync(t, c, 4096, a)
	add(t, f, a, p, 1)
	require.NoError(t, c.MemFreeAsync(p, a))
	isResult(t, ErrInvalidValue, c.MemFreeAsync(p, a), "it is freed already")
	require.NotEqual(t, p, mustAsync(t, c, 4096, b))
	isResult(t, ErrNotReady, a.Query(), "the call did not wait")
	require.Equal(t, p, mustAsync(t, c, 1024, a))
	require.Equal(t, p+1024, mustAsync(t, c, 3072, a))

	require.NoError(t, c.MemFreeAsync(p, a))
	require.NotEqual(t, p, mustAsync(t, c, 1024, b))
	require.NoError(t, a.Synchronize())
	require.Equal(t, p, mustAsync(t, c, 512, b), "the program has waited for the stream")
}

// Parts that lie side by side are joined, whichever stream freed them, if all are ordered before.
func TestPoolJoinsFreedMemory(t *testing.T) {
	c, f, a, b := newPooled(t)
	only(t, c.dev.DefaultPool(), PoolReuseFollowEventDependencies)
	p, q := mustAsync(t, c, 1<<20, a), mustAsync(t, c, 1<<20, b)
	require.Equal(t, p+1<<20, q)
	add(t, f, a, p, 1)
	add(t, f, b, q, 1)
	require.NoError(t, c.MemFreeAsync(p, a))
	require.NoError(t, c.MemFreeAsync(q, b))
	require.NotEqual(t, p, mustAsync(t, c, 2<<20, a), "b is not ordered before a")
	e := mustEvent(t, c)
	require.NoError(t, e.Record(b))
	require.NoError(t, a.WaitEvent(e))
	require.Equal(t, p, mustAsync(t, c, 2<<20, a))
	require.EqualValues(t, 4<<20, amount(t, c.dev.Pool(), PoolReservedCurrent))
}

// A stream that waits for an event after the free reuses the memory, if the pool may.
func TestPoolFollowsEvents(t *testing.T) {
	for _, follow := range []PoolAttribute{0, PoolReuseFollowEventDependencies} {
		c, f, a, b := newPooled(t)
		only(t, c.dev.DefaultPool(), follow)
		e, p := mustEvent(t, c), mustAsync(t, c, 64, a)
		add(t, f, a, p, 1)
		require.NoError(t, e.Record(a))
		require.NoError(t, c.MemFreeAsync(p, a))
		require.NoError(t, b.WaitEvent(e))
		require.Equal(t, follow != 0, mustAsync(t, c, 64, b) == p, "the free follows nothing later than the event")
		r := mustAsync(t, c, 64, a)
		add(t, f, a, r, 1)
		require.NoError(t, c.MemFreeAsync(r, a))
		require.NotEqual(t, r, mustAsync(t, c, 64, b), "the event was before that work")
	}
}

// Work that has ended, though the program has not waited for it, hands its memory on if the pool may.
func TestPoolReusesWhatIsDone(t *testing.T) {
	for _, way := range []PoolAttribute{0, PoolReuseAllowOpportunistic} {
		g, c, f, a, b := newPooledOn(t)
		g.SetLazy(false)
		only(t, c.dev.DefaultPool(), way)
		p := mustAsync(t, c, poolChunk, a)
		add(t, f, a, p, 1)
		require.NoError(t, c.MemFreeAsync(p, a))
		require.Equal(t, way != 0, mustAsync(t, c, poolChunk, b) == p)
	}
}

// Where the device has no more memory, a stream waits for that of another, if the pool may.
func TestPoolWaitsForMemory(t *testing.T) {
	for _, way := range []PoolAttribute{0, PoolReuseAllowInternalDependencies} {
		c, f, a, b := newPooled(t)
		only(t, c.dev.DefaultPool(), way)
		p := mustAsync(t, c, 40<<20, a)
		require.NoError(t, c.MemsetD8Async(p, 0, 16, a))
		add(t, f, a, p, 1)
		require.NoError(t, c.MemFreeAsync(p, a))
		if way == 0 {
			_, err := c.MemAllocAsync(40<<20, b)
			isResult(t, ErrOutOfMemory, err)
			continue
		}
		require.Equal(t, p, mustAsync(t, c, 40<<20, b))
		isResult(t, ErrNotReady, a.Query())
		add(t, f, b, p, 2)
		require.NoError(t, b.Synchronize())
		require.NoError(t, a.Query(), "b waited for a")
		require.Equal(t, byte(3), readBack(t, c, p, 1)[0])
		require.NoError(t, c.MemFreeAsync(p, nil))
		require.NoError(t, c.Synchronize())
		require.Zero(t, amount(t, c.dev.Pool(), PoolReservedCurrent))
	}
}

// The default stream frees after the work of others, so their work keeps the memory.
func TestPoolOnDefaultStream(t *testing.T) {
	_, c, f, _ := newAdder(t)
	s := mustStream(t, c)
	other, err := c.NewStreamNonBlocking()
	require.NoError(t, err)
	p := mustAsync(t, c, 64, s)
	add(t, f, s, p, 1)
	require.NoError(t, c.MemFreeAsync(p, nil))
	require.NotEqual(t, p, mustAsync(t, c, 64, other))
	require.Equal(t, p, mustAsync(t, c, 64, nil))
	require.NoError(t, c.def.Synchronize())
	require.NoError(t, s.Query(), "waiting for the default stream waits for what had the memory")
}

// Synchronization frees what is above the threshold, trimming what is above its argument; memory
// in use stays.
func TestPoolReleasesMemory(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	pool := c.dev.Pool()
	before := g.VRAMFree
	p, q := mustAsync(t, c, 4<<20, nil), mustAsync(t, c, 100, nil)
	require.EqualValues(t, 6<<20, before-g.VRAMFree, "whole pages")
	require.EqualValues(t, 4<<20+512, amount(t, pool, PoolUsedCurrent))
	require.NoError(t, c.MemFreeAsync(p, nil))
	require.EqualValues(t, 6<<20, amount(t, pool, PoolReservedCurrent))
	require.NoError(t, c.def.Synchronize())
	require.EqualValues(t, 2<<20, amount(t, pool, PoolReservedCurrent))
	require.EqualValues(t, 2<<20, before-g.VRAMFree)

	require.NoError(t, pool.SetAttribute(PoolReleaseThreshold, math.MaxUint64))
	p = mustAsync(t, c, 4<<20, nil)
	require.NoError(t, c.MemFreeAsync(p, nil))
	require.NoError(t, c.Synchronize())
	require.EqualValues(t, 6<<20, amount(t, pool, PoolReservedCurrent))
	require.NoError(t, pool.TrimTo(6<<20))
	require.EqualValues(t, 6<<20, amount(t, pool, PoolReservedCurrent))
	require.NoError(t, pool.TrimTo(0))
	require.EqualValues(t, 2<<20, amount(t, pool, PoolReservedCurrent), "q is in use")
	require.EqualValues(t, 512, amount(t, pool, PoolUsedCurrent))
	require.EqualValues(t, 4<<20+512, amount(t, pool, PoolUsedHigh))
	require.EqualValues(t, 6<<20, amount(t, pool, PoolReservedHigh))
	require.NoError(t, pool.SetAttribute(PoolUsedHigh, 0))
	require.NoError(t, pool.SetAttribute(PoolReservedHigh, 0))
	require.EqualValues(t, 512, amount(t, pool, PoolUsedHigh))
	require.EqualValues(t, 2<<20, amount(t, pool, PoolReservedHigh))
	require.NoError(t, c.MemFree(q), "the other call frees it, too")
	require.Zero(t, amount(t, pool, PoolUsedCurrent))
}

// Memory of no pool that is freed on a stream stays until its work is done, and the call does not wait.
func TestMemFreeAsyncOfOthers(t *testing.T) {
	g, c, f, p := newAdder(t)
	s := mustStream(t, c)
	big := mustAlloc(t, c, 4<<20)
	before := g.VRAMFree
	add(t, f, s, big, 1)
	require.NoError(t, c.MemFreeAsync(big, s))
	isResult(t, ErrNotReady, s.Query())
	isResult(t, ErrInvalidValue, c.MemFreeAsync(big, s))
	isResult(t, ErrInvalidValue, c.MemFree(big))
	require.Equal(t, before, g.VRAMFree)
	require.NoError(t, s.Synchronize())
	require.EqualValues(t, 4<<20, g.VRAMFree-before)
	isResult(t, ErrInvalidValue, c.MemFreeAsync(p+4, s))
	require.NoError(t, c.MemFreeAsync(p, nil))

	q := mustAlloc(t, c, 40<<20)
	add(t, f, s, q, 1)
	require.NoError(t, c.MemFreeAsync(q, s))
	mustAlloc(t, c, 40<<20) // which waits for the work, as there is no other memory
}

// A program that waits after each allocation makes no object each time.
func TestPoolKeepsASpareSegment(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	before, made := g.VRAMFree, g.Calls["GemNew"]
	for range 10 {
		require.NoError(t, c.MemFreeAsync(mustAsync(t, c, 64, nil), nil))
		require.NoError(t, c.Synchronize())
		require.Zero(t, amount(t, c.dev.Pool(), PoolReservedCurrent))
	}
	require.Equal(t, 1, g.Calls["GemNew"]-made)
	require.EqualValues(t, poolChunk, before-g.VRAMFree)
	require.NoError(t, c.dev.Pool().TrimTo(0))
	require.Equal(t, before, g.VRAMFree)
	require.NoError(t, c.MemFreeAsync(mustAsync(t, c, 64, nil), nil))
	require.NoError(t, c.Synchronize())
	mustAlloc(t, c, before) // all that there is
}

// What a pool keeps is there for allocations of other kinds.
func TestPoolGivesUpMemory(t *testing.T) {
	c := newContext(t, cudatest.NewGPU(t))
	require.NoError(t, c.dev.Pool().SetAttribute(PoolReleaseThreshold, math.MaxUint64))
	require.NoError(t, c.MemFreeAsync(mustAsync(t, c, 60<<20, nil), nil))
	p := mustAlloc(t, c, 60<<20)
	require.NoError(t, c.MemFreeAsync(p, nil), "it may free memory of no pool")
	isResult(t, ErrInvalidValue, c.MemFreeAsync(p, nil))
}

func TestPools(t *testing.T) {
	c := newContext(t, cudatest.NewGPU(t))
	dev := c.dev
	require.Same(t, dev.DefaultPool(), dev.Pool())
	isResult(t, ErrInvalidValue, dev.DefaultPool().Destroy())
	pool := dev.NewPool(3 << 20)
	require.NoError(t, dev.SetPool(pool))
	p := mustAsync(t, c, 64, nil)
	require.Same(t, pool, c.PoolOf(p))
	require.Same(t, pool, c.PoolOf(p+63))
	require.Nil(t, c.PoolOf(p+64))
	_, err := c.MemAllocAsync(4<<20, nil)
	isResult(t, ErrOutOfMemory, err, "the pool may reserve 4 MiB, of which 2 are in use")
	_, err = c.MemAllocAsync(math.MaxUint64, nil)
	isResult(t, ErrOutOfMemory, err)
	_, err = c.MemAllocFromPool(pool, 0, nil)
	isResult(t, ErrInvalidValue, err)
	isResult(t, ErrInvalidValue, c.MemFreeAsync(p+16, nil))

	require.NoError(t, pool.Destroy())
	require.Same(t, dev.DefaultPool(), dev.Pool())
	isResult(t, ErrInvalidValue, pool.Destroy())
	isResult(t, ErrInvalidValue, pool.TrimTo(0))
	isResult(t, ErrInvalidValue, dev.SetPool(pool))
	isResult(t, ErrInvalidValue, pool.SetAttribute(PoolReleaseThreshold, 0))
	_, err = pool.Attribute(PoolReleaseThreshold)
	isResult(t, ErrInvalidValue, err)
	_, err = c.MemAllocFromPool(pool, 64, nil)
	isResult(t, ErrInvalidValue, err)
	require.NoError(t, c.MemsetD8(p, 7, 64), "what was allocated stays")
	require.Equal(t, byte(7), readBack(t, c, p, 64)[63])
	require.NoError(t, c.MemFreeAsync(p, nil))
	require.NoError(t, c.Synchronize())
	require.Empty(t, c.memory.arenas)
}

func TestPoolAttributes(t *testing.T) {
	pool := newContext(t, cudatest.NewGPU(t)).dev.Pool()
	for a, v := range map[PoolAttribute]uint64{1: 1, 2: 1, 3: 1, 4: 0, 5: 0, 6: 0, 7: 0, 8: 0} {
		require.Equal(t, v, amount(t, pool, a), "%d", a)
	}
	for _, a := range []PoolAttribute{0, 9, 99, -1} {
		_, err := pool.Attribute(a)
		isResult(t, ErrInvalidValue, err)
		isResult(t, ErrInvalidValue, pool.SetAttribute(a, 0))
	}
	for a, v := range map[PoolAttribute]uint64{PoolReservedCurrent: 0, PoolUsedCurrent: 0, PoolReservedHigh: 1, PoolUsedHigh: 1} {
		isResult(t, ErrInvalidValue, pool.SetAttribute(a, v), "%d", a)
	}
}

// A pool serves several contexts, each with memory of its own, and outlives them.
func TestPoolOfSeveralContexts(t *testing.T) {
	g := cudatest.NewGPU(t)
	dev := newDevice(t, g)
	var all []*Context
	for range 2 {
		c, err := dev.CreateContext()
		require.NoError(t, err)
		all = append(all, c)
		mustAsync(t, c, 64, nil)
	}
	require.EqualValues(t, 4<<20, amount(t, dev.Pool(), PoolReservedCurrent))
	require.EqualValues(t, 1024, amount(t, dev.Pool(), PoolUsedCurrent))
	for _, c := range all {
		require.NoError(t, c.Destroy())
	}
	require.Zero(t, amount(t, dev.Pool(), PoolReservedCurrent))
	require.Zero(t, amount(t, dev.Pool(), PoolUsedCurrent))
	require.NoError(t, dev.Pool().TrimTo(0))
}

// Blocks that are in use at the same time never overlap, and work of one never reaches another.
func TestPoolOfManyThreads(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	var all sync.WaitGroup
	for i := range 4 {
		s := mustStream(t, c)
		all.Go(func() {
			for round := range 50 {
				n := uint64(1 + (i*7919+round*104729)%(1<<19))
				p := mustAsync(t, c, n, s)
				q := mustAsync(t, c, 512, s)
				require.NoError(t, c.MemsetD8Async(p, byte(i+1), n, s))
				require.NoError(t, s.Synchronize())
				require.Equal(t, byte(i+1), readBack(t, c, p+DevicePtr(n-1), 1)[0])
				require.NoError(t, c.MemFreeAsync(p, s))
				require.NoError(t, c.MemFreeAsync(q, s))
			}
		})
	}
	all.Wait()
	require.NoError(t, c.Synchronize())
	require.Zero(t, amount(t, c.dev.Pool(), PoolUsedCurrent))
	require.Zero(t, amount(t, c.dev.Pool(), PoolReservedCurrent))
}
