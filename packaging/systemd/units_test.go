// Package systemd holds the units with which PVDRM runs as services of systemd, and checks them.
package systemd

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
)

// program is where the units expect pvdrm.
const program = "/usr/local/bin/pvdrm"

// binaries is a directory for the tests' pvdrm.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "pvdrm-units-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binaries) // a directory for temporary files
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binaries, "pvdrm/cmd/pvdrm").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building pvdrm: %w: %s", err, out)
	}
	return nil
})

// built is the path of a pvdrm.
func built(t *testing.T) string {
	t.Helper()
	require.NoError(t, build())
	return filepath.Join(binaries, "pvdrm")
}

// units are the files, by name.
func units(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.s*")
	require.NoError(t, err)
	require.Len(t, paths, 5)
	texts := map[string]string{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		texts[p] = string(b)
	}
	return texts
}

// value is what a unit says for a setting, which it has once.
func value(t *testing.T, text, setting string) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, setting+"="); ok {
			found = append(found, strings.TrimSpace(v))
		}
	}
	require.Len(t, found, 1, setting)
	return found[0]
}

// systemd finds nothing wrong with the units.
func TestVerify(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("systemd-analyze is not installed (package systemd)")
	}
	require.NoError(t, err)
	pvdrm, dir := built(t), t.TempDir()
	args := []string{"verify", "--man=no", "--recursive-errors=no"}
	for name, text := range units(t) {
		name = strings.Replace(name, "@.", "@web.", 1) // of a guest
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, program, pvdrm)), 0o600))
		args = append(args, path)
	}
	cmd := exec.Command(analyze, args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), dir, "no warnings about these units")
}

// The services find the sockets that their socket units make: by path and type.
func TestSocketsAndServicesAgree(t *testing.T) {
	texts := units(t)
	service := value(t, texts["pvdrm-arbiter.service"], "ExecStart")
	require.Contains(t, service, "--socket "+value(t, texts["pvdrm-arbiter.socket"], "ListenSequentialPacket")+" ")
	require.Contains(t, service, "--control "+value(t, texts["pvdrm-arbiter-control.socket"], "ListenStream")+" ")
	backend := value(t, texts["pvdrm-backend@.service"], "ExecStart")
	require.Contains(t, backend, "--vhost-user "+value(t, texts["pvdrm-backend@.socket"], "ListenStream")+" ")
	require.Contains(t, backend, "--arbiter "+value(t, texts["pvdrm-arbiter.socket"], "ListenSequentialPacket")+" ")
	// No backend can name the control socket: its directory is root's alone.
	control := value(t, texts["pvdrm-arbiter-control.socket"], "ListenStream")
	require.NotEqual(t, filepath.Dir(control), filepath.Dir(value(t, texts["pvdrm-arbiter.socket"], "ListenSequentialPacket")))
	require.Equal(t, "0700", value(t, texts["pvdrm-arbiter-control.socket"], "DirectoryMode"))
	require.Equal(t, "0600", value(t, texts["pvdrm-arbiter-control.socket"], "SocketMode"))
}

// activate starts the arbiter as systemd does, with sockets that are listened on already, and
// returns when it says that it is ready.
func activate(t *testing.T, dir string, sockets []*os.File, args ...string) {
	t.Helper()
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	defer func() { require.NoError(t, notify.Close()) }()
	// LISTEN_PID is the process that the shell becomes.
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, built(t), "arbiter"}, args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("LISTEN_FDS=%d", len(sockets)), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
	cmd.ExtraFiles = sockets
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	})
	require.NoError(t, notify.SetReadDeadline(time.Now().Add(10*time.Minute)))
	state := make([]byte, 256)
	n, err := notify.Read(state)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(state[:n]))
}

// listen makes a socket as systemd does.
func listen(t *testing.T, network, path string) *os.File {
	t.Helper()
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	file, err := l.File()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return file
}

// The arbiter takes over the sockets that it is passed. Who connected before it ran waits, and the
// sockets outlast it.
func TestActivation(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-units-") // short enough for a socket's name
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket, control := filepath.Join(dir, "arbiter"), filepath.Join(dir, "control")
	files := []*os.File{listen(t, "unix", control), listen(t, "unixpacket", socket)}
	built(t) // now, since an arbiter has some seconds to answer
	early := make(chan error, 1)
	go func() {
		seat, err := arbiter.Take(context.Background(), arbiter.Taking{Socket: socket, Hello: arbiter.Hello{Name: "early"}})
		if err == nil {
			err = seat.Close()
		}
		early <- err
	}()
	for _, first := range []bool{true, false} {
		t.Run("start", func(t *testing.T) {
			activate(t, dir, files, "--socket", socket, "--control", control)
			require.NoError(t, os.Remove(filepath.Join(dir, "notify")))
			seat, err := arbiter.Take(t.Context(), arbiter.Taking{Socket: socket, Hello: arbiter.Hello{Name: "web"}})
			require.NoError(t, err)
			answer, err := arbiter.Ask(t.Context(), control, arbiter.Command{Policy: "fifo"})
			require.NoError(t, err)
			require.Equal(t, "fifo", answer.GPUs[0].Policy)
			require.NoError(t, seat.Close())
			if first {
				require.NoError(t, <-early) // an arbiter that ends refuses whom it has not answered
			}
		})
		require.FileExists(t, socket) // still listened on
	}
}

// A socket of the wrong type is refused with what to write into its unit.
func TestActivationOfWrongType(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-units-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "arbiter")
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, built(t), "arbiter", "--socket", socket)
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{listen(t, "unix", socket)}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "ListenSequentialPacket=")
}

// The roster and the keys that the README's commands make are those that pvdrm reads.
func TestRosterOfReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	dir := t.TempDir()
	var script strings.Builder
	lines := bufio.NewScanner(strings.NewReader(string(readme)))
	for lines.Scan() {
		if line, ok := strings.CutPrefix(lines.Text(), "    "); ok && strings.Contains(line, "/etc/pvdrm/") &&
			(strings.HasPrefix(line, "install -d") || strings.HasPrefix(line, "pvdrm arbiter new-key") || strings.HasPrefix(line, "(umask")) {
			script.WriteString(line + "\n")
		}
	}
	text := strings.ReplaceAll(script.String(), "/etc/pvdrm", filepath.Join(dir, "etc"))
	cmd := exec.Command("sh", "-eux")
	cmd.Stdin = strings.NewReader(text)
	require.NoError(t, os.Symlink(built(t), filepath.Join(dir, "pvdrm")))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	roster, err := arbiter.ReadRoster(filepath.Join(dir, "etc", "roster.toml"))
	require.NoError(t, err)
	key, err := arbiter.ReadKey(filepath.Join(dir, "etc", "keys", "web"))
	require.NoError(t, err)
	require.Equal(t, key, roster["web"].Key)
	require.Equal(t, uint32(3), roster["web"].Share.Weight)
}
