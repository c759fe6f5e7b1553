package tests

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
)

// gloopClient compiles a C program that runs a GLoop program.
func gloopClient(t *testing.T, source string) string {
	t.Helper()
	lib, err := libcudaDir()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "client")
	out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../examples/cuda", "-I../frontend/gloop/c",
		"-o", file, source, "-L"+lib, "-lgloop", "-lcuda", "-lpthread").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// passes runs a program to its end, which must be good. It returns what the program wrote.
func passes(t *testing.T, cmd *exec.Cmd, mark string) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), mark)
	return string(out)
}

// The echo server's host program in C runs as a local guest, on both versions of the loop.
func TestGLoopFromC(t *testing.T) {
	client := gloopClient(t, "../examples/gloop/echo.c")
	for _, ptx := range []string{"echo.ptx", "echo.noshared.ptx"} {
		cmd := startHost(t, softgpu.Config{SMs: 1}).program(t, client)
		file, err := filepath.Abs("../examples/gloop/" + ptx)
		require.NoError(t, err)
		cmd.Args = append(cmd.Args, file)
		passes(t, cmd, "echo: PASS\n")
	}
}

// gloopInMachine runs it in a virtual machine, whose image has the library.
func gloopInMachine(t *testing.T) inMachine {
	client := gloopClient(t, "../examples/gloop/echo.c")
	return inMachine{name: "gloop", files: []string{"../examples/gloop/echo.ptx", client}, script: "./" + filepath.Base(client) + " echo.ptx",
		check: func(t *testing.T, code int, out string) {
			require.Zero(t, code, out)
			require.Contains(t, out, "echo: PASS\n")
		}}
}

// A program of C runs longer than the limit of launches, and misuse of the library is
// an error, by hostile kernels too.
func TestGLoopFromCBeyondTheLimit(t *testing.T) {
	cmd := startHost(t, softgpu.Config{SMs: 1, LaunchLimit: 2 * time.Second}).program(t, gloopClient(t, "gloop/steps.c"))
	for _, name := range []string{"throttle.ptx", "tasks.ptx", "hostile.ptx"} {
		file, err := filepath.Abs("../frontend/gloop/host/testdata/" + name)
		require.NoError(t, err)
		cmd.Args = append(cmd.Args, file)
	}
	cmd.Args = append(cmd.Args, "50000")
	passes(t, cmd, "steps: PASS\n")
}

// What is wrong with a request for a file or a socket is an errno for its callback, with the C library, too: paths
// and buffers that are not the program's, files that its user may not use or that shrink, peers that stall.
func TestGLoopFromCErrors(t *testing.T) {
	cmd := startHost(t, softgpu.Config{SMs: 1}).program(t, gloopClient(t, "gloop/ask.c"))
	kernel, err := filepath.Abs("../frontend/gloop/host/testdata/io.ptx")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "ask")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("hello"), 0o444))
	secret := os.FileMode(0o600)
	if os.Getuid() != 0 {
		secret = 0 // its own user may read its files
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("secret"), secret))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	cmd.Args = append(cmd.Args, kernel, dir)
	passes(t, cmd, "ask: PASS\n")
}

// The program that measures scheduling points suspends tasks after every k-th callback, on both
// versions of the loop.
func TestGLoopPoints(t *testing.T) {
	cmd := startHost(t, softgpu.Config{SMs: 2}).program(t, gloopClient(t, "gloop/points.c"))
	folder, err := filepath.Abs("../frontend/gloop/host/testdata")
	require.NoError(t, err)
	cmd.Args = append(cmd.Args, folder, "1000")
	out := passes(t, cmd, "points: PASS\n")
	require.Equal(t, 2, strings.Count(out, "the same bytes"))
}

// mortal starts deaths.c on a kernel of the Go runtime's tests, and waits until it is where it is to die.
func mortal(t *testing.T, h *host, client, ptx, how string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := h.program(t, client)
	file, err := filepath.Abs("../frontend/gloop/host/testdata/" + ptx)
	require.NoError(t, err)
	cmd.Args = append(cmd.Args, file, how)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "reached\n", line)
	return cmd, lines
}

// A program of C whose backend dies ends with an error, while its kernel runs and while all blocks wait.
func TestGLoopFromCDeaths(t *testing.T) {
	client := gloopClient(t, "gloop/deaths.c")
	for how, ptx := range map[string]string{"computes": "throttle.ptx", "waits": "server.ptx"} {
		t.Run(how, func(t *testing.T) {
			h := startHost(t, softgpu.Config{SMs: 1})
			cmd, lines := mortal(t, h, client, ptx, how)
			require.NoError(t, h.stop())
			rest, err := io.ReadAll(lines)
			require.NoError(t, err)
			require.NoError(t, cmd.Wait(), "%s", rest)
			require.Contains(t, string(rest), "deaths: PASS\n")
		})
	}
}

// A process that is killed while its program computes, or waits for a client, ends only that program:
// one of another process serves its clients on the same device. What the killed ones had is given back.
func TestGLoopProcessKilled(t *testing.T) {
	client, echo := gloopClient(t, "gloop/deaths.c"), gloopClient(t, "../examples/gloop/echo.c")
	file, err := filepath.Abs("../examples/gloop/echo.ptx")
	require.NoError(t, err)
	h := startHost(t, softgpu.Config{SMs: 1})
	var victims []*exec.Cmd
	for how, ptx := range map[string]string{"computes": "throttle.ptx", "waits": "server.ptx"} {
		victim, _ := mortal(t, h, client, ptx, how)
		victims = append(victims, victim)
	}
	other := h.program(t, echo)
	other.Args = append(other.Args, file)
	var out bytes.Buffer
	other.Stdout, other.Stderr = &out, &out
	require.NoError(t, other.Start())
	for _, victim := range victims {
		require.NoError(t, victim.Process.Kill())
		require.ErrorContains(t, victim.Wait(), "killed")
	}
	require.NoError(t, other.Wait(), "%s", &out)
	require.Contains(t, out.String(), "echo: PASS\n")
}

// A program whose threads cannot be made ends with an error, and the one beside it in the same process
// goes on to serve its client.
func TestGLoopWithoutThreads(t *testing.T) {
	cmd := startHost(t, softgpu.Config{SMs: 1}).program(t, gloopClient(t, "gloop/deaths.c"))
	file, err := filepath.Abs("../frontend/gloop/host/testdata/server.ptx")
	require.NoError(t, err)
	cmd.Args = append(cmd.Args, file, "alone")
	passes(t, cmd, "deaths: PASS\n")
}
