package tests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireConfined looks at what the kernel says of a backend that serves.
func requireConfined(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	wants := []string{"Seccomp:\t2\n", "NoNewPrivs:\t1\n"}
	for _, set := range []string{"Inh", "Prm", "Eff", "Amb"} {
		wants = append(wants, "Cap"+set+":\t0000000000000000\n")
	}
	if os.Getuid() == 0 { // it takes a capability to lower that
		wants = append(wants, "CapBnd:\t0000000000000000\n")
	}
	for _, want := range wants {
		require.Contains(t, string(status), want)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^Max core file size +0 +0 `, string(limits))
	require.Regexp(t, `(?m)^Max data size +\d+ +\d+ `, string(limits))
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if errors.Is(err, fs.ErrPermission) && os.Getuid() != 0 {
		return // it cannot be looked into, and without a namespace of its user not by that user either
	}
	require.NoError(t, err)
	for _, fd := range fds {
		requireNoFile(t, pid, fd.Name())
	}
}

// requireNoFile checks that a descriptor of a process is no file on a disk that it
// can write to.
func requireNoFile(t *testing.T, pid int, fd string) {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/fd/%s", pid, fd)
	link, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return // it is closed meanwhile
	}
	require.NoError(t, err)
	target, _ := os.Readlink(path) // as above
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && link.Mode().Perm()&0o200 != 0 {
		require.Regexp(t, "^(/memfd|anon_inode):", target, fd)
	}
}

// requireOwnView checks that user, namespaces and the root directory of a backend are
// its own, as far as this host gives them, and that it sees nothing of dir.
func requireOwnView(t *testing.T, pid int, dir string) {
	t.Helper()
	code, out := start(t, "doctor").wait(t)
	st, err := os.Stat(fmt.Sprintf("/proc/%d/mem", pid))
	require.NoError(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	ours := fmt.Sprintf("(?m)^Uid:\t%d\t", os.Getuid())
	if strings.Contains(out, "backends get a user of their own") {
		require.NotRegexp(t, ours, string(status))
	} else {
		require.Regexp(t, `(?m)^users +no `, out, code)
		require.Regexp(t, ours, string(status))
	}
	owner := 0
	if os.Getuid() != 0 && strings.Contains(out, "backends get namespaces of their own") {
		owner = os.Getuid() // who has made its user namespace; processes in other ones cannot
	}
	require.EqualValues(t, owner, st.Sys().(*syscall.Stat_t).Uid, "nor can another process of its user look into it")
	own := []string{"mnt", "net", "ipc", "uts", "pid"}
	if !strings.Contains(out, "backends get namespaces of their own") {
		require.Regexp(t, `(?m)^namespaces +no `, out, code)
		own = nil
	}
	for _, name := range []string{"mnt", "net", "ipc", "uts", "pid"} {
		ours, err := os.Readlink("/proc/self/ns/" + name)
		require.NoError(t, err)
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		require.NoError(t, err)
		want := false
		for _, o := range own {
			want = want || o == name
		}
		require.Equal(t, want, ours != its, "%s: %s, and here %s", name, its, ours)
	}
	if len(own) == 0 {
		return
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line) // the fifth is where, the sixth the options
		require.True(t, strings.HasPrefix(f[5], "ro,"), line)
	}
	if !strings.Contains(out, "backends get a root directory of their own") {
		require.Regexp(t, `(?m)^root +no `, out, code)
		return
	}
	root := fmt.Sprintf("/proc/%d/root", pid)
	require.Len(t, names(t, root+"/proc", "[0-9]*"), 1+len(descendants(pid)), "it is to see itself and what it started")
	require.Subset(t, []string{"full", "null", "random", "urandom", "zero"}, names(t, root+"/dev", "*"))
	require.Subset(t, []string{"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"}, names(t, root+"/etc", "*"))
	require.NoDirExists(t, root+"/root")
	require.NoDirExists(t, root+"/home")
	require.NoDirExists(t, root+"/var")
	require.NoDirExists(t, root+"/sys")
	require.NoDirExists(t, root+dir)
	require.NotEmpty(t, names(t, dir, "*"))
}

// names are those of the files in a directory that match a pattern.
func names(t *testing.T, dir, pattern string) (all []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	for _, p := range paths {
		all = append(all, filepath.Base(p))
	}
	return all
}

// A backend that is started by hand has no privileges, serves, and finds an arbiter
// that was killed and started again.
func TestConfinedBackend(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket, gpu := filepath.Join(dir, "arbiter"), filepath.Join(dir, "gpu")
	arbiter := startArbiter(t, socket)
	backend := start(t, "backend", "--local", gpu, "--arbiter", socket, "--log", "info")
	backend.waitFor(t, "confined to the system calls")
	child := backend.child(t, "backend-serve")
	requireConfined(t, child)
	requireOwnView(t, child, dir)
	suite := func() {
		bin, err := built()
		require.NoError(t, err)
		cmd := exec.Command(filepath.Join(bin, "gdev"), "run", "--json", "madd", "cpy", "nn", "hs")
		cmd.Env = append(os.Environ(), "PVDRM_SOCKET="+gpu)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	suite()
	require.NoError(t, arbiter.Process.Kill())
	<-arbiter.ended
	backend.waitFor(t, "the arbiter is lost")
	suite()
	startArbiter(t, socket)
	backend.waitFor(t, "joined the arbiter")
	suite()
	require.NoError(t, backend.Process.Signal(syscall.SIGTERM))
	code, out := backend.wait(t)
	require.Zero(t, code, out)
	require.NoFileExists(t, gpu)
	backend.requireNothingLeft(t, child)
}

func startArbiter(t *testing.T, socket string) *command {
	t.Helper()
	c := start(t, "arbiter", "--socket", socket, "--log", "info")
	c.waitFor(t, "waiting for backends")
	return c
}

// The backend of a local guest has a view of its own of the host, in which it
// finds the arbiter all the same.
func TestConfinedLocalGuest(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "arbiter")
	arbiter := startArbiter(t, socket)
	c := start(t, "run", "--arbiter", socket, "--wait-for-arbiter", "--log", "info", "--", "gdev", "run", "--json", "--repeat", "100000", "madd")
	c.waitFor(t, `"verified":true`)
	backend := c.child(t, "backend-serve --local")
	requireConfined(t, backend)
	requireOwnView(t, backend, dir)
	requireOwnView(t, backend, c.runDir)
	require.NoError(t, arbiter.Process.Kill())
	<-arbiter.ended
	c.waitFor(t, "the arbiter is lost")
	startArbiter(t, socket)
	c.waitFor(t, "joined the arbiter")
	done := strings.Count(c.output(), `"verified":true`)
	require.Eventually(t, func() bool { return strings.Count(c.output(), `"verified":true`) > done+1 }, patience, 20*time.Millisecond, "it does not go on")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	<-c.ended
	c.requireNothingLeft(t, backend)
}

// So has that of a machine.
func TestConfinedMachine(t *testing.T) {
	c := start(t, "up", "--console=false", "--", "gdev", "run", "--json", "--repeat", "100000", "madd")
	c.waitFor(t, `"verified":true`)
	backend := c.child(t, "backend-serve --vhost-user")
	requireConfined(t, backend)
	requireOwnView(t, backend, c.runDir)
	code, out := startIn(t, c.runDir, "stats", "--json").wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, fmt.Sprintf(`"pid":%d,`, backend), "its own number for itself is another")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	<-c.ended
	c.requireNothingLeft(t, backend)
}

// A local guest whose backend is killed is stopped, and pvdrm says why.
func TestBackendOfALocalGuestDies(t *testing.T) {
	c := start(t, "run", "--", "gdev", "run", "--json", "--repeat", "1000000", "madd")
	c.waitFor(t, `"verified":true`)
	require.NoError(t, syscall.Kill(c.child(t, "backend-serve --local"), syscall.SIGKILL))
	code, out := c.wait(t)
	require.Equal(t, 125, code)
	require.Contains(t, out, "the backend ended (signal: killed), so the program was stopped")
	c.requireNothingLeft(t)
}
