package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/drm/trace"
	"pvdrm/frontend"
	"pvdrm/gpu/softgpu"
)

// ioctlClients is a directory with the C programs of bare ioctls, linked
// statically, and pvdrm-run.
var ioctlClients = sync.OnceValues(func() (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	for name, src := range map[string]string{"vadd": "../examples/ioctl/vadd.c", "cost": "../examples/ioctl/cost.c", "floor": "../examples/ioctl/floor.c", "behave": "ioctl/behave.c"} {
		out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../include/uapi", "-static",
			"-o", filepath.Join(dir, name), src, "-lpthread").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("compiling %s (`make deps` with PVDRM_DEPS=test installs gcc): %w\n%s", src, err, out)
		}
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "pvdrm-run"), "pvdrm/cmd/pvdrm-run")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // for the guest
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building pvdrm-run: %w\n%s", err, out)
	}
	return dir, nil
})

// behaviours are the cases of behave.c that end by themselves.
var behaviours = []string{"errors", "files", "fork", "exec", "threads", "passing", "prime", "mmap", "killed", "race", "orphan"}

// interposed prepares a program of ioctlClients to run under pvdrm-run.
func (h *host) interposed(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := ioctlClients()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "pvdrm-run"), append([]string{"-v", filepath.Join(dir, program)}, args...)...)
	cmd.Env = append(os.Environ(), frontend.SocketEnv+"="+h.socket)
	cmd.WaitDelay = patience // a child that outlives it may be slow
	return cmd
}

func TestInterposedPrograms(t *testing.T) {
	for _, name := range behaviours {
		t.Run(name, func(t *testing.T) {
			out, err := startHost(t, softgpu.Config{}).interposed(t, "behave", name).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), name+": PASS")
		})
	}
}

// What Linux alone takes is the measure of what pvdrm-run takes.
func TestFloorOfTrappedCalls(t *testing.T) {
	dir, err := ioctlClients()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "floor")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^a trapped call, by Linux alone +[0-9.]+ us, tenth [0-9.]+ us\n$`, string(out))
}

func TestInterposedComputation(t *testing.T) {
	dir, err := ioctlClients()
	require.NoError(t, err)
	code, out := start(t, "run", "--", "pvdrm-run", filepath.Join(dir, "vadd")).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "driver pvdrm 1.0 on PVDRM softgpu")
	require.Contains(t, out, "vadd: 1000 sums are right")
}

// What a program does by bare ioctls is recorded, under its own threads, and is
// what the corpus has of it.
func TestInterposedProgramsAreRecorded(t *testing.T) {
	dir, err := ioctlClients()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "trace")
	code, out := start(t, "trace", "record", "-o", file, "--", "pvdrm-run", filepath.Join(dir, "vadd")).wait(t)
	require.Zero(t, code, out)
	code, out = start(t, "trace", "diff", filepath.Join(root(t), "tests/replay/corpus/vadd.trace"), file).wait(t)
	require.Zero(t, code, out)

	// Calls that were refused before they came to anything are there, and do not
	// keep the others from being replayed. So are files that are shared by
	// processes, and waits of several threads.
	for _, c := range []struct{ name, shows string }{
		{"errors", "IOCTL PVDRM_VM_BIND(request=0xc0106447"},
		{"files", "file 51 GEM_NEW"},
		{"threads", "SYNCOBJ_WAIT(flags=0x2"},
		{"prime", "file 1 PRIME_FD_TO_HANDLE(buffer=1) = handle=1"},
		{"killed", "GEM_NEW"},
	} {
		code, out = start(t, "trace", "record", "-o", file, "--", "pvdrm-run", filepath.Join(dir, "behave"), c.name).wait(t)
		require.Zero(t, code, out)
		code, out = start(t, "trace", "show", file).wait(t)
		require.Zero(t, code, out)
		require.Contains(t, out, c.shows)
		code, out = start(t, "trace", "replay", file).wait(t)
		require.Zero(t, code, out)
		require.Contains(t, out, "all as recorded")
	}
}

// The same program makes the same calls in a virtual machine.
func TestInterposedProgramIsRecordedInAVirtualMachine(t *testing.T) {
	dir, err := ioctlClients()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "trace")
	code, out := start(t, "trace", "record", "--on", "vm", "--copy", filepath.Join(dir, "vadd"), "-o", file, "--", "pvdrm-run", "./vadd").wait(t)
	require.Zero(t, code, out)
	code, out = start(t, "trace", "diff", filepath.Join(root(t), "tests/replay/corpus/vadd.trace"), file).wait(t)
	require.Zero(t, code, out)
}

// A trace has the threads of the program, not those of pvdrm-run.
func TestThreadsInTracesOfInterposedPrograms(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	cmd := h.interposed(t, "behave", "errors")
	file := filepath.Join(t.TempDir(), "trace")
	cmd.Env = append(cmd.Env, trace.Env+"="+file)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	r, err := trace.NewReader(f)
	require.NoError(t, err)
	threads := map[uint32]int{}
	for e, err := r.Read(); ; e, err = r.Read() {
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e.Op != trace.OpOpen && e.Op != trace.OpClose { // pvdrm-run's own
			threads[e.Thread]++
		}
	}
	require.Len(t, threads, 1, "the program has one thread")
	require.Zero(t, threads[uint32(cmd.Process.Pid)])
}

func TestInterposedProgramsInAVirtualMachine(t *testing.T) {
	dir, err := ioctlClients()
	require.NoError(t, err)
	script := "/bin/pvdrm-run /root/vadd || exit 1; "
	for _, name := range behaviours {
		script += "/bin/pvdrm-run -v /root/behave " + name + " || exit 2; "
	}
	code, out := start(t, "up", "--cpus", "2", "--copy", filepath.Join(dir, "vadd"), "--copy", filepath.Join(dir, "behave"), "--",
		"sh", "-c", script+"/bin/pvdrm-run /root/behave exit 7").wait(t)
	require.Equal(t, 7, code, out)
	require.Contains(t, out, "vadd: 1000 sums are right")
	for _, name := range behaviours {
		require.Contains(t, out, name+": PASS")
	}
}

func TestInterposedProgramWhoseBackendIsGone(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	cmd := h.interposed(t, "behave", "gone")
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	require.True(t, lines.Scan())
	require.Equal(t, "running", lines.Text())
	require.NoError(t, h.stop())
	require.True(t, lines.Scan())
	require.Equal(t, "gone: PASS", lines.Text())
	require.NoError(t, cmd.Wait())
}

func TestExitCodesOfInterposedPrograms(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"exit", "0"}, 0},
		{[]string{"exit", "42"}, 42},
		{[]string{"signal", strconv.Itoa(int(unix.SIGTERM))}, 128 + int(unix.SIGTERM)},
		{[]string{"signal", strconv.Itoa(int(unix.SIGKILL))}, 128 + int(unix.SIGKILL)},
	} {
		cmd := h.interposed(t, "behave", c.args...)
		_ = cmd.Run() // the code is what counts
		require.Equal(t, c.want, cmd.ProcessState.ExitCode(), "%v", c.args)
	}
}

func TestCommandLineOfPvdrmRun(t *testing.T) {
	dir, err := ioctlClients()
	require.NoError(t, err)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{code: 2, want: "which program?"},
		{args: "--nonsense true", code: 2, want: "nonsense"},
		{args: "--help", want: "pvdrm-run [-v] PROGRAM"},
		{args: "no-such-program", code: 127, want: "no-such-program"},
		{args: "true", code: 125, want: "no PVDRM device"},
	} {
		cmd := exec.Command(filepath.Join(dir, "pvdrm-run"), strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), frontend.SocketEnv+"=")
		out, _ := cmd.CombinedOutput() // the code is what counts
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s\n%s", c.args, out)
		require.Contains(t, string(out), c.want)
	}
	h := startHost(t, softgpu.Config{})
	cmd := h.interposed(t, "pvdrm-run", "true")
	out, _ := cmd.CombinedOutput() // the code is what counts
	require.Equal(t, 125, cmd.ProcessState.ExitCode())
	require.Contains(t, string(out), "already under")
}

// A signal for pvdrm-run is one for the program, and it ends only with it.
func TestSignalsReachInterposedPrograms(t *testing.T) {
	h := startHost(t, softgpu.Config{})
	cmd := h.interposed(t, "behave", "exit", "0")
	cmd.Args = append(cmd.Args[:2], "sh", "-c", `trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.01; done`)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	require.True(t, lines.Scan())
	require.Equal(t, "ready", lines.Text())
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	require.True(t, lines.Scan())
	require.Equal(t, "caught", lines.Text())
	_ = cmd.Wait() // the code is what counts
	require.Equal(t, 5, cmd.ProcessState.ExitCode())
}
