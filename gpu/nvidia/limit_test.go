package nvidia_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// What the driver takes for contexts counts, the compiler's too, and all together stays within the limit to one page.
func TestVRAMCountsContexts(t *testing.T) {
	const page, limit = 2 << 20, 64 << 20
	t.Setenv(keeperVRAMEnv, strconv.Itoa(limit))
	c := newFakeClientOf(t, nvidia.Config{VRAMBytes: limit}, guardedFake)
	occupied := func() uint64 {
		s := c.dev.Stats()
		return s.VRAM()
	}
	of := c.ctx.(gpu.Occupier)
	require.EqualValues(t, nvidia.FakeContextBytes, of.Occupied())
	empty := occupied()
	require.EqualValues(t, 2*nvidia.FakeContextBytes, empty)
	for range 2 {
		var all []gpu.Memory
		for {
			m, err := c.ctx.NewVRAM(page)
			if err != nil {
				require.ErrorIs(t, err, gpu.ErrNoMemory)
				break
			}
			all = append(all, m)
		}
		require.Len(t, all, (limit-2*nvidia.FakeContextBytes)/page)
		require.EqualValues(t, limit, occupied())
		require.EqualValues(t, nvidia.FakeContextBytes+page*len(all), of.Occupied())
		require.EqualValues(t, page*len(all), c.dev.VRAMUsed(), "what was asked for")
		_, err := c.dev.NewContext("one too many")
		require.ErrorIs(t, err, gpu.ErrNoMemory)
		for _, m := range all {
			require.NoError(t, m.Close())
		}
		require.Equal(t, empty, occupied())
	}
	require.NoError(t, c.ctx.Err())
	require.NoError(t, c.ctx.Close())
	require.Zero(t, of.Occupied())
}

// Without a limit the same is counted.
func TestVRAMCountsWithoutALimit(t *testing.T) {
	const page = 2 << 20
	c := newFakeClientOf(t, nvidia.Config{}, guardedFake)
	of := c.ctx.(gpu.Occupier)
	for range 3 {
		m, err := c.ctx.NewVRAM(5 * page)
		require.NoError(t, err)
		require.EqualValues(t, nvidia.FakeContextBytes+5*page, of.Occupied())
		require.NoError(t, m.Close())
		require.EqualValues(t, nvidia.FakeContextBytes, of.Occupied())
	}
}

// The keeper refuses what the backend does not know of, such as workspaces of libraries.
func TestKeeperHoldsTheLimit(t *testing.T) {
	const page, limit = 2 << 20, 64 << 20
	t.Setenv(keeperVRAMEnv, strconv.Itoa(limit))
	c := newFakeClientOf(t, nvidia.Config{}, guardedFake)
	_, err := c.ctx.NewVRAM(limit)
	require.ErrorIs(t, err, gpu.ErrNoMemory)
	s := c.dev.Stats()
	require.EqualValues(t, 2*nvidia.FakeContextBytes, s.VRAM(), "pages that it got before were given back")
	m, err := c.ctx.NewVRAM(limit - 2*nvidia.FakeContextBytes)
	require.NoError(t, err)
	_, err = c.ctx.NewVRAM(page)
	require.ErrorIs(t, err, gpu.ErrNoMemory)
	require.NoError(t, m.Close())
}

// A context knows its part of the engines' times, and one that ran nothing has none.
func TestBusyOfContexts(t *testing.T) { wrappedToo(t, testBusyOfContexts) }

func testBusyOfContexts(t *testing.T, wrap wrapper) {
	c := newFakeClientOn(t, nvidia.Config{}, guardedFake, wrap)
	idle, err := c.dev.NewContext("idle")
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, c.do(c.launch("idle")).Err)
	}
	compute, _ := c.ctx.(gpu.Meter).Busy()
	require.Positive(t, compute)
	require.LessOrEqual(t, compute, c.dev.Stats().ComputeBusy)
	compute, copies := idle.(gpu.Meter).Busy()
	require.Zero(t, compute+copies)
	require.NoError(t, c.ctx.Close())
	ended, _ := c.ctx.(gpu.Meter).Busy()
	require.Positive(t, ended)
	again, _ := c.ctx.(gpu.Meter).Busy()
	require.Equal(t, ended, again, "nothing runs any more")
}

// Without a limit a guest learns what the GPU has left; with one it learns nothing of what others have.
func TestFreeMemory(t *testing.T) {
	on := newFakeClient(t, nvidia.Config{}).ctx.(gpu.Asker)
	got, err := on.Ask(gpu.AskFree, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []uint64{nvidia.FakeFree}, got)
	_, err = on.Ask(gpu.AskFree, nil, []uint64{1})
	require.ErrorIs(t, err, gpu.ErrInvalid)
	_, err = newFakeClient(t, nvidia.Config{VRAMBytes: 32 << 20}).ctx.(gpu.Asker).Ask(gpu.AskFree, nil, nil)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	t.Setenv(nvidia.FakeRefusesEnv, "1")
	c := newFakeClient(t, nvidia.Config{})
	_, err = c.ctx.(gpu.Asker).Ask(gpu.AskFree, nil, nil)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	require.NoError(t, c.ctx.Err(), "it is no fault of the context")
}
