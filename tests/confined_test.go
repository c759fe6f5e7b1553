package tests

import (
	"fmt"
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
}

// requireNamespaces checks which namespaces of a backend are its own.
func requireNamespaces(t *testing.T, pid int, own ...string) {
	t.Helper()
	code, out := start(t, "doctor").wait(t)
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
		require.Equal(t, !strings.Contains(f[4], "/pvdrm/vm-"), strings.HasPrefix(f[5], "ro,"), line)
	}
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
	requireConfined(t, backend.Process.Pid)
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
	backend := c.child(t, "backend --local")
	requireConfined(t, backend)
	requireNamespaces(t, backend, "mnt", "net", "ipc", "uts")
	require.NoError(t, arbiter.Process.Kill())
	<-arbiter.ended
	c.waitFor(t, "the arbiter is lost")
	startArbiter(t, socket)
	c.waitFor(t, "joined the arbiter")
	done := strings.Count(c.output(), `"verified":true`)
	require.Eventually(t, func() bool { return strings.Count(c.output(), `"verified":true`) > done+1 }, time.Minute, 20*time.Millisecond, "it does not go on")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	<-c.ended
	c.requireNothingLeft(t, backend)
}

// So has that of a machine, which does not see the host's processes either.
func TestConfinedMachine(t *testing.T) {
	c := start(t, "up", "--console=false", "--", "gdev", "run", "--json", "--repeat", "100000", "madd")
	c.waitFor(t, `"verified":true`)
	backend := c.child(t, "backend --vhost-user")
	requireConfined(t, backend)
	requireNamespaces(t, backend, "mnt", "net", "ipc", "uts", "pid")
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
	require.NoError(t, syscall.Kill(c.child(t, "backend --local"), syscall.SIGKILL))
	code, out := c.wait(t)
	require.Equal(t, 125, code)
	require.Contains(t, out, "the backend ended (signal: killed), so the program was stopped")
	c.requireNothingLeft(t)
}
