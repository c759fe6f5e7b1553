package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"pvdrm/backend/sandbox"
	"pvdrm/backend/supervisor"
	"pvdrm/gem/quota"
)

// adversaryCommand makes this test binary a child of a supervisor, which confines itself as a
// backend does and then does what the argument after it says.
const adversaryCommand = "escape-adversary"

func init() { runtime.LockOSThread() } // for TestMain, which may become a child

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == adversaryCommand {
		if err := adversary(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			_ = supervisor.Fail(err, 1) // the parent may be gone
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if programs, err = os.MkdirTemp("", "pvdrm-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(programs); err != nil {
		fmt.Fprintln(os.Stderr, "removing what the tests built:", err)
		code = 1
	}
	os.Exit(code)
}

// adversary goes through a backend's confinement and does what is named.
func adversary(what, about string) error {
	var host Host
	if err := json.Unmarshal([]byte(about), &host); err != nil {
		return err
	}
	birth, _ := strings.CutPrefix(os.Args[len(os.Args)-1], "--"+supervisor.BirthFlag+"=")
	child, err := supervisor.Adopt(birth, os.Args)
	if err != nil {
		return err
	}
	self, err := NewSelf()
	if err != nil {
		return err
	}
	var report atomic.Pointer[[]byte]
	report.Store(&[]byte{})
	if err := child.Serve(func() ([]byte, error) { return *report.Load(), nil }); err != nil {
		return err
	}
	text := []byte(adversaries[what](self, host))
	report.Store(&text)
	select {} // the parent reads the report, and ends this process
}

// adversaries are what an adversary does. It returns its report.
var adversaries = map[string]func(*Self, Host) string{
	"escape":  tryToEscape,
	"memory":  takeMemory,
	"threads": takeThreads,
	"log":     fillLog,
	"burn":    burn,
}

const nothing = "nothing"

// tryToEscape makes all attempts.
func tryToEscape(self *Self, host Host) string {
	var errs []error
	for _, a := range Attempts() {
		if slices.Contains(a.Roles, sandbox.Backend) {
			errs = append(errs, a.Run(self, host, sandbox.Backend))
		}
	}
	errs = append(errs, CheckTable(self, sandbox.Backend))
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	return nothing
}

// takeMemory has and touches memory until this process ends, or it has more than it
// must get and little enough for the host.
func takeMemory(*Self, Host) string {
	const enough = 1 << 10
	var all [][]byte
	for len(all) < enough {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	text := fmt.Sprint(len(all), " MiB")
	runtime.KeepAlive(all)
	return text
}

// takeThreads has threads until this process ends.
func takeThreads(*Self, Host) string {
	const many = 9000 // Go's runtime gives up at 10,000
	var started sync.WaitGroup
	for range many {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			select {}
		}()
	}
	started.Wait()
	return fmt.Sprint(many, " threads")
}

// fillLog writes to the log as fast as it can, records and nonsense, for two seconds.
func fillLog(*Self, Host) string {
	lines := []byte(strings.Repeat(`{"level":"error","msg":"\u001b[2J\u009b1mEVIL\u202e"}`+"\n"+"\x1b[31mEVIL\n", 100))
	for end := time.Now().Add(2 * time.Second); ; {
		if _, err := os.Stderr.Write(lines); err != nil {
			return err.Error()
		}
		if time.Now().After(end) {
			return nothing
		}
	}
}

// watched is a supervisor's log.
type watched struct {
	mu  sync.Mutex
	out bytes.Buffer
}

// Write is part of io.Writer.
func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

// bounds are those of a backend with small quotas.
func bounds() supervisor.Bounds {
	return supervisor.BoundsOf(supervisor.Demand{Limits: quota.Limits{quota.ModuleText: 1 << 20}, VRAM: 64 << 20, Weight: 1})
}

// startAdversary starts an adversary in a backend's place.
func startAdversary(t testing.TB, what string, host Host) (*supervisor.Backend, *watched) {
	t.Helper()
	runtime.LockOSThread() // the child ends with this thread
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(runDir(t), "gpu"), Net: "unix"})
	require.NoError(t, err)
	about, err := json.Marshal(host)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	out := &watched{}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(out), zap.DebugLevel)
	b, err := supervisor.Start(t.Context(), supervisor.Config{Name: "adversary", Command: []string{self, adversaryCommand, what, string(about)},
		Guest: l, Confine: true, PIDs: true, Bounds: bounds(), Log: zap.New(core)})
	require.NoError(t, err, out)
	t.Cleanup(func() {
		_ = syscall.Kill(b.PID(), syscall.SIGKILL) // it does not end when it is told to
		b.Stop()
	})
	return b, out
}

// report waits for what an adversary says.
func report(t testing.TB, b *supervisor.Backend, out *watched) (text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		answer, err := b.Statistics()
		text = string(answer)
		return err == nil && text != ""
	}, wait, tick, "no report; %v", out)
	return text
}

// A program with a backend's confinement gets nothing that it must not have.
func TestAdversary(t *testing.T) {
	host := hostFor(t, os.Getpid())
	host.Memory = 512 << 20
	b, out := startAdversary(t, "escape", host)
	require.Equal(t, nothing, report(t, b, out))
}

// One that takes all the memory that it can get ends, and has had no more than a
// backend with its quotas needs.
func TestAdversaryTakesMemory(t *testing.T) {
	b, out := startAdversary(t, "memory", Host{})
	var most uint64
	for ended := false; !ended; {
		select {
		case <-b.Done():
			ended = true
		case <-time.After(time.Millisecond):
			most = max(most, residentMemory(b.PID()))
			require.Less(t, most, uint64(512<<20), "it has no end")
		}
	}
	require.Error(t, b.Err(), out)
	t.Logf("%d MiB: %v", most>>20, b.Err())
}

// One that starts threads without end is kept from it, where it has a user id of its
// own to count them by, or a control group.
func TestAdversaryTakesThreads(t *testing.T) {
	b, out := startAdversary(t, "threads", Host{})
	if strings.Contains(out.String(), "no user id of its own") {
		require.Empty(t, os.Getenv("CI"), out)
		t.Skip("this host gives it no user id of its own: ", out)
	}
	<-b.Done()
	require.Error(t, b.Err(), out)
	require.Regexp(t, "pthread_create failed|failed to create new OS thread", b.Err().Error()+out.String())
}

// One that floods the log has its parent write little, and nothing that a terminal
// obeys.
func TestAdversaryFillsTheLog(t *testing.T) {
	b, out := startAdversary(t, "log", Host{})
	report(t, b, out)
	text := out.String()
	require.Contains(t, text, "EVIL")
	require.Less(t, len(text), 300_000)
	for _, evil := range []string{"\x1b", "\u009b", "\u202e"} {
		require.NotContains(t, text, evil)
	}
}

// residentMemory is the anonymous memory of a process, 0 if it has ended.
func residentMemory(pid int) uint64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(status), "RssAnon:")
	var kib uint64
	if _, err := fmt.Sscan(rest, &kib); !ok || err != nil {
		return 0
	}
	return kib << 10
}
