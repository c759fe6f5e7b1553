package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/session"
	"pvdrm/gem/quota"
	"pvdrm/hypercall"
	"pvdrm/internal/unixsock"
)

// memfd makes a memfd with seals. The end of the test closes it.
func memfd(t testing.TB, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Ftruncate(fd, size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	return fd
}

// open opens a file. The end of the test closes it.
func open(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// Only memory is taken, of which no other file of the client can be made.
func TestWhatMayBeGranted(t *testing.T) {
	s := NewServer(Config{})
	m, err := s.grant(memfd(t, 8192, wantSeals))
	require.NoError(t, err)
	require.EqualValues(t, 8192, m.Size())
	m.drop()

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, make([]byte, 4096), 0o600))
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	t.Cleanup(func() { unixsock.Close(pipe[:]) })
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unixsock.Close(sockets[:]) })
	whole := memfd(t, 4096, wantSeals)
	readOnly := open(t, procPath(whole), unix.O_RDONLY)
	for name, c := range map[string]struct {
		fd   int
		want error
	}{
		"not to be written":    {memfd(t, 4096, wantSeals|unix.F_SEAL_WRITE), ErrNotGrantable},
		"not to be mapped":     {memfd(t, 4096, wantSeals|unix.F_SEAL_FUTURE_WRITE), ErrNotGrantable},
		"empty":                {memfd(t, 0, wantSeals), unix.EINVAL},
		"no whole pages":       {memfd(t, 4097, wantSeals), unix.EINVAL},
		"far too large":        {memfd(t, 1<<60, wantSeals), unix.ENOSPC},
		"opened for reading":   {readOnly, unix.EACCES},
		"a mere path":          {open(t, procPath(whole), unix.O_PATH), ErrNotGrantable},
		"a file":               {open(t, file, unix.O_RDWR), ErrNotGrantable},
		"an empty file":        {open(t, "/dev/shm", unix.O_TMPFILE|unix.O_RDWR), unix.EINVAL},
		"far too large a file": {memfd(t, 1<<60, 0), unix.ENOSPC},
		"a directory":          {open(t, "/", unix.O_RDONLY), ErrNotGrantable},
		"a device":             {open(t, "/dev/zero", unix.O_RDWR), ErrNotGrantable},
		"a process's memory":   {open(t, "/proc/self/mem", unix.O_RDWR), ErrNotGrantable},
		"a pipe":               {pipe[0], ErrNotGrantable},
		"a socket":             {sockets[0], ErrNotGrantable},
		"nothing that is open": {1 << 20, ErrNotGrantable},
	} {
		m, err := s.grant(c.fd)
		require.ErrorIs(t, err, c.want, name)
		require.Nil(t, m, name)
	}
	if fd, err := unix.MemfdCreate("huge", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB); err == nil {
		defer func() { _ = unix.Close(fd) }()
		require.NoError(t, unix.Ftruncate(fd, 2<<20))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, wantSeals)
		require.NoError(t, err)
		_, err = s.grant(fd)
		require.ErrorIs(t, err, ErrNotGrantable, "huge pages, which the host may not have")
	}
	require.Zero(t, s.Stats().GrantedBytes)
	require.Zero(t, s.used(quota.Granted))
}

// Memory that may shrink is taken for the device, which survives that, and for nothing that this process
// looks at itself.
func TestUnsealedMemory(t *testing.T) {
	s, other := NewServer(Config{}), NewServer(Config{})
	cards := NewServer(Config{Attach: func(session.Carrier, hypercall.Doorbell, string) (session.Attached, error) { return nil, nil }})
	shm := open(t, "/dev/shm", unix.O_TMPFILE|unix.O_RDWR)
	require.NoError(t, unix.Ftruncate(shm, 8193))
	for name, c := range map[string]struct {
		fd   int
		size uint64
	}{
		"a file of shm":      {shm, 12288},
		"no seals":           {memfd(t, 4096, 0), 4096},
		"may shrink":         {memfd(t, 4096, unix.F_SEAL_GROW|unix.F_SEAL_SEAL), 4096},
		"may grow":           {memfd(t, 8192, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL), 8192},
		"may be sealed more": {memfd(t, 4096, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW), 4096},
	} {
		m, err := s.grant(c.fd)
		require.NoError(t, err, name)
		require.Equal(t, c.size, m.Size(), name)
		_, _, err = m.MapContiguous()
		require.ErrorIs(t, err, ErrUnsealed, name)
		runs, release, err := m.Acquire()
		require.NoError(t, err, name)
		require.EqualValues(t, c.size, len(runs[0]), name)
		require.Equal(t, c.size, s.used(quota.Granted), name)
		again, err := s.grant(c.fd)
		require.NoError(t, err, name)
		require.Same(t, m, again, name)
		again.drop()
		release()
		m.drop()
		require.Zero(t, s.used(quota.Granted), name)

		m, err = cards.grant(c.fd)
		require.NoError(t, err, name)
		_, _, err = m.Acquire()
		require.ErrorIs(t, err, ErrUnsealed, name)
		m.drop()
	}
	// A file that has grown is more memory, and the same for another guest is that one's own grant.
	m, err := s.grant(shm)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(shm, 1<<20))
	larger, err := s.grant(shm)
	require.NoError(t, err)
	require.EqualValues(t, 12288, m.Size())
	require.EqualValues(t, 1<<20, larger.Size())
	_, err = unix.Pwrite(shm, []byte("seen"), 4096)
	require.NoError(t, err)
	require.Equal(t, "seen", string(m.region.Bytes()[4096:4100]))
	require.Empty(t, other.memory)
	m.drop()
	larger.drop()
}

func procPath(fd int) string { return filepath.Join("/proc/self/fd", strconv.Itoa(fd)) }

// used is what the guest has of a resource.
func (s *Server) used(r quota.Resource) uint64 {
	for _, q := range s.group.Stats().Quotas {
		if q.Resource == r.String() {
			return q.Used
		}
	}
	panic("no such resource")
}

// Memory is charged once, before it is mapped, for as long as anything uses it.
func TestGrantedIsCharged(t *testing.T) {
	s := NewServer(Config{Limits: quota.Limits{quota.Granted: 1 << 20}})
	fd := memfd(t, 768<<10, wantSeals)
	a, err := s.grant(fd)
	require.NoError(t, err)
	b, err := s.grant(fd)
	require.NoError(t, err)
	require.Same(t, a, b, "one memfd, by whom it is granted does not matter")
	require.EqualValues(t, 768<<10, s.used(quota.Granted))

	before := mappings(t)
	_, err = s.grant(memfd(t, 512<<10, wantSeals))
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Equal(t, before, mappings(t), "what is refused is never mapped")

	a.drop()
	require.EqualValues(t, 768<<10, s.used(quota.Granted))
	_, release, err := b.MapContiguous()
	require.NoError(t, err)
	b.drop()
	require.EqualValues(t, 768<<10, s.used(quota.Granted), "a session still uses it")
	c, err := s.grant(fd)
	require.NoError(t, err)
	require.Same(t, a, c)
	release()
	require.EqualValues(t, 768<<10, s.used(quota.Granted))
	c.drop()
	require.Zero(t, s.used(quota.Granted))
	require.Equal(t, before-1, mappings(t))
}

// mappings counts the memfds of tests that this process has mapped.
func mappings(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(maps), "/memfd:test")
}

// Objects of all pages cost nothing more; objects of the same pages once more do.
func TestPay(t *testing.T) {
	s := NewServer(Config{Limits: quota.Limits{quota.Granted: 24 << 10}})
	m, err := s.grant(memfd(t, 16<<10, wantSeals))
	require.NoError(t, err)
	pay := func(n uint64, used uint64) {
		t.Helper()
		require.NoError(t, m.Pay(n))
		require.EqualValues(t, used, s.used(quota.Granted))
	}
	refund := func(n uint64, used uint64) {
		t.Helper()
		m.Refund(n)
		require.EqualValues(t, used, s.used(quota.Granted))
	}
	pay(12<<10, 16<<10)
	pay(4<<10, 16<<10)
	pay(8<<10, 24<<10)
	require.ErrorIs(t, m.Pay(4<<10), syscall.ENOMEM)
	require.ErrorIs(t, m.Pay(20<<10), syscall.EINVAL, "more than there is")
	refund(4<<10, 20<<10)
	refund(12<<10, 16<<10)
	refund(8<<10, 16<<10)
	m.drop()
	require.Zero(t, s.used(quota.Granted))
}

// There are no more granted memories than descriptors allow, and no more clients.
func TestDescriptorsAreBounded(t *testing.T) {
	var files unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	s := NewServer(Config{})
	require.LessOrEqual(t, uint64(s.maxMemories)+filesOfClient*uint64(s.maxClients), files.Cur/4*3)
	s.maxMemories = 2
	one, err := s.grant(memfd(t, 4096, wantSeals))
	require.NoError(t, err)
	two, err := s.grant(memfd(t, 4096, wantSeals))
	require.NoError(t, err)
	third := memfd(t, 4096, wantSeals)
	_, err = s.grant(third)
	require.ErrorIs(t, err, unix.ENOSPC)
	one.drop()
	three, err := s.grant(third)
	require.NoError(t, err)
	two.drop()
	three.drop()
}
