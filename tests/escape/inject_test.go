package escape

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/backend/sandbox"
	"pvdrm/backend/virtio/virgl"
	"pvdrm/tests/escape/inject"
)

// attack runs all attempts in a process of a guest that serves, and sees that it
// serves afterwards.
func attack(t *testing.T, pid int, role sandbox.Role, host Host) {
	t.Helper()
	thread, err := inject.Stop(pid)
	require.NoError(t, err)
	for _, a := range Attempts() {
		if slices.Contains(a.Roles, role) && !a.Long {
			if err := a.Run(thread, host, role); err != nil {
				t.Error(err)
			}
		}
	}
	if err := CheckTable(thread, role); err != nil {
		t.Error(err)
	}
	require.NoError(t, thread.Resume())
	requireHarmless(t, pid)
}

// hostFor is what the attacker of a guest knows.
func hostFor(t testing.TB, others ...int) Host {
	t.Helper()
	return Host{
		Sockets:     unixSockets(t),
		Processes:   append(others, os.Getpid(), os.Getppid()),
		Files:       []string{"/etc/passwd", "/proc/1/environ", "/proc/self/mem", "/"},
		Memory:      mostMemory,
		Descriptors: mostFiles,
	}
}

// What processes may map and open: a renderer may have most, 4 GiB.
const (
	mostMemory = 8 << 30
	mostFiles  = 1 << 16
)

// An attacker has taken over the backend of a local guest while it serves.
func TestTakenOverBackend(t *testing.T) {
	needsPtrace(t)
	c := start(t, runDir(t), append([]string{"run", "--vram", "64M", "--quota", "module-text=1M"}, endless...)...)
	c.waitFor(t, `"verified":true`)
	pid := c.process(t, sandbox.Backend)
	host := hostFor(t, c.Process.Pid)
	host.Memory = 512 << 20 // of which 64 MiB are the device's
	attack(t, pid, sandbox.Backend, host)
	c.requireGoesOn(t)
	require.NoFileExists(t, scratchFile)
}

// What an attacker calls by the way of 32-bit programs ends the process. Some machines do not
// let their kernel have such calls: the instruction faults there, which is as good.
func TestTakenOverBackendOf32Bits(t *testing.T) {
	needsPtrace(t)
	c := start(t, runDir(t), append([]string{"run"}, endless...)...)
	c.waitFor(t, `"verified":true`)
	thread, err := inject.Stop(c.process(t, sandbox.Backend))
	require.NoError(t, err)
	const getpid = 20 // of 32-bit programs (Linux, arch/x86/entry/syscalls/syscall_32.tbl)
	err = thread.Int80(getpid)
	if fault := (*inject.FaultError)(nil); errors.As(err, &fault) {
		t.Logf("this machine has no 32-bit calls: %v", fault)
		require.NoError(t, thread.Resume())
		c.requireGoesOn(t)
		return
	}
	var ended *inject.EndedError
	require.ErrorAs(t, err, &ended)
	require.True(t, ended.Status.Signaled())
	require.Equal(t, unix.SIGSYS, ended.Status.Signal())
	<-c.ended
	require.Contains(t, c.output(), "the backend ended")
}

// So has one that has taken over what serves a virtual machine: its backend, what
// renders for it, and what starts that.
func TestTakenOverMachine(t *testing.T) {
	needsPtrace(t)
	args := []string{"up", "--console=false", "--memory", "512"}
	node, renderer, keeper := os.Getenv("PVDRM_TEST_RENDER_NODE"), sandbox.Renderer, sandbox.Keeper
	if node != "" { // a GPU of NVIDIA's: egl:N or cuda:N
		renderer, keeper = sandbox.NVIDIARenderer, sandbox.CUDAKeeper
	}
	rendering := virgl.Probe()
	if rendering == nil {
		args = append(args, "--gl", "on", "--render-node", node)
	} else if os.Getenv("CI") != "" {
		require.NoError(t, rendering)
	}
	c := start(t, runDir(t), append(args, endless...)...)
	c.waitFor(t, `"verified":true`)
	host := hostFor(t, c.Process.Pid)
	require.NotEmpty(t, slices.DeleteFunc(slices.Clone(host.Sockets), func(s string) bool { return !strings.HasSuffix(s, "/qmp") }), "no socket of QEMU's: %v", host.Sockets)
	attack(t, c.process(t, sandbox.Backend), sandbox.Backend, host)
	if rendering == nil {
		attack(t, c.process(t, renderer), renderer, host)
		attack(t, c.process(t, keeper), keeper, host)
	}
	c.requireGoesOn(t)
}

// requireGoesOn checks that the guest's program goes on, and computes what it should.
func (c *command) requireGoesOn(t *testing.T) {
	t.Helper()
	before := strings.Count(c.output(), `"verified":true`)
	require.Eventually(t, func() bool { return strings.Count(c.output(), `"verified":true`) > before+2 }, wait, tick, "the guest does not go on")
	require.NotContains(t, c.output(), `"verified":false`)
}
