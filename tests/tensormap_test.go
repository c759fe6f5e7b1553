package tests

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
)

// turing is a software GPU of a compute capability without clusters and tensor maps. Only what it refuses
// is tested with it: other tests have the default, which has both.
var turing = softgpu.Config{Capability: 75}

// otherMaps are the questions about tensor maps that NVIDIA's library crashes at, and those about maps that
// PVDRM refuses as not supported.
var otherMaps = map[string]string{"im2col-no-corners": "1", "replace-address-of-no-map": "1", "im2col-interleaved-channels-*": "801", "im2col-32B-channels-*": "801"}

func TestTensorMapAnswers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tensormap")
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, "answers/tensormap.c", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	said, err := startHost(t, softgpu.Config{}).program(t, program).Output()
	require.NoError(t, err, "%s", said)
	recorded, err := os.ReadFile("answers/tensormap.txt")
	require.NoError(t, err)
	ours, theirs := answersOf(string(said)), answersOf(string(recorded))
	require.Greater(t, len(theirs), 600)
	require.Len(t, ours, len(theirs))
	for question, answer := range theirs {
		for pattern, other := range otherMaps {
			if ok, err := path.Match(pattern, question); err == nil && ok && answer != "1" {
				answer = other
			}
		}
		require.Equal(t, answer, ours[question], question)
	}
}

func TestDeviceWithoutTensorMaps(t *testing.T) {
	out, err := startHost(t, turing).client(t, "tensors").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "tensors: PASS (the device has no tensor maps)\n")
}

func TestDeviceWithoutClusters(t *testing.T) {
	out, err := startHost(t, turing).client(t, "clusters").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "clusters: PASS (the device has no clusters)\n")
}
