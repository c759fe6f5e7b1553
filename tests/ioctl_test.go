package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/gpu/softgpu"
)

// userMemory is the memory of a program: one range at userBase.
type userMemory []byte

const userBase = 0x7f0000000000

func (m userMemory) at(addr uint64, n int) ([]byte, error) {
	if addr < userBase || addr-userBase > uint64(len(m)) || uint64(n) > uint64(len(m))-(addr-userBase) {
		return nil, syscall.EFAULT
	}
	return m[addr-userBase:][:n], nil
}

func (m userMemory) Read(addr uint64, b []byte) error {
	src, err := m.at(addr, len(b))
	copy(b, src)
	return err
}

func (m userMemory) Write(addr uint64, b []byte) error {
	dst, err := m.at(addr, len(b))
	copy(dst, b)
	return err
}

// caller makes ioctls as a C program would.
type caller struct {
	file *frontend.File
	mem  userMemory
	next int
}

// put places bytes in the program's memory and returns their address.
func (c *caller) put(b []byte) uint64 {
	at := c.next
	c.next += copy(c.mem[at:], b)
	c.next = (c.next + 7) &^ 7
	return userBase + uint64(at)
}

// call makes one ioctl; arg is a pointer to its struct.
func (c *caller) call(req drm.Request, arg any) error {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, arg); err != nil {
		return err
	}
	raw := b.Bytes()
	err := c.file.Ioctl(req, raw, c.mem)
	return errors.Join(err, binary.Read(bytes.NewReader(raw), binary.LittleEndian, arg))
}

func packed(v any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		panic(err) // the types are ours
	}
	return b.Bytes()
}

// bareProgram is a compute program that makes bare ioctls only, and notes which.
type bareProgram struct {
	caller
	t      *testing.T
	host   *host
	called map[string]bool
}

func (p *bareProgram) do(req drm.Request, arg any) {
	p.t.Helper()
	p.called[req.String()] = true
	require.NoError(p.t, p.call(req, arg), req.String())
}

// identify asks for the driver's name and capabilities.
func (p *bareProgram) identify() {
	name, desc := p.put(make([]byte, 16)), p.put(make([]byte, 64))
	v := &drm.Version{NameLen: 16, Name: name, DescLen: 64, Desc: desc}
	p.do(drm.IoctlVersion, v)
	require.Equal(p.t, "pvdrm", string(p.mem[name-userBase:][:v.NameLen]))
	require.Contains(p.t, string(p.mem[desc-userBase:][:v.DescLen]), "softgpu")
	capability := &drm.GetCap{Capability: drm.CapSyncobj}
	p.do(drm.IoctlGetCap, capability)
	require.EqualValues(p.t, 1, capability.Value)
}

// object makes an object in system memory and maps it, into the program too.
func (p *bareProgram) object(window uint64) (obj *drm.GemNew, pages []byte) {
	obj = &drm.GemNew{Size: 5000, Domain: drm.DomainSystem}
	p.do(drm.IoctlGemNew, obj)
	require.EqualValues(p.t, 8192, obj.Size)
	require.NotZero(p.t, obj.MapOffset)
	info := &drm.GemInfo{Handle: obj.Handle}
	p.do(drm.IoctlGemInfo, info)
	require.Equal(p.t, obj.MapOffset, info.MapOffset)
	require.Equal(p.t, drm.DomainSystem, info.Domain)
	pages, err := p.file.GemMap(obj.Handle)
	require.NoError(p.t, err)
	ops := p.put(packed([]drm.BindOp{{Op: drm.BindMap, Handle: obj.Handle, Addr: window, Range: 8192}}))
	p.do(drm.IoctlVMBind, &drm.VMBind{Count: 1, Ops: ops})
	return obj, pages
}

// load loads a module and finds its kernel.
func (p *bareProgram) load() (mod *drm.ModuleLoad, fn *drm.ModuleFunction) {
	source := p.put([]byte(addOne))
	mod = &drm.ModuleLoad{Source: source, SourceBytes: uint64(len(addOne)), Name: p.put([]byte("bare.ptx\x00"))}
	p.do(drm.IoctlModuleLoad, mod)
	params := p.put(make([]byte, 32))
	fn = &drm.ModuleFunction{Module: mod.Module, Name: p.put([]byte("addone")), NameBytes: 6, ParamCount: 4, Params: params}
	p.do(drm.IoctlModuleFunction, fn)
	require.EqualValues(p.t, 2, fn.ParamCount)
	require.EqualValues(p.t, 8, binary.LittleEndian.Uint32(p.mem[params-userBase+8:]), "offset of the second parameter")
	global := &drm.ModuleGlobal{Module: mod.Module, Name: p.put([]byte("answer")), NameBytes: 6}
	p.do(drm.IoctlModuleGlobal, global)
	require.EqualValues(p.t, 4, global.Size)
	return mod, fn
}

// compute launches the kernel, which waits for one sync object and signals another, and
// waits in each of the ways that there are.
func (p *bareProgram) compute(fn *drm.ModuleFunction, window uint64, obj *drm.GemNew, pages []byte) {
	ch := &drm.Channel{}
	p.do(drm.IoctlChannelAlloc, ch)
	syncs := [2]*drm.SyncobjCreate{{}, {Flags: drm.SyncobjCreateSignaled}}
	p.do(drm.IoctlSyncobjCreate, syncs[0])
	p.do(drm.IoctlSyncobjCreate, syncs[1])
	handles := p.put(packed([]uint32{syncs[0].Handle, syncs[1].Handle}))
	args := binary.LittleEndian.AppendUint32(packed(window), 3)
	stream := drm.LaunchCmd{Function: fn.Function, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: args}.Append(nil)
	exec := &drm.Exec{Channel: ch.Channel, Commands: p.put(stream), CmdBytes: uint32(len(stream)),
		WaitCount: 1, Waits: handles + 4, SignalCount: 1, Signals: handles}
	p.do(drm.IoctlExec, exec)
	require.EqualValues(p.t, 1, exec.Seqno)
	p.do(drm.IoctlWait, &drm.Wait{Channel: ch.Channel, Seqno: exec.Seqno, TimeoutNS: -1})
	var now unix.Timespec
	require.NoError(p.t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	p.do(drm.IoctlSyncobjWait, &drm.SyncobjWait{Handles: handles, Count: 2, Flags: drm.SyncobjWaitAll, TimeoutNS: now.Nano() + int64(time.Minute)})
	p.do(drm.IoctlGemCPUPrep, &drm.GemCPUPrep{Handle: obj.Handle, TimeoutNS: -1})
	require.Equal(p.t, []byte{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}, pages[:13])
	p.do(drm.IoctlGemCPUFini, &drm.GemCPUFini{Handle: obj.Handle})

	p.do(drm.IoctlSyncobjReset, &drm.SyncobjArray{Handles: handles, Count: 2})
	require.ErrorIs(p.t, p.call(drm.IoctlSyncobjWait, &drm.SyncobjWait{Handles: handles, Count: 2}), syscall.EINVAL, "no fence")
	p.do(drm.IoctlSyncobjSignal, &drm.SyncobjArray{Handles: handles, Count: 2})
	p.do(drm.IoctlSyncobjWait, &drm.SyncobjWait{Handles: handles, Count: 2})
	p.do(drm.IoctlSyncobjDestroy, &drm.SyncobjDestroy{Handle: syncs[0].Handle})
	p.do(drm.IoctlChannelFree, ch)
}

// share gives an object to another file of the program.
func (p *bareProgram) share(obj *drm.GemNew, pages []byte) {
	prime := &drm.PrimeHandle{Handle: obj.Handle}
	p.do(drm.IoctlPrimeHandleToFD, prime)
	other := &caller{file: p.host.open(p.t), mem: p.mem}
	again := &drm.PrimeHandle{FD: prime.FD}
	p.called[drm.IoctlPrimeFDToHandle.String()] = true
	require.NoError(p.t, other.call(drm.IoctlPrimeFDToHandle, again))
	shared, err := other.file.GemMap(again.Handle)
	require.NoError(p.t, err)
	require.Equal(p.t, pages[:13], shared[:13])
	require.NoError(p.t, unix.Close(int(prime.FD)))
}

// A program that makes each ioctl of the table at least once.
func TestProgramOfBareIoctls(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	p := &bareProgram{caller: caller{file: h.open(t), mem: make(userMemory, 1<<20)}, t: t, host: h, called: map[string]bool{}}
	p.identify()
	window := &drm.GetParam{Param: uint64(drm.ParamSystemBase)}
	p.do(drm.IoctlGetParam, window)
	obj, pages := p.object(window.Value)
	mod, fn := p.load()
	p.compute(fn, window.Value, obj, pages)
	p.share(obj, pages)

	status := &drm.Status{}
	p.do(drm.IoctlStatus, status)
	require.Zero(t, status.Cause)
	output := &drm.ReadOutput{TextBytes: 64, Text: 0}
	p.do(drm.IoctlReadOutput, output)
	require.Zero(t, output.TextBytes, "nothing was printed")
	p.do(drm.IoctlModuleUnload, &drm.ModuleUnload{Module: mod.Module})
	p.do(drm.IoctlGemClose, &drm.GemClose{Handle: obj.Handle})
	for _, e := range drm.Table {
		require.True(t, p.called[e.Name], "%s is not tested", e.Name)
	}
}

func TestIoctlErrors(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	c := &caller{file: h.open(t), mem: make(userMemory, 1<<16)}
	require.ErrorIs(t, c.file.Ioctl(0xc0106300, nil, c.mem), syscall.ENOTTY, "not a DRM ioctl")
	require.ErrorIs(t, c.file.Ioctl(0xc01064ee, nil, c.mem), syscall.ENOTTY, "no such number")
	ch := &drm.Channel{}
	require.NoError(t, c.call(drm.IoctlChannelAlloc, ch))
	const nowhere = 0x10
	for name, e := range map[string]struct {
		req  drm.Request
		arg  any
		want syscall.Errno
	}{
		"flags of exec":      {req: drm.IoctlExec, arg: &drm.Exec{Channel: ch.Channel, Flags: 1}, want: syscall.EINVAL},
		"commands nowhere":   {req: drm.IoctlExec, arg: &drm.Exec{Channel: ch.Channel, Commands: nowhere, CmdBytes: 8}, want: syscall.EFAULT},
		"too many commands":  {req: drm.IoctlExec, arg: &drm.Exec{Channel: ch.Channel, CmdBytes: 1 << 31}, want: syscall.E2BIG},
		"waits nowhere":      {req: drm.IoctlExec, arg: &drm.Exec{Channel: ch.Channel, Waits: nowhere, WaitCount: 1}, want: syscall.EFAULT},
		"too many waits":     {req: drm.IoctlExec, arg: &drm.Exec{Channel: ch.Channel, WaitCount: 1 << 31}, want: syscall.E2BIG},
		"ops nowhere":        {req: drm.IoctlVMBind, arg: &drm.VMBind{Count: 1, Ops: nowhere}, want: syscall.EFAULT},
		"too many ops":       {req: drm.IoctlVMBind, arg: &drm.VMBind{Count: 1 << 31, Ops: userBase}, want: syscall.E2BIG},
		"source nowhere":     {req: drm.IoctlModuleLoad, arg: &drm.ModuleLoad{Source: nowhere, SourceBytes: 10}, want: syscall.EFAULT},
		"source too large":   {req: drm.IoctlModuleLoad, arg: &drm.ModuleLoad{Source: userBase, SourceBytes: 1 << 40}, want: syscall.EFBIG},
		"no such module":     {req: drm.IoctlModuleFunction, arg: &drm.ModuleFunction{Module: 9, Name: userBase, NameBytes: 3}, want: syscall.ENOENT},
		"name too long":      {req: drm.IoctlModuleFunction, arg: &drm.ModuleFunction{Module: 9, Name: userBase, NameBytes: 1 << 20}, want: syscall.E2BIG},
		"no such handle":     {req: drm.IoctlGemInfo, arg: &drm.GemInfo{Handle: 77}, want: syscall.ENOENT},
		"prep of nothing":    {req: drm.IoctlGemCPUPrep, arg: &drm.GemCPUPrep{Handle: 77}, want: syscall.ENOENT},
		"fini of nothing":    {req: drm.IoctlGemCPUFini, arg: &drm.GemCPUFini{Handle: 77}, want: syscall.ENOENT},
		"flags of gem":       {req: drm.IoctlGemNew, arg: &drm.GemNew{Size: 1, Domain: drm.DomainSystem, Flags: 4}, want: syscall.EINVAL},
		"domain of gem":      {req: drm.IoctlGemNew, arg: &drm.GemNew{Size: 1, Domain: 3}, want: syscall.EINVAL},
		"size of gem":        {req: drm.IoctlGemNew, arg: &drm.GemNew{Size: ^uint64(0), Domain: drm.DomainVRAM}, want: syscall.EINVAL},
		"capability":         {req: drm.IoctlGetCap, arg: &drm.GetCap{Capability: 99}, want: syscall.EINVAL},
		"prime of nothing":   {req: drm.IoctlPrimeHandleToFD, arg: &drm.PrimeHandle{Handle: 77}, want: syscall.ENOENT},
		"prime of no fd":     {req: drm.IoctlPrimeFDToHandle, arg: &drm.PrimeHandle{FD: -1}, want: syscall.EBADF},
		"sync object":        {req: drm.IoctlSyncobjDestroy, arg: &drm.SyncobjDestroy{Handle: 77}, want: syscall.ENOENT},
		"wait for nothing":   {req: drm.IoctlSyncobjWait, arg: &drm.SyncobjWait{}, want: syscall.EINVAL},
		"flags of a syncobj": {req: drm.IoctlSyncobjCreate, arg: &drm.SyncobjCreate{Flags: 8}, want: syscall.EINVAL},
	} {
		require.ErrorIs(t, c.call(e.req, e.arg), e.want, name)
	}

	log := c.put(make([]byte, 200))
	bad := "\n.version 6.3\n.target sm_70\n.address_size 64\n.entry k() { nonsense; }\n"
	load := &drm.ModuleLoad{Source: c.put([]byte(bad)), SourceBytes: uint64(len(bad)), Log: log, LogBytes: 200, Name: c.put([]byte("k.ptx\x00"))}
	require.ErrorIs(t, c.call(drm.IoctlModuleLoad, load), syscall.ENOEXEC)
	require.Contains(t, string(c.mem[log-userBase:][:min(load.LogBytes, 200)]), "k.ptx:5")
}

// An argument that is shorter than the struct is extended with zeroes, and a
// longer one is cut, as Linux does for older and newer programs.
func TestIoctlOfAnotherSize(t *testing.T) {
	f := startHost(t, softgpu.Config{}).open(t)
	arg := make([]byte, 8)
	binary.LittleEndian.PutUint64(arg, uint64(drm.ParamWarpSize))
	require.NoError(t, f.Ioctl(drm.IoctlGetParam, arg, userMemory{}))
	long := make([]byte, 64)
	binary.LittleEndian.PutUint64(long, uint64(drm.ParamWarpSize))
	require.NoError(t, f.Ioctl(drm.IoctlGetParam, long, userMemory{}))
	require.EqualValues(t, 32, binary.LittleEndian.Uint64(long[8:]))
	require.ErrorIs(t, f.Ioctl(drm.IoctlGetParam, make([]byte, 4096), userMemory{}), syscall.EINVAL)
}

// FuzzIoctl makes arbitrary ioctls with arbitrary arguments on a file of a
// backend: an errno, never a panic or a hang, and the file works afterwards.
func FuzzIoctl(f *testing.F) {
	for i, e := range drm.Table {
		f.Add(uint8(i), make([]byte, e.Request.Size()), []byte(addOne))
	}
	f.Fuzz(func(t *testing.T, which uint8, arg, memory []byte) {
		device, err := softgpu.New(softgpu.Config{VRAMBytes: 16 << 20, LaunchLimit: 50 * time.Millisecond})
		require.NoError(t, err)
		file := startHostOn(t, device).open(t)
		_, err = file.ChannelAlloc()
		require.NoError(t, err)
		_, err = file.GemNew(4096, drm.DomainSystem, 0)
		require.NoError(t, err)
		e := drm.Table[int(which)%len(drm.Table)]
		switch e.Request {
		case drm.IoctlWait, drm.IoctlGemCPUPrep, drm.IoctlSyncobjWait, drm.IoctlPrimeFDToHandle:
			return // they wait as long as they are told, or take descriptors of this process
		}
		_ = file.Ioctl(e.Request, arg[:min(len(arg), drm.MaxArgument)], userMemory(memory)) // any errno will do
		_, err = file.GetParam(drm.ParamVRAMUsed)
		require.NoError(t, err, "the file does not work after %s", e.Name)
	})
}
