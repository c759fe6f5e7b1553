package virtio

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Interrupt ends a wait for a fence that never signals, and those to come.
func TestInterruptEndsAWait(t *testing.T) {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	c := &Carrier{stop: stop}
	t.Cleanup(func() { require.NoError(t, unix.Close(stop)) })
	fence := func() int {
		var p [2]int
		require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
		t.Cleanup(func() { require.NoError(t, unix.Close(p[1])) })
		return p[0] // await closes it
	}
	first, second := fence(), fence()
	ended := make(chan error)
	go func() {
		ended <- c.await(first, -1)
		ended <- c.await(second, -1)
	}()
	c.Interrupt()
	c.Interrupt()
	for range 2 {
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(5 * time.Minute):
			require.Fail(t, "it waits on")
		}
	}
}
