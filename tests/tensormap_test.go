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

// hopper is a software GPU of the first compute capability with tensor maps.
var hopper = softgpu.Config{Capability: 90}

// otherMaps are the questions about tensor maps that NVIDIA's library crashes at, and those about maps that
// PVDRM refuses as not supported.
var otherMaps = map[string]string{"im2col-no-corners": "1", "replace-address-of-no-map": "1", "im2col-interleaved-channels-*": "801", "im2col-32B-channels-*": "801"}

func TestTensorMapAnswers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tensormap")
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, "answers/tensormap.c", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	said, err := startHost(t, hopper).program(t, program).Output()
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

func TestTensorMapsAsLocalGuest(t *testing.T) {
	out, err := startHost(t, hopper).client(t, "tensors").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "tensors: PASS\n")
}
