package exec

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// The kernels of testdata/cu/kernels.cu, as nvcc compiles them, must give what
// they gave on an NVIDIA GPU, whatever the number of workers.

const cuWords = 4096

// cuInputs are the inputs that testdata/cu/run.py uses.
func cuInputs() []uint32 {
	x, words := uint64(12345), make([]uint32, cuWords)
	for i := range words {
		x = x*6364136223846793005 + 1442695040888963407
		words[i] = uint32(x >> 32)
	}
	return words
}

func readWords(t *testing.T, file string) map[string][]uint32 {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	all := map[string][]uint32{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		name, vals, ok := strings.Cut(s.Text(), " =>")
		if !ok {
			continue
		}
		words := make([]uint32, cuWords)
		for i, v := range strings.Fields(vals) {
			x, err := strconv.ParseUint(v, 16, 32)
			require.NoError(t, err)
			words[i] = uint32(x)
		}
		all[name] = words
	}
	require.NoError(t, s.Err())
	return all
}

func TestNvccKernels(t *testing.T) {
	want := readWords(t, filepath.Join("testdata", "cu", "expected.txt"))
	require.NotEmpty(t, want)
	for _, arch := range []string{"sm75", "sm90"} {
		src, err := os.ReadFile(filepath.Join("testdata", "cu", "kernels_"+arch+".ptx"))
		require.NoError(t, err)
		for name, words := range want {
			for _, workers := range []int{1, 4} {
				if workers == 1 && testing.Short() {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", arch, name, workers), func(t *testing.T) {
					m := exectest.NewMemory(4096)
					p := build(t, "kernels.ptx", src, m)
					if _, ok := p.Kernel(name); !ok && arch == "sm75" && name == "bfloats" {
						return // nvcc has no bf16 arithmetic for it
					}
					writeAll(m, exectest.BufA, cuInputs())
					m.Map(exectest.BufB, 4*cuWords)
					runKernel(t, kernel(t, p, name), Launch{Grid: grid(8, 1, 1), Block: grid(128, 1, 1), SharedBytes: 512,
						Params: params(uint64(exectest.BufA), uint64(exectest.BufB), int32(cuWords))}, m, workers)
					got := readAll[uint32](m, exectest.BufB, cuWords)
					for i := range got {
						if got[i] != words[i] {
							t.Fatalf("word %d: got %x, want %x", i, got[i], words[i])
						}
					}
				})
			}
		}
	}
}
