package capi

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A primary context that is retained again has its handle before another thread can find it: the
// race detector sees where it does not.
func TestPrimaryContextKeepsHandle(t *testing.T) {
	p := newProgram(t)
	h := p.word64("cuDevicePrimaryCtxRetain", 0)
	var looking sync.WaitGroup
	end := make(chan struct{})
	looking.Go(func() {
		for {
			x, ok := find[*context](p.lib, h)
			require.True(t, ok)
			require.Equal(t, h, x.handle)
			select {
			case <-end:
				return
			default:
			}
		}
	})
	for range 20 {
		p.ok("cuDevicePrimaryCtxRelease_v2", 0)
		require.Equal(t, h, p.word64("cuDevicePrimaryCtxRetain", 0))
	}
	close(end)
	looking.Wait()
	p.ok("cuDevicePrimaryCtxRelease_v2", 0)
}
