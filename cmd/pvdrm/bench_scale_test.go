package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/suite"
)

func TestFindScale(t *testing.T) {
	for name, c := range map[string]struct {
		seconds func(scale int) float64
		want    int
		runs    int
	}{
		"long":     {seconds: func(int) float64 { return 1 }, want: 1, runs: 2},
		"linear":   {seconds: func(s int) float64 { return 0.02 * float64(s) }, want: 4, runs: 3},
		"affine":   {seconds: func(s int) float64 { return 0.02 + 0.001*float64(s) }, want: 32, runs: 5},
		"short":    {seconds: func(s int) float64 { return 0.0001 * float64(s) }, want: 512, runs: 4},
		"constant": {seconds: func(int) float64 { return 0 }, want: suite.MaxScale, runs: 3},
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
