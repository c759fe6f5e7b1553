package nvidia

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// countedThread makes requests for VRAM from a thread whose keeper counts them.
type countedThread struct {
	*guardedThread
	*account
	t      *testing.T
	number uintptr
}

func newCounted(t *testing.T, limit uint64, call rmCall) *countedThread {
	of := &books{limit: limit}
	a, file, err := of.newAccount()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	const number = 77
	g := &guard{devices: map[int32]int{number: 1234}, classes: servingClasses, call: call, account: a, stopper: newStopper(-1, newStore())}
	return &countedThread{guardedThread: newGuarded(t, g), account: a, t: t, number: number}
}

// asks returns the status of a request for memory.
func (c *countedThread) asks(client, parent, object uint32, size uint64) uint32 {
	copy(c.mem, allocation(client, parent, object, classMemory))
	binary.LittleEndian.PutUint64(c.mem[paramsAddress:], addressOf(c.mem)+guardParams)
	clear(c.mem[guardParams:])
	binary.LittleEndian.PutUint64(c.mem[guardParams+memorySize:], size)
	c.calls <- [2]uintptr{c.number, requestAlloc}
	require.Zero(c.t, <-c.errs)
	return binary.LittleEndian.Uint32(c.mem[allocStatus:])
}

// frees returns the status of a request to free an object.
func (c *countedThread) frees(client, object uint32) uint32 {
	copy(c.mem, release(client, 2, object))
	c.calls <- [2]uintptr{c.number, requestFree}
	require.Zero(c.t, <-c.errs)
	return binary.LittleEndian.Uint32(c.mem[freeStatus:])
}

// has checks what the backend reads.
func (c *countedThread) has(bytes uint64) {
	c.t.Helper()
	require.Equal(c.t, bytes, accountOf(c.page))
}

func TestLimitOfVRAM(t *testing.T) {
	const full, unknown = 0x51, 0x57
	var status, made atomic.Uint32 // the race detector does not see that trapped calls wait
	c := newCounted(t, 10<<20, func(fd int, request uint32, argument, _ []byte) unix.Errno {
		require.Equal(t, 1234, fd)
		made.Add(1)
		at := allocStatus
		if request == requestFree {
			at = freeStatus
		}
		binary.LittleEndian.PutUint32(argument[at:], status.Load())
		return 0
	})
	require.Zero(t, c.asks(1, 2, 100, 6<<20))
	require.Zero(t, c.asks(1, 3, 101, 4<<20))
	c.has(10 << 20)
	require.EqualValues(t, full, c.asks(1, 2, 102, 1))
	for _, size := range []uint64{1 << 62, math.MaxInt64, math.MaxUint64} {
		require.EqualValues(t, full, c.asks(1, 2, 102, size), "no sum overflows")
	}
	require.EqualValues(t, 2, made.Load(), "the driver was not asked")
	require.Zero(t, c.frees(1, 7), "an object that is no memory")
	require.Zero(t, c.frees(2, 100), "an object of another client")
	c.has(10 << 20)
	status.Store(unknown)
	require.EqualValues(t, unknown, c.frees(1, 100))
	c.has(10 << 20)
	status.Store(0)
	require.Zero(t, c.frees(1, 100))
	require.Zero(t, c.frees(1, 100), "twice")
	c.has(4 << 20)
	status.Store(full)
	require.EqualValues(t, full, c.asks(1, 2, 103, 2<<20), "by the driver")
	status.Store(0)
	c.has(4 << 20)
	require.Zero(t, c.asks(1, 2, 103, 6<<20))
	require.Zero(t, c.frees(1, 2), "the parent, and with it what it has")
	c.has(4 << 20)
	require.Zero(t, c.frees(1, 1), "the client")
	c.has(0)
	require.Zero(t, c.asks(1, 2, 100, 1))
	c.has(64 << 10)
}

// Memory is in whole pages.
func TestMemoryBytes(t *testing.T) {
	for _, test := range []struct {
		attr, attr2 uint32
		size, want  uint64
	}{
		{size: 1, want: 64 << 10},
		{size: 2<<20 + 1, want: 4 << 20},
		{attr: 1 << 23, size: 4097, want: 8 << 10},
		{attr: 2 << 23, size: 3 << 20, want: 3 << 20},
		{attr: 2 << 23, size: 65 << 10, want: 128 << 10},
		{attr: 3 << 23, size: 1, want: 2 << 20},
		{attr: 0xf7ff_ffff, attr2: 1 << 20, size: 5 << 20, want: 6 << 20},
		{attr: 3 << 23, attr2: 2 << 20, size: 1, want: 512 << 20},
		{attr: 3 << 23, attr2: ^uint32(3 << 20), size: 0, want: 0},
		{attr: 3 << 23, attr2: 2 << 20, size: math.MaxInt64, want: 1 << 63},
		{attr: 3 << 23, size: math.MaxUint64, want: math.MaxUint64},
	} {
		params := make([]byte, memoryParams)
		binary.LittleEndian.PutUint32(params[memoryAttr:], test.attr)
		binary.LittleEndian.PutUint32(params[memoryAttr2:], test.attr2)
		binary.LittleEndian.PutUint64(params[memorySize:], test.size)
		require.Equal(t, test.want, memoryBytes(params), "%+v", test)
	}
}

// Workers of one keeper share its limit, and what one had the others may have when it has ended.
func TestLimitIsOfAllWorkers(t *testing.T) {
	of := &books{limit: 8 << 20}
	a, file, err := of.newAccount()
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	b, other, err := of.newAccount()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.True(t, a.reserve(9<<20, false), "a worker that starts")
	require.False(t, b.reserve(1, true))
	require.True(t, b.reserve(1<<20, false), "one that starts, or gets what was kept")
	a.close()
	require.EqualValues(t, 1<<20, of.used)
	require.True(t, b.reserve(7<<20, true))
	require.False(t, b.reserve(1, true))
	b.close()
	require.Zero(t, of.used)
}

// A worker has no end of objects.
func TestObjectsAreBounded(t *testing.T) {
	a, file, err := (&books{}).newAccount()
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for i := range uint32(mostObjects) {
		require.True(t, a.reserve(1, true))
		a.made(allocation(1, 2, i, classMemory), 1)
	}
	require.False(t, a.reserve(1, true))
	a.freed(objectName{client: 1, handle: 5})
	require.True(t, a.reserve(1, true))
	a.close()
}
