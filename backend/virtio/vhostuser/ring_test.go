package vhostuser

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

func TestNeedEvent(t *testing.T) {
	for _, c := range []struct {
		event, now, old uint16
		want            bool
	}{
		{event: 0, now: 1, old: 0, want: true},
		{event: 1, now: 1, old: 0, want: false},
		{event: 5, now: 6, old: 3, want: true},
		{event: 6, now: 6, old: 3, want: false},
		{event: 2, now: 6, old: 3, want: false},
		{event: 65535, now: 0, old: 65535, want: true},
		{event: 0, now: 0, old: 65535, want: false},
		{event: 65534, now: 2, old: 65530, want: true},
	} {
		require.Equal(t, c.want, needEvent(c.event, c.now, c.old), "%+v", c)
	}
}

// Every message has a name, and what can be checked in one place is.
func TestHandlers(t *testing.T) {
	names := make(map[string]bool)
	for req, h := range handlers {
		require.NotEmpty(t, h.name)
		require.False(t, names[h.name], h.name)
		names[h.name] = true
		require.NotNil(t, h.run, h.name)
		require.LessOrEqual(t, h.size, maxPayload, h.name)
		require.LessOrEqual(t, h.fds, maxRegions, h.name)
		require.Equal(t, h.name, req.String())
	}
	require.Equal(t, "number 999", request(999).String())
}

func TestReplyLayout(t *testing.T) {
	require.Equal(t, []byte{11, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 7, 8}, encodeReply(reqGetVringBase, []byte{7, 8}))
}

// sink reads each request to its end and completes it.
type sink struct{ t *testing.T }

func (s sink) Queues() int                { return 1 }
func (s sink) Features() uint64           { return 0 }
func (s sink) Config() []byte             { return nil }
func (s sink) SetDisplay(c *net.UnixConn) {}
func (s sink) Reset()                     {}

func (s sink) Handle(_ int, c *Chain) {
	n := c.Len()
	// A chain may name the same memory many times: read as a device does, with a bound.
	const limit = 1 << 16
	got, err := io.Copy(io.Discard, io.LimitReader(c, limit))
	require.NoError(s.t, err)
	require.Equal(s.t, int64(min(n, limit)), got)
	require.Equal(s.t, n-int(got), c.Len())
	c.Complete(make([]byte, 100))
	c.Complete(nil)
}

// Where FuzzRing puts things in guest memory.
const (
	fuzzSize  = 8
	fuzzUser  = 1 << 40
	fuzzAvail = 512
	fuzzUsed  = 1024
	fuzzTable = 2048 // descriptors for indirect tables
	fuzzMem   = 8192
)

// fillRing makes a ring and 16 more descriptors of the bytes of a fuzzer, so
// that most inputs are nearly right: the driver's index and a byte for each head,
// then seven bytes a descriptor: address u16, length u16, flags u8, next u8, and
// where the address goes wrong u8.
func fillRing(mem, in []byte) {
	le := binary.LittleEndian
	clear(mem)
	take := func() byte {
		if len(in) == 0 {
			return 0
		}
		b := in[0]
		in = in[1:]
		return b
	}
	le.PutUint16(mem[fuzzAvail+2:], uint16(take()))
	for i := range fuzzSize {
		le.PutUint16(mem[fuzzAvail+4+2*i:], uint16(take()))
	}
	for i := range fuzzSize + 16 {
		d := mem[descSize*i:]
		if i >= fuzzSize {
			d = mem[fuzzTable+descSize*(i-fuzzSize):]
		}
		addr := uint64(take()) | uint64(take())<<8
		n := uint32(take()) | uint32(take())<<8
		le.PutUint16(d[12:], uint16(take()))
		le.PutUint16(d[14:], uint16(take()))
		switch wrong := take(); {
		case wrong > 0xf8: // the end wraps around
			addr |= ^uint64(0xffff)
			n |= 0xffff0000
		case wrong > 0xf0:
			addr |= uint64(wrong) << 32
		}
		le.PutUint64(d, addr)
		le.PutUint32(d[8:], n)
	}
}

// FuzzRing lets the device side loose on a ring made of arbitrary bytes.
func FuzzRing(f *testing.F) {
	head := func(idx byte, heads ...byte) []byte {
		return append([]byte{idx}, append(heads, make([]byte, fuzzSize-len(heads))...)...)
	}
	short := func(addr, n uint16, flags, next byte) []byte {
		return []byte{byte(addr), byte(addr >> 8), byte(n), byte(n >> 8), flags, next, 0}
	}
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	f.Add(join(head(1), short(4096, 100, descNext, 1), short(5000, 50, descWrite, 0)), true)
	f.Add(join(head(2, 0, 1), short(fuzzTable, 32, descIndirect, 0), short(4096, 8, descNext, 1)), false)
	f.Add(join(head(9), short(4096, 8, 0, 0)), true)
	f.Add(join(head(1, 200)), true)

	fd, err := unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(f, err)
	require.NoError(f, unix.Ftruncate(fd, fuzzMem))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	require.NoError(f, err)
	reg, err := hostmem.Map(fd, 0, fuzzMem)
	require.NoError(f, err)
	table, err := hostmem.NewTable([]hostmem.Slot{{Guest: 0, User: fuzzUser, Region: reg}})
	require.NoError(f, err)
	f.Cleanup(table.Release)

	f.Fuzz(func(t *testing.T, in []byte, eventIdx bool) {
		fillRing(reg.Bytes(), in)
		q := newQueue(0, sink{t}, zap.NewNop(), &counters{})
		q.eventIdx = eventIdx
		q.mem = table.Acquire()
		addr := vringAddr{desc: fuzzUser, avail: fuzzUser + fuzzAvail, used: fuzzUser + fuzzUsed}
		var err error
		q.ring, err = mapRing(table, addr, fuzzSize)
		require.NoError(t, err)
		// The device writes answers over the ring too, so there may be no end.
		for range 50 {
			c, state, err := q.pop()
			if err != nil || state == popEmpty {
				break
			}
			if state == popChain {
				q.dev.Handle(0, c)
			}
		}
		q.ring = nil
		q.close()
	})
}
