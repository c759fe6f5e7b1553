package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/cmd/gdev/suite"
)

func TestFindScale(t *testing.T) {
	for name, c := range map[string]struct {
		seconds func(scale int) float64
		want    int
		runs    int
	}{
		"long":     {func(int) float64 { return 1 }, 1, 2},
		"linear":   {func(s int) float64 { return 0.02 * float64(s) }, 4, 3},
		"affine":   {func(s int) float64 { return 0.02 + 0.001*float64(s) }, 32, 5},
		"short":    {func(s int) float64 { return 0.0001 * float64(s) }, 512, 4},
		"constant": {func(int) float64 { return 0 }, suite.MaxScale, 3},
	} {
		runs := 0
		got, err := findScale(func(scale int) (float64, error) {
			runs++
			require.NoError(t, suite.CheckScale(scale))
			return c.seconds(scale), nil
		})
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.runs, runs, name)
	}
	_, err := findScale(func(int) (float64, error) { return 0, errors.New("no memory") })
	require.EqualError(t, err, "no memory")
}
