package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two machines share one GPU; both run the program, and its exit code is passed on.
func TestSeveralMachines(t *testing.T) {
	c := start(t, "up", "--guests", "2", "--weights", "75,25", "--names", "heavy,light", "--", "sh", "-c",
		"gdev run madd && exit 3")
	code, output := c.wait(t)
	require.Equal(t, 3, code, output)
	for _, name := range []string{"heavy", "light"} {
		require.Contains(t, output, "pvdrm: "+name+": the guest is up", output)
		require.Regexp(t, `(?m)^`+name+`: .*madd`, output)
	}
	c.requireNothingLeft(t)
}

// A running pair is seen and changed from outside. Whatever ends it, nothing is left.
func TestSeveralMachinesWatchedAndInterrupted(t *testing.T) {
	c := start(t, "up", "--guests", "2", "--policy", "credit", "--metrics", "unix:/dev/null/no", "--", "true")
	code, output := c.wait(t)
	require.Equal(t, 125, code, output)
	require.Contains(t, output, "metrics")
	c.requireNothingLeft(t)

	c = start(t, "up", "--guests", "2", "--policy", "credit", "--caps", "0,70", "--reserves", "10,0", "--", "gdev", "run", "--json", "--repeat", "10000", "srad")
	for _, name := range []string{"guest-1", "guest-2"} {
		c.waitFor(t, name+`: {`)
	}
	ask := func(args ...string) string {
		code, output := startIn(t, c.runDir, args...).wait(t)
		require.Zero(t, code, output)
		return strings.TrimSpace(output)
	}
	require.Equal(t, "credit", ask("arbiter", "policy"))
	require.Equal(t, "band", ask("arbiter", "policy", "band"))
	require.Equal(t, "guest-1: weight 1, reserve 10 %", ask("arbiter", "set", "guest-1"))
	require.Equal(t, "guest-2: weight 1, cap 70 %", ask("arbiter", "set", "guest-2"))
	require.Equal(t, "guest-2: weight 3, cap 60 %", ask("arbiter", "set", "guest-2", "--weight", "3", "--cap", "60"))
	require.Equal(t, "guest-2: weight 3, cap 60 %, class latency, priority 4, SLA 50ms",
		ask("arbiter", "set", "guest-2", "--class", "latency", "--sla", "50ms", "--priority", "4"))
	table := ask("top", "--once", "--sort", "guest")
	require.Regexp(t, `(?m)^guest-1 +1 `, table)
	require.Regexp(t, `(?m)^guest-2 +3 `, table)
	require.Contains(t, ask("stats", "--json"), `"name":"guest-2"`)

	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	code, output = c.wait(t)
	require.Equal(t, 125, code, output)
	require.Contains(t, output, "interrupted")
	c.requireNothingLeft(t)
}

// What a guest wishes for at the arbiter is said where it is started, and how long
// it waited is in its counters.
func TestSharesAndWaitsOfLocalGuests(t *testing.T) {
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	socket := filepath.Join(dir, "arbiter")
	startArbiter(t, socket)
	guest := func(flags ...string) *command {
		args := append([]string{"run", "--arbiter", socket}, flags...)
		c := start(t, append(args, "--", "gdev", "run", "--json", "--repeat", "10000", "srad")...)
		c.waitFor(t, `"verified":true`)
		return c
	}
	a, b := guest("--guest", "a", "--weight", "2", "--cap", "60", "--reserve", "10"), guest("--guest", "b")
	code, out := start(t, "arbiter", "set", "a", "--socket", socket).wait(t)
	require.Zero(t, code, out)
	require.Equal(t, "a: weight 2, cap 60 %, reserve 10 %\n", out)
	var st struct {
		Device struct{ ComputeBusy, CopyBusy, Launches, Faults, VRAMUsed uint64 }
		Guest  struct {
			Total  struct{ Doorbells uint64 }
			Quotas []struct{ Resource string }
			Lost   map[string]uint64
		}
		Gate struct {
			Joined bool
			Waits  [2][]uint64
			Waited [2]uint64
		}
		Share struct {
			Engines [2]struct{ Busy uint64 }
		}
	}
	require.Eventually(t, func() bool {
		code, out := startIn(t, a.runDir, "stats", "--json").wait(t)
		require.Zero(t, code, out)
		require.NoError(t, json.Unmarshal([]byte(out), &st), out)
		waits := uint64(0)
		for _, n := range st.Gate.Waits[0] {
			waits += n
		}
		return waits > 0 && st.Gate.Waited[0] > 0
	}, patience, 20*time.Millisecond, "two guests, and none waits")
	require.True(t, st.Gate.Joined)
	require.NotZero(t, st.Device.ComputeBusy)
	require.NotZero(t, st.Device.CopyBusy)
	require.NotZero(t, st.Device.Launches)
	require.NotZero(t, st.Device.VRAMUsed)
	require.NotZero(t, st.Guest.Total.Doorbells)
	require.NotEmpty(t, st.Guest.Quotas)
	require.NotZero(t, st.Share.Engines[0].Busy)
	for _, c := range []*command{a, b} {
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		<-c.ended
		c.requireNothingLeft(t)
	}
	code, out = start(t, "run", "--cap", "10", "--reserve", "20", "--", "true").wait(t)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "more than the cap")
}
