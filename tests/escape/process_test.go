package escape

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sandbox"
)

// patience is how long a test waits for what has to come. It is no measure of speed: a host that
// is shared may be ten times slower for a while, and a test fails only where nothing comes.
const patience = 15 * time.Minute

// programs is a directory for what tests build once; TestMain makes and removes it.
var programs string

// built is that directory, with pvdrm and gdev in it, which it builds once for all tests.
var built = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"pvdrm", "gdev"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(programs, name), "pvdrm/cmd/"+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	return programs, nil
})

// command is a pvdrm that runs.
type command struct {
	*exec.Cmd
	ended chan struct{} // closed when it has ended
	log   string        // path of the file that both its streams go to
}

func (c *command) output() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// start runs pvdrm with a directory for sockets. Its streams are a file on disk, by which
// a process that inherits them could change it.
func start(t testing.TB, dir string, args ...string) *command {
	t.Helper()
	bin, err := built()
	require.NoError(t, err)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }() // pvdrm has it
	c := &command{Cmd: exec.Command(filepath.Join(bin, "pvdrm"), args...), ended: make(chan struct{}), log: log.Name()}
	c.Stdout, c.Stderr = log, log
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, c.Start())
	go func() {
		defer close(c.ended)
		_ = c.Wait() // tests look at what it wrote
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-c.ended:
		case <-time.After(20 * time.Second):
			_ = c.Process.Kill()
			<-c.ended
		}
	})
	return c
}

// waitFor waits until pvdrm has printed a text.
func (c *command) waitFor(t testing.TB, text string) {
	t.Helper()
	for end := time.Now().Add(wait); !strings.Contains(c.output(), text); time.Sleep(tick) {
		select {
		case <-c.ended:
			require.Contains(t, c.output(), text, "it has ended")
		default:
			require.True(t, time.Now().Before(end), "%q does not come: %s", text, c.output())
		}
	}
}

// runDir makes a directory for the sockets of pvdrm, with a name that is short enough.
func runDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvdrm-escape-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// children lists the processes that a process started.
func children(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, task := range tasks {
		list, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for _, f := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// roles are the arguments by which a process is known.
var roles = []struct {
	argument string
	role     sandbox.Role
}{
	{argument: "backend-serve", role: sandbox.Backend},
	{argument: "virgl-keeper", role: sandbox.Keeper},
	{argument: "virgl-keeper", role: sandbox.CUDAKeeper}, // on a device that EGL lists
	{argument: "virgl-worker", role: sandbox.NVIDIARenderer},
	{argument: "cuda-keeper", role: sandbox.CUDAKeeper},
	{argument: "virgl-worker", role: sandbox.Renderer},
	{argument: "cuda-worker", role: sandbox.Renderer},
}

// family finds the processes of a role below one of pvdrm's.
func family(pid int, role sandbox.Role) (found []int) {
	for _, child := range children(pid) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if err != nil {
			continue // it has ended
		}
		for _, r := range roles {
			if r.role == role && bytes.Contains(line, []byte("\x00"+r.argument+"\x00")) {
				found = append(found, child)
			}
		}
		found = append(found, family(child, role)...)
	}
	return found
}

// process waits for the process of a role below pvdrm's, and that it is confined.
func (c *command) process(t testing.TB, role sandbox.Role) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, pid = range family(c.Process.Pid, role) {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err == nil && strings.Contains(string(status), "Seccomp:\t2\n") {
				return true
			}
		}
		return false
	}, patience, 20*time.Millisecond, "there is no confined %v: %s", role, c.output())
	return pid
}

// unixSockets lists the addresses of all Unix sockets of this host that have one.
func unixSockets(t testing.TB) (all []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/unix")
	require.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) == 8 && f[7] != "Path" && !seen[f[7]] {
			seen[f[7]] = true
			all = append(all, f[7])
		}
	}
	return all
}

// needsPtrace skips a test that injects where this user may not; in CI it fails.
func needsPtrace(t testing.TB) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		require.Fail(t, "system calls are injected as root, and CI is to be root")
	}
	t.Skip("only root may inject system calls into a confined process")
}

// How long tests wait for what comes, and how often they look.
const (
	wait = patience
	tick = 20 * time.Millisecond
)
