package ptx_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/gpu/points"
	"pvdrm/gpu/ptx/rewrite"
)

// cudaKeeper names the pvdrm whose keeper and workers a test on an NVIDIA GPU uses.
const cudaKeeper = "PVDRM_TEST_KEEPER"

// openCUDA opens the first NVIDIA GPU, on which a kernel that does not end loses its context after ten seconds.
func openCUDA(t *testing.T) gpu.Device {
	program := os.Getenv(cudaKeeper)
	if _, err := nvidia.Probe(); err != nil || program == "" {
		t.Skipf("needs an NVIDIA GPU and the file of pvdrm in %s: %v", cudaKeeper, err)
	}
	d, err := nvidia.New(nvidia.Config{Keeper: []string{program, nvidia.KeeperCommand, "--confine=false", "--cuda-libs=none", "--vram=0"}, LaunchLimit: 10 * time.Second})
	require.NoError(t, err)
	return d
}

// reused is a device with a context that fixtures use one after the other, and another one after a fault.
type reused struct {
	dev gpu.Device
	ctx gpu.Context
}

func (r *reused) run(e entry) (outputs [][]byte, err error) {
	if r.ctx != nil && r.ctx.Err() != nil {
		_ = r.ctx.Close() // it is lost
		r.ctx = nil
	}
	if r.ctx == nil {
		if r.ctx, err = r.dev.NewContext("fixtures"); err != nil {
			return nil, err
		}
	}
	return runInContext(e.fixture, r.dev, r.ctx)
}

// TestFixturesInPiecesOnTheGPU runs the fixtures with loops on an NVIDIA GPU as they are, and in pieces that end at each k-th
// look: the bytes are the same. Kernels whose threads meet are among them.
func TestFixturesInPiecesOnTheGPU(t *testing.T) {
	plainDevice := openCUDA(t)
	t.Cleanup(func() { require.NoError(t, plainDevice.Close()) })
	var list []entry
	var want [][][]byte
	whole := reused{dev: plainDevice}
	for _, c := range readCorpus(t) {
		if c.recording == nil || c.recording.Fault != "" || !plain(c.fixture) || !hasPoints(suspendKernels(t, c.fixture.Source)) {
			continue
		}
		outputs, err := whole.run(c)
		if err != nil {
			t.Logf("%s does not run as it is: %v", c.fixture.Name, err)
			continue
		}
		list, want = append(list, c), append(want, outputs)
	}
	t.Logf("%d fixtures", len(list))
	for _, k := range []uint32{1, 3, 40} {
		t.Run(fmt.Sprintf("each look %d", k), func(t *testing.T) {
			t.Parallel()
			piecewise(t, k, list, want)
		})
	}
}

// piecewise compares fixtures in pieces with what they computed as they are.
func piecewise(t *testing.T, k uint32, list []entry, want [][][]byte) {
	d, err := points.New(openCUDA(t), points.Config{Force: true, Short: -1, Far: true, Look: k, Pieces: suspensions,
		Options: rewrite.SuspendOptions{Interval: 1, Count: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	r, failed := reused{dev: d}, 0
	for i, c := range list {
		got, err := r.run(c)
		if err == nil {
			for n := range want[i] {
				if !bytes.Equal(got[n], want[i][n]) {
					err = fmt.Errorf("output %d differs", n)
				}
			}
		}
		if err != nil {
			t.Errorf("%s: %v", c.fixture.Name, err)
			if failed++; failed == 5 { // each may have taken ten seconds
				t.Fatal("no more are tried")
			}
		}
	}
	twins, wholes, pieces := d.Counts()
	t.Logf("%d launches in %d pieces, %d as they are", twins, twins+pieces, wholes)
	require.Positive(t, pieces)
}
