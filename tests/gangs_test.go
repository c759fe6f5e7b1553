package tests

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
)

// usedOf returns what guests have used of the first GPU of an arbiter, in the order of their names, and all of the answer.
func usedOf(t *testing.T, socket string) (used []time.Duration, st arbiter.Answer) {
	t.Helper()
	bin, err := built()
	require.NoError(t, err)
	out, err := exec.Command(filepath.Join(bin, "pvdrm"), "arbiter", "--socket", socket, "stats", "--json").Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &st))
	require.Len(t, st.GPUs, 2)
	guests := slices.Clone(st.GPUs[0].Guests)
	slices.SortFunc(guests, func(a, b arbiter.GuestStats) int { return strings.Compare(a.Name, b.Name) })
	for _, g := range guests {
		used = append(used, g.Engines[arbiter.Compute].Busy)
	}
	return used, st
}

// TestGuestsOfTwoDevicesInTurn runs two guests with two software GPUs each, whose kernels on both wait for each other. They
// have their turns on both at the same time, by weight. What they have is counted while both run, however long they took to begin.
// A machine that others keep busy gives processors by its own measure, so there are some rounds.
func TestGuestsOfTwoDevicesInTurn(t *testing.T) {
	const rounds = 4
	var parts []float64
	for len(parts) < rounds {
		part := teamRound(t)
		if parts = append(parts, part); part > 0.6 && part < 0.9 {
			return
		}
	}
	t.Errorf("the guest with a weight of 75 of 100 had these parts: %.3f", parts)
}

// teamRound returns which part of what both guests have used the first one has, whose weight is 75 of 100.
func teamRound(t *testing.T) float64 {
	t.Helper()
	dir, err := clients()
	require.NoError(t, err)
	socket := filepath.Join(shortDir(t), "arbiter")
	at := start(t, "arbiter", "--socket", socket, "--gpus", "2", "--processors", "1", "--log", "info")
	at.waitFor(t, "waiting for backends")
	var all []*command
	for i, weight := range []string{"75", "25"} {
		all = append(all, start(t, "run", "--log", "error", "--device", "softgpu:0,1", "--arbiter", socket, "--guest", "team-"+strconv.Itoa(i),
			"--weight", weight, "--", filepath.Join(dir.path, "ranks"), "6000"))
	}
	first, second := whileBoth(t, socket)
	for _, c := range all {
		code, out := c.wait(t)
		require.Zero(t, code, out)
		require.Contains(t, out, "ranks: PASS")
		t.Log(strings.TrimSpace(out))
	}
	t.Logf("%v and %v", first, second)
	return float64(first) / float64(first+second)
}

// whileBoth returns what two guests use of the first GPU from when both have used it on, until that is 2 s or one ends.
func whileBoth(t *testing.T, socket string) (first, second time.Duration) {
	t.Helper()
	var begun []time.Duration
	require.Eventually(t, func() bool {
		begun, _ = usedOf(t, socket)
		return len(begun) == 2 && begun[0] != 0 && begun[1] != 0
	}, patience, 50*time.Millisecond)
	for first+second < 2*time.Second {
		used, st := usedOf(t, socket)
		for _, g := range st.GPUs {
			require.Zero(t, g.Engines[arbiter.Compute].Expired)
		}
		if len(used) < 2 {
			break
		}
		first, second = used[0]-begun[0], used[1]-begun[1]
		time.Sleep(50 * time.Millisecond)
	}
	require.NotZero(t, first+second, "a guest has ended before the other began")
	return first, second
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
