package nvidia_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// printed takes all that a context's kernels have printed, in pieces of n bytes at most.
func (c *fakeClient) printed(n int) string {
	var all strings.Builder
	for b := make([]byte, n); ; {
		got := c.ctx.(gpu.Printer).ReadOutput(b)
		if got == 0 {
			return all.String()
		}
		all.Write(b[:got])
	}
}

func TestKernelsPrint(t *testing.T) {
	for _, kind := range []string{fakeWorker, confinedFake} {
		t.Run(kind, func(t *testing.T) {
			c := newFakeClientOf(t, nvidia.Config{}, kind)
			require.Empty(t, c.printed(100))
			l := c.launch("says", 0)
			l.Block[0] = 3
			require.NoError(t, c.do(l, l).Err)
			once := "thread 0\nthread 1\nthread 2\n"
			require.Equal(t, once+once, c.printed(7))
			require.NoError(t, c.do(l).Err)
			require.Equal(t, once, c.printed(1000))
			require.Empty(t, c.printed(100))

			l = c.launch("says", 200) // what a pipe of the usual size has no room for
			l.Block[0] = 1000
			for range 3 {
				require.NoError(t, c.do(l).Err)
			}
			require.Equal(t, 3000, strings.Count(c.printed(1<<14), "\n"))
		})
	}
}

// What nobody reads does not stop the worker, and what is read afterwards comes.
func TestMoreIsPrintedThanIsKept(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	l := c.launch("says", 200)
	l.Block[0] = 512
	for range 30 { // some 3 MB
		require.NoError(t, c.do(l).Err)
	}
	text := c.printed(1 << 16)
	require.NotEmpty(t, text)
	require.Less(t, len(text), 30*512*200)
	c.printed(1 << 16)
	require.NoError(t, c.do(c.launch("says", 1)).Err)
	require.True(t, strings.HasSuffix(c.printed(100), "thread 0!\n"))
}

// The text of an assertion comes though the worker has ended, and marked as that of standard error; also where
// the fence behind the kernel is what finds the fault.
func TestAssertionsPrint(t *testing.T) {
	for _, grid := range []uint32{1, nvidia.FakeLate} {
		c := newFakeClient(t, nvidia.Config{})
		l := c.launch("asserts")
		l.Grid[0] = grid
		r := c.do(c.launch("says", 0), l)
		var lost *gpu.LostError
		require.ErrorAs(t, r.Err, &lost)
		require.Equal(t, gpu.LostTrap, lost.Cause)
		require.Equal(t, gpu.StderrMark+"f.cu:7: asserts: Assertion `false` failed.\n", c.printed(10))
		require.NoError(t, c.ctx.Close())
		require.Empty(t, c.printed(10))
	}
}
