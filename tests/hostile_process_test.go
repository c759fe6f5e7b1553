package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gem/quota"
)

// hostileProgram builds the program that attacks from inside a guest, once.
var hostileProgram = sync.OnceValues(func() (string, error) {
	program := filepath.Join(programs, "hostile")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "pvdrm/tests/hostile/guest")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building hostile: %w\n%s", err, out)
	}
	return program, nil
})

// backend finds the confined process that serves the guest of a pvdrm.
func (c *command) backend() (pid int, ok bool) {
	for _, pid := range descendants(c.Process.Pid) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		status, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && err2 == nil && bytes.Contains(line, []byte("\x00backend")) && bytes.Contains(status, []byte("Seccomp:\t2\n")) {
			return pid, true
		}
	}
	return 0, false
}

var rssAnon = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// privateMemory is what a process has of its own: anonymous memory, and memfds that
// it made itself. 0 when it has ended.
func privateMemory(pid int) (bytes uint64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	if m := rssAnon.FindSubmatch(status); m != nil {
		kib, err := strconv.ParseUint(string(m[1]), 10, 64)
		if err != nil {
			return 0
		}
		bytes = kib << 10
	}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is good
	seen := map[uint64]bool{}
	for _, fd := range fds {
		var st unix.Stat_t
		name, err := os.Readlink(fd)
		if err != nil || !strings.HasPrefix(name, "/memfd:") || guestMemfd.MatchString(name) || unix.Stat(fd, &st) != nil || seen[st.Ino] {
			continue
		}
		seen[st.Ino] = true
		bytes += uint64(st.Blocks) * 512
	}
	return bytes
}

// guestMemfd are names of the memfds of guests: local ones, and QEMU's.
var guestMemfd = regexp.MustCompile(`^/memfd:(pvdrm-grant|memory-backend-memfd) `)

// watchMemory looks at a backend's memory until the guest has ended, and returns the
// most that it had.
func (c *command) watchMemory(t *testing.T) (most uint64) {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		found := false
		pid, found = c.backend()
		return found
	}, patience, time.Millisecond, "there is no backend: %s", c.output())
	for {
		most = max(most, privateMemory(pid))
		select {
		case <-c.ended:
			return most
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// exhaustions are the attacks on the memory of a host.
var exhaustions = []string{"unfinished-sources", "compile-bombs", "module-variables", "raw-allocations", "preempted-launches", "waiting-launches",
	"stopped-launches"}

// A backend's memory has a bound whatever its guest does. Device memory and granted
// pages are the guest's.
func TestMemoryOfABackend(t *testing.T) {
	program, err := hostileProgram()
	require.NoError(t, err)
	const vram = 64 << 20
	for _, tc := range []struct {
		name  string
		flags []string
		text  uint64
		most  uint64
	}{
		{name: "module-text=1M", flags: []string{"--quota", "module-text=1M"}, text: 1 << 20, most: 256 << 20},
		{name: "quotas of a machine", flags: []string{"--quota", "module-memory=512M"}, text: quota.Limits{}.Of(quota.ModuleText), most: 1 << 30},
		{name: "quotas of a program", text: quota.Limits{}.Of(quota.ModuleText), most: 5 << 30}, // module-memory is 4 GiB
	} {
		for _, attack := range exhaustions {
			t.Run(tc.name+"/"+attack, func(t *testing.T) {
				args := append([]string{"run", "--quota", "vram=64M,granted=512M"}, tc.flags...)
				c := start(t, append(args, "--", program, "-module-text", fmt.Sprint(tc.text), "-vram", fmt.Sprint(vram), "-granted", fmt.Sprint(512<<20), attack)...)
				most := c.watchMemory(t)
				code, out := c.wait(t)
				t.Logf("%d MiB", most>>20)
				require.Zero(t, code, out)
				require.Contains(t, out, "withstood "+attack)
				require.Less(t, most, tc.most+vram, "bytes")
			})
		}
	}
}

// So has that of a virtual machine; and the machine's log stays short.
func TestExhaustionsOfAVirtualMachine(t *testing.T) {
	program, err := hostileProgram()
	require.NoError(t, err)
	attacks := []string{"unfinished-sources", "compile-bombs", "module-variables", "forge-names", "make-noise"}
	args := []string{"up", "--console=false", "--log", "debug", "--memory", "768", "--quota", "module-text=1M,vram=64M", "--copy", program,
		"--", "./" + filepath.Base(program), "-module-text", fmt.Sprint(1 << 20), "-vram", fmt.Sprint(64 << 20), "-burst", "3s"}
	c := start(t, append(args, attacks...)...)
	most := c.watchMemory(t)
	code, out := c.wait(t)
	t.Logf("%d MiB, %d bytes of output", most>>20, len(out))
	require.Zero(t, code, out)
	for _, attack := range attacks {
		require.Contains(t, out, "withstood "+attack)
	}
	require.Less(t, most, uint64(256<<20+64<<20), "bytes")
	require.Less(t, len(out), 300_000)
	requirePlain(t, strings.ReplaceAll(out, "\r\n", "\n"))
}

// A guest that is as noisy as it can be for ten seconds makes pvdrm write little, and
// nothing that a terminal would take for commands.
func TestLogOfANoisyGuest(t *testing.T) {
	program, err := hostileProgram()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "pvdrm-run-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	bin, err := built()
	require.NoError(t, err)
	var log bytes.Buffer
	c := exec.Command(filepath.Join(bin, "pvdrm"), "run", "--log", "debug", "--log-json", "--", program, "-burst", "10s", "forge-names", "make-noise")
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	c.Stderr = &log
	out, err := c.Output()
	require.NoError(t, err, "%s%s", out, log.String())
	require.Contains(t, string(out), "withstood make-noise")
	t.Logf("%d bytes", log.Len())
	require.Less(t, log.Len(), 300_000)
	requirePlain(t, log.String())
}

// requirePlain checks that a text has lines of printable characters only.
func requirePlain(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%U is in %.2000q", r, text)
	}
}
