package gloop

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu/softgpu"
)

var update = flag.Bool("update", false, "write the digest of sources and PTX")

// softGPU is a driver on a software GPU, with nothing between.
func softGPU(t testing.TB) *cuda.Driver {
	t.Helper()
	dev, err := softgpu.New(softgpu.Config{VRAMBytes: 256 << 20, SMs: 2})
	require.NoError(t, err)
	drv, err := cuda.Init(func() (drm.File, error) {
		f, err := native.Open(dev, "gloop")
		if err != nil {
			return nil, err
		}
		return f, nil
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, drv.Close())
		require.NoError(t, dev.Close())
	})
	return drv
}

// TestPrograms runs each program in each version, and each compares its result with its reference.
func TestPrograms(t *testing.T) {
	for _, p := range Programs() {
		for _, v := range Versions {
			t.Run(p.Name+"/"+string(v), func(t *testing.T) {
				res, err := Run(softGPU(t), p.Name, Options{Version: v, Size: 1})
				require.NoError(t, err)
				require.Empty(t, res.Error)
				require.True(t, res.Verified)
				require.NotZero(t, res.Units)
				require.NotZero(t, res.Launches)
				require.Equal(t, v != Vanilla, res.Points > 0, "%d scheduling points", res.Points)
				t.Logf("%+v", res)
			})
		}
	}
}

// TestSuspended has the kernels of each program leave the GPU after each k-th callback. The results are
// the same.
func TestSuspended(t *testing.T) {
	looks := []int{1, 7, 2, 3}
	if testing.Short() {
		looks = looks[:2]
	}
	for _, p := range Programs() {
		for _, v := range []Version{GLoop, NoShared} {
			for _, k := range looks {
				if p.Name == "throttle" {
					k *= 100 // 5000 launches say no more
				}
				t.Run(fmt.Sprintf("%s/%s/%d", p.Name, v, k), func(t *testing.T) {
					res, err := Run(softGPU(t), p.Name, Options{Version: v, Size: 1, Suspend: k})
					require.NoError(t, err)
					require.Empty(t, res.Error)
					switch {
					case p.Name == "throttle": // one block has all callbacks, and the last launch finds out that it is over
						require.Equal(t, uint64(throttleSteps/k+1), res.Launches)
					case k <= 3: // blocks share callbacks in any way, and may have fewer each
						require.Greater(t, res.Launches, uint64(1))
					}
				})
			}
		}
	}
}

// TestOptions checks that wrong names and options are refused.
func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Version: "fast", Size: 1}, {Version: GLoop}, {Version: GLoop, Size: MaxSize + 1}, {Version: GLoop, Size: 1, Blocks: -1},
		{Version: GLoop, Size: 1, Threads: 1025}, {Version: GLoop, Size: 1, Suspend: -1}, {Version: GLoop, Size: 1, Slice: -1}} {
		_, err := Run(nil, "throttle", o)
		require.Error(t, err, "%+v", o)
	}
	_, err := Run(nil, "sort", Options{Version: GLoop, Size: 1})
	require.ErrorContains(t, err, "want throttle, tpacf")
}

// TestReferences checks that references notice wrong results.
func TestReferences(t *testing.T) {
	s := makeSequences(1<<12, 4)
	require.Error(t, s.check(make([]uint32, 4*mummerQuery*(1+mummerMost)), func(int) uint32 { return 0 }))
	require.Error(t, makeProduct(1, 2).check(make([]byte, 4*matmulSide*matmulSide)))
	require.NoError(t, makeProduct(1, 2).check(bytesOf(productOf(makeProduct(1, 2)))))
}

// productOf multiplies in floating point.
func productOf(p product) []float32 {
	c := make([]float32, matmulSide*matmulSide)
	for i := range c {
		for k := range matmulSide {
			c[i] += p.a[i/matmulSide*matmulSide+k] * p.b[k*matmulSide+i%matmulSide]
		}
	}
	return c
}

// TestSources compares the digest of what the PTX is made of, and of the PTX, with the one of when
// it was made. `make gloop-kernels` makes both again.
func TestSources(t *testing.T) {
	var files []string
	for _, pattern := range []string{"device/*.cu", "device/*.h", "device/*.ptx", "gloop.mk", "../../../frontend/gloop/device/*.h"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	slices.Sort(files)
	h := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		_, _ = h.Write(append([]byte(name), sum[:]...)) // never fails
	}
	got := hex.EncodeToString(h.Sum(nil)) + "\n"
	if *update {
		require.NoError(t, os.WriteFile("device/digest", []byte(got), 0o644))
	}
	want, err := os.ReadFile("device/digest")
	require.NoError(t, err)
	require.Equal(t, string(want), got, "a source has changed, or PTX: make gloop-kernels")
}
