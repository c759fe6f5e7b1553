package tests

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
)

// The attack of NEON's authors: a program opens 48 contexts, each with a channel for kernels and one for
// copies, on a GPU that has no more, and others can use it no longer. Here each guest gets what it was
// promised when it joined, and not more; a guest for which nothing is left is refused when it starts.
func TestContextsOfAGPU(t *testing.T) {
	const attack, most = 48, 12
	dir, err := os.MkdirTemp("", "pvdrm-test-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	arbiter, gpu := filepath.Join(dir, "arbiter"), filepath.Join(dir, "gpu")
	start(t, "arbiter", "--socket", arbiter, "--log", "info", "--capacity", "channels=48,contexts=48", "--guest-most", "channels=12,contexts=12").
		waitFor(t, "waiting for backends")

	attacker := start(t, "backend", "--local", gpu, "--arbiter", arbiter, "--guest", "attacker", "--log", "info")
	attacker.waitFor(t, "waiting for programs")
	var files []*frontend.File
	channels := 0
	for range attack {
		c, err := local.Open(gpu)
		require.NoError(t, err)
		f, err := frontend.New(c)
		if err != nil {
			require.ErrorIs(t, err, syscall.EBUSY)
			continue
		}
		files = append(files, f)
		for range 2 {
			if _, err := f.ChannelAlloc(); err != nil {
				require.ErrorIs(t, err, syscall.EBUSY)
				continue
			}
			channels++
		}
	}
	require.Len(t, files, most, "contexts")
	require.Equal(t, most, channels)

	// Others run meanwhile: three more, who fill the GPU.
	var guests []*command
	for _, name := range []string{"b", "c", "d"} {
		g := start(t, "run", "--arbiter", arbiter, "--guest", name, "--", "gdev", "run", "--json", "--repeat", "10000", "madd")
		g.waitFor(t, `"verified":true`)
		guests = append(guests, g)
	}
	code, out := start(t, "run", "--arbiter", arbiter, "--guest", "e", "--", "true").wait(t)
	require.NotZero(t, code)
	require.Contains(t, out, "guest e: the GPU is full: 48 of its 48 channels are promised to others, and it needs 12")
	code, out = start(t, "run", "--arbiter", arbiter, "--guest", "f", "--quota", "contexts=20", "--", "true").wait(t)
	require.NotZero(t, code)
	require.Contains(t, out, "it needs 20 contexts, and a guest may have 12")

	for _, f := range files {
		require.NoError(t, f.Close())
	}
	for _, c := range append(guests, attacker) {
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		<-c.ended
	}
}
