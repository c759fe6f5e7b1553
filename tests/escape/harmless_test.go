package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// requireHarmless looks from outside at what a process has: limits, an identity, and
// descriptors by which it could change files.
func requireHarmless(t *testing.T, pid int) {
	t.Helper()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^Max core file size +0 +0 `, string(limits))
	require.Regexp(t, `(?m)^Max open files +[0-9]{1,5} +[0-9]{1,5} `, string(limits))
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for _, set := range []string{"Inh", "Prm", "Eff", "Amb", "Bnd"} {
		require.Contains(t, string(status), "Cap"+set+":\t0000000000000000\n")
	}
	require.Contains(t, string(status), "NoNewPrivs:\t1\n")
	require.Regexp(t, `(?m)^Uid:\t[1-9]\d*\t[1-9]\d*\t[1-9]\d*\t[1-9]\d*$`, string(status), "it is root")
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	require.NotEmpty(t, fds)
	for _, fd := range fds {
		requireHarmlessFile(t, fd)
	}
}

// requireHarmlessFile checks that a descriptor in /proc is no directory and no file on
// disk that can be written.
func requireHarmlessFile(t *testing.T, fd string) {
	t.Helper()
	var st unix.Stat_t
	name, err := os.Readlink(fd)
	if err == nil {
		err = unix.Stat(fd, &st)
	}
	if os.IsNotExist(err) {
		return // closed meanwhile
	}
	require.NoError(t, err, fd)
	require.NotEqual(t, uint32(unix.S_IFDIR), st.Mode&unix.S_IFMT, "%s is the directory %s", fd, name)
	require.NotEqual(t, uint32(unix.S_IFBLK), st.Mode&unix.S_IFMT, "%s is the device %s", fd, name)
	if st.Mode&unix.S_IFMT != unix.S_IFREG || strings.HasPrefix(name, "/memfd:") {
		return
	}
	info, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(fd)), "fdinfo", filepath.Base(fd)))
	require.NoError(t, err)
	var flags int
	_, rest, _ := strings.Cut(string(info), "flags:")
	_, err = fmt.Sscanf(strings.TrimSpace(rest), "%o", &flags)
	require.NoError(t, err, string(info))
	require.Equal(t, unix.O_RDONLY, flags&unix.O_ACCMODE, "%s writes to %s", fd, name)
}
