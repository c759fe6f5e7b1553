package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// inside makes this test binary confine itself and try what the variable names.
const inside = "PVDRM_SANDBOX_TEST"

func TestMain(m *testing.M) {
	switch what := os.Getenv(inside); what {
	case "":
	case "root":
		os.Exit(rooted())
	default:
		os.Exit(confined(what))
	}
	os.Exit(m.Run())
}

// attempts are what a confined process tries. Those that are forbidden return
// the error.
var attempts = map[string]func() error{
	"open a file":           func() error { _, err := os.Open("/etc/hostname"); return err },
	"make a file":           func() error { return os.WriteFile("/tmp/pvdrm-sandbox-test", nil, 0o600) },
	"remove a file":         func() error { return unix.Unlink("/tmp/pvdrm-sandbox-test-none") },
	"start a program":       func() error { return exec.Command("/bin/true").Run() },
	"make a network socket": func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
	executable: func() error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	},
	both: func() error {
		m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fmt.Errorf("memory: %v", err) // not what is tried
		}
		return unix.Mprotect(m, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC)
	},
	"trace another process":   func() error { return unix.PtraceAttach(1) },
	"kill another process":    func() error { return unix.Kill(os.Getppid(), 0) },
	"change the root":         func() error { return unix.Chroot("/") },
	"load a kernel module":    func() error { return unix.InitModule(nil, "") },
	"read another's memory":   func() error { _, err := unix.ProcessVMReadv(1, nil, nil, 0); return err },
	"make a namespace":        func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"open a device by ioctl":  func() error { _, err := unix.IoctlGetInt(0, unix.TIOCINQ); return err },
	"mount a file system":     func() error { return unix.Mount("none", "/mnt", "tmpfs", 0, "") },
	"become somebody else":    func() error { return unix.Setuid(65534) },
	"use io_uring":            func() error { _, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); return e },
	"use a 32-bit number too": func() error { _, _, e := unix.Syscall(0x40000000|unix.SYS_OPENAT, 0, 0, 0); return e },
}

// What renderers may do.
const (
	executable = "map executable memory"
	both       = "make memory writable and executable"
)

// confined is the other process: it enters the sandbox with other threads
// running, tries what is named, and says what became of it.
func confined(what string) int {
	var busy sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		busy.Go(func() { <-stop })
	}
	enter := Enter
	if os.Getenv(inside+"_RENDERER") != "" {
		enter = func() error { return EnterRenderer(false) }
	}
	if err := enter(); err != nil {
		fmt.Println("not confined:", err)
		return 1
	}
	defer busy.Wait()
	defer close(stop)
	if what == "serve" {
		return serve()
	}
	// On another thread than that which entered, too.
	results := make(chan error)
	for range 4 {
		go func() { results <- attempts[what]() }()
	}
	for range 4 {
		err := <-results
		if err == nil {
			fmt.Println("allowed")
			return 0
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			fmt.Printf("%s: %v\n", what, err)
			return 1
		}
	}
	fmt.Println("refused")
	return 0
}

// serve does what a backend does: goroutines, memory, sockets and memfds.
func serve() int {
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			b := make([]byte, 1<<20)
			b[len(b)-1] = 1
		})
	}
	all.Wait()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		fmt.Println("a socket pair should need no permission that a backend has", fds)
		return 1
	}
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, 4096)
	}
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		fmt.Println("memory:", err)
		return 1
	}
	mem[0] = 1
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		err = unix.Mprotect(code, unix.PROT_READ|unix.PROT_EXEC)
	}
	if err != nil {
		fmt.Println("native code:", err)
		return 1
	}
	_, err = net.Dial("unix", os.Getenv(inside+"_SOCKET"))
	if err != nil {
		fmt.Println("a Unix socket:", err)
		return 1
	}
	fmt.Println("served")
	return 0
}

func run(t *testing.T, what, socket string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), inside+"="+what, inside+"_SOCKET="+socket)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", what, out)
	return strings.TrimSpace(string(out))
}

func TestForbiddenCallsAreRefused(t *testing.T) {
	require.NoError(t, Available())
	for what := range attempts {
		t.Run(what, func(t *testing.T) { require.Equal(t, "refused", run(t, what, "")) })
	}
}

// A renderer may do no more than a backend, but for memory that is executable.
func TestForbiddenToRenderers(t *testing.T) {
	t.Setenv(inside+"_RENDERER", "1")
	for what := range attempts {
		t.Run(what, func(t *testing.T) {
			want := "refused"
			if what == executable || what == both {
				want = "allowed"
			}
			require.Equal(t, want, run(t, what, ""))
		})
	}
}

func TestWhatServingNeedsIsAllowed(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	require.Equal(t, "served", run(t, "serve", socket))
}
