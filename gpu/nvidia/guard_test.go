package nvidia

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

// guardedThread makes controls from a thread that is trapped, in memory of its own.
type guardedThread struct {
	mem   []byte // the argument; its parameters lie at guardParams
	calls chan [2]uintptr
	errs  chan unix.Errno
}

const guardParams = 64

// newGuarded starts a thread whose controls g answers.
func newGuarded(t *testing.T, g *guard) *guardedThread {
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	x := &guardedThread{mem: mem, calls: make(chan [2]uintptr), errs: make(chan unix.Errno)}
	installed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		var err error
		g.listener, err = usernotify.Install(usernotify.Calls(trapped), false)
		installed <- err
		for c := range x.calls {
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, c[0], c[1], uintptr(addressOf(mem)))
			x.errs <- errno
		}
		close(x.errs)
	}()
	require.NoError(t, <-installed)
	g.memory, err = os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- g.serve(g.handle) }()
	t.Cleanup(func() {
		close(x.calls)
		<-x.errs
		require.NoError(t, <-ended)
		require.NoError(t, g.listener.Close())
		require.NoError(t, g.memory.Close())
		require.NoError(t, unix.Munmap(mem))
	})
	return x
}

// control makes one.
func (x *guardedThread) control(fd, request uintptr, command, size uint32, params uint64) unix.Errno {
	binary.LittleEndian.PutUint32(x.mem[controlCommand:], command)
	binary.LittleEndian.PutUint64(x.mem[paramsAddress:], params)
	binary.LittleEndian.PutUint32(x.mem[controlSize:], size)
	x.calls <- [2]uintptr{fd, request}
	return <-x.errs
}

func TestGuardMakesAllowedControlsOnly(t *testing.T) {
	const number, ours, allowed = 77, 1234, 0x83de030c
	type made struct {
		fd     int
		params string
	}
	controls := make(chan made, 10)
	g := &guard{devices: map[int32]int{number: ours}, controls: []uint32{allowed}, call: func(fd int, _ uint32, argument, params []byte) unix.Errno {
		controls <- made{fd: fd, params: string(params)}
		copy(params, "answer")
		binary.LittleEndian.PutUint32(argument[controlStatus:], 7)
		return 0
	}}
	x := newGuarded(t, g)
	at := addressOf(x.mem) + guardParams
	copy(x.mem[guardParams:], "question")
	require.Zero(t, x.control(number, requestControl, allowed, 8, at))
	require.Equal(t, made{fd: ours, params: "question"}, <-controls)
	require.Equal(t, "answeron", string(x.mem[guardParams:][:8]))
	require.EqualValues(t, 7, binary.LittleEndian.Uint32(x.mem[controlStatus:]))
	require.Equal(t, at, binary.LittleEndian.Uint64(x.mem[paramsAddress:]), "the worker's own address stays")

	const disableChannels = 0x2080110b
	for _, test := range []struct {
		name        string
		fd, request uintptr
		command     uint32
		size        uint32
		params      uint64
		want        unix.Errno
	}{
		{name: "another control", fd: number, request: requestControl, command: disableChannels, size: 8, params: at, want: unix.EPERM},
		{name: "another descriptor", fd: number + 1, request: requestControl, command: allowed, size: 8, params: at, want: unix.EPERM},
		{name: "another size of the argument", fd: number, request: requestControl + 1<<16, command: allowed, size: 8, params: at, want: unix.EPERM},
		{name: "too many parameters", fd: number, request: requestControl, command: allowed, size: maxParams + 1, params: at, want: unix.EPERM},
		{name: "parameters nowhere", fd: number, request: requestControl, command: allowed, size: 8, params: 0, want: unix.EFAULT},
		{name: "parameters in the kernel", fd: number, request: requestControl, command: allowed, size: 8, params: ^uint64(0) - 100, want: unix.EFAULT},
	} {
		require.Equal(t, test.want, x.control(test.fd, test.request, test.command, test.size, test.params), test.name)
	}
	require.Empty(t, controls, "none of them was made")
	require.Zero(t, x.control(number, requestControl, allowed, 0, 0), "without parameters")
}

// A worker that serves gets memory, made by its keeper with a copy of the parameters, and no other
// object, such as a channel.
func TestGuardMakesMemoryOnly(t *testing.T) {
	const number, ours = 77, 1234
	calls := 0
	g := &guard{devices: map[int32]int{number: ours}, classes: servingClasses, call: func(fd int, request uint32, argument, params []byte) unix.Errno {
		calls++
		require.Equal(t, ours, fd)
		require.Equal(t, uint32(requestAlloc), request)
		require.GreaterOrEqual(t, len(params), 4096, "a newer driver may have more parameters")
		require.Equal(t, "question", string(params[:8]))
		copy(params, "answer")
		params[memoryParams] = 9 // beyond what the worker has
		binary.LittleEndian.PutUint32(argument[allocObject:], 55)
		binary.LittleEndian.PutUint32(argument[40:], 7)
		return 0
	}}
	x := newGuarded(t, g)
	const memory, channel = 0x40, 0xc86f
	ask := func(class, size uint32, rights, address uint64) unix.Errno {
		copy(x.mem, allocation(1, 2, 3, class))
		binary.LittleEndian.PutUint64(x.mem[paramsAddress:], addressOf(x.mem)+guardParams)
		binary.LittleEndian.PutUint64(x.mem[allocRights:], rights)
		binary.LittleEndian.PutUint32(x.mem[allocSize:], size)
		clear(x.mem[guardParams:])
		copy(x.mem[guardParams:], "question")
		binary.LittleEndian.PutUint64(x.mem[guardParams+memoryAddress:], address)
		x.calls <- [2]uintptr{number, requestAlloc}
		return <-x.errs
	}
	for _, size := range []uint32{0, memoryParams} {
		require.Zero(t, ask(memory, size, 0, 0))
		require.Equal(t, "answeron", string(x.mem[guardParams:][:8]))
		require.Zero(t, x.mem[guardParams+memoryParams])
		require.EqualValues(t, 55, binary.LittleEndian.Uint32(x.mem[allocObject:]))
		require.EqualValues(t, 7, binary.LittleEndian.Uint32(x.mem[40:]))
		require.Equal(t, addressOf(x.mem)+guardParams, binary.LittleEndian.Uint64(x.mem[paramsAddress:]))
	}
	require.Equal(t, 2, calls)
	require.Equal(t, unix.EPERM, ask(channel, 0, 0, 0))
	require.Equal(t, unix.EPERM, ask(0, 0, 0, 0), "another client")
	require.Equal(t, unix.EPERM, ask(memory, memoryParams-8, 0, 0), "not the size that the class has")
	require.Equal(t, unix.EPERM, ask(memory, 0, 0x1000, 0), "rights")
	require.Equal(t, unix.EPERM, ask(memory, 0, 0, 0x1000), "memory of the keeper")
	require.Equal(t, 2, calls)
}

// Controls that may be made are none that harm others, whatever a recording says.
func TestNoControlOfOthersIsAllowed(t *testing.T) {
	for _, c := range []uint32{0x2080110b, 0xa06c0103, 0xa06c0105, 0x3d05, 0x3d06} {
		require.NotContains(t, servingControls, c)
	}
	require.Contains(t, servingRequests, Request{Mask: typeMask, Value: typeControl}, "else the guard is not asked")
	require.Contains(t, servingRequests, Request{Mask: typeMask, Value: typeAlloc}, "likewise")
	require.Equal(t, []uint32{0x40}, servingClasses, "with any other the keeper may not know all channels")
	require.Empty(t, compilingRequests)
}
