package guestinit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/vmm/control"
)

// orphans makes orphaned processes ours to collect, as they are PID 1's, and starts the one reaper that
// a process may have.
var orphans = sync.OnceValues(func() (*reaper, error) {
	return newReaper(), unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
})

// connect serves one end of a connection and returns a client on the other.
func connect(t *testing.T) *control.Client {
	r, err := orphans()
	require.NoError(t, err)
	host, guest := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- newServer(guest, r).serve(control.Hello{Kernel: "test"})
		guest.Close()
	}()
	c := control.NewClient(host)
	<-c.Up()
	require.Equal(t, control.Hello{Version: control.Version, Kernel: "test"}, c.Hello())
	t.Cleanup(func() {
		c.Close()
		<-served
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Empty(t, r.children, "processes are left behind")
	})
	return c
}

// sh runs a shell script.
func sh(t *testing.T, c *control.Client, script string, stdin io.Reader) (exit control.Exit, stdout, stderr string) {
	var o, e bytes.Buffer
	exit, err := c.Run(t.Context(), control.Start{Argv: []string{"sh", "-c", script}}, control.Streams{Stdin: stdin, Stdout: &o, Stderr: &e})
	require.NoError(t, err)
	return exit, o.String(), e.String()
}

func TestPrograms(t *testing.T) {
	c := connect(t)
	dir := t.TempDir()
	noexec := filepath.Join(dir, "noexec")
	require.NoError(t, os.WriteFile(noexec, []byte("#!/bin/sh\n"), 0o644))
	badexec := filepath.Join(dir, "badexec")
	require.NoError(t, os.WriteFile(badexec, []byte("\x7fELF nonsense"), 0o755))
	for _, tc := range []struct {
		name           string
		start          control.Start
		stdin          string
		code           int32
		signal         uint32
		stdout, stderr string
		message        string
	}{
		{name: "output", start: control.Start{Argv: []string{"sh", "-c", "echo out; echo err >&2"}}, stdout: "out\n", stderr: "err\n"},
		{name: "exit code", start: control.Start{Argv: []string{"sh", "-c", "exit 42"}}, code: 42},
		{name: "dies by a signal", start: control.Start{Argv: []string{"sh", "-c", "kill -SEGV $$"}}, code: 139, signal: 11},
		{name: "input", start: control.Start{Argv: []string{"cat"}}, stdin: "some input", stdout: "some input"},
		{name: "arguments as they are", start: control.Start{Argv: []string{"printf", "%s|", "a b", "", "\xff", "$x"}}, stdout: "a b||\xff|$x|"},
		{name: "directory", start: control.Start{Argv: []string{"pwd"}, Dir: "/usr"}, stdout: "/usr\n"},
		{name: "default directory", start: control.Start{Argv: []string{"pwd"}}, stdout: "/\n"},
		{name: "environment", start: control.Start{Argv: []string{"sh", "-c", "echo $A:$HOME:$TERM"}, Env: []string{"A=1", "TERM=vt100", "A=2"}}, stdout: "2:/root:vt100\n"},
		{name: "PATH", start: control.Start{Argv: []string{"badexec"}, Env: []string{"PATH=" + dir}}, code: 126, message: "exec format error"},
		{name: "not found", start: control.Start{Argv: []string{"no-such-program"}}, code: 127, message: "run no-such-program: "},
		{name: "no such file", start: control.Start{Argv: []string{"/no/such/file"}}, code: 127, message: "no such file"},
		{name: "not executable", start: control.Start{Argv: []string{noexec}}, code: 126, message: "permission denied"},
		{name: "a directory", start: control.Start{Argv: []string{"/usr"}}, code: 126, message: "is a directory"},
		{name: "no such directory", start: control.Start{Argv: []string{"pwd"}, Dir: "/no/such"}, code: 127, message: "no such file"},
		{name: "input that is not read", start: control.Start{Argv: []string{"true"}}, stdin: strings.Repeat("x", 3*control.Window)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			exit, err := c.Run(t.Context(), tc.start, control.Streams{Stdin: strings.NewReader(tc.stdin), Stdout: &stdout, Stderr: &stderr})
			require.NoError(t, err)
			require.Equal(t, tc.code, exit.Code, exit.Message)
			require.Equal(t, tc.signal, exit.Signal)
			require.Equal(t, tc.stdout, stdout.String())
			require.Equal(t, tc.stderr, stderr.String())
			require.Contains(t, exit.Message, tc.message)
			require.Equal(t, tc.message == "", exit.Message == "")
		})
	}
}

func TestMuchInputAndOutput(t *testing.T) {
	c := connect(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB, many windows
	exit, out, _ := sh(t, c, "tee /dev/stderr", bytes.NewReader(data))
	require.Zero(t, exit.Code)
	require.True(t, out == string(data), "got %d bytes", len(out))
}

// TestLastWords has a program die with its pipes full and other processes holding them open.
func TestLastWords(t *testing.T) {
	c := connect(t)
	exit, out, _ := sh(t, c, "setsid sleep 1000 & sleep 1000 & head -c 60000 /dev/zero; exit 3", nil)
	require.Equal(t, int32(3), exit.Code)
	require.Len(t, out, 60000)
	// What is left in a session of its own is the tester's to end.
	_, pid, _ := sh(t, c, "pidof sleep || pgrep -x sleep", nil)
	for _, p := range strings.Fields(pid) {
		n, err := strconv.Atoi(p)
		require.NoError(t, err)
		if args, _ := os.ReadFile("/proc/" + p + "/cmdline"); string(args) == "sleep\x001000\x00" {
			require.NoError(t, unix.Kill(n, unix.SIGKILL))
		}
	}
}

// TestFlood kills a program that floods an audience which does not read.
func TestFlood(t *testing.T) {
	c := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	audience, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, control.Start{Argv: []string{"yes"}}, control.Streams{Stdout: w})
		done <- err
	}()
	_, err := io.ReadFull(audience, make([]byte, 1000))
	require.NoError(t, err)
	// Others are not in its way.
	exit, out, _ := sh(t, c, "echo hello", nil)
	require.Zero(t, exit.Code)
	require.Equal(t, "hello\n", out)
	cancel()
	audience.Close()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestKillTakesTheWholeSession(t *testing.T) {
	c := connect(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, control.Start{Argv: []string{"sh", "-c", "(trap '' HUP; sleep 1000 > " + fifo + ") & sleep 1000"}}, control.Streams{})
		done <- err
	}()
	f, err := os.Open(fifo) // waits for the inner process
	require.NoError(t, err)
	defer f.Close()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	_, err = f.Read(make([]byte, 1)) // waits for its end
	require.ErrorIs(t, err, io.EOF)
}

func TestTerminal(t *testing.T) {
	c := connect(t)
	keys, typed := io.Pipe()
	screen, w := io.Pipe()
	resize := make(chan uint32)
	type result struct {
		exit control.Exit
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := c.Run(t.Context(), control.Start{Argv: []string{"sh", "-c", `trap 'stty size; exit 9' WINCH; tty; stty size; read x; echo "<$x>"; while :; do sleep 0.05; done`}, TTY: true, Rows: 33, Cols: 77},
			control.Streams{Stdin: keys, Stdout: w, Resize: resize})
		done <- result{exit, err}
		w.Close()
	}()
	read := func(until string) string {
		var got []byte
		for !bytes.Contains(got, []byte(until)) {
			b := make([]byte, 100)
			n, err := screen.Read(b)
			got = append(got, b[:n]...)
			require.NoError(t, err, "%s", got)
		}
		return string(got)
	}
	require.Contains(t, read("77\r\n"), "/dev/pts/")
	_, err := typed.Write([]byte("key\r"))
	require.NoError(t, err)
	require.Contains(t, read("<key>\r\n"), "key\r\n", "it is echoed")
	resize <- control.Size(50, 132)
	read("50 132\r\n")
	r := <-done
	require.NoError(t, r.err)
	require.Equal(t, int32(9), r.exit.Code)
	typed.Close()
}

// TestTerminalEndOfInput types ^D after an input that is no terminal.
func TestTerminalEndOfInput(t *testing.T) {
	c := connect(t)
	var out bytes.Buffer
	exit, err := c.Run(t.Context(), control.Start{Argv: []string{"cat"}, TTY: true},
		control.Streams{Stdin: strings.NewReader("line\n"), Stdout: &out})
	require.NoError(t, err)
	require.Zero(t, exit.Code)
	require.Contains(t, out.String(), "line\r\nline\r\n")
}

// TestTerminalInterrupt has ^C reach what runs in the foreground.
func TestTerminalInterrupt(t *testing.T) {
	c := connect(t)
	keys, typed := io.Pipe()
	defer typed.Close()
	screen, w := io.Pipe()
	go func() {
		ready := make([]byte, len("ready"))
		if _, err := io.ReadFull(screen, ready); err == nil {
			_, _ = typed.Write([]byte{3})
		}
		_, _ = io.Copy(io.Discard, screen)
	}()
	exit, err := c.Run(t.Context(), control.Start{Argv: []string{"sh", "-c", "trap 'exit 4' INT; echo ready; while :; do sleep 0.05; done"}, TTY: true},
		control.Streams{Stdin: keys, Stdout: w})
	require.NoError(t, err)
	require.Equal(t, int32(4), exit.Code)
}

func TestPut(t *testing.T) {
	c := connect(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "prog")
	script := "#!/bin/sh\necho installed\n" + strings.Repeat("#", 3*control.Window)
	require.NoError(t, c.Put(t.Context(), control.Put{Path: path, Mode: 0o4755}, strings.NewReader(script)))
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), st.Mode(), "no set-user-ID")
	exit, out, _ := sh(t, c, path, nil)
	require.Zero(t, exit.Code)
	require.Equal(t, "installed\n", out)

	require.ErrorContains(t, c.Put(t.Context(), control.Put{Path: "relative"}, strings.NewReader("")), "not absolute")
	require.ErrorContains(t, c.Put(t.Context(), control.Put{Path: "/dev/null/x"}, strings.NewReader("")), "not a directory")

	// A source that fails leaves the old file.
	broken := errors.New("torn")
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte("half"))
		w.CloseWithError(broken)
	}()
	require.ErrorIs(t, c.Put(t.Context(), control.Put{Path: path, Mode: 0o755}, r), broken)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, string(got) == script)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no half a file")
}

// TestManyAtOnce runs as many programs as may run, until all of them are there.
func TestManyAtOnce(t *testing.T) {
	c := connect(t)
	input, end := io.Pipe() // one for all: its end is everyone's
	up, results := make(chan struct{}, control.MaxCalls), make(chan error, control.MaxCalls)
	for range control.MaxCalls {
		go func() {
			exit, err := c.Run(t.Context(), control.Start{Argv: []string{"sh", "-c", "echo up; cat"}}, control.Streams{Stdin: input, Stdout: signalWriter(up)})
			if err == nil && exit.Code != 0 {
				err = fmt.Errorf("code %d: %s", exit.Code, exit.Message)
			}
			results <- err
		}()
	}
	for range control.MaxCalls {
		<-up
	}
	require.NoError(t, end.Close())
	for range control.MaxCalls {
		require.NoError(t, <-results)
	}
}

// signalWriter tells that something was written.
type signalWriter chan<- struct{}

func (s signalWriter) Write(p []byte) (int, error) {
	s <- struct{}{}
	return len(p), nil
}

// TestHostHangsUp ends everything that runs.
func TestHostHangsUp(t *testing.T) {
	r, err := orphans()
	require.NoError(t, err)
	host, guest := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- newServer(guest, r).serve(control.Hello{}) }()
	c := control.NewClient(host)
	<-c.Up()
	done := make(chan error, 1)
	screen, w := io.Pipe()
	go func() {
		_, err := c.Run(context.Background(), control.Start{Argv: []string{"sh", "-c", "echo up; sleep 1000"}}, control.Streams{Stdout: w})
		done <- err
	}()
	_, err = screen.Read(make([]byte, 10))
	require.NoError(t, err)
	c.Close()
	require.ErrorIs(t, <-done, control.ErrClosed)
	require.ErrorIs(t, <-served, io.EOF)
}

func TestShutdown(t *testing.T) {
	r, err := orphans()
	require.NoError(t, err)
	host, guest := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- newServer(guest, r).serve(control.Hello{}) }()
	c := control.NewClient(host)
	<-c.Up()
	require.NoError(t, c.Shutdown())
	require.NoError(t, <-served)
	c.Close()
}

// TestWrongHost has the host break the protocol: the server gives up, it does not crash.
func TestWrongHost(t *testing.T) {
	r, err := orphans()
	require.NoError(t, err)
	start, err := control.Start{Argv: []string{"sleep", "1000"}}.Encode()
	require.NoError(t, err)
	running := control.Frame{Type: control.TypeStart, Call: 1, Payload: start}
	for name, frames := range map[string][]control.Frame{
		"start cut short":   {{Type: control.TypeStart, Payload: []byte{0, 0, 0, 0}}},
		"put cut short":     {{Type: control.TypePut, Payload: []byte{0, 0, 0, 0}}},
		"started twice":     {running, running},
		"data for stdout":   {running, {Type: control.TypeData, Stream: control.Stdout, Call: 1, Payload: []byte{1}}},
		"too much credit":   {running, {Type: control.TypeWindow, Stream: control.Stdout, Call: 1, Payload: control.U32(1)}},
		"credit for stderr": {running, {Type: control.TypeWindow, Stream: control.Stderr, Call: 1, Payload: control.U32(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			host, guest := net.Pipe()
			served := make(chan error, 1)
			go func() {
				served <- newServer(guest, r).serve(control.Hello{})
				guest.Close()
			}()
			conn := control.NewConn(host, control.Host)
			_, err := conn.Receive()
			require.NoError(t, err)
			go func() { _, _ = io.Copy(io.Discard, host) }()
			for _, f := range frames {
				require.NoError(t, conn.Send(f))
			}
			require.ErrorIs(t, <-served, control.ErrProtocol)
			host.Close()
		})
	}
}
