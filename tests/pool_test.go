package tests

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/gpu/softgpu"
)

func newObject(t *testing.T, f *frontend.File, size uint64, flags drm.GemFlags) (uint32, []byte) {
	t.Helper()
	h, err := f.GemNew(size, drm.DomainSystem, flags)
	require.NoError(t, err)
	mem, err := f.GemMap(h)
	require.NoError(t, err)
	require.GreaterOrEqual(t, uint64(len(mem)), size)
	return h, mem
}

// What one process wrote is never seen by another, nor by a new object of the
// same one that did not ask for dirty memory, however objects come and go.
func TestPoolShowsNoOldContent(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	rng := rand.New(rand.NewPCG(7, 8))
	files := []*frontend.File{h.open(t), h.open(t), h.open(t)}
	type owned struct {
		handle uint32
		mem    []byte
	}
	objects := make([][]owned, len(files))
	for step := range 400 {
		i := rng.IntN(len(files))
		if n := len(objects[i]); n > 4 || n > 0 && rng.IntN(2) == 0 {
			k := rng.IntN(n)
			require.NoError(t, files[i].GemClose(objects[i][k].handle))
			objects[i] = append(objects[i][:k], objects[i][k+1:]...)
			continue
		}
		flags := drm.GemFlags(rng.IntN(4))
		handle, mem := newObject(t, files[i], uint64(1+rng.IntN(300<<10)), flags)
		for _, b := range mem {
			if flags&drm.GemDirty == 0 {
				require.Zero(t, b, "step %d: old content", step)
			} else if b != 0 {
				require.EqualValues(t, i+1, b, "step %d: another process's content", step)
			}
		}
		copy(mem, bytes.Repeat([]byte{byte(i + 1)}, len(mem)))
		objects[i] = append(objects[i], owned{handle, mem})
	}
	var reused uint64
	for _, f := range files {
		reused += f.Pool().Reused
	}
	require.NotZero(t, reused, "the pool was used")
}

func TestPoolKeepsGrants(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	p := newProgram(t, h.open(t))
	const size = 4 << 20
	window := p.param(t, drm.ParamSystemBase) + 1<<30
	grants := func() uint64 {
		c, err := p.Counters()
		require.NoError(t, err)
		return c.Grants
	}
	first, _ := newObject(t, p.File, size, 0)
	made := grants()
	for range 10 {
		require.NoError(t, p.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: first, Addr: window, Range: size}}, false))
		require.NoError(t, p.run(p.launch(window, 64)))
		require.NoError(t, p.GemClose(first))
		_, err := p.GemMap(first)
		require.Error(t, err, "a closed object is closed, wherever it is kept")
		require.Error(t, p.GemClose(first))
		again, mem := newObject(t, p.File, size-4096, 0)
		require.Equal(t, first, again, "the kept one was taken")
		require.Zero(t, mem[0])
		// Its old mapping is gone: the same address can be mapped anew.
	}
	require.Equal(t, made, grants(), "no grant was made")
	require.EqualValues(t, 10, p.Pool().Reused)
	require.NoError(t, p.GemClose(first))
	tiny, _ := newObject(t, p.File, 4096, 0)
	require.NotEqual(t, first, tiny, "a large one is not wasted on a small one")
}

func TestPoolIsBounded(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	f := h.open(t)
	var handles []uint32
	for range 10 {
		handle, _ := newObject(t, f, 64<<20, drm.GemDirty)
		handles = append(handles, handle)
	}
	for _, handle := range handles {
		require.NoError(t, f.GemClose(handle))
	}
	const limit = 256 << 20
	require.LessOrEqual(t, f.Pool().Kept, uint64(limit))
	require.Less(t, h.server.Stats().GrantedBytes, uint64(limit+(64<<20)))
}

// When memory runs out, what lies in the pool is given back before a new object fails.
func TestPoolIsDroppedUnderPressure(t *testing.T) {
	h := startLimitedHost(t, 64<<20)
	f := h.open(t)
	handle, _ := newObject(t, f, 40<<20, drm.GemDirty)
	require.NoError(t, f.GemClose(handle))
	_, err := f.GemNew(50<<20, drm.DomainSystem, drm.GemDirty)
	require.NoError(t, err)
	require.Zero(t, f.Pool().Kept)
	_, err = f.GemNew(50<<20, drm.DomainSystem, drm.GemDirty)
	require.Error(t, err)
}

func TestSwitchedOffPool(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	c, err := local.Open(h.socket)
	require.NoError(t, err)
	f, err := frontend.NewConfig(c, frontend.Config{NoPool: true, NoPoll: true, NoMulticall: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	before := h.server.Stats().GrantedBytes
	handle, _ := newObject(t, f, 1<<20, drm.GemNoShare)
	require.Greater(t, h.server.Stats().GrantedBytes, before)
	require.NoError(t, f.GemClose(handle))
	require.Equal(t, before, h.server.Stats().GrantedBytes)
	p := newProgram(t, f)
	require.NoError(t, p.run(p.launch(p.addr, 8)))
	c2, err := f.Counters()
	require.NoError(t, err)
	require.GreaterOrEqual(t, c2.Requests, uint64(bufferBytes/4096), "each page was mapped with a request of its own")
	require.NotZero(t, c2.Doorbells, "and a backend that does not poll is woken, though once for what came while it served")
}

// A busy frontend needs no doorbell; one that comes back after a pause needs one.
func TestDoorbellsOnlyWhenTheBackendSleeps(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{}).open(t))
	doorbells := func() uint64 {
		c, err := p.Counters()
		require.NoError(t, err)
		return c.Doorbells
	}
	before := doorbells()
	const launches = 200
	for range launches {
		require.NoError(t, p.run(p.launch(p.addr, 1)))
	}
	require.Less(t, doorbells()-before, uint64(launches/2), "launches one after the other")
	c, err := p.Counters()
	require.NoError(t, err)
	sleeps := c.Sleeps
	require.Eventually(t, func() bool { // it goes to sleep when nothing comes
		time.Sleep(time.Second)
		c, err := p.Counters()
		require.NoError(t, err)
		return c.Sleeps > sleeps
	}, patience, time.Millisecond)
}
