package replay

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
)

const kernels = `
.version 6.3
.target sm_70
.address_size 64
.global .align 8 .u64 counter = 40;
.visible .entry bump(.param .u64 p, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.ge.u32 %p1, %r2, %r1;
	@%p1 bra DONE;
	mul.wide.u32 %rd2, %r2, 4;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.u32 %r3, [%rd3];
	add.u32 %r3, %r3, 1;
	st.global.u32 [%rd3], %r3;
DONE:
	ret;
}
`

// edges does what programs do, and what they should not.
func edges(t *testing.T, f drm.File) {
	t.Helper()
	param := func(p drm.Param) uint64 {
		v, err := f.GetParam(p)
		require.NoError(t, err)
		return v
	}
	_, err := f.GetParam(0)
	require.Error(t, err)
	system, vram := param(drm.ParamSystemBase), param(drm.ParamVRAMBase)
	param(drm.ParamSystemSize)
	param(drm.ParamVRAMSize)

	_, err = f.GemNew(0, drm.DomainSystem, 0)
	require.Error(t, err)
	_, err = f.GemNew(4096, 7, 0)
	require.Error(t, err)
	_, err = f.GemNew(1<<60, drm.DomainVRAM, 0)
	require.Error(t, err)
	const size = 16 << 10
	sys, err := f.GemNew(size, drm.DomainSystem, 0)
	require.NoError(t, err)
	dev, err := f.GemNew(size, drm.DomainVRAM, 0)
	require.NoError(t, err)
	_, err = f.GemMap(dev)
	require.Error(t, err)
	_, err = f.GemMap(99)
	require.Error(t, err)
	mem, err := f.GemMap(sys)
	require.NoError(t, err)
	_, err = f.GemSize(98)
	require.Error(t, err)

	bind := func(ops ...drm.BindOp) error { return f.VMBind(ops, false) }
	require.NoError(t, bind(drm.BindOp{Op: drm.BindMap, Handle: sys, Addr: system, Range: size}, drm.BindOp{Op: drm.BindMap, Handle: dev, Addr: vram, Range: size}))
	require.Error(t, bind(drm.BindOp{Op: drm.BindMap, Handle: sys, Addr: system, Range: size}), "taken")
	require.Error(t, bind(drm.BindOp{Op: drm.BindMap, Handle: 97, Addr: system + 1<<20, Range: 4096}))
	require.Error(t, bind(drm.BindOp{Op: drm.BindUnmap, Addr: system + 1<<20, Range: 4096}), "nothing is mapped there")

	ch, err := f.ChannelAlloc()
	require.NoError(t, err)
	require.Error(t, f.ChannelFree(96))
	_, err = f.ModuleLoad("wrong.ptx", []byte(".version 6.3\n.target sm_70\nnonsense;\n"))
	require.Error(t, err)
	mod, err := f.ModuleLoad("edges.ptx", []byte(kernels))
	require.NoError(t, err)
	_, _, err = f.ModuleFunction(mod, "nobody")
	require.Error(t, err)
	bump, _, err := f.ModuleFunction(mod, "bump")
	require.NoError(t, err)
	counter, _, err := f.ModuleGlobal(mod, "counter")
	require.NoError(t, err)

	run := func(channel uint32, stream []byte) error {
		seqno, err := f.Exec(channel, stream, nil)
		if err != nil {
			return err
		}
		return f.Wait(drm.Point{Channel: channel, Seqno: seqno}, time.Minute)
	}
	launch := func(addr uint64, n uint32) []byte {
		params := binary.LittleEndian.AppendUint64(nil, addr)
		params = binary.LittleEndian.AppendUint32(params, n)
		return drm.LaunchCmd{Function: bump, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{128, 1, 1}, Params: params}.Append(nil)
	}
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	require.NoError(t, run(ch, launch(system, 100)))
	copies := drm.CopyCmd{Dst: vram, Src: system, Width: size, Height: 1}.Append(nil)
	copies = drm.CopyCmd{Dst: system + 4096, Src: vram, Width: 1000, Height: 1}.Append(copies)
	copies = drm.CopyCmd{Dst: system + 8192, Src: counter, Width: 8, Height: 1}.Append(copies)
	copies = drm.FillCmd{Dst: system + 12288, Pattern: 0xabcd, Size: 2, Width: 64, Height: 3, Pitch: 256}.Append(copies)
	require.NoError(t, run(ch, copies))
	require.Equal(t, byte(40), mem[8192])
	binary.LittleEndian.PutUint32(mem[12000:], 17) // beside what is in flight
	require.NoError(t, run(ch, nil), "an empty batch")
	_, err = f.Exec(ch, make([]byte, drm.MaxExecBytes+8), nil)
	require.Error(t, err)
	require.Error(t, f.Wait(drm.Point{Channel: ch, Seqno: 99}, 0))

	// A malformed command fails its channel and no other.
	bad, err := f.ChannelAlloc()
	require.NoError(t, err)
	require.Error(t, run(bad, []byte{1, 2, 3}))
	require.Error(t, run(bad, launch(system, 1)), "canceled")
	require.NoError(t, run(ch, launch(system, 1)))
	require.NoError(t, f.ChannelFree(bad))

	// A fault loses the context.
	_, _, err = f.LostStatus()
	require.NoError(t, err)
	require.Error(t, run(ch, launch(8, 1)))
	_, _, err = f.LostStatus()
	require.NoError(t, err)
	require.Error(t, run(ch, launch(system, 1)))
	require.NoError(t, f.ModuleUnload(mod))
	require.NoError(t, f.GemClose(dev))
	require.NoError(t, f.GemClose(sys))
	require.NoError(t, f.Close())
}
