package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// computeBusy asks a running pvdrm how long its device's compute engine was busy.
func (c *command) computeBusy(t *testing.T) time.Duration {
	t.Helper()
	busy, err := c.askBusy()
	require.NoError(t, err)
	return busy
}

// askBusy is computeBusy of one that may have ended, or not begun.
func (c *command) askBusy() (time.Duration, error) {
	sockets, err := filepath.Glob(filepath.Join(c.runDir, "pvdrm", "vm-*", "stats"))
	if err != nil {
		return 0, err
	}
	if len(sockets) != 1 {
		return 0, fmt.Errorf("there are %d sockets for statistics", len(sockets))
	}
	conn, err := net.Dial("unix", sockets[0])
	if err != nil {
		return 0, err
	}
	var st struct {
		Device struct{ ComputeBusy time.Duration }
	}
	err = errors.Join(json.NewDecoder(conn).Decode(&st), conn.Close())
	return st.Device.ComputeBusy, err
}

// computes waits until a guest has used the compute engine. It reports false if it has ended instead.
func (c *command) computes(t *testing.T) bool {
	t.Helper()
	require.Eventually(t, func() bool {
		busy, err := c.askBusy()
		select {
		case <-c.ended:
			return true
		default:
			return err == nil && busy > 0
		}
	}, patience, 10*time.Millisecond)
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// Two guests in processes of their own share one GPU through an arbiter; it may
// die, and they go on.
func TestGuestsShareAGPU(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "arbiter")
	arbiter := start(t, "arbiter", "--socket", socket, "--log", "info")
	arbiter.waitFor(t, "waiting for backends")

	guest := func(name, weight string) *command {
		c := start(t, "run", "--arbiter", socket, "--guest", name, "--weight", weight, "--", "gdev", "run", "--json", "--repeat", "10000", "srad")
		c.waitFor(t, `"verified":true`)
		return c
	}
	heavy, light := guest("heavy", "4"), guest("light", "1")
	h0, l0 := heavy.computeBusy(t), light.computeBusy(t)
	// Long enough for a few of the policy's periods, however slow the machine is: by GPU time.
	require.Eventually(t, func() bool { return light.computeBusy(t)-l0 > time.Second }, patience, 20*time.Millisecond,
		"the light one starves")
	h, l := heavy.computeBusy(t)-h0, light.computeBusy(t)-l0
	// How much each gets depends on what else runs on this machine; that the shares are
	// right is tested in virtual time, in backend/sched.
	t.Logf("GPU time with weights 4 and 1: %v and %v", h, l)
	require.Positive(t, h, "the heavy one starves")

	require.NoError(t, arbiter.Process.Kill())
	<-arbiter.ended
	h0, l0 = heavy.computeBusy(t), light.computeBusy(t)
	require.Eventually(t, func() bool { return heavy.computeBusy(t) > h0 && light.computeBusy(t) > l0 }, patience, 20*time.Millisecond,
		"without an arbiter they go on alone")
	for _, c := range []*command{heavy, light} {
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		<-c.ended
		c.requireNothingLeft(t)
	}
}

// The benchmark runs, and says something about each guest under each policy.
func TestFairnessBenchmark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows")
	code, out := start(t, "bench", "fairness", "--guests", "2", "--length", "500ms", "--policies", "none,fifo,band", "--turns", "2", "--rounds", "1", "--idle", "2", "--json", file).wait(t)
	require.Zero(t, code, out)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		var row struct {
			Experiment, Policy, Guest, Workload string
			Throughput                          any // of each guest without an arbiter
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		switch row.Experiment {
		case "policy": // a busy host may end no kernel in a turn
		case "none":
			require.Len(t, row.Throughput, 2, line)
		default:
			require.Positive(t, row.Throughput, line)
		}
		seen[strings.Join(strings.Fields(row.Experiment+" "+row.Policy+" "+row.Guest+" "+row.Workload), " ")] = true
	}
	for _, want := range []string{"fifo guest-1 madd", "fifo guest-2 long-madd", "band guest-1 madd", "band guest-2 long-madd",
		"none none", "none fifo", "none band", "policy band madd", "policy band long-madd", "arbiter band madd", "idle band madd"} {
		require.True(t, seen[want], "%s is missing in\n%s", want, data)
	}
}
