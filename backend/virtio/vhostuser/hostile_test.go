package vhostuser_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/vhostuser"
	"pvdrm/backend/virtio/vhostuser/vhosttest"
	"pvdrm/internal/hostmem"
)

// hostile is a session that a front end attacks.
type hostile struct {
	*testing.T
	f *vhosttest.Frontend
	q *vhosttest.Queue
}

// file opens a file that is neither a memfd, an eventfd nor a socket.
func (w hostile) file() int {
	f, err := os.Create(filepath.Join(w.TempDir(), "file"))
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, f.Close()) })
	return int(f.Fd())
}

func region(fd int, guest, user, size uint64) vhosttest.Region {
	return vhosttest.Region{FD: fd, Guest: guest, User: user, Mem: make([]byte, size)}
}

// hostilities break the protocol; want is what the session's error says.
var hostilities = []struct {
	name string
	send func(w hostile) error
	want string
}{
	{name: "unknown message", send: func(w hostile) error { return w.f.Try(6, nil) }, want: "not offered"},
	{name: "wrong version", send: func(w hostile) error { return w.f.Post(vhosttest.GetFeatures, 2, nil) }, want: "version"},
	{name: "reply", send: func(w hostile) error { return w.f.Post(vhosttest.GetFeatures, 1|4, nil) }, want: "a reply to no request"},
	{name: "huge payload", send: func(w hostile) error {
		return w.f.Post(vhosttest.SetFeatures, 1, make([]byte, 4097))
	}, want: "payload of 4097 bytes"},
	{name: "short payload", send: func(w hostile) error { return w.f.Try(vhosttest.SetFeatures, make([]byte, 7)) }, want: "want 8"},
	{name: "descriptors where none belong", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetOwner, nil, w.q.KickFD)
	}, want: "1 descriptors, at most 0"},
	{name: "too many descriptors", send: func(w hostile) error {
		fds := make([]int, 40)
		for i := range fds {
			fds[i] = w.q.KickFD
		}
		return w.f.Post(vhosttest.SetMemTable, 1, nil, fds...)
	}, want: "more than 8 descriptors"},
	{name: "packed ring", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetFeatures, vhosttest.Longs(1<<34))
	}, want: "0x400000000"},
	{name: "protocol feature that was not offered", send: func(w hostile) error {
		return w.f.Post(vhosttest.SetProtocolFeatures, 1, vhosttest.Longs(1))
	}, want: "0x1"},
	{name: "empty memory table", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable())
	}, want: "0 regions"},
	{name: "memory table cut short", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetMemTable, vhosttest.Words(2, 0, 0), w.q.KickFD, w.q.KickFD)
	}, want: "cut short"},
	{name: "memory table without descriptors", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 4096)))
	}, want: "0 descriptors"},
	{name: "memory in a file", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 4096)), w.file())
	}, want: hostmem.ErrNotSealed.Error()},
	{name: "memory that can shrink", send: func(w hostile) error {
		fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_GROW)
		return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 4096)), fd)
	}, want: hostmem.ErrNotSealed.Error()},
	{name: "memory shorter than it says", send: func(w hostile) error {
		fd := vhosttest.Memfd(w, 4096, unix.F_SEAL_SHRINK)
		return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 8192)), fd)
	}, want: "memfd that has only 0x1000"},
	{name: "second region bad", send: func(w hostile) error {
		fd := vhosttest.Memfd(w, 4096, unix.F_SEAL_SHRINK)
		return w.f.Try(vhosttest.SetMemTable,
			vhosttest.MemTable(region(-1, 0, 0, 4096), region(-1, 8192, 8192, 8192)), fd, fd)
	}, want: "memory region 1"},
	{name: "regions overlap", send: func(w hostile) error {
		fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_SHRINK)
		return w.f.Try(vhosttest.SetMemTable,
			vhosttest.MemTable(region(-1, 0, 0, 8192), region(-1, 4096, 1<<30, 8192)), fd, fd)
	}, want: "overlap"},
	{name: "region wraps around", send: func(w hostile) error {
		fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_SHRINK)
		return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, ^uint64(4095), 0, 8192)), fd)
	}, want: "wraps around"},
	{name: "new memory without the ring", send: func(w hostile) error {
		fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_SHRINK)
		return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 8192)), fd)
	}, want: "no place for it"},
	{name: "queue that does not exist", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringNum, vhosttest.Words(2, 16))
	}, want: "queue 2 of 2"},
	{name: "queue size of no power of two", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringNum, vhosttest.Words(1, 24))
	}, want: "size 24"},
	{name: "queue too large", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringNum, vhosttest.Words(1, 2048))
	}, want: "size 2048"},
	{name: "queue moved while it runs", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringAddr, w.q.AddrPayload())
	}, want: "is running"},
	{name: "ring with logging", send: func(w hostile) error {
		p := w.q.AddrPayload()
		p[4] = 1
		return w.f.Try(vhosttest.SetVringAddr, p)
	}, want: "logging"},
	{name: "index of more than 16 bits", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringBase, vhosttest.Words(1, 1<<16))
	}, want: "more than 16 bits"},
	{name: "ring outside of memory", send: func(w hostile) error {
		w.f.Set(vhosttest.SetVringNum, vhosttest.Words(1, 16))
		w.f.Set(vhosttest.SetVringAddr, append(vhosttest.Words(1, 0), vhosttest.Longs(0, 0, 0, 0)...))
		w.f.Set(vhosttest.SetVringKick, vhosttest.Longs(1), w.q.KickFD)
		return w.f.Try(vhosttest.SetVringEnable, vhosttest.Words(1, 1))
	}, want: "not guest memory"},
	{name: "misaligned ring", send: func(w hostile) error {
		p := w.q.AddrPayload()
		p[0], p[8] = 1, 8
		w.f.Set(vhosttest.SetVringNum, vhosttest.Words(1, 16))
		w.f.Set(vhosttest.SetVringAddr, p)
		w.f.Set(vhosttest.SetVringKick, vhosttest.Longs(1), w.q.KickFD)
		return w.f.Try(vhosttest.SetVringEnable, vhosttest.Words(1, 1))
	}, want: "not aligned"},
	{name: "kick without a descriptor", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringKick, vhosttest.Longs(1|1<<8))
	}, want: "polling is not offered"},
	{name: "kick that says it has none and has one", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringKick, vhosttest.Longs(1|1<<8), w.q.KickFD)
	}, want: "1 descriptors with flags"},
	{name: "kick that is a file", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetVringKick, vhosttest.Longs(1), w.file())
	}, want: "not an eventfd"},
	{name: "call that is a socket", send: func(w hostile) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(w, err)
		defer func() { require.NoError(w, unix.Close(fds[0])); require.NoError(w, unix.Close(fds[1])) }()
		return w.f.Try(vhosttest.SetVringCall, vhosttest.Longs(1), fds[0])
	}, want: "not an eventfd"},
	{name: "configuration space out of bounds", send: func(w hostile) error {
		return w.f.Try(vhosttest.GetConfig, append(vhosttest.Words(250, 8, 0), make([]byte, 8)...))
	}, want: "250+8"},
	{name: "configuration space cut short", send: func(w hostile) error {
		return w.f.Try(vhosttest.SetConfig, vhosttest.Words(0, 8, 0))
	}, want: "says 8 bytes and carries 0"},
	{name: "display that is a file", send: func(w hostile) error {
		return w.f.Try(vhosttest.GPUSetSocket, nil, w.file())
	}, want: "GPU_SET_SOCKET"},
	{name: "no display at all", send: func(w hostile) error { return w.f.Try(vhosttest.GPUSetSocket, nil) }, want: "without a socket"},
	{name: "half a header", send: func(w hostile) error {
		_, err := w.f.Conn.Write([]byte{1, 0, 0})
		require.NoError(w, w.f.Conn.CloseWrite())
		return err
	}, want: "inside a message"},
	{name: "half a payload", send: func(w hostile) error {
		_, err := w.f.Conn.Write(vhosttest.Words(vhosttest.SetFeatures, 1, 8, 0))
		require.NoError(w, w.f.Conn.CloseWrite())
		return err
	}, want: "inside a message"},
}

// A front end that breaks the protocol gets an error where it asked for an
// acknowledgement, is disconnected, and leaves nothing behind.
func TestHostileFrontend(t *testing.T) {
	for _, c := range hostilities {
		t.Run(c.name, func(t *testing.T) {
			before := openFDs(t)
			e := newEcho()
			f, _, done := serve(t, e)
			f.Hello(vhosttest.Features)
			f.ShareMemory()
			q := f.NewQueue(0, 16)
			q.Start(0)
			require.Equal(t, []byte("cba"), q.Do([]byte("abc"), 8))

			mine := openFDs(t)
			if err := c.send(hostile{T: t, f: f, q: q}); err != nil {
				require.ErrorIs(t, err, vhosttest.ErrRefused)
			}
			f.HungUp()
			require.ErrorContains(t, <-done, c.want)
			require.Equal(t, 1, e.resetCount())
			require.Less(t, openFDs(t), mine+2, "descriptors of the session are closed")
			require.Positive(t, before)
		})
	}
}

// openFDs counts the open descriptors of this process.
func openFDs(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(d)
}

// Whatever bytes a front end sends, it is served until it breaks the protocol,
// and then everything ends.
func FuzzMessages(f *testing.F) {
	f.Add(append(vhosttest.Words(1, 1, 0), vhosttest.Words(2, 9, 8, 0x70000000, 1)...))
	f.Add(append(vhosttest.Words(5, 1, 8), vhosttest.Words(8, 0)...))
	f.Add(vhosttest.Words(24, 1, 16, 0, 4, 0, 0, 34, 1, 0))
	f.Add(vhosttest.Words(8, 1, 8, 0, 256, 10, 1, 8, 0, 7, 18, 1, 8, 0, 1, 11, 1, 8, 0, 0))
	f.Add(vhosttest.Words(9, 1, 40, 0, 0, 4096, 0, 8192, 0, 12288, 0, 0, 0))
	f.Fuzz(func(t *testing.T, stream []byte) {
		front, back := vhosttest.Pair(t)
		go func() {
			_, _ = front.Write(stream) // the back end may hang up before the end
			_ = front.CloseWrite()
			buf := make([]byte, 4096)
			for {
				if _, err := front.Read(buf); err != nil {
					return
				}
			}
		}()
		e := newEcho()
		_ = vhostuser.NewServer(e, nil).ServeConn(context.Background(), back) // any end is fine
		require.Positive(t, e.resetCount())
	})
}
