package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// libvirtRunner is Debian's program that starts one domain with libvirt's driver for QEMU
// inside of it: no daemon runs, and nothing outlives the test.
const libvirtRunner = "virt-qemu-run"

// TestLibvirtStartsTheDefinition starts the domain that docs/qemu.md shows. Two things are
// the test's own: the path of the socket, and emulation in place of KVM, which not every
// machine has.
func TestLibvirtStartsTheDefinition(t *testing.T) {
	runner, err := exec.LookPath(libvirtRunner)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("no libvirt here (PVDRM_DEPS=test scripts/deps.sh installs libvirt-daemon-driver-qemu): %v", err)
	}
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/qemu.md")
	require.NoError(t, err)
	domain := string(regexp.MustCompile(`(?s)<domain .*?</domain>\n`).Find(page))
	require.NotEmpty(t, domain, "docs/qemu.md has a definition")

	dir, err := os.MkdirTemp("", "pvdrm-libvirt-") // short enough for sockets, and with rights for others
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "gpu")
	for from, to := range map[string]string{"/run/pvdrm/web.gpu": socket, "<domain type='kvm'": "<domain type='qemu'"} {
		require.Contains(t, domain, from)
		domain = strings.ReplaceAll(domain, from, to)
	}
	file, root := filepath.Join(dir, "web.xml"), filepath.Join(dir, "libvirt")
	require.NoError(t, os.WriteFile(file, []byte(domain), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	// Confinement and logs take services of the host, which a test must not start.
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc", "qemu.conf"), []byte("security_driver = \"none\"\nstdio_handler = \"file\"\n"), 0o644))

	backend := start(t, "backend", "--vhost-user", socket, "--once", "--log", "info")
	backend.waitFor(t, "waiting for a virtual machine")

	machine := &command{Cmd: exec.Command(runner, "--verbose", "--root", root, file), ended: make(chan struct{})}
	machine.Env = append(os.Environ(), "HOME="+root, "XDG_RUNTIME_DIR="+root)
	if os.Geteuid() == 0 {
		// As root libvirt wants a user that its daemon's package makes: it runs as nobody.
		const nobody = 65534
		machine.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		require.NoError(t, os.Chmod(dir, 0o755))
		require.NoError(t, os.Chmod(socket, 0o666))
		for _, path := range []string{root, filepath.Join(root, "etc")} {
			require.NoError(t, os.Chown(path, nobody, nobody))
		}
	}
	machine.begin(t)
	machine.waitFor(t, "guest running")
	require.NoError(t, machine.Process.Signal(syscall.SIGTERM)) // it ends QEMU, too
	machine.wait(t)

	// The backend served the machine, and ends with it.
	code, output := backend.wait(t)
	require.Zero(t, code, output)
}
