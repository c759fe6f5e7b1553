package arbiter

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What a backend may do with its word.
func TestTokenWord(t *testing.T) {
	const busy = bitHeld | bitBusy | bitBegun
	for _, c := range []struct {
		name        string
		word        uint32
		begin       bool
		end         bool // without more
		endWithMore bool
	}{
		{name: "nothing"},
		{name: "held", word: bitHeld, begin: true, end: true, endWithMore: true},
		{name: "held again", word: bitHeld | bitBegun, begin: true, end: true, endWithMore: true},
		{name: "shared", word: bitHeld | bitShared, begin: true, endWithMore: true},
		{name: "once", word: bitHeld | bitOnce, begin: true},
		{name: "shared, once", word: bitHeld | bitShared | bitOnce, begin: true},
		{name: "revoked", word: bitHeld | bitRevoked},
		{name: "taken back", word: bitRevoked},
		{name: "busy", word: busy, end: true, endWithMore: true},
		{name: "busy, shared", word: busy | bitShared, endWithMore: true},
		{name: "busy, revoked", word: busy | bitRevoked},
		{name: "busy, shared, revoked", word: busy | bitShared | bitRevoked},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := privatePage()
			p.store(Copy, c.word)
			require.Equal(t, c.begin, p.begin(Copy, work{}))
			if c.begin {
				require.Equal(t, c.word|bitBusy|bitBegun, p.load(Copy))
			} else {
				require.Equal(t, c.word, p.load(Copy))
			}
			for more, want := range map[bool]bool{false: c.end, true: c.endWithMore} {
				p.store(Copy, c.word|bitBusy)
				require.Equal(t, want, p.end(Copy, more))
				if want {
					require.Zero(t, p.load(Copy)&bitBusy)
				}
			}
			require.Zero(t, p.load(Compute), "the other engine")
		})
	}
}

// The layout in the package comment.
func TestPageLayout(t *testing.T) {
	p := privatePage()
	for e := range Engines {
		p.store(e, bitHeld|bitOnce)
		p.setGrant(e, 0x1122334455667788)
		p.addUsed(e, 1000*time.Nanosecond, 1)
		p.addUsed(e, -5, 1)
		b := p.mem[128*(int(e)+1):]
		require.Equal(t, uint32(17), binary.NativeEndian.Uint32(b))
		require.Equal(t, uint64(0x1122334455667788), binary.NativeEndian.Uint64(b[8:]))
		require.Equal(t, uint64(1000), binary.NativeEndian.Uint64(b[64:]))
		require.Equal(t, uint64(2), binary.NativeEndian.Uint64(b[72:]))
	}
	require.Zero(t, p.mem[0])
}

// Both sides see the same page, neither can cut it, and it goes away.
func TestSharedPage(t *testing.T) {
	p, fd, err := createPage()
	require.NoError(t, err)
	q, err := mapPage(fd)
	require.NoError(t, err)
	p.store(Compute, bitHeld)
	require.True(t, q.begin(Compute, work{}))
	require.Equal(t, bitHeld|bitBegun|bitBusy, p.load(Compute))
	require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
	require.ErrorIs(t, unix.Ftruncate(fd, 2*pageBytes), unix.EPERM)
	require.NoError(t, unix.Close(fd))
	require.Equal(t, 2, mappings(t))
	runtime.KeepAlive(p)
	runtime.KeepAlive(q)
	p, q = nil, nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return mappings(t) == 0
	}, 5*time.Minute, time.Millisecond, "a page stays mapped")
}

func TestPagesOfStrangers(t *testing.T) {
	memfd := func(size int64, seals int) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
		require.NoError(t, unix.Ftruncate(fd, size))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		require.NoError(t, err)
		return fd
	}
	_, err := mapPage(memfd(pageBytes, unix.F_SEAL_GROW))
	require.ErrorIs(t, err, ErrWire)
	_, err = mapPage(memfd(pageBytes-1, unix.F_SEAL_SHRINK))
	require.ErrorIs(t, err, ErrWire)
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	_, err = mapPage(pipe[0])
	require.ErrorContains(t, err, "memfd")
	require.NoError(t, unix.Close(pipe[0]))
	require.NoError(t, unix.Close(pipe[1]))
}
