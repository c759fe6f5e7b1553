package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/internal/bench"
	"pvdrm/internal/suite/gloop"
)

// gloopResults reads what `gdev gloop --json` printed, and requires all results to be right.
func gloopResults(t *testing.T, out string) (all []gloop.Result) {
	t.Helper()
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var r gloop.Result
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.True(t, r.Verified, line)
		all = append(all, r)
	}
	return all
}

// TestGLoopLocal runs each program in each version as a local guest.
func TestGLoopLocal(t *testing.T) {
	code, out := start(t, "run", "--log", "error", "--", "gdev", "gloop", "--all", "--version", "all", "--json").wait(t)
	require.Zero(t, code, out)
	require.Len(t, gloopResults(t, out), len(gloop.Programs())*len(gloop.Versions))
}

// The first program of docs/gloop.md, built as it says there, runs as a local guest.
func TestGLoopFirstProgram(t *testing.T) {
	const folder = "../examples/gloop/throttle/"
	program := filepath.Join(t.TempDir(), "throttle")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, folder+"main.go").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := startHost(t, softgpu.Config{SMs: 2}).program(t, program)
	file, err := filepath.Abs(folder + "throttle.ptx")
	require.NoError(t, err)
	cmd.Args = append(cmd.Args, file)
	passes(t, cmd, "240 blocks counted to 1000: 240000 callbacks")
}

// TestGLoopMachine runs each program in a virtual machine: those that read files read the machine's,
// and servers have clients on its loopback.
func TestGLoopMachine(t *testing.T) {
	out := vmGuest(t).sh(t, "gdev gloop --all --json")
	require.Len(t, gloopResults(t, out), len(gloop.Programs()))
}

// TestGLoopWithoutItsArbiter kills the arbiter while two guests share a GPU by it: a program that computes
// and a server. Both go on, and end with right results.
func TestGLoopWithoutItsArbiter(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-") // a short path: sockets need one
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	for factor := 1; !killsTheirArbiter(t, filepath.Join(dir, "arbiter"+strconv.Itoa(factor)), factor); factor *= 4 {
		require.Less(t, factor, 64, "a guest has ended before the other began, each time")
	}
}

// killsTheirArbiter reports false if a guest has ended before the arbiter was killed. A factor makes both take longer.
func killsTheirArbiter(t *testing.T, socket string, factor int) bool {
	t.Helper()
	arbiter := start(t, "arbiter", "--socket", socket, "--policy", "wfq:10ms", "--log", "info")
	arbiter.waitFor(t, "waiting for backends")
	var guests []*command
	for program, size := range map[string]int{"throttle": 256, "echo": 32} {
		guests = append(guests, start(t, "run", "--arbiter", socket, "--guest", program, "--log", "error", "--",
			"gdev", "gloop", "--json", "--version", "gloop", "--size", strconv.Itoa(size*factor), program))
	}
	together := guests[0].computes(t) && guests[1].computes(t) && guests[0].computes(t)
	require.NoError(t, arbiter.Process.Kill())
	<-arbiter.ended
	for _, g := range guests {
		code, out := g.wait(t)
		require.Zero(t, code, out)
		require.Len(t, gloopResults(t, out), 1, out)
	}
	return together
}

// TestBenchGLoop makes a small bench of each kind: versions in turns, guests that share the GPU, and a
// kernel that starts beside a throttle.
func TestBenchGLoop(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "gloop.json"), filepath.Join(dir, "gloop.html")
	code, out := start(t, "bench", "gloop", "--quick", "--figures", "5.5,5.11,5.17,start", "--programs", "throttle,hybridsort", "--rounds", "1",
		"--most", "2", "--length", "600ms", "--json", file, "--html", page).wait(t)
	require.Zero(t, code, out)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got []string
	for line := range bytes.Lines(b) {
		var row bench.GLoopRow
		require.NoError(t, json.Unmarshal(line, &row))
		require.True(t, row.Verified, out)
		if row.Figure == "5.11" {
			require.Equal(t, 2, row.Guests)
			require.Positive(t, row.Share, out)
			require.Less(t, row.Share, 1.0, out)
		} else {
			require.Positive(t, row.Seconds)
		}
		got = append(got, row.Figure+" "+row.Program+" "+row.Version)
	}
	require.Equal(t, []string{"5.5 throttle vanilla", "5.5 throttle gloop", "5.5 throttle gloop-noshared", "5.5 throttle split", "5.5 throttle gloop",
		"5.5 hybridsort vanilla", "5.5 hybridsort gloop", "5.5 hybridsort gloop-noshared", "5.5 hybridsort split",
		"5.11 tpacf gloop", "5.11 throttle gloop",
		"5.17 lavamd vanilla", "5.17 lavamd gloop", "5.17 lavamd auto", "5.17 lavamd vanilla", "5.17 lavamd gloop", "5.17 lavamd auto",
		"start throttle gloop"}, got)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "Figure 5.11, 2 guests")
	code, out = start(t, "bench", "gloop", "--figures", "5.4").wait(t)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, `"5.4"; choose of 5.5`)
}
