package arbiter

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mappings is how many shared pages this process has mapped.
func mappings(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(b), "memfd:pvdrm-arbiter")
}

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// noLeaks checks at the end of the test that no goroutine, descriptor or page is
// left that was not there at its begin.
func noLeaks(t *testing.T) {
	r, w, err := os.Pipe() // the first one has the runtime open its poller, which stays
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
	goroutines, fds := runtime.NumGoroutine(), descriptors(t)
	t.Cleanup(func() {
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			runtime.GC() // unmaps pages
			g, f, m := runtime.NumGoroutine(), descriptors(t), mappings(t)
			if g <= goroutines && f <= fds && m == 0 {
				return
			}
			require.True(t, time.Now().Before(end), "leak: %d goroutines of %d, %d descriptors of %d, %d pages of 0", g, goroutines, f, fds, m)
		}
	})
}
