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

const size = 16 << 10 // of each object

// edgeProgram does what programs do, and what they should not.
type edgeProgram struct {
	drm.File
	t            *testing.T
	system, vram uint64 // the windows
	sys, dev     uint32 // an object in each
	mem          []byte // of sys
	channel      uint32
	module       uint32
	bump         uint32
	counter      uint64
}

func edges(t *testing.T, f drm.File) {
	t.Helper()
	e := &edgeProgram{File: f, t: t}
	_, err := f.GetParam(0)
	require.Error(t, err)
	e.system, e.vram = e.param(drm.ParamSystemBase), e.param(drm.ParamVRAMBase)
	e.param(drm.ParamSystemSize)
	e.param(drm.ParamVRAMSize)
	e.objects()
	e.code()
	e.work()
	e.malformed()
	e.fault()
	require.NoError(t, f.ModuleUnload(e.module))
	require.NoError(t, f.GemClose(e.dev))
	require.NoError(t, f.GemClose(e.sys))
	require.NoError(t, f.Close())
}

func (e *edgeProgram) param(p drm.Param) uint64 {
	v, err := e.GetParam(p)
	require.NoError(e.t, err)
	return v
}

// run queues commands and waits for them.
func (e *edgeProgram) run(channel uint32, stream []byte) error {
	seqno, err := e.Exec(channel, stream, nil)
	if err != nil {
		return err
	}
	return e.Wait(drm.Point{Channel: channel, Seqno: seqno}, time.Minute)
}

// launch is the command that adds 1 to each of n numbers.
func (e *edgeProgram) launch(addr uint64, n uint32) []byte {
	params := binary.LittleEndian.AppendUint64(nil, addr)
	params = binary.LittleEndian.AppendUint32(params, n)
	return drm.LaunchCmd{Function: e.bump, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{128, 1, 1}, Params: params}.Append(nil)
}

// objects makes and maps two objects.
func (e *edgeProgram) objects() {
	_, err := e.GemNew(0, drm.DomainSystem, 0)
	require.Error(e.t, err)
	_, err = e.GemNew(4096, 7, 0)
	require.Error(e.t, err)
	_, err = e.GemNew(1<<60, drm.DomainVRAM, 0)
	require.Error(e.t, err)
	e.sys, err = e.GemNew(size, drm.DomainSystem, 0)
	require.NoError(e.t, err)
	e.dev, err = e.GemNew(size, drm.DomainVRAM, 0)
	require.NoError(e.t, err)
	_, err = e.GemMap(e.dev)
	require.Error(e.t, err)
	_, err = e.GemMap(99)
	require.Error(e.t, err)
	e.mem, err = e.GemMap(e.sys)
	require.NoError(e.t, err)
	_, err = e.GemSize(98)
	require.Error(e.t, err)

	bind := func(ops ...drm.BindOp) error { return e.VMBind(ops, false) }
	require.NoError(e.t, bind(drm.BindOp{Op: drm.BindMap, Handle: e.sys, Addr: e.system, Range: size}, drm.BindOp{Op: drm.BindMap, Handle: e.dev, Addr: e.vram, Range: size}))
	require.Error(e.t, bind(drm.BindOp{Op: drm.BindMap, Handle: e.sys, Addr: e.system, Range: size}), "taken")
	require.Error(e.t, bind(drm.BindOp{Op: drm.BindMap, Handle: 97, Addr: e.system + 1<<20, Range: 4096}))
	require.Error(e.t, bind(drm.BindOp{Op: drm.BindUnmap, Addr: e.system + 1<<20, Range: 4096}), "nothing is mapped there")
}

// code makes a channel and loads a module.
func (e *edgeProgram) code() {
	var err error
	e.channel, err = e.ChannelAlloc()
	require.NoError(e.t, err)
	require.Error(e.t, e.ChannelFree(96))
	_, err = e.ModuleLoad("wrong.ptx", []byte(".version 6.3\n.target sm_70\nnonsense;\n"))
	require.Error(e.t, err)
	e.module, err = e.ModuleLoad("edges.ptx", []byte(kernels))
	require.NoError(e.t, err)
	_, _, err = e.ModuleFunction(e.module, "nobody")
	require.Error(e.t, err)
	e.bump, _, err = e.ModuleFunction(e.module, "bump")
	require.NoError(e.t, err)
	e.counter, _, err = e.ModuleGlobal(e.module, "counter")
	require.NoError(e.t, err)
}

// work runs a kernel and copies.
func (e *edgeProgram) work() {
	for i := range e.mem {
		e.mem[i] = byte(i * 7)
	}
	require.NoError(e.t, e.run(e.channel, e.launch(e.system, 100)))
	copies := drm.CopyCmd{Dst: e.vram, Src: e.system, Width: size, Height: 1}.Append(nil)
	copies = drm.CopyCmd{Dst: e.system + 4096, Src: e.vram, Width: 1000, Height: 1}.Append(copies)
	copies = drm.CopyCmd{Dst: e.system + 8192, Src: e.counter, Width: 8, Height: 1}.Append(copies)
	copies = drm.FillCmd{Dst: e.system + 12288, Pattern: 0xabcd, Size: 2, Width: 64, Height: 3, Pitch: 256}.Append(copies)
	require.NoError(e.t, e.run(e.channel, copies))
	require.Equal(e.t, byte(40), e.mem[8192])
	binary.LittleEndian.PutUint32(e.mem[12000:], 17) // beside what is in flight
	require.NoError(e.t, e.run(e.channel, nil), "an empty batch")
	_, err := e.Exec(e.channel, make([]byte, drm.MaxExecBytes+8), nil)
	require.Error(e.t, err)
	require.Error(e.t, e.Wait(drm.Point{Channel: e.channel, Seqno: 99}, 0))
}

// malformed gives a channel a malformed command, which fails it and no other.
func (e *edgeProgram) malformed() {
	bad, err := e.ChannelAlloc()
	require.NoError(e.t, err)
	require.Error(e.t, e.run(bad, []byte{1, 2, 3}))
	require.Error(e.t, e.run(bad, e.launch(e.system, 1)), "canceled")
	require.NoError(e.t, e.run(e.channel, e.launch(e.system, 1)))
	require.NoError(e.t, e.ChannelFree(bad))
}

// fault loses the context.
func (e *edgeProgram) fault() {
	_, _, err := e.LostStatus()
	require.NoError(e.t, err)
	require.Error(e.t, e.run(e.channel, e.launch(8, 1)))
	_, _, err = e.LostStatus()
	require.NoError(e.t, err)
	require.Error(e.t, e.run(e.channel, e.launch(e.system, 1)))
}
