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

// busy asks an arbiter for how long each of two guests has used the compute engine.
func busy(t *testing.T, socket string) (used [2]time.Duration) {
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
		used[i] = g.Engines[arbiter.Compute].Busy
	}
	return used
}

// TestSharesBesideKernelsThatFill runs a local guest whose kernels fill the processors beside one whose kernels have a
// block: each has its share of the time, of which a kernel of one block uses the half on two processors.
func TestSharesBesideKernelsThatFill(t *testing.T) {
	bin, err := built()
	require.NoError(t, err)
	for _, c := range []struct {
		weights [2]int
		kernels [2]string
	}{
		{weights: [2]int{75, 25}, kernels: [2]string{"endless", "2ms/1"}},
		{weights: [2]int{50, 50}, kernels: [2]string{"endless", "endless/1"}}, // which needs its processor all the time
	} {
		socket := filepath.Join(shortDir(t), "arbiter")
		start(t, "arbiter", "--socket", socket, "--processors", "2", "--log", "info").waitFor(t, "waiting for backends")
		for i, name := range []string{"fills", "small"} {
			start(t, "run", "--log", "error", "--arbiter", socket, "--guest", name, "--weight", fmt.Sprint(c.weights[i]), "--",
				"sh", "-c", "sleep 60 | exec "+filepath.Join(bin, "gdev")+" spin "+c.kernels[i])
		}
		require.Eventually(t, func() bool {
			used := busy(t, socket)
			return used[0] > 0 && used[1] > 200*time.Millisecond // it has measured its kernels
		}, patience, 50*time.Millisecond)
		time.Sleep(time.Second)
		before := busy(t, socket)
		time.Sleep(3 * time.Second)
		after := busy(t, socket)
		fills, small := after[0]-before[0], after[1]-before[1]
		part := fills.Seconds() / (fills + small).Seconds()
		t.Logf("weights %v: %v and %v, %.3f", c.weights, fills, small, part)
		require.InDelta(t, float64(c.weights[0])/100, part, 0.15)
	}
}
