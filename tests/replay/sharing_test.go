package replay

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// shareSize is the size of the object that the files of sharing have both.
const shareSize = 8 << 10

// sharer is a file with a channel and one object, mapped at the start of the
// window for system memory.
type sharer struct {
	t *testing.T
	drm.Driver
	base    uint64
	channel uint32
	object  uint32
	mem     []byte
}

func newSharer(t *testing.T, d drm.Driver, object func() (uint32, error)) *sharer {
	t.Helper()
	s := &sharer{t: t, Driver: d}
	var err error
	s.base, err = d.GetParam(drm.ParamSystemBase)
	require.NoError(t, err)
	_, err = d.GetParam(drm.ParamSystemSize)
	require.NoError(t, err)
	s.channel, err = d.ChannelAlloc()
	require.NoError(t, err)
	s.object, err = object()
	require.NoError(t, err)
	s.mem, err = d.GemMap(s.object)
	require.NoError(t, err)
	require.NoError(t, d.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: s.object, Addr: s.base, Range: shareSize}}, false))
	return s
}

// fill writes a word to 64 bytes at an offset, after some sync objects, signalling others.
func (s *sharer) fill(channel uint32, at uint64, word uint32, waits, signals []uint32) error {
	stream := drm.FillCmd{Dst: s.base + at, Pattern: word, Size: 4, Width: 64, Height: 1}.Append(nil)
	_, err := s.ExecSync(channel, stream, waits, signals)
	return err
}

func (s *sharer) syncobj(signaled bool) uint32 {
	h, err := s.SyncobjCreate(signaled)
	require.NoError(s.t, err)
	return h
}

func (s *sharer) wait(flags bool, handles ...uint32) error {
	_, err := s.SyncobjWait(handles, flags, true, time.Minute)
	return err
}

// sharing is what programs do with sync objects and with memory that two files
// have, and what they should not.
func sharing(t *testing.T, open func() drm.Driver) {
	t.Helper()
	d := open()
	a := newSharer(t, d, func() (uint32, error) { return d.GemNew(shareSize, drm.DomainSystem, 0) })
	copy(a.mem, "from the first file")
	fd, err := a.PrimeExport(a.object)
	require.NoError(t, err)
	e := open()
	b := newSharer(t, e, func() (uint32, error) { return e.PrimeImport(fd) })
	require.Equal(t, "from the first file", string(b.mem[:19]))

	// The second batch, on another channel, runs after the first.
	first, second, byHand := a.syncobj(false), a.syncobj(false), a.syncobj(true)
	other, err := a.ChannelAlloc()
	require.NoError(t, err)
	require.NoError(t, a.fill(a.channel, 64, 1, []uint32{byHand}, []uint32{first}))
	require.NoError(t, a.fill(other, 64, 2, []uint32{first, byHand}, []uint32{second}))
	require.NoError(t, a.wait(true, first, second))
	require.Equal(t, byte(2), b.mem[64])

	// Both files write the memory that they share.
	b.mem[4096] = 9
	done := b.syncobj(false)
	require.NoError(t, b.fill(b.channel, 128, 3, nil, []uint32{done}))
	require.NoError(t, b.wait(false, done))
	a.mem[4097] = a.mem[4096]
	_, err = a.Exec(a.channel, drm.CopyCmd{Dst: a.base + 5000, Src: a.base + 128, Width: 8, Height: 1}.Append(nil), nil)
	require.NoError(t, err)
	require.NoError(t, a.CPUPrep(a.object, -1))
	require.Equal(t, byte(3), b.mem[5000])

	require.NoError(t, a.SyncobjReset([]uint32{first, second}))
	require.ErrorIs(t, a.fill(a.channel, 64, 1, []uint32{first}, nil), syscall.EINVAL)
	require.ErrorIs(t, a.fill(a.channel, 64, 1, nil, []uint32{99}), syscall.ENOENT)
	require.NoError(t, a.SyncobjSignal([]uint32{second}))
	require.NoError(t, a.wait(false, first, second))
	_, err = a.SyncobjWait([]uint32{first}, true, false, time.Minute)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = a.SyncobjWait([]uint32{first}, true, true, time.Millisecond)
	require.ErrorIs(t, err, syscall.ETIME)
	require.NoError(t, a.SyncobjDestroy(first))
	require.ErrorIs(t, a.SyncobjDestroy(first), syscall.ENOENT)
	require.ErrorIs(t, a.SyncobjSignal([]uint32{first}), syscall.ENOENT)

	vram, err := a.GemNew(4096, drm.DomainVRAM, 0)
	require.NoError(t, err)
	_, err = a.PrimeExport(vram)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	_, err = a.PrimeExport(99)
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = a.PrimeImport(-1)
	require.ErrorIs(t, err, syscall.EBADF)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	_, err = a.PrimeImport(int(null.Fd()))
	require.ErrorIs(t, err, syscall.EINVAL)
	require.NoError(t, null.Close())
	require.NoError(t, unix.Close(fd))

	// What is shared lives as long as anybody has it.
	require.NoError(t, a.Close())
	require.NoError(t, b.fill(b.channel, 0, 4, nil, []uint32{done}))
	require.NoError(t, b.wait(true, done))
	require.Equal(t, byte(4), b.mem[0])
	require.Equal(t, byte(9), b.mem[4097])
	require.NoError(t, b.Close())
}
