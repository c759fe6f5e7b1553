package tests

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// willing launches a kernel that never ends, with a signal, on a channel of its own.
func (p *program) willing(t testing.TB, signal uint64) drm.Point {
	t.Helper()
	f, _, err := p.ModuleFunction(p.module, "forever")
	require.NoError(t, err)
	ch, err := p.ChannelAlloc()
	require.NoError(t, err)
	seqno, err := p.Exec(ch, drm.LaunchCmd{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Signal: signal}.Append(nil), nil)
	require.NoError(t, err)
	return drm.Point{Channel: ch, Seqno: seqno}
}

// Signals that are no word of granted memory of the same file are refused, whatever else they are, and nothing is
// stored anywhere.
func TestHostileSignals(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	p, neighbour := newProgram(t, h.open(t)), newProgram(t, h.open(t))
	base := p.param(t, drm.ParamVRAMBase)
	vram, err := p.GemNew(1<<20, drm.DomainVRAM, drm.GemNoShare)
	require.NoError(t, err)
	require.NoError(t, p.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: vram, Addr: base, Range: 1 << 20}}, true))
	for i := range p.mem {
		p.mem[i] = 0xa5
	}
	for name, signal := range map[string]uint64{
		"unaligned": p.addr + 2, "VRAM": base, "behind the object": p.addr + uint64(len(p.mem)),
		"outside all windows": 4096, "at the end": ^uint64(3), "far away": p.addr + 1<<33,
	} {
		require.ErrorIs(t, p.Wait(p.willing(t, signal), patience), syscall.EINVAL, name)
	}
	for _, b := range p.mem {
		require.EqualValues(t, 0xa5, b)
	}
	clear(p.mem)
	require.NoError(t, p.run(p.launch(p.addr, 1)), "the file lives")
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 1)))
}

// The memory of a signal may go away while the kernel runs. Nothing is stored there from then on, whoever has
// it next, and the kernel, which never looks, is ended at its limit. Others get the GPU before.
func TestSignalGoesAway(t *testing.T) {
	h := startHost(t, softgpu.Config{LaunchLimit: 2 * time.Second})
	p, neighbour := newProgram(t, h.open(t)), newProgram(t, h.open(t))
	signal := p.addr + uint64(len(p.mem)) - 4
	at := p.willing(t, signal)
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr, 1)), "it does not notice")
	require.Eventually(t, func() bool { return binary.LittleEndian.Uint32(p.mem[len(p.mem)-4:]) == 1 }, patience, time.Millisecond)
	require.NoError(t, p.VMBind([]drm.BindOp{{Op: drm.BindUnmap, Addr: p.addr, Range: uint64(len(p.mem))}}, false))
	clear(p.mem)
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr+4, 1)))
	require.ErrorIs(t, p.Wait(at, patience), syscall.EIO)
	cause, _, err := p.LostStatus()
	require.NoError(t, err)
	require.EqualValues(t, gpu.LostTimeout, cause)
	require.Zero(t, binary.LittleEndian.Uint32(p.mem[len(p.mem)-4:]), "it was unmapped")
	require.NoError(t, neighbour.run(neighbour.launch(neighbour.addr+8, 1)))
	require.EqualValues(t, []uint32{1, 1, 1}, []uint32{neighbour.word(0), neighbour.word(1), neighbour.word(2)})
}
