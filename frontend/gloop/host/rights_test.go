package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/gloop/abi"
)

// rightsDir names the directory for the process that TestRights starts.
const rightsDir = "GLOOP_TEST_RIGHTS"

// A kernel may use the files and ports that the user of its process may use: what others may read is -EACCES, and so
// is a port of root's.
func TestRights(t *testing.T) {
	if dir := os.Getenv(rightsDir); dir != "" {
		withoutRights(t, dir)
		return
	}
	dir, err := os.MkdirTemp("", "rights")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	program, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	copied := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(copied, program, 0o755))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")))
	for name, mode := range map[string]os.FileMode{"mine": 0o600, "everyone's": 0o644} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte("secret"), mode))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "testdata"), 0o755))
	cmd := exec.CommandContext(t.Context(), copied, "-test.run", "^TestRights$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), rightsDir+"="+dir)
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	} else { // its own user may read its files
		require.NoError(t, os.Chmod(filepath.Join(dir, "mine"), 0))
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestRights")
}

func withoutRights(t *testing.T, dir string) {
	c := newContext(t, 1)
	cfg := config(t, c, "io", "ask")
	no := -int64(syscall.EACCES)
	require.Equal(t, []int64{no, no}, ask(t, c, cfg, filepath.Join(dir, "mine"), abi.Request{Op: abi.OpOpen}, abi.Request{Op: abi.OpOpen, Flags: abi.OpenReadWrite}))
	require.Equal(t, []int64{3, no}, ask(t, c, cfg, filepath.Join(dir, "everyone's"), abi.Request{Op: abi.OpOpen}, abi.Request{Op: abi.OpOpen, Flags: abi.OpenReadWrite}))
	require.Equal(t, []int64{no}, ask(t, c, cfg, filepath.Join(dir, "new"), abi.Request{Op: abi.OpOpen, Flags: abi.OpenWriteOnly | abi.OpenCreate}))
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start"); err == nil && string(b) == "1024\n" {
		require.Equal(t, []int64{no}, ask(t, c, cfg, "", abi.Request{Op: abi.OpBind, IP: 0x7f000001, Port: 1}))
	}
}

// A file that changes while a kernel has it open gives what it has then: fewer bytes when it has shrunk, and none
// behind its end.
func TestFilesChange(t *testing.T) {
	c := newContext(t, 1)
	cfg := config(t, c, "io", "ask")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("0123456789"), 0o600))
	buffer, err := c.MemAlloc(4096)
	require.NoError(t, err)
	read := func(offset uint64) abi.Request {
		return abi.Request{Op: abi.OpRead, Handle: 3, Address: uint64(buffer), Size: 4096, Offset: offset}
	}
	require.Equal(t, []int64{3, 10, 10, 0, 4, 4, 0, 0}, ask(t, c, cfg, file,
		abi.Request{Op: abi.OpOpen, Flags: abi.OpenReadWrite}, abi.Request{Op: abi.OpStat, Handle: 3}, read(0),
		abi.Request{Op: abi.OpTruncate, Handle: 3, Offset: 4}, abi.Request{Op: abi.OpStat, Handle: 3}, read(0), read(4), read(9)))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "0123", string(b))
}
