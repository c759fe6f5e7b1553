package host_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/gloop/abi"
	"pvdrm/frontend/gloop/host"
)

// job is Job of testdata/io.cu.
type job struct {
	From, To, Buffer, Chunk uint64
	Size, Done, Error       int64
}

// put copies a value to device memory.
func put(t testing.TB, c *cuda.Context, v any) cuda.DevicePtr {
	raw, err := binary.Append(nil, binary.LittleEndian, v)
	require.NoError(t, err)
	p, err := c.MemAlloc(uint64(len(raw)))
	require.NoError(t, err)
	require.NoError(t, c.MemcpyHtoD(p, raw))
	return p
}

// get copies it back.
func get(t testing.TB, c *cuda.Context, p cuda.DevicePtr, v any) {
	raw := make([]byte, binary.Size(v))
	require.NoError(t, c.MemcpyDtoH(raw, p))
	_, err := binary.Decode(raw, binary.LittleEndian, v)
	require.NoError(t, err)
}

// Kernels copy files through device memory and through granted memory, in place, also when they are
// suspended after every callback.
func TestFiles(t *testing.T) {
	const files = 3
	for name, kind := range kinds {
		for _, granted := range []bool{false, true} {
			for _, every := range []uint32{0, 1, 3} {
				c := newContext(t, 2)
				dir := t.TempDir()
				cfg := config(t, c, "io"+kind, "copy")
				cfg.Grid[0], cfg.Block[0], cfg.Every = files, 64, every
				chunk := uint64(700_000) // more than a bounce buffer
				var buffers uint64
				if granted {
					h, err := c.MemAllocHost(files * chunk)
					require.NoError(t, err)
					cfg.Memory = []*cuda.HostMem{h}
					buffers = uint64(h.DevicePtr())
				} else {
					p, err := c.MemAlloc(files * chunk)
					require.NoError(t, err)
					buffers = uint64(p)
				}
				jobs := make([]job, files)
				contents := make([][]byte, files)
				for i := range jobs {
					from, to := filepath.Join(dir, "from"+string(rune('0'+i))), filepath.Join(dir, "to"+string(rune('0'+i)))
					contents[i] = make([]byte, i*1_000_003) // the first one is empty
					_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(contents[i])
					require.NoError(t, os.WriteFile(from, contents[i], 0o600))
					require.NoError(t, os.WriteFile(to, bytes.Repeat([]byte{1}, 5_000_000), 0o600))
					jobs[i] = job{From: uint64(put(t, c, []byte(from+"\x00"))), To: uint64(put(t, c, []byte(to+"\x00"))),
						Buffer: buffers + uint64(i)*chunk, Chunk: chunk}
				}
				at := put(t, c, jobs)
				stats, err := host.Run(minute(t), cfg, at)
				require.NoError(t, err)
				get(t, c, at, jobs)
				total := uint64(0)
				for i, j := range jobs {
					require.Zero(t, j.Error, name)
					require.EqualValues(t, len(contents[i]), j.Size)
					require.EqualValues(t, len(contents[i]), j.Done)
					got, err := os.ReadFile(filepath.Join(dir, "to"+string(rune('0'+i))))
					require.NoError(t, err)
					for b := range contents[i] {
						contents[i][b] ^= 0x5a
					}
					require.True(t, bytes.Equal(contents[i], got), "%s, file %d, granted %v, every %d", name, i, granted, every)
					total += 2 * uint64(len(got))
				}
				if granted {
					require.Equal(t, [2]uint64{total, 0}, [2]uint64{stats.Direct, stats.Bounced})
				} else {
					require.Equal(t, [2]uint64{0, total}, [2]uint64{stats.Direct, stats.Bounced})
				}
			}
		}
	}
}

// ask makes requests, each in a block of its own, and returns what their callbacks got.
func ask(t *testing.T, c *cuda.Context, cfg host.Config, path string, requests ...abi.Request) []int64 {
	results := make([]int64, len(requests))
	for i := range results {
		results[i] = 12345
	}
	out := put(t, c, results)
	cfg.Grid[0], cfg.Blocks = uint32(len(requests)), 1 // in order
	_, err := host.Run(minute(t), cfg, put(t, c, requests), put(t, c, []byte(path+"\x00")), out)
	require.NoError(t, err)
	get(t, c, out, results)
	return results
}

// What is wrong with a request is an errno for its callback.
func TestErrors(t *testing.T) {
	c := newContext(t, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("hello"), 0o400))
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	cfg := config(t, c, "io", "ask")
	buffer, err := c.MemAlloc(4096)
	require.NoError(t, err)
	errno := func(e syscall.Errno) int64 { return -int64(e) }

	for _, tc := range []struct {
		path string
		want syscall.Errno
		r    abi.Request
	}{
		{path: filepath.Join(dir, "none"), want: syscall.ENOENT, r: abi.Request{Op: abi.OpOpen}},
		{path: dir, want: syscall.EISDIR, r: abi.Request{Op: abi.OpOpen}},
		{path: fifo, want: syscall.EINVAL, r: abi.Request{Op: abi.OpOpen}},
		{path: "/dev/null", want: syscall.EINVAL, r: abi.Request{Op: abi.OpOpen}},
		{path: file, want: syscall.EEXIST, r: abi.Request{Op: abi.OpOpen, Flags: abi.OpenCreate | abi.OpenExclusive}},
		{path: file, want: syscall.EINVAL, r: abi.Request{Op: abi.OpOpen, Flags: 0o2000}},
		{path: "", want: syscall.EINVAL, r: abi.Request{Op: abi.OpOpen}},
		{path: string(bytes.Repeat([]byte("a"), 256)), want: syscall.ENAMETOOLONG, r: abi.Request{Op: abi.OpOpen}},
		{want: syscall.ENOSYS, r: abi.Request{}},
		{want: syscall.ENOSYS, r: abi.Request{Op: 99}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpClose, Handle: 3}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpRead, Handle: 0, Address: uint64(buffer), Size: 1}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpStat, Handle: 1 << 31}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpTruncate, Handle: ^uint32(0)}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpAccept, Handle: 3}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpReceive, Handle: 3, Size: 1}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpSend, Handle: 3, Size: 1}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpUnbind, Handle: 3}},
		{want: syscall.EBADF, r: abi.Request{Op: abi.OpDisconnect, Handle: 3}},
		{want: syscall.EINVAL, r: abi.Request{Op: abi.OpRead, Size: 1 << 40}},
		{want: syscall.EINVAL, r: abi.Request{Op: abi.OpRead, Address: ^uint64(0), Size: 2}},
		{want: syscall.EINVAL, r: abi.Request{Op: abi.OpRead, Offset: 1 << 63}},
		{want: syscall.EINVAL, r: abi.Request{Op: abi.OpConnect, Port: 65536}},
		{want: syscall.EINVAL, r: abi.Request{Op: abi.OpReceive, Flags: 2}},
		{want: syscall.EINVAL, r: abi.Request{Op: abi.OpSend, Flags: 1}},
		{want: syscall.EINVAL, r: abi.Request{Op: abi.OpAccept, Timeout: ^uint64(0)}},
		{want: syscall.ECONNREFUSED, r: abi.Request{Op: abi.OpConnect, IP: 0x7f000001, Port: 1}},
	} {
		require.Equal(t, []int64{errno(tc.want)}, ask(t, c, cfg, tc.path, tc.r), "%v %q: want %v", tc.r.Op, tc.path, tc.want)
	}

	const first = 3 // what the first file is called
	got := ask(t, c, cfg, file,
		abi.Request{Op: abi.OpOpen},
		abi.Request{Op: abi.OpStat, Handle: first},
		abi.Request{Op: abi.OpRead, Handle: first, Address: uint64(buffer), Size: 4096},
		abi.Request{Op: abi.OpRead, Handle: first, Address: uint64(buffer), Size: 4096, Offset: 5},
		abi.Request{Op: abi.OpRead, Handle: first, Address: 1 << 46, Size: 5}, // nothing is there
		abi.Request{Op: abi.OpWrite, Handle: first, Address: uint64(buffer), Size: 4},
		abi.Request{Op: abi.OpTruncate, Handle: first},
		abi.Request{Op: abi.OpUnbind, Handle: first}, // of another kind
		abi.Request{Op: abi.OpClose, Handle: first},
		abi.Request{Op: abi.OpClose, Handle: first})
	require.Equal(t, []int64{first, 5, 5, 0, errno(syscall.EFAULT), errno(syscall.EBADF), errno(syscall.EINVAL),
		errno(syscall.EBADF), 0, errno(syscall.EBADF)}, got)

	cfg.Handles = 1
	got = ask(t, c, cfg, file, abi.Request{Op: abi.OpOpen}, abi.Request{Op: abi.OpOpen}, abi.Request{Op: abi.OpClose, Handle: first}, abi.Request{Op: abi.OpOpen})
	require.Equal(t, []int64{first, errno(syscall.EMFILE), 0, first}, got)
}
