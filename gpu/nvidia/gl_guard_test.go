package nvidia

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/usernotify"
)

const (
	glClient                               = 7    // of the worker
	glForeign                              = 8    // of another
	glNumber                               = 77   // of the worker's descriptor
	glOurs                                 = 1234 // the keeper's
	glArgument, glParams, glList, glMemory = 0x100, 0x1000, 0x3000, 0x4000
)

// glCall is a call that a guard made.
type glCall struct {
	fd               int
	request          uint32
	argument, params []byte
}

// glFake is a guard of a sealed worker whose memory is a file, before a driver that says yes.
type glFake struct {
	*glGuard
	t      testing.TB
	status uint32 // that the driver answers
	made   []glCall
	log    bytes.Buffer
}

func newGLFake(t testing.TB, limit uint64) *glFake {
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, glMemory))
	x := &glFake{t: t}
	a, file, err := (&books{limit: limit}).newAccount()
	require.NoError(t, err)
	require.NoError(t, file.Close())
	x.glGuard = &glGuard{guard: guard{memory: os.NewFile(uintptr(fd), "memory"), devices: map[int32]int{glNumber: glOurs},
		clients: map[uint32]bool{glClient: true}, account: a}, refusals: &refusals{to: &x.log}}
	x.call = func(fd int, request uint32, argument, params []byte) unix.Errno {
		x.made = append(x.made, glCall{fd: fd, request: request, argument: bytes.Clone(argument), params: bytes.Clone(params)})
		if request == requestHeap {
			binary.LittleEndian.PutUint32(argument[heapStatus:], x.status)
		}
		for i := range params {
			params[i] = 0xcc
		}
		return 0
	}
	x.idle = func(fd int, argument []byte, lists [3][]byte) unix.Errno {
		x.made = append(x.made, glCall{fd: fd, request: requestIdle, argument: bytes.Clone(argument), params: bytes.Clone(lists[0])})
		binary.LittleEndian.PutUint32(argument[idleStatus:], x.status)
		x.status = 0
		return 0
	}
	t.Cleanup(func() {
		x.account.close()
		require.NoError(t, x.memory.Close())
	})
	return x
}

// ask makes a request of which the argument has those words, and its parameters those.
func (x *glFake) ask(request uint32, words map[int]uint32, params ...uint32) unix.Errno {
	b := make([]byte, glMemory)
	for at, w := range words {
		binary.LittleEndian.PutUint32(b[glArgument+at:], w)
	}
	for i, w := range params {
		binary.LittleEndian.PutUint32(b[glParams+4*i:], w)
	}
	x.write(b)
	return x.answer(&usernotify.Call{Args: [6]uint64{glNumber, uint64(request), glArgument}})
}

func (x *glFake) write(b []byte) {
	_, err := x.memory.WriteAt(b, 0)
	require.NoError(x.t, err)
}

// word is one of the worker's memory.
func (x *glFake) word(at int64) uint32 {
	b := make([]byte, 4)
	_, err := x.memory.ReadAt(b, at)
	require.NoError(x.t, err)
	return binary.LittleEndian.Uint32(b)
}

// Controls and objects of the table are made with copies of their parameters, in the worker's own clients; the others
// are refused and told once.
func TestGLGuardMakesWhatTheTableHas(t *testing.T) {
	for _, kind := range []struct {
		request    uint32
		what, size int
		table      []glRule
	}{
		{request: requestControl, what: controlCommand, size: controlSize, table: glControls},
		{request: requestAlloc, what: allocClass, size: allocSize, table: glClasses},
	} {
		for _, rule := range kind.table {
			x := newGLFake(t, 0)
			good := map[int]uint32{0: glClient, kind.what: rule.Number, kind.size: rule.Size, paramsAddress: glParams}
			with := func(at int, w uint32) map[int]uint32 {
				other := map[int]uint32{at: w}
				for k, v := range good {
					if k != at {
						other[k] = v
					}
				}
				return other
			}
			require.Zero(t, x.ask(kind.request, good, glClient, 0x1234), rule.Name)
			require.Len(t, x.made, 1)
			require.Equal(t, glOurs, x.made[0].fd)
			if rule.Size >= 8 {
				require.EqualValues(t, 0x1234, binary.LittleEndian.Uint32(x.made[0].params[4:]), rule.Name)
				require.EqualValues(t, 0xcccccccc, x.word(glParams+int64(rule.Size)-4), "what the driver answers comes back")
				require.Zero(t, x.word(glParams+int64(rule.Size+3)&^3), "and no more")
			}
			require.EqualValues(t, glParams, x.word(glArgument+paramsAddress), "the worker's own address stays")
			require.Equal(t, unix.EPERM, x.ask(kind.request, with(0, glForeign), glClient), "%s of another client", rule.Name)
			require.Equal(t, unix.EPERM, x.ask(kind.request, with(kind.size, rule.Size+1), glClient), "%s of another size", rule.Name)
			require.Equal(t, unix.EPERM, x.ask(kind.request, with(kind.what, rule.Number^0x40000), glClient), "not %s", rule.Name)
			if rule.Client {
				require.Equal(t, unix.EPERM, x.ask(kind.request, good, glForeign), "%s for another client", rule.Name)
			}
			if kind.request == requestAlloc {
				require.Equal(t, unix.EPERM, x.ask(kind.request, with(allocRights, 0x1000), glClient), "%s with rights", rule.Name)
				require.Len(t, x.made, 1)
				require.Zero(t, x.ask(kind.request, with(kind.size, 0), glClient), "the driver knows the size")
			}
			require.NotEmpty(t, rule.Why)
			require.Equal(t, 2, strings.Count(x.log.String(), "\n"), "%s", x.log.String())
		}
	}
}

// The tables have nothing that stops other clients' work, gives objects away or takes memory of a process.
func TestGLTablesHaveNothingOfOthers(t *testing.T) {
	for _, c := range glControls {
		require.NotContains(t, []uint32{disableChannels, exportToFD, importFromFD, 0xa06c0103, 0xa06c0105}, c.Number)
	}
	for _, c := range glClasses {
		require.NotContains(t, []uint32{0, 0x41, 0x80, 0x2080, 0x71, 0x83de, 0xb0cc}, c.Number, "clients, devices, memory of a process, debuggers and profilers")
	}
	for _, r := range glUntrapped {
		require.NotContains(t, []uint32{0x27, 0x28, 0x34, 0x35, 0x5c, 0x5d}, r.Number, "memory, copies of objects and what shares them")
	}
	require.Len(t, glRequests(), len(glTrapped)+len(glUntrapped))
	require.Len(t, GLTable(), len(glAnswered)+len(glUntrapped)+len(glControls)+len(glClasses))
}

func TestGLGuardCountsVRAM(t *testing.T) {
	const limit = 1 << 20
	x := newGLFake(t, limit)
	heap := func(handle, size, flags, attr uint32) (unix.Errno, uint32) {
		errno := x.ask(requestHeap, map[int]uint32{heapClient: glClient, heapFunction: heapAllocate, heapMemory: handle, heapSize: size, heapFlags: flags, heapAttr: attr})
		return errno, x.word(glArgument + heapStatus)
	}
	const small = pageSize4K << pageSizeShift
	for _, step := range []struct {
		name                      string
		handle, size, flags, attr uint32
		driver, status            uint32
		used                      uint64
	}{
		{name: "VRAM", handle: 1, size: 5000, attr: small, used: 8192},
		{name: "memory of the host", handle: 2, size: 1 << 30, attr: small | 1<<locationShift, used: 8192},
		{name: "addresses", handle: 3, size: 1 << 30, flags: heapVirtual, attr: small, used: 8192},
		{name: "too much", handle: 4, size: limit, attr: small, status: statusNoMemory, used: 8192},
		{name: "the driver has no more", handle: 5, size: 4096, attr: small, driver: 9, status: 9, used: 8192},
		{name: "the rest", handle: 6, size: limit - 8192, attr: small, used: limit},
		{name: "one page more", handle: 7, size: 1, attr: small, status: statusNoMemory, used: limit},
	} {
		x.status = step.driver
		errno, status := heap(step.handle, step.size, step.flags, step.attr)
		require.Zero(t, errno, step.name)
		require.Equal(t, step.status, status, step.name)
		require.Equal(t, step.used, x.account.used, step.name)
	}
	require.Equal(t, unix.EPERM, x.ask(requestFree, map[int]uint32{freeClient: glForeign, freeObject: 6}))
	require.Zero(t, x.ask(requestFree, map[int]uint32{freeClient: glClient, freeObject: 6}))
	require.EqualValues(t, 8192, x.account.used)
	for name, wrong := range map[string]map[int]uint32{
		"another function":   {heapClient: glClient, heapFunction: 27},
		"another client":     {heapClient: glForeign, heapFunction: heapAllocate},
		"an address of ours": {heapClient: glClient, heapFunction: heapAllocate, heapAddress: 0x1000},
	} {
		require.Equal(t, unix.EPERM, x.ask(requestHeap, wrong), name)
	}
}

// A worker makes no more channels than its VRAM allows, until it frees some, or the group that has them.
func TestGLGuardCountsChannels(t *testing.T) {
	const most, group = 3, 5
	x := newGLFake(t, most*channelBytes)
	channel := func(handle uint32) uint32 {
		require.Zero(t, x.ask(requestAlloc, map[int]uint32{allocClient: glClient, allocParent: group, allocObject: handle, allocClass: classGLChannel, paramsAddress: glParams}))
		return x.word(glArgument + allocStatus)
	}
	for i := range uint32(most) {
		require.Zero(t, channel(10+i))
	}
	require.EqualValues(t, statusNoMemory, channel(99))
	require.Len(t, x.made, most)
	require.Zero(t, x.ask(requestFree, map[int]uint32{freeClient: glClient, freeObject: 11}))
	require.Zero(t, channel(20))
	require.EqualValues(t, statusNoMemory, channel(99))
	require.Zero(t, x.ask(requestFree, map[int]uint32{freeClient: glClient, freeObject: group}))
	require.Zero(t, x.account.used)
}

// A wait for channels is one for those of the worker's clients, in short parts.
func TestGLGuardWaitsForOwnChannels(t *testing.T) {
	x := newGLFake(t, 0)
	const asked = 3_000_000
	wait := func(n, client, inList uint32) unix.Errno {
		b := make([]byte, glMemory)
		for at, w := range map[int]uint32{idleClient: client, idleCount: n, idleTimeout: asked, idleLists: glList, idleLists + 8: glList + 0x400, idleLists + 16: glList + 0x800} {
			binary.LittleEndian.PutUint32(b[glArgument+at:], w)
		}
		binary.LittleEndian.PutUint32(b[glList:], glClient)
		binary.LittleEndian.PutUint32(b[glList+4:], inList)
		x.write(b)
		return x.answer(&usernotify.Call{Args: [6]uint64{glNumber, requestIdle, glArgument}})
	}
	x.status = statusTimeout // once
	require.Zero(t, wait(2, glClient, glClient))
	require.Len(t, x.made, 2)
	for _, m := range x.made {
		require.EqualValues(t, idlePart, binary.LittleEndian.Uint32(m.argument[idleTimeout:]))
		require.Len(t, m.params, 8)
	}
	require.EqualValues(t, asked, x.word(glArgument+idleTimeout))
	require.EqualValues(t, glList, x.word(glArgument+idleLists))
	require.Equal(t, unix.EPERM, wait(2, glClient, glForeign))
	require.Equal(t, unix.EPERM, wait(2, glForeign, glClient))
	require.Equal(t, unix.EPERM, wait(0, glClient, glClient))
	require.Equal(t, unix.EPERM, wait(maxIdle+1, glClient, glClient))
	require.Len(t, x.made, 2)
}

func TestGLGuardRefusesOtherPlaces(t *testing.T) {
	x := newGLFake(t, 0)
	for _, request := range []uint32{requestControl, requestAlloc, requestFree, requestHeap, requestIdle} {
		for _, at := range []uint64{glMemory - 4, glMemory, 1 << 62, 1 << 63, ^uint64(0)} {
			require.NotZero(t, x.answer(&usernotify.Call{Args: [6]uint64{glNumber, uint64(request), at}}), "%#x at %#x", request, at)
		}
		require.Equal(t, unix.EPERM, x.answer(&usernotify.Call{Args: [6]uint64{glNumber + 1, uint64(request), glArgument}}), "another descriptor")
		require.Equal(t, unix.EPERM, x.answer(&usernotify.Call{Args: [6]uint64{glNumber, uint64(request + 1<<16), glArgument}}), "another size")
	}
	require.Empty(t, x.made)
}

// refusals are bounded, whatever a guest asks for.
func TestGLRefusalsAreBounded(t *testing.T) {
	r := refusals{to: io.Discard}
	for i := range uint32(10000) {
		r.note(false, i, i)
	}
	require.Len(t, r.told, mostRefusals)
}

// FuzzGL has a sealed worker ask for anything. Whatever it asks, what is made stands in the tables, is in its own
// clients and has the parameters that the driver expects; VRAM stays within the limit.
func FuzzGL(f *testing.F) {
	u32 := func(words ...uint32) (b []byte) {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	f.Add(byte(0), u32(glClient, 2, 0x20801208, 0, glParams, 0, 24, 0), u32(glClient, 5, 0, 0, 2, 0))
	f.Add(byte(1), u32(glClient, 2, 3, 0xc56f, glParams, 0, 0, 0, 0, 0, 0, 0), u32(1, 2, 3))
	f.Add(byte(2), u32(glClient, 2, 3, 0), []byte{})
	f.Add(byte(3), append(u32(glClient, 2, heapAllocate), make([]byte, 172)...), []byte{})
	f.Add(byte(4), u32(glClient, 2, 3, 2, glParams, 0, glParams, 0, glParams, 0, 0x600, 5000, 0, 0), u32(glClient, glClient))
	f.Fuzz(func(t *testing.T, kind byte, argument, params []byte) {
		const limit = 9 << 20 // one channel
		x := newGLFake(t, limit)
		b := make([]byte, glMemory)
		copy(b[glArgument:], argument[:min(len(argument), 256)])
		copy(b[glParams:], params[:min(len(params), glMemory-glParams)])
		x.write(b)
		all := []uint32{requestControl, requestAlloc, requestFree, requestHeap, requestIdle}
		request := all[int(kind)%len(all)]
		errno := x.answer(&usernotify.Call{Args: [6]uint64{glNumber, uint64(request), glArgument}})
		require.LessOrEqual(t, x.account.used, uint64(limit))
		for _, m := range x.made {
			require.Equal(t, request, m.request)
			require.EqualValues(t, glClient, binary.LittleEndian.Uint32(m.argument))
			field := func(at int) uint32 { return binary.LittleEndian.Uint32(m.argument[at:]) }
			inTable := func(table []glRule, number uint32) {
				for _, r := range table {
					if r.Number == number {
						require.True(t, m.params == nil || len(m.params) >= largestParams)
						require.True(t, !r.Client || m.params == nil || binary.LittleEndian.Uint32(m.params) == glClient)
						return
					}
				}
				t.Errorf("%#x was made", number)
			}
			switch request {
			case requestControl:
				inTable(glControls, field(controlCommand))
			case requestAlloc:
				inTable(glClasses, field(allocClass))
				require.Zero(t, binary.LittleEndian.Uint64(m.argument[allocRights:]))
			case requestHeap:
				require.EqualValues(t, heapAllocate, field(heapFunction))
				require.Zero(t, binary.LittleEndian.Uint64(m.argument[heapAddress:]))
			case requestIdle:
				require.NotEmpty(t, m.params)
				for c := m.params; len(c) > 0; c = c[4:] {
					require.EqualValues(t, glClient, binary.LittleEndian.Uint32(c))
				}
			}
		}
		if errno == unix.EPERM {
			require.Empty(t, x.made)
		}
	})
}
