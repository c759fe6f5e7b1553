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
	compareRecorded(t, "tensormap", otherMaps)
}

// otherClusters are the questions about clusters that PVDRM answers otherwise: NVIDIA's occupancy counts
// clusters of 17 blocks, which no launch takes; a graph with a kernel that needs a size of clusters, which
// nothing names, is refused when it is instantiated; and an access to a block that the cluster does not
// have is an illegal address, not a failed launch.
var otherClusters = map[string]string{"occupancy-*-cluster-17-grid-17-*": "active 912 unset potential 912 99",
	"occupancy-*-cluster-17-grid-1088-*": "active 912 unset potential 912 99", "instantiate-expl": "912",
	"probe-3": "launch 0 sync 700", "probe-4": "launch 0 sync 700", "probe-7": "launch 0 sync 700"}

func TestClusterAnswers(t *testing.T) {
	compareRecorded(t, "cluster", otherClusters, "answers/cluster.ptx")
}

// compareRecorded runs a program of folder answers and compares what it prints with what was recorded of
// NVIDIA's driver. Others are the answers of PVDRM's own to questions that match a pattern; those that
// NVIDIA's refuses with the error 1 differ nowhere.
func compareRecorded(t *testing.T, name string, others map[string]string, files ...string) {
	program := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, "answers/"+name+".c", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := startHost(t, softgpu.Config{SMs: 4}).program(t, program)
	for _, file := range files {
		path, err := filepath.Abs(file)
		require.NoError(t, err)
		cmd.Args = append(cmd.Args, path)
	}
	said, err := cmd.Output()
	require.NoError(t, err, "%s", said)
	recorded, err := os.ReadFile("answers/" + name + ".txt")
	require.NoError(t, err)
	ours, theirs := answersOf(string(said)), answersOf(string(recorded))
	require.Greater(t, len(theirs), 600)
	require.Len(t, ours, len(theirs))
	for question, answer := range theirs {
		for pattern, other := range others {
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
