package tests

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClustersAsLocalGuest(t *testing.T) {
	out, err := startHost(t, hopper).client(t, "clusters").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "clusters: PASS\n")
}
