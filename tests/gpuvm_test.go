package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/hypercall/trap"
)

// cardCounters runs `gdev run --counters` on a card, and returns what was counted for each program.
func cardCounters(t *testing.T, args ...string) map[string]trap.Counters {
	t.Helper()
	code, out := start(t, args...).wait(t)
	require.Zero(t, code, out)
	counters := map[string]trap.Counters{}
	for line := range strings.Lines(out) {
		var r struct {
			suiteResult
			Card *trap.Counters `json:"card"`
		}
		if json.Unmarshal([]byte(line), &r) != nil || r.Bench == "" {
			continue // what pvdrm says
		}
		if r.Card != nil {
			counters[r.Bench] = *r.Card
			continue
		}
		require.True(t, r.Verified, line)
	}
	return counters
}

// A virtual machine reaches a card of GPUvm by doorbells, and a local guest by pipes or a polled page.
// In both, programs are right, and what is counted is the same.
func TestCardOfAGuest(t *testing.T) {
	for _, mode := range []string{"fv-opt", "pv-multicall"} {
		t.Run(mode, func(t *testing.T) {
			gdev := []string{"--", "gdev", "run", "--json", "--counters", "nop", "madd"}
			local := cardCounters(t, append([]string{"run", "--interface", mode, "--vram", "256M"}, gdev...)...)
			require.Len(t, local, 2)
			for _, n := range local {
				require.Zero(t, n.Refused)
				require.NotZero(t, n.Activations)
			}
			require.Equal(t, local, cardCounters(t, append([]string{"run", "--interface", mode, "--traps", "page", "--vram", "256M"}, gdev...)...))
			require.Equal(t, local, cardCounters(t, append([]string{"run", "--interface", mode, "--partition", "dynamic", "--part-vram", "128M", "--vram", "256M"}, gdev...)...))
			require.Equal(t, local, cardCounters(t, append([]string{"up", "--interface", mode, "--vram", "256M"}, gdev...)...))
		})
	}
}

// A process owns a card and serves several guests, which are processes, one after the other and at the
// same time. What is no driver of a card gets an error that says what the backend is for.
func TestCardOfSeveralGuests(t *testing.T) {
	dir, err := built()
	require.NoError(t, err)
	socket := filepath.Join(shortDir(t), "card")
	start(t, "backend", "--local", socket, "--interface", "fv-opt", "--parts", "2", "--vram", "512M")
	require.Eventually(t, func() bool { _, err := os.Stat(socket); return err == nil }, patience, 10*time.Millisecond)
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(dir, "gdev"), args...)
		cmd.Env = append(cmd.Environ(), "PVDRM_SOCKET="+socket)
		return cmd
	}
	for range 2 {
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- run("run", "nop", "loop", "madd").Run() }()
		}
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	}
	out, err := run("micro").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "shows a card")

	for want, args := range map[string][]string{
		"fv-opt":          {"run", "--interface", "xv", "--", "true"},
		"pvdrm up":        {"run", "--interface", "fv", "--traps", "pci", "--", "true"},
		"--vfio-user":     {"backend", "--interface", "fv", "--traps", "pci", "--local", socket + "2"},
		"belong together": {"backend", "--interface", "fv", "--vfio-user", socket + "2"},
		"static":          {"run", "--interface", "fv", "--partition", "some", "--", "true"},
		"--part-vram":     {"run", "--interface", "fv", "--part-vram", "1M", "--", "true"},
	} {
		code, text := start(t, args...).wait(t)
		require.Equal(t, 2, code, text)
		require.Contains(t, text, want)
	}
}
