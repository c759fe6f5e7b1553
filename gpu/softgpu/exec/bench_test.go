package exec

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/internal/parallel"
)

// cpuTime is the processor time of this process so far: benchmarks report it,
// since other work on the machine does not count there.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano())
}

// benchMatrix reports how many thread-instructions a worker runs per second.
func benchMatrix(b *testing.B, name string, insts float64) {
	const n = 256
	m := exectest.NewMemory(2 << 20)
	k := kernel(b, buildFile(b, "matrix.ptx", m), name)
	writeAll(m, exectest.BufA, floats(n*n, func(i int) float32 { return float32(i%1009) / 7 }))
	writeAll(m, exectest.BufB, floats(n*n, func(i int) float32 { return float32(i%991) / 3 }))
	m.Map(exectest.BufC, 4*n*n)
	l := Launch{Grid: grid(n/16, n/16, 1), Block: grid(16, 16, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint64(exectest.BufC), int32(n))}
	start := cpuTime()
	for b.Loop() {
		runKernel(b, k, l, m, 1)
	}
	used := (cpuTime() - start).Seconds()
	b.ReportMetric(n*n*n*insts*float64(b.N)/used/1e6, "Minst/s")
	b.ReportMetric(used/float64(b.N)*1e9/(n*n*n/32), "ns/step")
}

// The inner loops: per multiplication, the plain kernels have 7 instructions
// (two steps share 14), the tiled one 3.
func BenchmarkFmmul(b *testing.B) { benchMatrix(b, "fmmul", 7) }

func BenchmarkMmul(b *testing.B) { benchMatrix(b, "mmul", 7) }

func BenchmarkFmmulTiled(b *testing.B) { benchMatrix(b, "fmmul_tiled", 3) }

// BenchmarkLaunch is a launch that does next to nothing.
func BenchmarkLaunch(b *testing.B) {
	m := exectest.NewMemory(2 << 20)
	k := kernel(b, buildFile(b, "matrix.ptx", m), "madd")
	m.Map(exectest.BufA, 4096)
	l := Launch{Grid: grid(1, 1, 1), Block: grid(16, 16, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufA), uint64(exectest.BufA), int32(16))}
	for b.Loop() {
		runKernel(b, k, l, m, 2)
	}
}

// BenchmarkBlocks is many blocks of 32 warps whose threads do next to nothing.
func BenchmarkBlocks(b *testing.B) {
	m := exectest.NewMemory(2 << 20)
	k := kernel(b, build(b, "k.ptx", source("", "st.global.u32 [%rd4], %r3;"), m), "k")
	m.Map(exectest.BufA, 4096)
	l := Launch{Grid: grid(1000, 1, 1), Block: grid(1024, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}
	for b.Loop() {
		runKernel(b, k, l, m, 1)
	}
}

// BenchmarkMadd is a million additions: as much memory as arithmetic.
func BenchmarkMadd(b *testing.B) {
	const n = 1024
	m := exectest.NewMemory(2 << 20)
	k := kernel(b, buildFile(b, "matrix.ptx", m), "madd")
	m.Map(exectest.BufA, 4*n*n)
	m.Map(exectest.BufB, 4*n*n)
	m.Map(exectest.BufC, 4*n*n)
	l := Launch{Grid: grid(n/16, n/16, 1), Block: grid(16, 16, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint64(exectest.BufC), int32(n))}
	for b.Loop() {
		runKernel(b, k, l, m, 1)
	}
}

// BenchmarkDivergence runs loops of which each lane has its own count.
func BenchmarkDivergence(b *testing.B) {
	const n = 1 << 14
	m := exectest.NewMemory(2 << 20)
	k := kernel(b, buildFile(b, "mixed.ptx", m), "collatz")
	in := make([]int32, n)
	for i := range in {
		in[i] = int32(i + 1)
	}
	writeAll(m, exectest.BufA, in)
	m.Map(exectest.BufB, 4*n)
	l := Launch{Grid: grid(n/256, 1, 1), Block: grid(256, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB), int32(n))}
	for b.Loop() {
		runKernel(b, k, l, m, 1)
	}
}

// BenchmarkCompile reports how fast verified PTX is decoded.
func BenchmarkCompile(b *testing.B) {
	src, err := os.ReadFile(filepath.Join("testdata", "cu", "kernels_sm90.ptx"))
	require.NoError(b, err)
	mod, err := verified("kernels.ptx", src)
	require.NoError(b, err)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		_, err := Compile(mod)
		require.NoError(b, err)
	}
}

// BenchmarkLoad is what a module costs from its text to its operations: parse,
// verify and decode.
func BenchmarkLoad(b *testing.B) {
	src, err := os.ReadFile(filepath.Join("testdata", "cu", "kernels_sm90.ptx"))
	require.NoError(b, err)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		mod, err := ptx.Load("kernels.ptx", src)
		require.NoError(b, err)
		_, err = Compile(mod)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N)*float64(len(src))/1e6/(cpuTime()-start).Seconds(), "MB/cpu-s")
}

// BenchmarkBarriers is blocks of 8 warps that hand a value on at barriers, two in each round of a loop.
func BenchmarkBarriers(b *testing.B) { benchRing(b, "", 2, "cpu-ns/barrier") }

// BenchmarkHelp is the same with an operation of which native code has no form at each barrier.
func BenchmarkHelp(b *testing.B) { benchRing(b, "fns.b32 %r7, %r2, 0, 1;", 1, "cpu-ns/round") }

// benchRing runs ringLoop with an operation, and reports the time of what each warp does so often in a round.
func benchRing(b *testing.B, operation string, often int, unit string) {
	const rounds, blocks, warps = 500, 16, 8
	m := exectest.NewMemory(2 << 20)
	k := kernel(b, build(b, "k.ptx", source("", ringLoop(operation)), m), "k")
	m.Map(exectest.BufA, 4096)
	l := Launch{Grid: grid(blocks, 1, 1), Block: grid(32*warps, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(rounds))}
	start := cpuTime()
	for b.Loop() {
		runKernel(b, k, l, m, 1)
	}
	b.ReportMetric(float64((cpuTime()-start).Nanoseconds())/float64(b.N*rounds*blocks*warps*often), unit)
}

// BenchmarkSmallBlocks is blocks of one warp that do next to nothing, on as many workers as there are
// processors: what it costs to hand out blocks.
func BenchmarkSmallBlocks(b *testing.B) {
	const blocks = 1 << 15
	m := exectest.NewMemory(2 << 20)
	k := kernel(b, build(b, "k.ptx", source("", "add.u32 %r3, %r3, %r2;"), m), "k")
	l := Launch{Grid: grid(blocks, 1, 1), Block: grid(32, 1, 1), Workers: new(parallel.Pool), Params: params(uint64(0), uint64(0), uint32(0))}
	for b.Loop() {
		runKernel(b, k, l, m, runtime.GOMAXPROCS(0))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*blocks), "ns/block")
}
