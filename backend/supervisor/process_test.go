package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"pvdrm/backend/arbiter"
	"pvdrm/internal/unixsock"
)

// childCommand makes this test binary a child that does what its argument names.
const childCommand = "supervisor-test-child"

// init keeps the main goroutine on the main thread: children give up their privileges there.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childCommand {
		os.Exit(beChild(os.Args[2]))
	}
	os.Exit(m.Run())
}

// beChild is the program of a child.
func beChild(what string) int {
	flag := strings.TrimPrefix(os.Args[len(os.Args)-1], "--"+BirthFlag+"=")
	if what == "nothing" {
		return 3
	}
	c, err := Adopt(flag, os.Args)
	if err == nil {
		err = behave(c, what)
	}
	if err != nil {
		_ = Fail(err, 7) // the exit code tells, too
		return 1
	}
	return 0
}

// raw sends a packet to the parent, whatever it is.
func raw(packet []byte, fds ...int) error {
	var oob []byte
	if fds != nil {
		oob = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(linkFD, packet, oob, nil, 0)
}

// behave does what a test wants of a child.
func behave(c *Child, what string) error {
	ctx, cancel := c.Context(context.Background())
	defer cancel()
	statistics := func() ([]byte, error) { return []byte(`{"answer":42}`), nil }
	switch what {
	case "fail":
		return errors.New("no such device\x1b[2J")
	case "long":
		statistics = func() ([]byte, error) { return make([]byte, maxStatistics+1), nil }
	case "refused":
		_, err := c.Seat()
		var refused *arbiter.RefusedError
		if !errors.As(err, &refused) || refused.Errno != unix.EDQUOT || refused.Text != "too many" {
			return fmt.Errorf("it is no refusal: %w", err)
		}
	case "secret": // tells what it was not to get
		statistics = func() ([]byte, error) {
			return fmt.Appendf(nil, "%q %v", os.Getenv("PVDRM_TEST_SECRET"), open(os.Getenv("PVDRM_TEST_FILE"))), nil
		}
	}
	if err := c.Serve(statistics); err != nil {
		return err
	}
	switch what {
	case "unknown":
		return errors.Join(raw(make([]byte, headBytes)), wait(ctx))
	case "twice":
		return errors.Join(raw(message{op: opReady}.append(nil)), wait(ctx))
	case "empty":
		return errors.Join(raw([]byte{1}), wait(ctx))
	case "huge":
		return errors.Join(raw(make([]byte, 4*maxMessage)), wait(ctx))
	case "descriptors":
		return errors.Join(raw(message{op: opSeat}.append(nil), 0, 1), wait(ctx))
	case "panic":
		panic("out of luck\x1b[2J")
	case "seats":
		for {
			if _, err := c.Seat(); ctx.Err() != nil {
				return nil
			} else if err == nil {
				return errors.New("it has got a seat that is not there")
			}
		}
	case "seat":
		seat, err := c.Seat()
		if err != nil {
			return err
		}
		text := make([]byte, 5)
		if _, err := seat.Page.ReadAt(text, 0); err != nil {
			return err
		}
		if _, err := seat.Conn.Write(text); err != nil {
			return err
		}
	case "several": // answers at its second socket, and asks for its second seat and for one that it has not
		conn, err := c.Guests()[1].Accept()
		if err != nil {
			return err
		}
		_, first := c.SeatOf(1)
		_, second := c.SeatOf(2)
		_, err = fmt.Fprintf(conn, "%d: %v, %v", len(c.Guests()), first, second)
		for i, f := range c.Peers() {
			_, failed := fmt.Fprintf(f, "peer %d", i)
			err = errors.Join(err, failed)
		}
		return errors.Join(err, conn.Close())
	case "once":
		return nil
	case "glutton":
		for {
			hoard = append(hoard, make([]byte, 1<<20))
		}
	}
	return wait(ctx)
}

// hoard is what a child has that takes all it can get.
var hoard [][]byte

func wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func open(path string) error {
	f, err := os.Open(path)
	if err == nil {
		err = f.Close()
	}
	return err
}

// said is what a parent's logger wrote.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// config configures a child that does what is named.
func config(t *testing.T, what string) (Config, *said) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvdrm-test-") // whose path is short, as sockets need it
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "guest"), Net: "unix"})
	require.NoError(t, err)
	var s said
	log := zap.New(zapcore.NewCore(encoders["JSON"], zapcore.AddSync(&s), zapcore.InfoLevel))
	self, err := os.Executable()
	require.NoError(t, err)
	return Config{Name: "guest-1", Command: []string{self, childCommand, what}, Guest: l, Log: log}, &s
}

// begin starts a child. The test keeps to its thread, with which the child would end.
func begin(t *testing.T, cfg Config) (*Backend, error) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	b, err := Start(t.Context(), cfg)
	if err == nil {
		t.Cleanup(b.Stop)
	}
	return b, err
}

func TestBackend(t *testing.T) {
	cfg, _ := config(t, "serve")
	path := cfg.Guest.Addr().String()
	b, err := begin(t, cfg)
	require.NoError(t, err)
	for range 2 {
		answer, err := b.Statistics()
		require.NoError(t, err)
		require.Equal(t, `{"answer":42}`, string(answer))
	}
	require.NoError(t, syscall.Kill(b.PID(), 0))
	c, err := net.Dial("unix", path)
	require.NoError(t, err, "the guest's socket is the child's now")
	require.NoError(t, c.Close())
	b.Stop()
	require.NoError(t, b.Err())
	require.ErrorIs(t, syscall.Kill(b.PID(), 0), syscall.ESRCH)
	_, err = b.Statistics()
	require.Error(t, err)
}

// A child that ends by itself, in one way or another.
func TestEnds(t *testing.T) {
	for what, want := range map[string]string{"once": "", "panic": `exit status 2, panic: out of luck\x1b[2J`} {
		t.Run(what, func(t *testing.T) {
			cfg, said := config(t, what)
			b, err := begin(t, cfg)
			require.NoError(t, err)
			<-b.Done()
			if want == "" {
				require.NoError(t, b.Err())
				return
			}
			require.EqualError(t, b.Err(), want)
			require.Contains(t, said.String(), "goroutine 1")
		})
	}
}

func TestFailures(t *testing.T) {
	for what, want := range map[string]string{"fail": `no such device\x1b[2J`, "nothing": "exit status 3"} {
		t.Run(what, func(t *testing.T) {
			cfg, _ := config(t, what)
			_, err := begin(t, cfg)
			require.EqualError(t, err, want)
			var failed *FailedError
			require.Equal(t, what == "fail", errors.As(err, &failed))
			if failed != nil {
				require.Equal(t, 7, failed.Code)
			}
		})
	}
	cfg, _ := config(t, "serve")
	cfg.Command[0] = "/no/such/program"
	_, err := begin(t, cfg)
	require.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg, _ = config(t, "serve")
	_, err = Start(ctx, cfg)
	if err != nil { // else it was quick
		require.ErrorIs(t, err, context.Canceled)
	}
}

// A child that does not keep to the protocol is killed.
func TestHostileChildren(t *testing.T) {
	for _, what := range []string{"unknown", "twice", "empty", "huge", "descriptors"} {
		t.Run(what, func(t *testing.T) {
			cfg, said := config(t, what)
			b, err := begin(t, cfg)
			require.NoError(t, err)
			<-b.Done()
			require.ErrorIs(t, b.Err(), errWire)
			require.Contains(t, said.String(), "breaks the protocol")
		})
	}
	cfg, _ := config(t, "long")
	b, err := begin(t, cfg)
	require.NoError(t, err)
	_, err = b.Statistics()
	require.ErrorContains(t, err, "an answer of 4194305 bytes")
	_, err = b.Statistics()
	require.ErrorIs(t, err, net.ErrClosed, "who lies once is not asked again")
}

// What a seat is passes from the parent's Take to the child's gate.
func TestSeats(t *testing.T) {
	cfg, _ := config(t, "seat")
	ours, theirs, err := connection(unix.SOCK_SEQPACKET)
	require.NoError(t, err)
	page, err := os.CreateTemp(t.TempDir(), "page")
	require.NoError(t, err)
	_, err = page.WriteString("hello")
	require.NoError(t, err)
	cfg.Seat = func(context.Context, int) (*arbiter.Seat, error) { return &arbiter.Seat{Conn: theirs, Page: page}, nil }
	b, err := begin(t, cfg)
	require.NoError(t, err)
	got := make([]byte, 10)
	n, err := ours.Read(got)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got[:n]))
	b.Stop()
	require.NoError(t, b.Err())
	require.ErrorIs(t, page.Close(), os.ErrClosed, "the child has it")

	cfg, _ = config(t, "refused")
	cfg.Seat = func(context.Context, int) (*arbiter.Seat, error) {
		return nil, &arbiter.RefusedError{Errno: unix.EDQUOT, Text: "too many"}
	}
	b, err = begin(t, cfg)
	require.NoError(t, err)
	b.Stop()
	require.NoError(t, b.Err())
}

// A child may serve several sockets and have several seats.
func TestSeveralGuestsOfAChild(t *testing.T) {
	cfg, _ := config(t, "several")
	more := filepath.Join(filepath.Dir(cfg.Guest.Addr().String()), "more")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: more, Net: "unix"})
	require.NoError(t, err)
	cfg.More, cfg.Seats = []*net.UnixListener{l}, 2
	cfg.Seat = func(_ context.Context, number int) (*arbiter.Seat, error) {
		return nil, fmt.Errorf("it is seat %d", number)
	}
	var peers []int
	for range 2 {
		fd, theirs, err := unixsock.Pair(unix.SOCK_SEQPACKET)
		require.NoError(t, err)
		peers, cfg.Peers = append(peers, fd), append(cfg.Peers, theirs)
	}
	defer unixsock.Close(peers)
	b, err := begin(t, cfg)
	require.NoError(t, err)
	require.ErrorIs(t, cfg.Peers[0].Close(), os.ErrClosed, "the child has them")
	conn, err := net.Dial("unix", more)
	require.NoError(t, err)
	defer conn.Close()
	text, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "2: it is seat 1, "+errSeat.Error(), string(text))
	for i, fd := range peers {
		got := make([]byte, 10)
		n, err := unix.Read(fd, got)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("peer %d", i), string(got[:n]))
	}
	<-b.Done()
	require.NoError(t, b.Err())
}

// A child that asks for seats again and again has its parent ask the arbiter as often as it may.
func TestSeatsAreFew(t *testing.T) {
	cfg, _ := config(t, "seats")
	asked := make(chan struct{}, 100)
	cfg.Seat = func(context.Context, int) (*arbiter.Seat, error) {
		asked <- struct{}{}
		return nil, errors.New("there is none")
	}
	start := time.Now()
	b, err := begin(t, cfg)
	require.NoError(t, err)
	const more = 2
	for range seatBurst + more {
		<-asked
	}
	require.GreaterOrEqual(t, time.Since(start), more*time.Second/seatRate)
	b.Stop() // while it waits
	require.NoError(t, b.Err())
}

// A child that is confined has nothing of its parent's environment and files, and its end is told.
func TestConfinedChild(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector maps more memory than any bound; the test runs without it, too")
	}
	t.Setenv("PVDRM_TEST_SECRET", "a key")
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	cfg, said := config(t, "secret")
	cfg.Confine, cfg.PIDs = true, true
	// As a shell leaves files open to what it starts.
	secret := filepath.Join(dir, "secret")
	fd, err := unix.Open(secret, unix.O_RDWR|unix.O_CREAT, 0o600)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	cfg.Bounds = Bounds{Heap: testMemory, Memory: testMemory, Start: 2 * testMemory, Processes: someThreads}
	b, err := begin(t, cfg)
	require.NoError(t, err)
	answer, err := b.Statistics()
	require.NoError(t, err)
	require.Equal(t, `"" open : operation not permitted`, string(answer))
	requireConfined(t, b.PID())
	if !strings.Contains(said.String(), "goes without") {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
		require.NoError(t, err)
		require.NotContains(t, string(status), fmt.Sprintf("Uid:\t%d\t", os.Geteuid()))
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", b.PID()))
	require.NoError(t, err)
	if os.Geteuid() == 0 { // others see them in a namespace of their own only
		require.NotEmpty(t, open)
	}
	for _, path := range open {
		target, _ := os.Readlink(path) // it may be closed meanwhile
		require.NotEqual(t, secret, target)
	}
	t.Log(said.String())
	b.Stop()
	require.NoError(t, b.Err())
}

// A child that takes more memory than its quotas let it have ends, and it is told why.
func TestGlutton(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector maps more memory than any bound; the test runs without it, too")
	}
	cfg, _ := config(t, "glutton")
	cfg.Confine, cfg.PIDs = true, true
	cfg.Bounds = Bounds{Heap: testMemory, Memory: testMemory, Processes: someThreads}
	b, err := begin(t, cfg)
	require.NoError(t, err)
	<-b.Done()
	var crash *CrashError
	require.ErrorAs(t, b.Err(), &crash)
	require.ErrorContains(t, crash, "memory")
	require.ErrorContains(t, crash, "its quotas let it have 300 MiB")
}

// testMemory is what a confined child may have.
const testMemory = 300 << 20

// requireConfined looks at what the kernel says of a process.
func requireConfined(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for _, want := range []string{"Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n"} {
		require.Contains(t, string(status), want)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`(?m)^Max data size +%d +%d `, testMemory, testMemory), string(limits))
}

// A parent that is gone has its child end, by the link alone.
func TestChildWithoutParent(t *testing.T) {
	ours, theirs, err := connection(unix.SOCK_SEQPACKET)
	require.NoError(t, err)
	conn, err := net.FileConn(theirs)
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	c := &Child{link: &link{conn: conn.(*net.UnixConn)}, answers: make(chan reply), gone: make(chan struct{}), turn: make(chan struct{}, 1)}
	go c.read()
	ctx, cancel := c.Context(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Seat()
		failed <- err
	}()
	require.NoError(t, ours.Close())
	<-ctx.Done()
	require.ErrorContains(t, <-failed, "sea")
}

// Each child is killed alone.
func TestKilled(t *testing.T) {
	var all []*Backend
	for range 3 {
		cfg, _ := config(t, "serve")
		b, err := begin(t, cfg)
		require.NoError(t, err)
		all = append(all, b)
	}
	for _, b := range all {
		require.NoError(t, syscall.Kill(b.PID(), syscall.SIGKILL))
		<-b.Done()
		require.EqualError(t, b.Err(), "signal: killed")
	}
}
