package nvidia_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// fakeCubin is machine code for the fake driver: the header of an ELF file, with a verdict.
func fakeCubin(verdict byte) []byte {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01")
	binary.LittleEndian.PutUint16(b[18:], 190)
	b[63] = verdict
	return b
}

func TestMachineCode(t *testing.T) {
	bothWays(t, func(t *testing.T, polls bool) {
		c := newFakeClient(t, nvidia.Config{})
		c.polls = polls
		require.True(t, c.props.Images)
		m, err := c.ctx.LoadModule(context.Background(), "code", fakeCubin(0), nil)
		require.NoError(t, err)
		f, err := m.Function("store")
		require.NoError(t, err)
		again, err := m.Function("store")
		require.NoError(t, err)
		require.Same(t, f, again)
		a := f.Attributes()
		require.Equal(t, []gpu.Param{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}}, a.Params)
		require.Equal(t, []int{12, 80, 90}, []int{a.ParamBytes, a.PTXVersion, a.Binary})
		_, err = m.Function("absent")
		require.ErrorIs(t, err, gpu.ErrNotFound)

		at, n, err := m.Global("variable")
		require.NoError(t, err)
		require.EqualValues(t, 64, n)
		_, _, err = m.Global("absent")
		require.ErrorIs(t, err, gpu.ErrNotFound)

		vram := c.props.VRAM
		mem, err := c.ctx.NewVRAM(vram.Page)
		require.NoError(t, err)
		require.NoError(t, c.ctx.Map(vram.Base, mem, 0, vram.Page, gpu.ProtRead|gpu.ProtWrite))
		params := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, vram.Base), 41)
		require.NoError(t, c.do(&gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{2, 1, 1}, Params: params}).Err)
		require.NoError(t, c.do(&gpu.Copy{Dst: at, Src: vram.Base, Width: 8, Height: 1}).Err, "into the variable")
		require.NoError(t, m.Close())
		_, err = m.Function("store")
		require.ErrorIs(t, err, gpu.ErrClosed)
		require.NoError(t, c.ctx.Err())
	})
}

// Machine code that is refused is the guest's error; what ends the driver ends that context alone.
func TestBadMachineCode(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	load := func(code []byte) error {
		_, err := c.ctx.LoadModule(context.Background(), "code", code, nil)
		return err
	}
	refused := func(err error) {
		t.Helper()
		_, ok := errors.AsType[*gpu.BuildError](err)
		require.True(t, ok, "%v", err)
		require.NoError(t, c.ctx.Err())
	}
	refused(load(fakeCubin(1)))
	refused(load(fakeCubin(0)[:63]))
	refused(load([]byte("\x50\xed\x55\xba")))
	noise := fakeCubin(0)
	binary.LittleEndian.PutUint64(noise[40:], 1<<40)
	noise[58], noise[60] = 64, 3
	refused(load(noise))

	require.Error(t, load(fakeCubin(2)))
	_, lost := errors.AsType[*gpu.LostError](c.ctx.Err())
	require.True(t, lost, "%v", c.ctx.Err())

	c.open() // the next context
	ctx, cancel := context.WithCancelCause(context.Background())
	late := errors.New("too late")
	time.AfterFunc(50*time.Millisecond, func() { cancel(late) })
	_, err := c.ctx.LoadModule(ctx, "code", fakeCubin(3), nil)
	require.ErrorIs(t, err, late)
	_, lost = errors.AsType[*gpu.LostError](c.ctx.Err())
	require.True(t, lost)
}

// PTX that package ptx cannot read is left to the driver.
func TestUnreadPTX(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	m, err := c.ctx.LoadModule(context.Background(), "new.ptx", []byte(".version 99.9\n.target sm_50\n.address_size 64\n.newdirective store;\n"), nil)
	require.NoError(t, err)
	_, err = m.Function("store")
	require.ErrorIs(t, err, gpu.ErrUnsupported, "the fake does not tell parameters of PTX")
	_, err = c.ctx.LoadModule(context.Background(), "bad.ptx", []byte(".version 99.9\nbogus\n"), nil)
	e, ok := errors.AsType[*gpu.BuildError](err)
	require.True(t, ok, "%v", err)
	require.Contains(t, e.Error(), "bogus")
}

// Clusters and cooperative launches reach the driver, and what it refuses has an error of its own.
func TestLaunchesWithAttributes(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	require.True(t, c.props.Cooperative)
	require.Equal(t, 8, c.props.MaxCluster)
	region, err := hostmem.New(4096)
	require.NoError(t, err)
	defer region.Release()
	sys, err := c.ctx.NewSystem([][]byte{region.Bytes()})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.ctx.Close()) }()
	require.NoError(t, c.ctx.Map(c.props.System.Base, sys, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
	another := func() { // a channel ends with what is refused
		c.ch, err = c.ctx.NewChannel()
		require.NoError(t, err)
	}
	params := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, c.props.System.Base), 1)
	launch := c.launch("store", params...)
	launch.Grid, launch.Cluster = [3]uint32{4, 1, 1}, [3]uint32{2, 2, 1}
	require.Error(t, c.do(launch).Err, "the grid is not a multiple")
	another()
	launch.Grid = [3]uint32{4, 2, 1}
	require.NoError(t, c.do(launch).Err)
	require.EqualValues(t, 12, binary.LittleEndian.Uint32(region.Bytes()[44:]), "8 threads, and 4 for the cluster")
	require.Zero(t, region.Bytes()[48])

	launch.Cluster, launch.Grid = [3]uint32{3, 1, 1}, [3]uint32{3, 1, 1}
	require.ErrorIs(t, c.do(launch).Err, gpu.ErrCluster)
	another()
	launch.Cluster, launch.Cooperative, launch.Grid = [3]uint32{}, true, [3]uint32{65, 1, 1}
	require.ErrorIs(t, c.do(launch).Err, gpu.ErrGridTooLarge)
	another()
	launch.Grid = [3]uint32{2, 1, 1}
	require.NoError(t, c.do(launch).Err)
	require.NoError(t, c.ctx.Err())
}

// What only the driver knows, the worker asks it.
func TestQuestions(t *testing.T) { wrappedToo(t, testQuestions) }

func testQuestions(t *testing.T, wrap wrapper) {
	c := newFakeClientOn(t, nvidia.Config{}, fakeWorker, wrap)
	on := c.ctx.(gpu.Asker)
	values := make([]uint64, 36)
	values[2], values[3], values[10], values[16], values[21] = 2, 0x10, 3, 64, 7
	got, err := on.Ask(gpu.AskTensorMap, nil, values)
	require.NoError(t, err)
	require.Len(t, got, 16)
	require.Equal(t, []uint64{0x10, 3, 64, 7 << 56}, []uint64{got[0], got[1], got[2], got[15]})
	values[0], values[9], values[30] = 1, 9, 5
	got, err = on.Ask(gpu.AskTensorMap, nil, values)
	require.NoError(t, err)
	require.Equal(t, []uint64{5, 9}, got[:2])
	values[0], values[2] = 0, 6
	_, err = on.Ask(gpu.AskTensorMap, nil, values)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	_, err = on.Ask(gpu.AskTensorMap, nil, values[:35])
	require.ErrorIs(t, err, gpu.ErrInvalid)

	f, err := c.mod.Function("store")
	require.NoError(t, err)
	shape := []uint64{8, 1, 1, 32, 1, 1, 4, 1, 1, 0}
	got, err = on.Ask(gpu.AskClusters, f, shape)
	require.NoError(t, err)
	require.Equal(t, []uint64{25}, got)
	got, err = on.Ask(gpu.AskClusterSize, f, shape)
	require.NoError(t, err)
	require.Equal(t, []uint64{8}, got)
	_, err = on.Ask(gpu.AskClusters, nil, shape)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	_, err = on.Ask(99, nil, nil)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	require.NoError(t, c.ctx.Err())
}
