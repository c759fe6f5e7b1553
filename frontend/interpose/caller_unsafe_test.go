package interpose

import (
	"bytes"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A caller that is not known to be there is neither read, as far as anybody hears
// of it, nor written: its thread id may be another's. Here it is the test's.
func TestMemoryOfCallersThatAreGone(t *testing.T) {
	memory := bytes.Clone([]byte("as it was"))          // not a constant
	addr := uint64(uintptr(unsafe.Pointer(&memory[0]))) // memory lives until the end of the test
	const nobody = listener(-1)                         // says of each caller that it is gone

	var turns atomic.Uint64
	gone := func(seen bool, turn uint64) *caller {
		return &caller{listener: nobody, turns: &turns, turn: turn, seen: seen, tid: unix.Gettid()}
	}
	b := make([]byte, len(memory))
	require.ErrorIs(t, gone(true, 0).Read(addr, b), errGone)

	require.ErrorIs(t, gone(false, 0).Write(addr, []byte("new")), errGone, "nobody has looked")
	require.ErrorIs(t, gone(true, 1).Write(addr, []byte("new")), errGone, "it was looked, but something was waited for since")
	require.Equal(t, "as it was", string(memory))

	require.NoError(t, gone(true, 0).Write(addr, []byte("is")))
	require.Equal(t, "is it was", string(memory))
	require.ErrorIs(t, gone(true, 0).Write(0, []byte("is")), unix.EFAULT)
	require.NoError(t, gone(false, 0).Write(0, nil))
	require.NoError(t, gone(false, 0).Read(0, nil))
	require.Equal(t, "is it was", string(memory)) // keeps it alive
}
