package tests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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
)

// patience is how long a test waits for what has to come. It is no measure of speed: a host that
// is shared may be ten times slower for a while, and a test fails only where nothing comes.
const patience = 15 * time.Minute

// long is set in make test-long, which runs in full what make test takes a sample of.
var long = os.Getenv("PVDRM_TEST_LONG") != ""

// built is the directory of programs, with pvdrm and gdev in it, which it builds once for all tests.
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
	out    bytes.Buffer // both streams; to be read when it has ended
	mu     sync.Mutex
	runDir string
	ended  chan struct{}
	code   int
}

func (c *command) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}

func (c *command) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// start runs pvdrm with a directory of its own for sockets.
func start(t *testing.T, args ...string) *command {
	t.Helper()
	run, err := os.MkdirTemp("", "pvdrm-run-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(run)) }) // after what startIn ends
	return startIn(t, run, args...)
}

// startIn runs pvdrm with a directory for sockets that it shares with others.
func startIn(t *testing.T, run string, args ...string) *command {
	t.Helper()
	dir, err := built()
	require.NoError(t, err)
	c := &command{runDir: run, ended: make(chan struct{})}
	c.Cmd = exec.Command(filepath.Join(dir, "pvdrm"), args...)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+run)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.begin(t)
	return c
}

// begin starts the command and collects what it prints.
func (c *command) begin(t *testing.T) {
	t.Helper()
	c.Stdout, c.Stderr = c, c
	require.NoError(t, c.Start())
	go func() {
		defer close(c.ended)
		_ = c.Cmd.Wait() // the code is what counts
		c.code = c.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()                              // it should have ended
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // and what it started, which may hold its output
		<-c.ended
	})
}

func (c *command) wait(t *testing.T) (code int, output string) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		require.Fail(t, "it does not end", c.output())
	}
	return c.code, c.output()
}

func (c *command) waitFor(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(c.output(), text); {
		select {
		case <-c.ended:
			require.Contains(t, c.output(), text, "it ended before that")
			return
		case <-time.After(20 * time.Millisecond):
		}
		require.True(t, time.Now().Before(deadline), "%q does not come:\n%s", text, c.output())
	}
}

// child waits for a child process with a word in its command line. Linux may leave a child out of
// the list while another one ends.
func (c *command) child(t *testing.T, word string) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		pid = c.findChild(t, word)
		return pid != 0
	}, patience, 10*time.Millisecond, "no child with %q", word)
	return pid
}

func (c *command) findChild(t *testing.T, word string) (found int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Process.Pid))
	require.NoError(t, err)
	for _, task := range tasks {
		list, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for _, f := range strings.Fields(string(list)) {
			line, err := os.ReadFile("/proc/" + f + "/cmdline")
			if err == nil && strings.Contains(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), word) {
				found, err = strconv.Atoi(f)
				require.NoError(t, err)
			}
		}
	}
	return found
}

// requireNothingLeft checks that processes have ended and the sockets are gone.
func (c *command) requireNothingLeft(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				return true
			}
			// The first thread of a killed process may be a zombie while others still hold
			// its sockets open.
			threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
			return err != nil || strings.Contains(string(stat), ") Z ") && len(threads) == 1
		}, patience, 10*time.Millisecond, "process %d is left", pid)
	}
	left, err := filepath.Glob(filepath.Join(c.runDir, "pvdrm", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{args: "version", want: "ring protocol 1.0"},
		{args: "--help", want: "pvdrm up"},
		{args: "up --help", want: "paravirtual GPU"},
		{args: "nonsense", code: 2, want: `there is no command "nonsense"`},
		{args: "up --nonsense", code: 2, want: "unknown flag"},
		{args: "bench gl --nonsense", code: 2, want: "See `pvdrm bench gl --help`."},
		{args: "trace show", code: 2, want: "usage: pvdrm trace show"},
		{args: "trace replay /no/such/trace", code: 125, want: "/no/such/trace"},
		{args: "run", code: 2, want: "name the program"},
		{args: "backend", code: 2, want: "--vhost-user"},
		{args: "run --vram much -- true", code: 2, want: "--vram"},
		{args: "run --device quantum -- true", code: 2, want: "quantum"},
		{args: "run --log loud -- true", code: 2, want: "--log"},
		{args: "run -- no-such-program", code: 125, want: "no program"},
		{args: "screenshot x.png", code: 125, want: "no guest runs"},
		{args: "view :1", code: 125, want: "no guest runs"},
		{args: "view 1", code: 2, want: "vnc=1"},
		{args: "view", code: 2, want: "usage: pvdrm view ([HOST]:DISPLAY | unix:PATH)"},
		{args: "up --display hologram -- true", code: 2, want: "there are none, gtk, sdl"},
		{args: "up --resolution large -- true", code: 2, want: "1280x800"},
		{args: "up --qemu /no/such/qemu -- true", code: 125, want: "QEMU"},
		{args: "backend --local /no/such/dir/socket", code: 125, want: "/no/such/dir/socket"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			c := start(t, strings.Fields(tc.args)...)
			code, out := c.wait(t)
			require.Equal(t, tc.code, code, out)
			require.Contains(t, out, tc.want)
			c.requireNothingLeft(t)
		})
	}
}

func TestDoctor(t *testing.T) {
	code, out := start(t, "doctor").wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "Everything that is needed is there")
	code, out = start(t, "doctor", "--qemu", "/no/such/qemu").wait(t)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "apt-get install -t bookworm-backports")
}

func TestRunPassesTheExitCodeOn(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 128 + 9, "true": 0} {
		code, out := start(t, "run", "--", "sh", "-c", script).wait(t)
		require.Equal(t, want, code, out)
	}
}

func TestSuiteAsALocalGuest(t *testing.T) {
	code, out := start(t, "run", "--log", "error", "--", "gdev", "run", "--all", "--json").wait(t)
	require.Zero(t, code, out)
	checkSuite(t, out)
}

func TestSocketInUse(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	for _, flag := range []string{"--local", "--vhost-user"} {
		socket := filepath.Join(dir, flag[2:])
		first := start(t, "backend", flag, socket, "--log", "info")
		first.waitFor(t, "waiting for")
		code, out := start(t, "backend", flag, socket).wait(t)
		require.Equal(t, 125, code, out)
		require.Contains(t, out, "in use")
		child := first.child(t, "backend-serve")
		require.NoError(t, first.Process.Kill())
		<-first.ended
		first.requireNothingLeft(t, child)          // the kernel ends it, too
		for _, box := range []string{"off", "on"} { // the first over the socket that the killed one left
			next := start(t, "backend", flag, socket, "--log", "info", "--sandbox", box)
			next.waitFor(t, "waiting for")
			require.NoError(t, next.Process.Signal(syscall.SIGTERM))
			code, out = next.wait(t)
			require.Zero(t, code, out)
			_, err := os.Lstat(socket)
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
}

func TestLocalGuestOfAKilledBackend(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "gpu")
	backend := start(t, "backend", "--local", socket, "--log", "info")
	backend.waitFor(t, "waiting for")
	bin, err := built()
	require.NoError(t, err)
	guest := exec.Command(filepath.Join(bin, "gdev"), "run", "--json", "--repeat", "1000", "loop")
	guest.Env = append(os.Environ(), "PVDRM_SOCKET="+socket)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, read.Close()) }()
	guest.Stdout, guest.Stderr = write, write
	require.NoError(t, guest.Start())
	require.NoError(t, write.Close())
	lines := bufio.NewReader(read)
	first, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, `"verified":true`)
	require.NoError(t, backend.Process.Kill()) // wherever the guest is in its work
	var out []byte
	ended := make(chan error, 1)
	go func() {
		out, _ = io.ReadAll(lines) // what is missing, the test misses
		ended <- guest.Wait()
	}()
	select {
	case err := <-ended:
		require.Error(t, err)
		require.Regexp(t, "is gone|ended this session|no backend at", string(out)) // by what it does just then
	case <-time.After(patience):
		_ = guest.Process.Kill()
		require.Fail(t, "the guest waits for a backend that is gone")
	}
}

// up starts a machine that runs until it is ended.
func upSleeping(t *testing.T) (c *command, backend, qemu int) {
	t.Helper()
	c = start(t, "up", "--", "sleep", "1000")
	c.waitFor(t, "the guest is up")
	return c, c.child(t, "backend-serve"), c.child(t, "-machine")
}

func TestUpWhoseBackendIsKilled(t *testing.T) {
	c, backend, qemu := upSleeping(t)
	require.NoError(t, syscall.Kill(backend, syscall.SIGKILL))
	code, out := c.wait(t)
	require.Equal(t, 125, code, out)
	require.Contains(t, out, "the backend ended")
	c.requireNothingLeft(t, backend, qemu)
}

func TestUpWhoseQEMUIsKilled(t *testing.T) {
	c, backend, qemu := upSleeping(t)
	require.NoError(t, syscall.Kill(qemu, syscall.SIGKILL))
	code, out := c.wait(t)
	require.Equal(t, 125, code, out)
	require.Contains(t, strings.ToLower(out), "qemu")
	c.requireNothingLeft(t, backend, qemu)
}

func TestUpThatIsInterrupted(t *testing.T) {
	c, backend, qemu := upSleeping(t)
	require.NoError(t, syscall.Kill(-c.Process.Pid, syscall.SIGINT)) // ^C goes to the whole group
	code, out := c.wait(t)
	require.Equal(t, 125, code, out)
	require.Contains(t, out, "interrupted")
	c.requireNothingLeft(t, backend, qemu)
}

func TestUpThatIsKilled(t *testing.T) {
	c, backend, qemu := upSleeping(t)
	shot := filepath.Join(t.TempDir(), "screen.png")
	again := exec.Command(c.Path, "screenshot", shot)
	again.Env = c.Env
	out, err := again.CombinedOutput()
	require.NoError(t, err, string(out))
	st, err := os.Stat(shot)
	require.NoError(t, err)
	require.NotZero(t, st.Size())

	require.NoError(t, c.Process.Kill())
	<-c.ended
	for _, pid := range []int{backend, qemu} {
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, patience, 10*time.Millisecond)
	}
	// The directory of its sockets could not be removed; the next start does it.
	next := exec.Command(c.Path, "up", "--qemu", "/no/such/qemu", "--", "true")
	next.Env = c.Env
	_ = next.Run() // fails for want of a QEMU
	c.requireNothingLeft(t)
}

func TestStats(t *testing.T) {
	dir, err := built()
	require.NoError(t, err)
	// gdev holds a file open while stats looks: its counters are those of a client.
	script := `"$0/gdev" run --json --repeat 100000 madd >"$1" & while [ ! -s "$1" ]; do sleep 0.05; done;
		"$0/pvdrm" stats --json; "$0/pvdrm" stats; kill $!; wait; true`
	c := start(t, "run", "--log", "error", "--", "sh", "-c", script, dir, filepath.Join(t.TempDir(), "out"))
	code, out := c.wait(t)
	require.Zero(t, code, out)
	line, table, _ := strings.Cut(out, "\n")
	var st struct {
		Kind  string
		Guest struct {
			Sessions uint64
			Total    map[string]uint64
			Clients  []struct {
				Client   string
				Counters map[string]uint64
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(line), &st), out)
	require.Equal(t, "local", st.Kind)
	require.NotZero(t, st.Guest.Sessions)
	for _, name := range []string{"doorbells", "requests", "multicalls", "grants", "granted_bytes", "ptes", "batches"} {
		require.NotZero(t, st.Guest.Total[name], name)
	}
	require.NotEmpty(t, st.Guest.Clients)
	require.Contains(t, st.Guest.Clients[0].Client, "gdev[")
	require.Contains(t, table, "multicalls")
	require.Contains(t, table, "gdev[")
	c.requireNothingLeft(t)
}

func TestGdevCounters(t *testing.T) {
	code, out := start(t, "run", "--log", "error", "--", "gdev", "run", "--counters", "--json", "madd").wait(t)
	require.Zero(t, code, out)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2, out)
	var c struct {
		Counters struct {
			Bench         string
			Backend, Pool map[string]uint64
			Waits         map[string]uint64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &c))
	require.Equal(t, "madd", c.Counters.Bench)
	for _, name := range []string{"requests", "multicalls", "grants", "ptes", "batches"} {
		require.NotZero(t, c.Counters.Backend[name], name)
	}
	require.NotZero(t, c.Counters.Pool["slab"])
	code, out = start(t, "run", "--", "gdev", "run", "--counters", "nop", "madd").wait(t)
	require.Zero(t, code, out)
	require.Equal(t, 2, strings.Count(out, "multicalls"), out)
}

// TestAblation runs the suite with each of the switches and with all of them, and in make test-long with every combination.
func TestAblation(t *testing.T) {
	dir, err := built()
	require.NoError(t, err)
	masks := []int{1, 2, 4, 7}
	if long {
		masks = []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	for _, mask := range masks {
		var words []string
		for i, word := range []string{"nopoll", "nomulticall", "nopool"} {
			if mask>>i&1 != 0 {
				words = append(words, word)
			}
		}
		config := strings.Join(words, ",")
		t.Run(config, func(t *testing.T) {
			code, out := start(t, "run", "--log", "error", "--", "env", "PVDRM_CONFIG="+config, filepath.Join(dir, "gdev"), "run", "--all", "--json").wait(t)
			require.Zero(t, code, out)
			checkSuite(t, out)
		})
	}
	code, out := start(t, "run", "--", "env", "PVDRM_CONFIG=nonsense", filepath.Join(dir, "gdev"), "run", "nop").wait(t)
	require.NotZero(t, code)
	require.Contains(t, out, "nonsense")
}

// A trace that was made in a virtual machine replays in another one.
func TestTraceOfAGuest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	code, out := start(t, "trace", "record", "--on", "vm", "-o", file, "--", "gdev", "run", "nop").wait(t)
	require.Zero(t, code, out)
	code, out = start(t, "trace", "replay", "--on", "vm", file).wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "all as recorded")

	code, out = start(t, "trace", "record", "--on", "vm", "-o", file, "--", "sh", "-c", "exit 3").wait(t)
	require.Equal(t, 3, code, out)
	require.NoFileExists(t, file)
}
