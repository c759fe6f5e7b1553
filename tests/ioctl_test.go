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

// A compute program that makes bare ioctls only, each of the table at least once.
func TestProgramOfBareIoctls(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	c := &caller{file: h.open(t), mem: make(userMemory, 1<<20)}
	called := map[string]bool{}
	do := func(req drm.Request, arg any) {
		t.Helper()
		called[req.String()] = true
		require.NoError(t, c.call(req, arg), req.String())
	}

	name, desc := c.put(make([]byte, 16)), c.put(make([]byte, 64))
	v := &drm.Version{NameLen: 16, Name: name, DescLen: 64, Desc: desc}
	do(drm.IoctlVersion, v)
	require.Equal(t, "pvdrm", string(c.mem[name-userBase:][:v.NameLen]))
	require.Contains(t, string(c.mem[desc-userBase:][:v.DescLen]), "softgpu")
	capability := &drm.GetCap{Capability: drm.CapSyncobj}
	do(drm.IoctlGetCap, capability)
	require.EqualValues(t, 1, capability.Value)
	window := &drm.GetParam{Param: uint64(drm.ParamSystemBase)}
	do(drm.IoctlGetParam, window)

	ch := &drm.Channel{}
	do(drm.IoctlChannelAlloc, ch)
	obj := &drm.GemNew{Size: 5000, Domain: drm.DomainSystem}
	do(drm.IoctlGemNew, obj)
	require.EqualValues(t, 8192, obj.Size)
	require.NotZero(t, obj.MapOffset)
	info := &drm.GemInfo{Handle: obj.Handle}
	do(drm.IoctlGemInfo, info)
	require.Equal(t, obj.MapOffset, info.MapOffset)
	require.Equal(t, drm.DomainSystem, info.Domain)
	pages, err := c.file.GemMap(obj.Handle)
	require.NoError(t, err)

	ops := c.put(packed([]drm.BindOp{{Op: drm.BindMap, Handle: obj.Handle, Addr: window.Value, Range: 8192}}))
	do(drm.IoctlVMBind, &drm.VMBind{Count: 1, Ops: ops})
	source := c.put([]byte(addOne))
	mod := &drm.ModuleLoad{Source: source, SourceBytes: uint64(len(addOne)), Name: c.put([]byte("bare.ptx\x00"))}
	do(drm.IoctlModuleLoad, mod)
	params := c.put(make([]byte, 32))
	fn := &drm.ModuleFunction{Module: mod.Module, Name: c.put([]byte("addone")), NameBytes: 6, ParamCount: 4, Params: params}
	do(drm.IoctlModuleFunction, fn)
	require.EqualValues(t, 2, fn.ParamCount)
	require.EqualValues(t, 8, binary.LittleEndian.Uint32(c.mem[params-userBase+8:]), "offset of the second parameter")
	global := &drm.ModuleGlobal{Module: mod.Module, Name: c.put([]byte("answer")), NameBytes: 6}
	do(drm.IoctlModuleGlobal, global)
	require.EqualValues(t, 4, global.Size)

	syncs := [2]*drm.SyncobjCreate{{}, {Flags: drm.SyncobjCreateSignaled}}
	do(drm.IoctlSyncobjCreate, syncs[0])
	do(drm.IoctlSyncobjCreate, syncs[1])
	handles := c.put(packed([]uint32{syncs[0].Handle, syncs[1].Handle}))
	args := binary.LittleEndian.AppendUint32(packed(window.Value), 3)
	stream := drm.LaunchCmd{Function: fn.Function, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: args}.Append(nil)
	exec := &drm.Exec{Channel: ch.Channel, Commands: c.put(stream), CmdBytes: uint32(len(stream)),
		WaitCount: 1, Waits: handles + 4, SignalCount: 1, Signals: handles}
	do(drm.IoctlExec, exec)
	require.EqualValues(t, 1, exec.Seqno)
	do(drm.IoctlWait, &drm.Wait{Channel: ch.Channel, Seqno: exec.Seqno, TimeoutNS: -1})
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	do(drm.IoctlSyncobjWait, &drm.SyncobjWait{Handles: handles, Count: 2, Flags: drm.SyncobjWaitAll, TimeoutNS: now.Nano() + int64(time.Minute)})
	do(drm.IoctlGemCPUPrep, &drm.GemCPUPrep{Handle: obj.Handle, TimeoutNS: -1})
	require.Equal(t, []byte{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}, pages[:13])
	do(drm.IoctlGemCPUFini, &drm.GemCPUFini{Handle: obj.Handle})

	do(drm.IoctlSyncobjReset, &drm.SyncobjArray{Handles: handles, Count: 2})
	require.ErrorIs(t, c.call(drm.IoctlSyncobjWait, &drm.SyncobjWait{Handles: handles, Count: 2}), syscall.EINVAL, "no fence")
	do(drm.IoctlSyncobjSignal, &drm.SyncobjArray{Handles: handles, Count: 2})
	do(drm.IoctlSyncobjWait, &drm.SyncobjWait{Handles: handles, Count: 2})
	do(drm.IoctlSyncobjDestroy, &drm.SyncobjDestroy{Handle: syncs[0].Handle})

	prime := &drm.PrimeHandle{Handle: obj.Handle}
	do(drm.IoctlPrimeHandleToFD, prime)
	other := &caller{file: h.open(t), mem: c.mem}
	again := &drm.PrimeHandle{FD: prime.FD}
	called[drm.IoctlPrimeFDToHandle.String()] = true
	require.NoError(t, other.call(drm.IoctlPrimeFDToHandle, again))
	shared, err := other.file.GemMap(again.Handle)
	require.NoError(t, err)
	require.Equal(t, pages[:13], shared[:13])
	require.NoError(t, unix.Close(int(prime.FD)))

	status := &drm.Status{}
	do(drm.IoctlStatus, status)
	require.Zero(t, status.Cause)
	output := &drm.ReadOutput{TextBytes: 64, Text: 0}
	do(drm.IoctlReadOutput, output)
	require.Zero(t, output.TextBytes, "nothing was printed")
	do(drm.IoctlModuleUnload, &drm.ModuleUnload{Module: mod.Module})
	do(drm.IoctlGemClose, &drm.GemClose{Handle: obj.Handle})
	do(drm.IoctlChannelFree, ch)
	for _, e := range drm.Table {
		require.True(t, called[e.Name], "%s is not tested", e.Name)
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
		"flags of exec":      {drm.IoctlExec, &drm.Exec{Channel: ch.Channel, Flags: 1}, syscall.EINVAL},
		"commands nowhere":   {drm.IoctlExec, &drm.Exec{Channel: ch.Channel, Commands: nowhere, CmdBytes: 8}, syscall.EFAULT},
		"too many commands":  {drm.IoctlExec, &drm.Exec{Channel: ch.Channel, CmdBytes: 1 << 31}, syscall.E2BIG},
		"waits nowhere":      {drm.IoctlExec, &drm.Exec{Channel: ch.Channel, Waits: nowhere, WaitCount: 1}, syscall.EFAULT},
		"too many waits":     {drm.IoctlExec, &drm.Exec{Channel: ch.Channel, WaitCount: 1 << 31}, syscall.E2BIG},
		"ops nowhere":        {drm.IoctlVMBind, &drm.VMBind{Count: 1, Ops: nowhere}, syscall.EFAULT},
		"too many ops":       {drm.IoctlVMBind, &drm.VMBind{Count: 1 << 31, Ops: userBase}, syscall.E2BIG},
		"source nowhere":     {drm.IoctlModuleLoad, &drm.ModuleLoad{Source: nowhere, SourceBytes: 10}, syscall.EFAULT},
		"source too large":   {drm.IoctlModuleLoad, &drm.ModuleLoad{Source: userBase, SourceBytes: 1 << 40}, syscall.EFBIG},
		"no such module":     {drm.IoctlModuleFunction, &drm.ModuleFunction{Module: 9, Name: userBase, NameBytes: 3}, syscall.ENOENT},
		"name too long":      {drm.IoctlModuleFunction, &drm.ModuleFunction{Module: 9, Name: userBase, NameBytes: 1 << 20}, syscall.E2BIG},
		"no such handle":     {drm.IoctlGemInfo, &drm.GemInfo{Handle: 77}, syscall.ENOENT},
		"prep of nothing":    {drm.IoctlGemCPUPrep, &drm.GemCPUPrep{Handle: 77}, syscall.ENOENT},
		"fini of nothing":    {drm.IoctlGemCPUFini, &drm.GemCPUFini{Handle: 77}, syscall.ENOENT},
		"flags of gem":       {drm.IoctlGemNew, &drm.GemNew{Size: 1, Domain: drm.DomainSystem, Flags: 4}, syscall.EINVAL},
		"domain of gem":      {drm.IoctlGemNew, &drm.GemNew{Size: 1, Domain: 3}, syscall.EINVAL},
		"size of gem":        {drm.IoctlGemNew, &drm.GemNew{Size: ^uint64(0), Domain: drm.DomainVRAM}, syscall.EINVAL},
		"capability":         {drm.IoctlGetCap, &drm.GetCap{Capability: 99}, syscall.EINVAL},
		"prime of nothing":   {drm.IoctlPrimeHandleToFD, &drm.PrimeHandle{Handle: 77}, syscall.ENOENT},
		"prime of no fd":     {drm.IoctlPrimeFDToHandle, &drm.PrimeHandle{FD: -1}, syscall.EBADF},
		"sync object":        {drm.IoctlSyncobjDestroy, &drm.SyncobjDestroy{Handle: 77}, syscall.ENOENT},
		"wait for nothing":   {drm.IoctlSyncobjWait, &drm.SyncobjWait{}, syscall.EINVAL},
		"flags of a syncobj": {drm.IoctlSyncobjCreate, &drm.SyncobjCreate{Flags: 8}, syscall.EINVAL},
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
