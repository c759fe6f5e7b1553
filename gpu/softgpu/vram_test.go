package softgpu

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// checkWarm compares the count of warm frames with the bits, none of which is of a frame in use.
func checkWarm(t require.TestingT, f *frames) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := uint64(0)
	for _, b := range f.blocks {
		for at := range framesPerBlock {
			if b.warm[at/64]>>(at%64)&1 != 0 {
				require.Zero(t, b.bits[at/64]>>(at%64)&1, "a frame in use is warm")
				n++
			}
		}
	}
	require.Equal(t, n, f.warm)
}

// warmFrames returns how many free frames keep the host's pages.
func (f *frames) warmFrames() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.warm
}

// TestWarmMemory checks that memory which was freed is zero, that a bounded part of it keeps the host's pages, and that
// these go back when nothing was freed for a while.
func TestWarmMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := newVRAM(4 * warmBytes)
		require.NoError(t, err)
		ext, err := v.alloc(3 * warmBytes)
		require.NoError(t, err)
		for _, e := range ext {
			b := v.Bytes(e.addr, e.size)
			for at := 0; at < len(b); at += 4096 {
				b[at] = 1
			}
		}
		parts := uint64(0)
		for _, e := range ext {
			for at := e.addr; at < e.addr+e.size; at += 1 << 20 {
				v.free(extent{at, 1 << 20})
				parts++
			}
		}
		require.Equal(t, 3*uint64(warmBytes), parts<<20)
		require.Equal(t, uint64(warmBytes)>>12, v.warmFrames())
		checkWarm(t, v.frames)
		again, err := v.alloc(4 << 20)
		require.NoError(t, err)
		require.Equal(t, uint64(warmBytes-4<<20)>>12, v.warmFrames(), "what is warm is used")
		checkWarm(t, v.frames)
		zero := make([]byte, 4<<20)
		for _, e := range again {
			require.True(t, bytes.Equal(v.Bytes(e.addr, e.size), zero[:e.size]))
		}
		time.Sleep(warmTime - time.Millisecond)
		v.free(again...)
		require.Equal(t, uint64(warmBytes)>>12, v.warmFrames())
		time.Sleep(warmTime - time.Millisecond)
		require.NotZero(t, v.warmFrames(), "that was not long ago")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Zero(t, v.warmFrames())
		checkWarm(t, v.frames)
		all, err := v.alloc(4 * warmBytes)
		require.NoError(t, err)
		for _, e := range all[:1] {
			require.True(t, bytes.Equal(v.Bytes(e.addr, 1<<20), zero[:1<<20]))
		}
		v.free(all...)
		require.NoError(t, v.Unmap())
		time.Sleep(2 * warmTime) // nothing touches it any more
	})
}
