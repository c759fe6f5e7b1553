package progmem

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mapped maps a page of a file, and returns how the kernel shows it.
func mapped(t *testing.T, fd int) Mapping {
	t.Helper()
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(mem)) })
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	all, err := Mappings()
	require.NoError(t, err)
	for _, m := range all {
		if m.Inode == st.Ino && m.Perms == "r--s" {
			return m
		}
	}
	t.Fatal("the mapping is not shown")
	return Mapping{}
}

// opens checks that a mapping opens as the file of a descriptor, for writing.
func opens(t *testing.T, m Mapping) {
	t.Helper()
	fd, err := m.Open()
	require.NoError(t, err)
	_, err = unix.Pwrite(fd, []byte("x"), 0)
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	require.Equal(t, m.Inode, st.Ino)
	require.NoError(t, unix.Close(fd))
}

func TestOpenTheFileOfAMapping(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "pvdrm-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "a file")
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	m := mapped(t, fd)
	opens(t, m) // by name, and by descriptor once the name is another file's or nothing's
	require.NoError(t, os.Rename(path, path+" "))
	require.NoError(t, unix.Mkfifo(path, 0o600)) // to open it would wait
	opens(t, m)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Remove(path+" "))
	all, err := Mappings()
	require.NoError(t, err)
	for _, now := range all {
		if now.Start == m.Start {
			m = now
		}
	}
	require.True(t, strings.HasSuffix(m.Name, " (deleted)"), m.Name)
	opens(t, m)
	reading, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	opens(t, m) // by a descriptor that is for reading, of a file that may be written
	require.NoError(t, unix.Close(reading))
	_, err = m.Open()
	require.ErrorIs(t, err, errNoFile)
}

func TestOpenNoOtherFiles(t *testing.T) {
	_, err := (Mapping{Name: "/etc/passwd"}).Open()
	require.ErrorIs(t, err, errNoFile)
	disk := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(disk, make([]byte, 4096), 0o600))
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(disk, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skip("the directory for temporary files is in memory here")
	}
	fd, err := unix.Open(disk, unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	m := mapped(t, fd)
	_, err = m.Open()
	require.ErrorIs(t, err, errNoTmpfs)
	require.NoError(t, unix.Close(fd))
	m.Inode++ // another file has the name
	_, err = m.Open()
	require.ErrorIs(t, err, errNoFile)
}
