package tests

import (
	"strings"
	"syscall"
	"testing"

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

	c = start(t, "up", "--guests", "2", "--policy", "credit", "--", "gdev", "run", "--json", "--repeat", "10000", "srad")
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
	require.Equal(t, "guest-2: weight 3, cap 60 %", ask("arbiter", "set", "guest-2", "--weight", "3", "--cap", "60"))
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
