package vfiouser_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/carrier/vfiouser"
	"pvdrm/backend/carrier/vfiouser/vfiotest"
	"pvdrm/internal/hostmem"
	"pvdrm/internal/unixsock"
)

// memory is a device whose BAR0 is memory that traps, and whose BAR2 has 64 bits and a file for its
// first page.
type memory struct {
	mu     sync.Mutex // of what follows: the test looks at it, too
	bar    [64]byte
	file   *hostmem.Region
	maps   map[uint64]int
	resets int
}

func (m *memory) Config() vfiouser.Config {
	return vfiouser.Config{Vendor: 0x1234, Device: 0x5678, Class: 0x120000, Revision: 3, Wide: [6]bool{2: true}, Prefetch: [6]bool{2: true}}
}

func (m *memory) Region(bar int) vfiouser.Region {
	switch bar {
	case 0:
		return vfiouser.Region{Size: uint64(len(m.bar))}
	case 2:
		return vfiouser.Region{Size: 8192, File: m.file.FD(), Areas: []vfiouser.Area{{Offset: 0, Size: 4096}}}
	}
	return vfiouser.Region{}
}

func (m *memory) Read(bar int, off uint64, p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bar == 0 {
		copy(p, m.bar[off:])
	}
}

func (m *memory) Write(bar int, off uint64, p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bar == 0 {
		copy(m.bar[off:], p)
	}
}

func (m *memory) Map(addr uint64, mem []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maps[addr] = len(mem)
	return nil
}

func (m *memory) Unmap(addr uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.maps, addr)
}

func (m *memory) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resets++
}

// mapped is what is mapped now.
func (m *memory) mapped() map[uint64]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.maps)
}

// reset is how often it was reset.
func (m *memory) reset() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resets
}

func newMemory(t testing.TB) *memory {
	r, err := hostmem.New(8192)
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return &memory{file: r, maps: map[uint64]int{}}
}

// serve serves a device; what it returned comes out of the channel.
func serve(t testing.TB, d vfiouser.Device) (*net.UnixConn, chan error) {
	ours, theirs, err := unixsock.Pair(unix.SOCK_STREAM)
	require.NoError(t, err)
	client, err := unixsock.Conn(ours)
	require.NoError(t, err)
	fd, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	server, err := unixsock.Conn(fd)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- vfiouser.Serve(context.Background(), server, d) }()
	t.Cleanup(func() { _ = client.Close() })
	return client, ended
}

func TestDevice(t *testing.T) {
	d := newMemory(t)
	conn, ended := serve(t, d)
	c := vfiotest.New(conn)
	require.NoError(t, c.Negotiate())
	info, _, err := c.Do(vfiotest.DeviceInfo, make([]byte, 16))
	require.NoError(t, err)
	require.Equal(t, []byte{16, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0}, info)

	id := make([]byte, 16)
	require.NoError(t, c.Read(vfiouser.ConfigRegion, 0, id))
	require.Equal(t, []byte{0x34, 0x12, 0x78, 0x56, 0, 0, 0, 0, 3, 0, 0, 0x12, 0, 0, 0, 0}, id)
	bars := bytes.Repeat([]byte{0xff}, 24)
	require.NoError(t, c.Write(vfiouser.ConfigRegion, 0x10, bars))
	require.NoError(t, c.Read(vfiouser.ConfigRegion, 0x10, bars))
	require.Equal(t, []uint32{0xffffffc0, 0, 0xffffe00c, 0xffffffff, 0, 0}, half(bars), "sizes, as software asks for them")
	require.NoError(t, c.Write(vfiouser.ConfigRegion, 0, []byte{1, 1, 1, 1, 0xff, 0xff}))
	require.NoError(t, c.Read(vfiouser.ConfigRegion, 0, id[:8]))
	require.Equal(t, []byte{0x34, 0x12, 0x78, 0x56, 7, 4, 0, 0}, id[:8])

	require.NoError(t, c.Write(0, 8, []byte{1, 2, 3, 4}))
	word := make([]byte, 4)
	require.NoError(t, c.Read(0, 8, word))
	require.Equal(t, []byte{1, 2, 3, 4}, word)
	r, err := c.Region(0)
	require.NoError(t, err)
	require.Equal(t, vfiotest.Region{Flags: 3, Size: 64, File: -1}, r)
	r, err = c.Region(2)
	require.NoError(t, err)
	require.Equal(t, vfiotest.Region{Flags: 15, Size: 8192, File: r.File, Areas: [][2]uint64{{0, 4096}}}, r)
	mem, err := unix.Mmap(r.File, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	mem[5] = 77
	require.Equal(t, byte(77), d.file.Bytes()[5])
	require.NoError(t, unix.Munmap(mem))
	require.NoError(t, unix.Close(r.File))

	_, _, err = c.Do(vfiotest.Reset, nil)
	require.NoError(t, err)
	require.Equal(t, 1, d.reset())
	number, err := c.Send(vfiotest.RegionWrite, 1<<4, append(make([]byte, 12), 4, 0, 0, 0, 9, 9, 9, 9)) // no reply
	require.NoError(t, err)
	require.NotZero(t, number)
	require.NoError(t, c.Read(0, 0, word))
	require.Equal(t, []byte{9, 9, 9, 9}, word)
	require.NoError(t, conn.Close())
	require.NoError(t, <-ended)
}

func half(b []byte) (w []uint32) {
	for v := range slices.Chunk(b, 4) {
		w = append(w, binary.LittleEndian.Uint32(v))
	}
	return w
}

// file is a memfd of two pages.
func file(t *testing.T, seals int) int {
	fd, err := unix.MemfdCreate("test", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, 8192))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestMemory(t *testing.T) {
	d := newMemory(t)
	conn, ended := serve(t, d)
	c := vfiotest.New(conn)
	require.NoError(t, c.Negotiate())
	sealed := file(t, unix.F_SEAL_SHRINK)
	require.NoError(t, c.Map(0x100000, 8192, 0, sealed))
	require.NoError(t, c.Map(0x200000, 4096, 4096, sealed))
	require.Equal(t, map[uint64]int{0x100000: 8192, 0x200000: 4096}, d.mapped())
	for name, refused := range map[string]error{
		"overlapping":        c.Map(0x101000, 4096, 0, sealed),
		"around":             c.Map(0xff000, 16384, 0, sealed),
		"beyond the file":    c.Map(0x300000, 8192, 4096, sealed),
		"not sealed":         c.Map(0x300000, 4096, 0, file(t, 0)),
		"no pages":           c.Map(0x300001, 4096, 0, sealed),
		"empty":              c.Map(0x300000, 0, 0, sealed),
		"behind all":         c.Map(1<<64-4096, 8192, 0, sealed),
		"an offset too far":  c.Map(0x300000, 8192, 1<<64-4096, sealed),
		"another kind of fd": c.Map(0x300000, 4096, 0, 0),
	} {
		var errno unix.Errno
		require.ErrorAs(t, refused, &errno, name)
	}
	require.Len(t, d.mapped(), 2)
	_, _, err := c.Do(vfiotest.DMAMap, append([]byte{32, 0, 0, 0, 3, 0, 0, 0}, make([]byte, 24)...)) // no file: memory that cannot be reached
	require.Error(t, err, "of no bytes")
	require.NoError(t, c.Unmap(0x100000, 4096))
	require.Len(t, d.mapped(), 2, "a part of what was mapped stays")
	require.NoError(t, c.Unmap(0, 1<<40))
	require.Empty(t, d.mapped())
	for i := range uint64(vfiouser.MaxMaps) {
		require.NoError(t, c.Map(i<<20, 4096, 0, sealed))
	}
	require.Error(t, c.Map(1<<40, 4096, 0, sealed), "one more than there may be")
	require.NoError(t, conn.Close())
	require.NoError(t, <-ended)
	require.Empty(t, d.mapped(), "the end of the connection takes all back")
}

// Requests that are refused get an errno, and those that no client sends end the connection.
func TestHostileRequests(t *testing.T) {
	for name, m := range map[string]struct {
		command uint16
		payload []byte
	}{
		"a read that is too long":   {vfiotest.RegionRead, le(0, 7|1<<43)},
		"a read behind the end":     {vfiotest.RegionRead, le(61, 4<<32)},
		"a read of no region":       {vfiotest.RegionRead, le(0, 100|4<<32)},
		"a read of an empty region": {vfiotest.RegionRead, le(0, 1|4<<32)},
		"a write without data":      {vfiotest.RegionWrite, le(0, 4<<32)},
		"a write far behind":        {vfiotest.RegionWrite, append(le(1<<64-4, 4<<32), 1, 2, 3, 4)},
		"a short read":              {vfiotest.RegionRead, make([]byte, 15)},
		"a region that is not":      {vfiotest.RegionInfo, le(32, 9, 0, 0)},
		"a short region":            {vfiotest.RegionInfo, make([]byte, 31)},
		"an interrupt that is not":  {vfiotest.IRQInfo, le(16, 5)},
		"a short map":               {vfiotest.DMAMap, make([]byte, 31)},
		"a short unmap":             {vfiotest.DMAUnmap, make([]byte, 23)},
		"flags of an unmap":         {vfiotest.DMAUnmap, le(24|1<<32, 0, 0)},
		"a command that is not":     {99, nil},
	} {
		conn, _ := serve(t, newMemory(t))
		c := vfiotest.New(conn)
		require.NoError(t, c.Negotiate())
		_, _, err := c.Do(m.command, m.payload)
		var errno unix.Errno
		require.ErrorAs(t, err, &errno, name)
		word := make([]byte, 4)
		require.NoError(t, c.Read(0, 0, word), "%s: it goes on", name)
	}
	for name, packet := range map[string][]byte{
		"before versions":      {1, 0, 4, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"too short":            {1, 0, 1, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"too long":             {1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a reply":              {1, 0, 1, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
		"another version":      {1, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
		"no version":           {1, 0, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"capabilities no JSON": {1, 0, 1, 0, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{'},
	} {
		conn, ended := serve(t, newMemory(t))
		_, err := conn.Write(packet)
		require.NoError(t, err)
		require.ErrorIs(t, <-ended, vfiouser.ErrProtocol, name)
	}
	conn, ended := serve(t, newMemory(t))
	_, err := conn.Write([]byte{1, 0, 1, 0})
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.ErrorIs(t, <-ended, vfiouser.ErrProtocol, "an end in the middle")
}

func le(v ...uint64) (b []byte) {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// FuzzRequests has a client send anything after versions were agreed on. The server answers or ends the
// connection, and afterwards nothing is mapped.
func FuzzRequests(f *testing.F) {
	request := func(command uint16, payload []byte) []byte {
		b := binary.LittleEndian.AppendUint16([]byte{1, 0}, command)
		b = binary.LittleEndian.AppendUint32(b, uint32(16+len(payload)))
		return append(append(b, make([]byte, 8)...), payload...)
	}
	f.Add(request(vfiotest.RegionWrite, append(le(8, 4<<32), 1, 2, 3, 4)))
	f.Add(request(vfiotest.RegionRead, le(0, 7|256<<32)))
	f.Add(request(vfiotest.DMAMap, le(32|3<<32, 0, 0x1000, 0x1000)))
	f.Add(append(request(vfiotest.RegionInfo, le(64, 2, 0, 0)), request(vfiotest.Reset, nil)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newMemory(t)
		conn, ended := serve(t, d)
		c := vfiotest.New(conn)
		require.NoError(t, c.Negotiate())
		go func() { // replies
			for p := make([]byte, 4096); ; {
				if _, err := conn.Read(p); err != nil {
					return
				}
			}
		}()
		_, _ = conn.Write(b) // it may have ended
		_ = conn.CloseWrite()
		<-ended
		require.Empty(t, d.mapped())
	})
}
