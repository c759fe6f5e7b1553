package nvidia

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

func testLane() lane { return lane{make([]byte, laneBytes)} }

func TestLaneCarriesEntries(t *testing.T) {
	l := testLane()
	// Start shortly before the counters wrap around.
	start := ^uint32(0) - 10
	for i := start; i != start+entryCount; i++ {
		hostmem.SwapUint32(l.slot(i), 0, phase(i)^flagPhase) // as the lap before left it
	}
	for i := range uint32(3 * entryCount) {
		in := entry{kind: entryCopy, last: i%2 == 0, quiet: i%3 == 0, channel: uint8(i % maxChannels), number: start + i,
			words: [7]uint64{1, 2, 3, 4, 5, 6, uint64(i)}}
		params := []byte{byte(i), 2, 3}
		require.False(t, l.ready(start+i))
		require.False(t, l.publish(start+i, &in, params))
		require.True(t, l.ready(start+i))
		out, got := l.take(start + i)
		require.Equal(t, in, out)
		require.Equal(t, params, got[:3])
		require.Len(t, got, maxParamBytes)
	}
}

func TestLaneIsBounded(t *testing.T) {
	l := testLane()
	p := &process{lane: l}
	for i := range entryCount {
		require.True(t, p.room(1))
		require.True(t, p.room(entryCount-i))
		require.False(t, p.room(entryCount-i+1))
		p.publish(&entry{kind: entryFill}, nil)
	}
	require.False(t, p.room(1))
	l.store(offTail, 1)
	require.True(t, p.room(1))
	require.False(t, p.room(2))
	l.store(offTail, 1+2*entryCount) // a lie
	require.False(t, p.room(2))
}

func TestLaneTellsOfSleep(t *testing.T) {
	l := testLane()
	require.False(t, l.publish(0, &entry{}, nil))
	l.store(offSleeping, 1)
	require.True(t, l.publish(1, &entry{}, nil))
}

// What a worker does to the descriptors that it shares with its backend costs the worker only.
func TestLaneOfAHostileWorker(t *testing.T) {
	fd, err := newLane()
	require.NoError(t, err)
	require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
	require.NoError(t, unix.Close(fd))

	wake, err := newWake()
	require.NoError(t, err)
	full := binary.NativeEndian.AppendUint64(nil, math.MaxUint64-1)
	_, err = unix.Write(wake, full)
	require.NoError(t, err)
	(&process{wake: wake}).ring() // does not wait
	require.NoError(t, unix.Close(wake))
}

func TestReached(t *testing.T) {
	require.True(t, reached(5, 5))
	require.True(t, reached(6, 5))
	require.False(t, reached(4, 5))
	require.True(t, reached(2, ^uint32(0)), "numbers wrap around")
	require.False(t, reached(^uint32(0), 2))
}
