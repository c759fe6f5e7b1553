package tests

import (
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// addOne adds one to n 32-bit words.
const addOne = `
.version 6.3
.target sm_70
.address_size 64
.global .align 4 .u32 answer = 42;
.visible .entry addone(.param .u64 p, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<7>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.u32 %p1, %r5, %r1;
	@%p1 bra DONE;
	cvta.to.global.u64 %rd2, %rd1;
	mul.wide.u32 %rd3, %r5, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.u32 %r6, [%rd4];
	add.u32 %r6, %r6, 1;
	st.global.u32 [%rd4], %r6;
DONE:
	ret;
}
.visible .entry forever()
{
LOOP:
	bra LOOP;
}
`

// program is a file with a channel, a mapped buffer in system memory and the module.
type program struct {
	*frontend.File
	channel uint32
	handle  uint32
	mem     []byte
	addr    uint64
	module  uint32
	addone  uint32
}

const bufferBytes = 64 << 10

func newProgram(t testing.TB, f *frontend.File) *program {
	t.Helper()
	p := &program{File: f}
	var err error
	p.channel, err = f.ChannelAlloc()
	require.NoError(t, err)
	p.handle, err = f.GemNew(bufferBytes, drm.DomainSystem, 0)
	require.NoError(t, err)
	p.mem, err = f.GemMap(p.handle)
	require.NoError(t, err)
	require.Len(t, p.mem, bufferBytes)
	p.addr = p.param(t, drm.ParamSystemBase)
	require.NoError(t, f.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: p.handle, Addr: p.addr, Range: bufferBytes}}, true))
	p.module, err = f.ModuleLoad("addone.ptx", []byte(addOne))
	require.NoError(t, err)
	var attr drm.FunctionAttributes
	p.addone, attr, err = f.ModuleFunction(p.module, "addone")
	require.NoError(t, err)
	require.Equal(t, []drm.FunctionParam{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}}, attr.Params)
	return p
}

func (p *program) param(t testing.TB, which drm.Param) uint64 {
	t.Helper()
	v, err := p.GetParam(which)
	require.NoError(t, err)
	return v
}

// launch encodes a launch of addone on n words.
func (p *program) launch(addr uint64, n uint32) []byte {
	params := binary.LittleEndian.AppendUint64(nil, addr)
	params = binary.LittleEndian.AppendUint32(params, n)
	return drm.LaunchCmd{Function: p.addone, Grid: [3]uint32{(n + 127) / 128, 1, 1}, Block: [3]uint32{128, 1, 1}, Params: params}.Append(nil)
}

// run executes a stream and waits for it.
func (p *program) run(stream []byte, waits ...drm.Point) error {
	seqno, err := p.Exec(p.channel, stream, waits)
	if err != nil {
		return err
	}
	return p.Wait(drm.Point{Channel: p.channel, Seqno: seqno}, patience)
}

func (p *program) word(i int) uint32 { return binary.LittleEndian.Uint32(p.mem[4*i:]) }

func TestLaunchThroughTheRing(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{}).open(t))
	const n = 1000
	for i := range n {
		binary.LittleEndian.PutUint32(p.mem[4*i:], uint32(i))
	}
	require.NoError(t, p.run(p.launch(p.addr, n)))
	for i := range n {
		require.EqualValues(t, i+1, p.word(i))
	}
	require.Zero(t, p.word(n), "beyond the end")
	addr, size, err := p.ModuleGlobal(p.module, "answer")
	require.NoError(t, err)
	require.EqualValues(t, 4, size)
	require.NoError(t, p.run(drm.CopyCmd{Dst: p.addr, Src: addr, Width: 4, Height: 1}.Append(nil)))
	require.EqualValues(t, 42, p.word(0))
}

func TestVRAMThroughTheRing(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{}).open(t))
	base, page := p.param(t, drm.ParamVRAMBase), p.param(t, drm.ParamVRAMPage)
	h, err := p.GemNew(1, drm.DomainVRAM, 0)
	require.NoError(t, err)
	size, err := p.GemSize(h)
	require.NoError(t, err)
	require.Equal(t, page, size)
	_, err = p.GemMap(h)
	require.ErrorIs(t, err, syscall.ENXIO)
	require.NoError(t, p.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: h, Addr: base, Range: page}}, false))

	var stream []byte
	stream = drm.FillCmd{Dst: base, Size: 4, Pattern: 7, Width: 4096, Height: 1}.Append(stream)
	stream = append(stream, p.launch(base, 1024)...)
	stream = drm.CopyCmd{Dst: p.addr, Src: base, Width: 4096, Height: 1}.Append(stream)
	stream = drm.TimestampCmd{Addr: p.addr + 8192}.Append(stream)
	require.NoError(t, p.run(stream))
	require.EqualValues(t, 8, p.word(0))
	require.EqualValues(t, 8, p.word(1023))
	require.NotZero(t, binary.LittleEndian.Uint64(p.mem[8192:]))

	used := p.param(t, drm.ParamVRAMUsed)
	require.GreaterOrEqual(t, used, page)
	require.NoError(t, p.GemClose(h))
	require.Less(t, p.param(t, drm.ParamVRAMUsed), used)
	require.Error(t, p.run(drm.CopyCmd{Dst: p.addr, Src: base, Width: 4, Height: 1}.Append(nil)), "the mapping went with the object")
}

func TestErrnos(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{VRAMBytes: 64 << 20}).open(t))
	fail := func(want syscall.Errno, err error) {
		t.Helper()
		require.ErrorIs(t, err, want)
	}
	_, err := p.GemNew(0, drm.DomainVRAM, 0)
	fail(syscall.EINVAL, err)
	_, err = p.GemNew(4096, 9, 0)
	fail(syscall.EINVAL, err)
	_, err = p.GemNew(1<<30, drm.DomainVRAM, 0)
	fail(syscall.ENOMEM, err)
	fail(syscall.ENOENT, p.GemClose(999))
	fail(syscall.ENOENT, p.ChannelFree(999))
	_, err = p.Exec(999, nil, nil)
	fail(syscall.ENOENT, err)
	_, err = p.Exec(p.channel, make([]byte, drm.MaxExecBytes+8), nil)
	fail(syscall.E2BIG, err)
	fail(syscall.EINVAL, p.Wait(drm.Point{Channel: p.channel, Seqno: 99}, 0))
	_, err = p.GetParam(9999)
	fail(syscall.EINVAL, err)
	_, _, err = p.ModuleFunction(p.module, "nothing")
	fail(syscall.ENOENT, err)
	_, _, err = p.ModuleGlobal(p.module, "nothing")
	fail(syscall.ENOENT, err)
	_, err = p.ModuleLoad("bad.ptx", []byte(".version 6.3\n.target sm_70\n.address_size 64\n.entry x() { bogus.u32 %r1; }\n"))
	fail(syscall.ENOEXEC, err)
	var refused *drm.ModuleError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Log, "bad.ptx:4")

	window := p.param(t, drm.ParamSystemBase)
	for name, op := range map[string]struct {
		op   drm.BindOp
		want syscall.Errno
	}{
		"unknown operation": {drm.BindOp{Op: 7}, syscall.EINVAL},
		"no such object":    {drm.BindOp{Op: drm.BindMap, Handle: 999, Addr: window, Range: 4096}, syscall.ENOENT},
		"outside window":    {drm.BindOp{Op: drm.BindMap, Handle: p.handle, Addr: 4096, Range: 4096}, syscall.EINVAL},
		"wraps around":      {drm.BindOp{Op: drm.BindMap, Handle: p.handle, Addr: window, Range: ^uint64(4095)}, syscall.EINVAL},
		"beyond object":     {drm.BindOp{Op: drm.BindMap, Handle: p.handle, Addr: window + 1<<20, BOOffset: 4096, Range: bufferBytes}, syscall.EINVAL},
		"overlap":           {drm.BindOp{Op: drm.BindMap, Handle: p.handle, Addr: window, Range: 4096}, syscall.EEXIST},
		"unmap of nothing":  {drm.BindOp{Op: drm.BindUnmap, Addr: window + 1<<30, Range: 4096}, syscall.ENOENT},
		"unknown flags":     {drm.BindOp{Op: drm.BindMap, Flags: 8, Handle: p.handle, Addr: window + 1<<20, Range: 4096}, syscall.EINVAL},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, p.VMBind([]drm.BindOp{op.op}, false), op.want)
			// The same without an answer: the next wait tells.
			require.NoError(t, p.VMBind([]drm.BindOp{op.op}, true))
			require.ErrorIs(t, p.run(nil), op.want)
			require.NoError(t, p.run(nil), "told once")
		})
	}
	require.NoError(t, p.run(p.launch(p.addr, 1)), "the file works after all that")
}

func TestFailedBatchCancelsItsChannel(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{}).open(t))
	other, err := p.ChannelAlloc()
	require.NoError(t, err)
	good, err := p.Exec(p.channel, p.launch(p.addr, 1), nil)
	require.NoError(t, err)
	bad, err := p.Exec(p.channel, append(p.launch(p.addr, 1), 1, 2, 3, 4, 5, 6, 7, 8), nil)
	require.NoError(t, err)
	after, err := p.Exec(p.channel, p.launch(p.addr, 1), nil)
	require.NoError(t, err)
	beside, err := p.Exec(other, p.launch(p.addr+4, 1), []drm.Point{{Channel: p.channel, Seqno: after}})
	require.NoError(t, err)
	require.NoError(t, p.Wait(drm.Point{Channel: other, Seqno: beside}, -1), "another channel goes on")
	require.NoError(t, p.Wait(drm.Point{Channel: p.channel, Seqno: good}, -1))
	err = p.Wait(drm.Point{Channel: p.channel, Seqno: bad}, -1)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "command 1")
	err = p.Wait(drm.Point{Channel: p.channel, Seqno: after}, -1)
	require.ErrorContains(t, err, "canceled")
	require.EqualValues(t, 1, p.word(0), "only the first batch ran: a batch that is wrong has no effect")
	require.EqualValues(t, 1, p.word(1))
	require.NoError(t, p.ChannelFree(p.channel))
	p.channel, err = p.ChannelAlloc()
	require.NoError(t, err)
	require.NoError(t, p.run(p.launch(p.addr, 1)), "a new channel works")
}

func TestFaultEndsTheContextOnly(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	p, q := newProgram(t, h.open(t)), newProgram(t, h.open(t))
	err := p.run(p.launch(p.addr+bufferBytes-4, 2))
	require.ErrorIs(t, err, syscall.EIO)
	cause, text, err := p.LostStatus()
	require.NoError(t, err)
	require.EqualValues(t, gpu.LostAddress, cause)
	require.Contains(t, text, "addone")
	require.Contains(t, text, fmt.Sprintf("0x%x", p.addr+bufferBytes))
	require.Contains(t, text, "thread (1,0,0)")
	require.ErrorIs(t, p.run(p.launch(p.addr, 1)), syscall.EIO, "the context stays lost")
	require.NoError(t, q.run(q.launch(q.addr, 1)), "the neighbour did not notice")
	require.NoError(t, p.Close())
	again := newProgram(t, h.open(t))
	require.NoError(t, again.run(again.launch(again.addr, 1)))
}

func TestEndlessKernelIsAborted(t *testing.T) {
	h := startHost(t, softgpu.Config{LaunchLimit: 100 * time.Millisecond})
	p := newProgram(t, h.open(t))
	f, _, err := p.ModuleFunction(p.module, "forever")
	require.NoError(t, err)
	err = p.run(drm.LaunchCmd{Function: f, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{64, 1, 1}}.Append(nil))
	require.ErrorIs(t, err, syscall.EIO)
	cause, _, err := p.LostStatus()
	require.NoError(t, err)
	require.EqualValues(t, gpu.LostTimeout, cause)
	q := newProgram(t, h.open(t))
	require.NoError(t, q.run(q.launch(q.addr, 1)))
}

func TestCloseWhileRunning(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	p := newProgram(t, h.open(t))
	f, _, err := p.ModuleFunction(p.module, "forever")
	require.NoError(t, err)
	_, err = p.Exec(p.channel, drm.LaunchCmd{Function: f, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{64, 1, 1}}.Append(nil), nil)
	require.NoError(t, err)
	require.ErrorIs(t, p.Wait(drm.Point{Channel: p.channel, Seqno: 1}, 20*time.Millisecond), syscall.ETIME)
	require.NoError(t, p.Close())
	q := newProgram(t, h.open(t))
	require.NoError(t, q.run(q.launch(q.addr, 1)), "the GPU is free again")
}

func TestManyThreadsOneFile(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{}).open(t))
	const threads, rounds = 8, 50
	var all sync.WaitGroup
	errs := make(chan error, threads)
	for i := range threads {
		all.Go(func() {
			ch, err := p.ChannelAlloc()
			for range rounds {
				if err != nil {
					break
				}
				var seqno uint64
				if seqno, err = p.Exec(ch, p.launch(p.addr+uint64(4*i), 1), nil); err == nil {
					err = p.Wait(drm.Point{Channel: ch, Seqno: seqno}, -1)
				}
			}
			errs <- err
		})
	}
	all.Wait()
	for range threads {
		require.NoError(t, <-errs)
	}
	for i := range threads {
		require.EqualValues(t, rounds, p.word(i))
	}
}

func TestMoreWorkThanTheRingHolds(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{}).open(t))
	const batches = 5000
	var last uint64
	for range batches {
		var err error
		last, err = p.Exec(p.channel, p.launch(p.addr, 1), nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, batches, last)
	require.NoError(t, p.Wait(drm.Point{Channel: p.channel, Seqno: last}, -1))
	require.EqualValues(t, batches, p.word(0))
}

func TestPrimeSharesPages(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	p, q := newProgram(t, h.open(t)), newProgram(t, h.open(t))
	fd, err := p.PrimeExport(p.handle)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	shared, err := q.PrimeImport(fd)
	require.NoError(t, err)
	mem, err := q.GemMap(shared)
	require.NoError(t, err)
	require.Len(t, mem, bufferBytes)
	require.NoError(t, p.run(p.launch(p.addr, 4)))
	require.EqualValues(t, 1, mem[0], "one process sees what the other's kernel wrote")
	require.NoError(t, p.Close())
	mem[4] = 9 // the memory lives while one of them has it
	stranger, err := unix.MemfdCreate("stranger", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(stranger)) }()
	_, err = q.PrimeImport(stranger)
	require.ErrorIs(t, err, syscall.EINVAL, "memory that the backend did not grant")
}

func TestNoSecretsInNewMemory(t *testing.T) {
	h := startHost(t, softgpu.Config{VRAMBytes: 64 << 20})
	for range 3 {
		p := newProgram(t, h.open(t))
		for _, b := range p.mem {
			require.Zero(t, b, "granted memory is zeroed")
		}
		base, size := p.param(t, drm.ParamVRAMBase), uint64(8<<20)
		v, err := p.GemNew(size, drm.DomainVRAM, 0)
		require.NoError(t, err)
		require.NoError(t, p.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: v, Addr: base, Range: size}}, true))
		for at := uint64(0); at < size; at += bufferBytes {
			require.NoError(t, p.run(drm.CopyCmd{Dst: p.addr, Src: base + at, Width: bufferBytes, Height: 1}.Append(nil)))
			for _, b := range p.mem {
				require.Zero(t, b, "VRAM is zeroed")
			}
		}
		require.NoError(t, p.run(drm.FillCmd{Dst: base, Size: 1, Pattern: 0xa5, Width: size, Height: 1}.Append(nil)))
		require.NoError(t, p.Close())
	}
}

// A file counts what it sends and grants (TestDoorbellsOnlyWhenTheBackendSleeps: and rings seldom).
func TestCounters(t *testing.T) {
	p := newProgram(t, startHost(t, softgpu.Config{}).open(t))
	require.NoError(t, p.run(p.launch(p.addr, 1)))
	c, err := p.Counters()
	require.NoError(t, err)
	require.NotZero(t, c.Doorbells)
	require.NotZero(t, c.Requests)
	require.NotZero(t, c.Grants)
}

func TestBackendGone(t *testing.T) {
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20})
	require.NoError(t, err)
	h := startHostOn(t, device)
	p := newProgram(t, h.open(t))
	f, _, err := p.ModuleFunction(p.module, "forever")
	require.NoError(t, err)
	_, err = p.Exec(p.channel, drm.LaunchCmd{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}.Append(nil), nil)
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() { waited <- p.Wait(drm.Point{Channel: p.channel, Seqno: 1}, -1) }()
	require.NoError(t, h.stop())
	require.Error(t, <-waited, "who waits is told")
	require.ErrorIs(t, p.run(nil), syscall.ENODEV)
	_, err = p.GemNew(4096, drm.DomainVRAM, 0)
	require.ErrorIs(t, err, syscall.ENODEV)
}
