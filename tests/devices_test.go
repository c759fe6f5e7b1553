package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend"
	"pvdrm/gpu/softgpu"
)

// What the environment of these tests says of the host's GPUs is not for programs on software GPUs.
func init() {
	for _, name := range []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} {
		_ = os.Unsetenv(name) // does not fail on Linux
	}
}

// onSeveral has a program of a host find two more devices, each of another backend.
func onSeveral(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	for i := 1; i < 3; i++ {
		h := startHost(t, softgpu.Config{Number: i, VRAMBytes: 64 << 20})
		cmd.Env = append(cmd.Env, frontend.SocketEnvOf(i)+"="+h.socket)
	}
	return cmd
}

func TestProgramsOnSeveralDevices(t *testing.T) {
	cmd := startHost(t, softgpu.Config{}).client(t, "devices")
	out, err := onSeveral(t, cmd).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "3 devices\ndevices: PASS\n")

	dir, err := runtimeClients()
	require.NoError(t, err)
	for _, v := range runtimeVersions {
		t.Run(v, func(t *testing.T) {
			cmd := startHost(t, softgpu.Config{}).program(t, filepath.Join(dir, "devices"+v))
			out, err := onSeveral(t, cmd).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "3 devices\ndevices: PASS\n")

			cmd = startHost(t, softgpu.Config{}).program(t, filepath.Join(dir, "devices"+v))
			cmd.Args, cmd.Env = append(cmd.Args, "none"), append(cmd.Env, "CUDA_VISIBLE_DEVICES=")
			out, err = cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "no device: PASS\n")
		})
	}
}

// shortDir is a directory whose path is short enough for the names of sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// devicesInMachine finds a virtio-gpu device of each.
func devicesInMachine(t *testing.T) inMachine {
	dir, err := clients()
	require.NoError(t, err)
	return inMachine{name: "devices", files: []string{filepath.Join(dir.path, "devices")}, script: "./devices apart", check: func(t *testing.T, code int, out string) {
		require.Zero(t, code, out)
		require.Contains(t, out, "2 devices\ndevices: PASS\n")
	}}
}

// Processes of a guest on two devices share a file of /dev/shm, which their kernels poll and write: the
// backends are confined.
func TestSharedFile(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	for range 3 {
		code, out := start(t, "run", "--log", "error", "--device", "softgpu:0,1", "--", filepath.Join(dir.path, "sharedfile")).wait(t)
		require.Zero(t, code, out)
		require.Contains(t, out, "sharedfile: PASS\n")
		require.NotContains(t, out, "copies only")
		require.NotContains(t, out, "kept", "the software GPU reaches the file itself")
	}
}

// Software GPUs do not reach each other's memory: that is a clear error, and copies between them go.
func TestPeersThatAreNone(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	code, out := start(t, "run", "--log", "error", "--device", "softgpu:0,1", "--", filepath.Join(dir.path, "peers")).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "copies only\npeers: PASS\n")
}

// pvdrm run gives a program several devices, of which the program's user may hide some.
func TestRunWithSeveralDevices(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	for list, want := range map[string]string{"": "2 devices\ndevices: PASS\n", "CUDA_VISIBLE_DEVICES=1": "1 devices\ndevices: PASS\n", "CUDA_VISIBLE_DEVICES=1,0": "2 devices\ndevices: PASS\n"} {
		args := []string{"run", "--log", "error", "--device", "softgpu:2,0", "--"}
		if list != "" {
			args = append(args, "env", list)
		}
		code, out := start(t, append(args, filepath.Join(dir.path, "devices"))...).wait(t)
		require.Zero(t, code, out)
		require.Contains(t, out, want)
	}

	// What pvdrm itself has in its environment is about GPUs of the host.
	t.Setenv("CUDA_VISIBLE_DEVICES", "7")
	code, out := start(t, "run", "--log", "error", "--", filepath.Join(dir.path, "devices")).wait(t)
	require.Zero(t, code, out)

	// Those inside have the devices of the inner one only.
	bin, err := built()
	require.NoError(t, err)
	code, out = start(t, "run", "--log", "error", "--device", "softgpu:0,1", "--",
		filepath.Join(bin, "pvdrm"), "run", "--", filepath.Join(dir.path, "devices")).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "1 devices\ndevices: PASS\n")

	code, out = start(t, "run", "--device", "softgpu:0,1", "--arbiter", "/a,/b,/c", "--", "true").wait(t)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "or a socket for each device")

	// Each device may have an arbiter of its own.
	var sockets []string
	var arbiters []*command
	for range 2 {
		socket := filepath.Join(shortDir(t), "arbiter")
		arbiter := start(t, "arbiter", "--socket", socket, "--log", "info")
		arbiter.waitFor(t, "waiting for backends")
		sockets, arbiters = append(sockets, socket), append(arbiters, arbiter)
	}
	code, out = start(t, "run", "--log", "error", "--device", "softgpu:0,1", "--arbiter", strings.Join(sockets, ","), "--guest", "both", "--",
		filepath.Join(dir.path, "devices")).wait(t)
	require.Zero(t, code, out)
	for _, arbiter := range arbiters {
		arbiter.waitFor(t, "both")
	}

	// A program is not started when one of its GPUs cannot be had.
	code, out = start(t, "run", "--device", "softgpu:0,99", "--", "true").wait(t)
	require.NotZero(t, code)
	require.Contains(t, out, "there is no software GPU 99")
}
