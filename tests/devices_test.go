package tests

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend"
	"pvdrm/gpu/softgpu"
)

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
	require.Contains(t, string(out), "devices: PASS on 3")

	dir, err := runtimeClients()
	require.NoError(t, err)
	for _, v := range runtimeVersions {
		t.Run(v, func(t *testing.T) {
			cmd := startHost(t, softgpu.Config{}).program(t, filepath.Join(dir, "devices"+v))
			out, err := onSeveral(t, cmd).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "devices: PASS on 3")
		})
	}
}

// pvdrm run gives a program several devices, of which the program's user may hide some.
func TestRunWithSeveralDevices(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	for list, want := range map[string]string{"": "PASS on 2", "CUDA_VISIBLE_DEVICES=1": "PASS on 1", "CUDA_VISIBLE_DEVICES=1,0": "PASS on 2"} {
		args := []string{"run", "--log", "error", "--device", "softgpu:2,0", "--"}
		if list != "" {
			args = append(args, "env", list)
		}
		code, out := start(t, append(args, filepath.Join(dir.path, "devices"))...).wait(t)
		require.Zero(t, code, out)
		require.Contains(t, out, want)
	}

	// Those inside have the devices of the inner one only.
	bin, err := built()
	require.NoError(t, err)
	code, out := start(t, "run", "--log", "error", "--device", "softgpu:0,1", "--",
		filepath.Join(bin, "pvdrm"), "run", "--", filepath.Join(dir.path, "devices")).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "PASS on 1")

	code, out = start(t, "up", "--device", "softgpu:0,1", "--", "true").wait(t)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "only local guests (pvdrm run) can have several devices")
	code, out = start(t, "run", "--device", "softgpu:0,1", "--arbiter", "/nowhere", "--", "true").wait(t)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "an arbiter shares one GPU")

	// A program is stopped when one of its GPUs is gone, or none can be had.
	code, out = start(t, "run", "--device", "softgpu:0,99", "--", "true").wait(t)
	require.NotZero(t, code)
	require.Contains(t, out, "there is no software GPU 99")
}
