package lowlevel_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/internal/suite"
)

// native opens a driver on a card, with nothing between.
func native(t testing.TB) (*card.Card, *lowlevel.Driver) {
	c, err := card.New(softgpu.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	ram, err := unix.Mmap(-1, 0, 512<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(ram)) })
	base, err := c.Host().Add(ram)
	require.NoError(t, err)
	d, err := lowlevel.Open(lowlevel.Config{Bus: c, RAM: ram, Base: base})
	require.NoError(t, err)
	return c, d
}

// TestSuite runs the programs natively.
func TestSuite(t *testing.T) {
	c, d := native(t)
	for _, b := range suite.All() {
		if raceDetector && b.Name != "nop" && b.Name != "loop" && b.Name != "pincpy" {
			continue // it takes long under the race detector, and runs without it, too
		}
		t.Run(b.Name, func(t *testing.T) {
			r, err := suite.RunRaw(b.Name, func() (suite.RawDevice, error) { return d.NewContext() }, suite.Options{})
			require.NoError(t, err)
			require.True(t, r.Verified, r.Error)
			t.Logf("%+v", r.Seconds)
		})
	}
	require.NoError(t, d.Close())
	require.Zero(t, c.Refused(), "the driver makes no access that the card does not serve")
}
