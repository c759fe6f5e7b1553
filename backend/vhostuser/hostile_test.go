package vhostuser_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/vhostuser"
	"pvdrm/backend/vhostuser/vhosttest"
	"pvdrm/internal/hostmem"
)

// A front end that breaks the protocol is told so where it asked for an
// acknowledgement, is disconnected, and leaves nothing behind.
func TestHostileFrontend(t *testing.T) {
	type world struct {
		*testing.T
		f *vhosttest.Frontend
		q *vhosttest.Queue
	}
	region := func(fd int, guest, user, size uint64) vhosttest.Region {
		return vhosttest.Region{FD: fd, Guest: guest, User: user, Mem: make([]byte, size)}
	}
	file := func(w world) int {
		f, err := os.Create(filepath.Join(w.TempDir(), "file"))
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, f.Close()) })
		return int(f.Fd())
	}
	for _, c := range []struct {
		name string
		send func(w world) error
		want string
	}{
		{"unknown message", func(w world) error { return w.f.Try(6, nil) }, "not offered"},
		{"wrong version", func(w world) error { return w.f.Post(vhosttest.GetFeatures, 2, nil) }, "version"},
		{"reply", func(w world) error { return w.f.Post(vhosttest.GetFeatures, 1|4, nil) }, "nobody asked"},
		{"huge payload", func(w world) error {
			return w.f.Post(vhosttest.SetFeatures, 1, make([]byte, 4097))
		}, "payload of 4097 bytes"},
		{"short payload", func(w world) error { return w.f.Try(vhosttest.SetFeatures, make([]byte, 7)) }, "want 8"},
		{"descriptors where none belong", func(w world) error {
			return w.f.Try(vhosttest.SetOwner, nil, w.q.KickFD)
		}, "1 descriptors, at most 0"},
		{"too many descriptors", func(w world) error {
			fds := make([]int, 40)
			for i := range fds {
				fds[i] = w.q.KickFD
			}
			return w.f.Post(vhosttest.SetMemTable, 1, nil, fds...)
		}, "more than 8 descriptors"},
		{"packed ring", func(w world) error {
			return w.f.Try(vhosttest.SetFeatures, vhosttest.Longs(1<<34))
		}, "0x400000000"},
		{"protocol feature that was not offered", func(w world) error {
			return w.f.Post(vhosttest.SetProtocolFeatures, 1, vhosttest.Longs(1))
		}, "0x1"},
		{"empty memory table", func(w world) error {
			return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable())
		}, "0 regions"},
		{"memory table cut short", func(w world) error {
			return w.f.Try(vhosttest.SetMemTable, vhosttest.Words(2, 0, 0), w.q.KickFD, w.q.KickFD)
		}, "cut short"},
		{"memory table without descriptors", func(w world) error {
			return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 4096)))
		}, "0 descriptors"},
		{"memory in a file", func(w world) error {
			return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 4096)), file(w))
		}, hostmem.ErrNotSealed.Error()},
		{"memory that can shrink", func(w world) error {
			fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_GROW)
			return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 4096)), fd)
		}, hostmem.ErrNotSealed.Error()},
		{"memory shorter than it says", func(w world) error {
			fd := vhosttest.Memfd(w, 4096, unix.F_SEAL_SHRINK)
			return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 8192)), fd)
		}, "memfd that has only 0x1000"},
		{"second region bad", func(w world) error {
			fd := vhosttest.Memfd(w, 4096, unix.F_SEAL_SHRINK)
			return w.f.Try(vhosttest.SetMemTable,
				vhosttest.MemTable(region(-1, 0, 0, 4096), region(-1, 8192, 8192, 8192)), fd, fd)
		}, "memory region 1"},
		{"regions overlap", func(w world) error {
			fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_SHRINK)
			return w.f.Try(vhosttest.SetMemTable,
				vhosttest.MemTable(region(-1, 0, 0, 8192), region(-1, 4096, 1<<30, 8192)), fd, fd)
		}, "overlap"},
		{"region wraps around", func(w world) error {
			fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_SHRINK)
			return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, ^uint64(4095), 0, 8192)), fd)
		}, "wraps around"},
		{"new memory without the ring", func(w world) error {
			fd := vhosttest.Memfd(w, 8192, unix.F_SEAL_SHRINK)
			return w.f.Try(vhosttest.SetMemTable, vhosttest.MemTable(region(-1, 0, 0, 8192)), fd)
		}, "no place for it"},
		{"queue that does not exist", func(w world) error {
			return w.f.Try(vhosttest.SetVringNum, vhosttest.Words(2, 16))
		}, "queue 2 of 2"},
		{"queue size of no power of two", func(w world) error {
			return w.f.Try(vhosttest.SetVringNum, vhosttest.Words(1, 24))
		}, "size 24"},
		{"queue too large", func(w world) error {
			return w.f.Try(vhosttest.SetVringNum, vhosttest.Words(1, 2048))
		}, "size 2048"},
		{"queue moved while it runs", func(w world) error {
			return w.f.Try(vhosttest.SetVringAddr, w.q.AddrPayload())
		}, "is running"},
		{"ring with logging", func(w world) error {
			p := w.q.AddrPayload()
			p[4] = 1
			return w.f.Try(vhosttest.SetVringAddr, p)
		}, "logging"},
		{"index of more than 16 bits", func(w world) error {
			return w.f.Try(vhosttest.SetVringBase, vhosttest.Words(1, 1<<16))
		}, "more than 16 bits"},
		{"ring outside of memory", func(w world) error {
			w.f.Set(vhosttest.SetVringNum, vhosttest.Words(1, 16))
			w.f.Set(vhosttest.SetVringAddr, append(vhosttest.Words(1, 0), vhosttest.Longs(0, 0, 0, 0)...))
			w.f.Set(vhosttest.SetVringKick, vhosttest.Longs(1), w.q.KickFD)
			return w.f.Try(vhosttest.SetVringEnable, vhosttest.Words(1, 1))
		}, "not guest memory"},
		{"misaligned ring", func(w world) error {
			p := w.q.AddrPayload()
			p[0], p[8] = 1, 8
			w.f.Set(vhosttest.SetVringNum, vhosttest.Words(1, 16))
			w.f.Set(vhosttest.SetVringAddr, p)
			w.f.Set(vhosttest.SetVringKick, vhosttest.Longs(1), w.q.KickFD)
			return w.f.Try(vhosttest.SetVringEnable, vhosttest.Words(1, 1))
		}, "not aligned"},
		{"kick without a descriptor", func(w world) error {
			return w.f.Try(vhosttest.SetVringKick, vhosttest.Longs(1|1<<8))
		}, "polling is not offered"},
		{"kick that says it has none and has one", func(w world) error {
			return w.f.Try(vhosttest.SetVringKick, vhosttest.Longs(1|1<<8), w.q.KickFD)
		}, "1 descriptors with flags"},
		{"kick that is a file", func(w world) error {
			return w.f.Try(vhosttest.SetVringKick, vhosttest.Longs(1), file(w))
		}, "not an eventfd"},
		{"call that is a socket", func(w world) error {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(w, err)
			defer func() { require.NoError(w, unix.Close(fds[0])); require.NoError(w, unix.Close(fds[1])) }()
			return w.f.Try(vhosttest.SetVringCall, vhosttest.Longs(1), fds[0])
		}, "not an eventfd"},
		{"configuration space out of bounds", func(w world) error {
			return w.f.Try(vhosttest.GetConfig, append(vhosttest.Words(250, 8, 0), make([]byte, 8)...))
		}, "250+8"},
		{"configuration space cut short", func(w world) error {
			return w.f.Try(vhosttest.SetConfig, vhosttest.Words(0, 8, 0))
		}, "says 8 bytes and carries 0"},
		{"display that is a file", func(w world) error {
			return w.f.Try(vhosttest.GPUSetSocket, nil, file(w))
		}, "GPU_SET_SOCKET"},
		{"no display at all", func(w world) error { return w.f.Try(vhosttest.GPUSetSocket, nil) }, "without a socket"},
		{"half a header", func(w world) error {
			_, err := w.f.Conn.Write([]byte{1, 0, 0})
			require.NoError(w, w.f.Conn.CloseWrite())
			return err
		}, "inside a message"},
		{"half a payload", func(w world) error {
			_, err := w.f.Conn.Write(vhosttest.Words(vhosttest.SetFeatures, 1, 8, 0))
			require.NoError(w, w.f.Conn.CloseWrite())
			return err
		}, "inside a message"},
	} {
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
			if err := c.send(world{t, f, q}); err != nil {
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
