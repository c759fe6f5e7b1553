package tests

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
)

// met returns how many times the kernels of a client met.
func met(t *testing.T, out string) (n int) {
	t.Helper()
	_, text, found := strings.Cut(out, "met ")
	require.True(t, found, out)
	n, err := strconv.Atoi(strings.Fields(text)[0])
	require.NoError(t, err)
	return n
}

// ranks runs guests whose kernels on two devices wait for each other, at an arbiter of both, and returns how often those of each met.
func ranks(t *testing.T, length string, weights ...string) (times []int, st arbiter.Answer) {
	t.Helper()
	dir, err := clients()
	require.NoError(t, err)
	socket := filepath.Join(shortDir(t), "arbiter")
	at := start(t, "arbiter", "--socket", socket, "--gpus", "2", "--processors", "1", "--log", "info")
	at.waitFor(t, "waiting for backends")
	var all []*command
	for i, w := range weights {
		all = append(all, start(t, "run", "--log", "error", "--device", "softgpu:0,1", "--arbiter", socket, "--guest", "team-"+strconv.Itoa(i),
			"--weight", w, "--", filepath.Join(dir.path, "ranks"), length))
	}
	bin, err := built()
	require.NoError(t, err)
	for len(times) < len(all) {
		c := all[len(times)]
		if len(times) == 0 { // while they run
			c.waitFor(t, "PASS")
			out, err := exec.Command(filepath.Join(bin, "pvdrm"), "arbiter", "--socket", socket, "stats", "--json").Output()
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(out, &st))
		}
		code, out := c.wait(t)
		require.Zero(t, code, out)
		times = append(times, met(t, out))
	}
	return times, st
}

// TestGuestsOfTwoDevicesInTurn runs two guests with two software GPUs each, whose kernels on both wait for each other. They
// have their turns on both at the same time, by weight.
func TestGuestsOfTwoDevicesInTurn(t *testing.T) {
	times, st := ranks(t, "4000", "75", "25")
	t.Logf("%v times", times)
	require.Len(t, st.GPUs, 2)
	for _, g := range st.GPUs {
		require.Zero(t, g.Engines[arbiter.Compute].Expired)
	}
	part := float64(times[0]) / float64(times[0]+times[1])
	require.Greater(t, part, 0.6)
	require.Less(t, part, 0.9)
}

// TestMachinesOfSeveralDevices boots two machines with two software GPUs each. One arbiter of pvdrm up shares both GPUs,
// at which a guest has one name and one weight.
func TestMachinesOfSeveralDevices(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	c := start(t, "up", "--guests", "2", "--weights", "75,25", "--image", "debian", "--device", "softgpu:2,0", "--copy", filepath.Join(dir.path, "devices"),
		"--", "sh", "-c", "./devices apart && exec sleep 100000")
	for _, name := range []string{"guest-1", "guest-2"} {
		c.waitFor(t, name+": devices: PASS")
	}
	code, out := startIn(t, c.runDir, "arbiter", "stats", "--json").wait(t)
	require.Zero(t, code, out)
	var st arbiter.Answer
	require.NoError(t, json.Unmarshal([]byte(out), &st), out)
	require.Len(t, st.GPUs, 2)
	for _, g := range st.GPUs {
		require.Len(t, g.Guests, 2)
		require.Zero(t, g.Engines[arbiter.Compute].Expired)
		for i, weight := range []uint32{75, 25} {
			guest := g.Guests[i]
			require.Equal(t, "guest-"+strconv.Itoa(i+1), guest.Name)
			require.Equal(t, weight, guest.Share.Weight)
			require.NotZero(t, guest.Engines[arbiter.Compute].Busy, "kernels on GPU %d", g.Number)
		}
	}
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	code, out = c.wait(t)
	require.Equal(t, 125, code, out)
	require.Equal(t, 2, strings.Count(out, ": 2 devices\n"), out)
	c.requireNothingLeft(t)
}
