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

	"pvdrm/backend/arbiter"
)

// Each guest that shares a card has a seat and a weight of its own at the arbiter, and what it submits is
// charged to it.
func TestPartsHaveSeats(t *testing.T) {
	dir, err := built()
	require.NoError(t, err)
	at := shortDir(t)
	socket, daemon := filepath.Join(at, "card"), filepath.Join(at, "arbiter")
	startArbiter(t, daemon)
	start(t, "backend", "--local", socket, "--interface", "fv-opt", "--parts", "2", "--vram", "512M", "--arbiter", daemon, "--guest", "card", "--part-weights", "3,1")
	require.Eventually(t, func() bool { _, err := os.Stat(socket); return err == nil }, patience, 10*time.Millisecond)
	ask := func(args ...string) (int, string) {
		code, out := start(t, append(append([]string{"arbiter"}, args...), "--socket", daemon)...).wait(t)
		return code, strings.TrimSpace(out)
	}
	code, _ := ask("set", "card-1")
	require.NotZero(t, code, "a seat is taken when the guest comes")
	for range 2 {
		cmd := exec.Command(filepath.Join(dir, "gdev"), "run", "--repeat", "100000", "madd")
		cmd.Env = append(cmd.Environ(), "PVDRM_SOCKET="+socket)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	for name, want := range map[string]string{"card-1": "card-1: weight 3", "card-2": "card-2: weight 1"} {
		require.Eventually(t, func() bool {
			code, out := ask("set", name)
			return code == 0 && out == want
		}, patience, 50*time.Millisecond, name)
	}
	require.Eventually(t, func() bool {
		_, out := ask("stats", "--json")
		var st struct{ GPUs []arbiter.GPUStats }
		require.NoError(t, json.Unmarshal([]byte(out), &st), out)
		charged := 0
		for _, g := range st.GPUs[0].Guests {
			if g.Engines[arbiter.Compute].Busy > 0 {
				charged++
			}
		}
		return charged == 2
	}, patience, 50*time.Millisecond)
	code, out := start(t, "backend", "--local", filepath.Join(at, "other"), "--interface", "fv", "--parts", "2", "--part-weights", "3").wait(t)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "--part-weights")
}

// Several machines share one card, which one process owns, each with a part and a weight of its own.
func TestMachinesShareACard(t *testing.T) {
	c := start(t, "up", "--guests", "2", "--weights", "3,1", "--interface", "fv-opt", "--vram", "512M", "--", "gdev", "run", "nop", "madd")
	code, out := c.wait(t)
	require.Zero(t, code, out)
	for _, name := range []string{"guest-1", "guest-2"} {
		require.Contains(t, out, name+": 2 of 2 verified", out)
	}
	c.requireNothingLeft(t)
}
