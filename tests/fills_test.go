package tests

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
)

// busy asks an arbiter for how long each of two guests has used the compute engine, and how many commands each has run.
func busy(t *testing.T, socket string) (used [2]time.Duration, commands [2]uint64) {
	t.Helper()
	bin, err := built()
	require.NoError(t, err)
	out, err := exec.Command(filepath.Join(bin, "pvdrm"), "arbiter", "--socket", socket, "stats", "--json").Output()
	require.NoError(t, err)
	var st arbiter.Answer
	require.NoError(t, json.Unmarshal(out, &st))
	for _, g := range st.GPUs[0].Guests {
		i := 0
		if g.Name == "small" {
			i = 1
		}
		used[i], commands[i] = g.Engines[arbiter.Compute].Busy, g.Engines[arbiter.Compute].Commands
	}
	return used, commands
}

// TestSharesBesideKernelsThatFill runs a local guest whose kernels fill the processors beside one whose kernels have a
// block: each has its share of the time, of which a kernel of one block uses the half on two processors.
func TestSharesBesideKernelsThatFill(t *testing.T) {
	bin, err := built()
	require.NoError(t, err)
	for _, weights := range [][2]int{{75, 25}, {50, 50}} {
		socket := filepath.Join(shortDir(t), "arbiter")
		start(t, "arbiter", "--socket", socket, "--processors", "2", "--log", "info").waitFor(t, "waiting for backends")
		for i, guest := range []struct{ name, kernel string }{{name: "fills", kernel: "5ms"}, {name: "small", kernel: "2ms/1"}} {
			start(t, "run", "--log", "error", "--arbiter", socket, "--guest", guest.name, "--weight", fmt.Sprint(weights[i]), "--",
				"sh", "-c", "sleep 60 | exec "+filepath.Join(bin, "gdev")+" spin "+guest.kernel)
		}
		require.Eventually(t, func() bool {
			_, n := busy(t, socket)
			return n[0] > 0 && n[1] > 0
		}, patience, 50*time.Millisecond)
		time.Sleep(time.Second) // both have measured their kernels
		before, commands := busy(t, socket)
		time.Sleep(3 * time.Second)
		after, later := busy(t, socket)
		fills, small := after[0]-before[0], after[1]-before[1]
		part := fills.Seconds() / (fills + small).Seconds()
		t.Logf("weights %v: %v and %v, %.3f; %d and %d kernels", weights, fills, small, part, later[0]-commands[0], later[1]-commands[1])
		require.InDelta(t, float64(weights[0])/100, part, 0.12)
	}
}
