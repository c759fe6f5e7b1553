package softgpu

import (
	gocontext "context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
)

const preamble = ".version 8.0\n.target sm_50\n.address_size 64\n"

// repeat is a source of about n bytes: head, part again and again, tail. In the part #
// stands for a number that grows.
func repeat(n int, head, part, tail string) []byte {
	var b strings.Builder
	b.WriteString(preamble + head)
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.ReplaceAll(part, "#", fmt.Sprint(i)))
	}
	b.WriteString(tail)
	return []byte(b.String())
}

// hostileSources are sources of about n bytes that become much of something.
func hostileSources(n int) map[string][]byte {
	const kernel, end = ".visible .entry k() {", "}"
	return map[string][]byte{
		"statements":  repeat(n, kernel, "ret;", end),
		"traps":       repeat(n, kernel, "trap;", end),
		"labels":      repeat(n, kernel, "L#:", "ret;}"),
		"jumps":       repeat(n, kernel+"L:", "bra L;", end),
		"guards":      repeat(n, kernel+".reg .pred p;L:", "@p bra L;", end),
		"registers":   repeat(n, kernel+".reg .b32 %r<1000000>;", "mov.b32 %r#,0;", end),
		"declared":    repeat(n, kernel, ".reg.b32 r#;", end),
		"digits":      repeat(n, kernel, ".reg.b32 r1234567890#;", end),
		"constants":   repeat(n, kernel+".reg.b64 r;", "mov.b64 r,#;", end),
		"vectors":     repeat(n, kernel+".reg.b16 r;.reg.b64 d;", "mov.b64 d,{r,r,r,r};", end),
		"stores":      repeat(n, kernel+".reg.b32 r;.reg.b64 d;", "st.v4.b32[d],{r,r,r,r};", end),
		"products":    repeat(n, kernel+".reg.f32 r<9999999>;", "mul.f32 r#,r0,r1;", end),
		"bytes":       repeat(n, ".global .b8 x[]={", "1,", "1};"),
		"addresses":   repeat(n, ".global .b8 y;.global .b64 x[]={", "y,", "y};"),
		"nested":      repeat(n, ".global .b8 x[][1][1][1]={", "{{{1}}},", "{{{1}}}};"),
		"variables":   repeat(n, "", ".global.b8 v#;", ""),
		"functions":   repeat(n, "", ".func f#(){}", ""),
		"kernels":     repeat(n, "", ".entry k#(){}", ""),
		"parameters":  repeat(n, ".func f(.reg .b32 a", ",.reg .b32 p#", "){}"),
		"scopes":      repeat(n, kernel, "{}", end),
		"comments":    repeat(n, "", "//\n", ""),
		"targets":     append(repeat(n/2, kernel+".reg.b32 r;L:T:.branchtargets L", ",L", ";"), repeat(n/2, "", "brx.idx r,T;", end)[len(preamble):]...),
		"calls":       repeat(n, ".func f(){}"+kernel, "call f;", end),
		"prototypes":  repeat(n, kernel, "P#:.callprototype _;", end),
		"raw":         repeat(n, kernel, "tex.1d.v4.f32.f32 a;", end),
		"loops":       repeat(n, kernel+".reg.pred p;", "L#:", ""),
		"shared":      repeat(n, kernel, ".shared.b8 s#;", end),
		"locals":      repeat(n, kernel, ".local.b8 s#;", end),
		"pragmas":     repeat(n, "", `.pragma"";`, ""),
		"files":       repeat(n, "", `.file # ""`, ""),
		"lines":       repeat(n, kernel, ".loc 1 1 1 ", end),
		"predicates":  repeat(n, kernel+".reg.pred p;.reg.b32 a;", "setp.eq.b32 p,a,a;", end),
		"divisions":   repeat(n, kernel+".reg.s64 a;", "div.s64 a,a,7;", end),
		"conversions": repeat(n, kernel+".reg.f64 d;.reg.b32 a;", "cvt.rn.f64.s32 d,a;", end),
		"loads":       repeat(n, kernel+".reg.b64 d;", "ld.b64 d,[d];", end),
		"one name":    []byte(preamble + strings.Repeat("x", n)),
		"one number":  []byte(preamble + ".global.b8 x=" + strings.Repeat("1", n)),
		"blanks":      []byte(preamble + strings.Repeat(" ", n)),
	}
}

// realSources are what compilers made.
func realSources(t testing.TB) map[string][]byte {
	all := map[string][]byte{}
	for _, pattern := range []string{"../ptx/testdata/*.ptx", "../ptx/testdata/*/*.ptx", "../../internal/suite/kernels/*.ptx"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			all[filepath.Base(name)] = text
		}
	}
	require.NotEmpty(t, all)
	return all
}

// heapPeak runs f and returns the most that was alive of what it allocated, as far as the
// garbage collector, which runs all the time, saw.
func heapPeak(f func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(2))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	var over atomic.Bool
	done := make(chan uint64)
	go func() {
		var most uint64
		var m runtime.MemStats
		for !over.Load() {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			time.Sleep(200 * time.Microsecond)
		}
		done <- most
	}()
	f()
	over.Store(true)
	most := <-done
	return most - min(most, before)
}

func BenchmarkModuleMemory(b *testing.B) {
	const n = 2 << 20
	d, err := newDevice(Config{})
	require.NoError(b, err)
	defer d.Close()
	run := func(name string, source []byte) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				e := ptx.NewEffort(gocontext.Background(), 192*uint64(len(source))+1<<20)
				var prog *exec.Program
				var took time.Duration
				peak := heapPeak(func() {
					start := time.Now()
					prog, _ = compile(e, "x.ptx", source, d.props, false)
					took = time.Since(start)
				})
				per := func(x uint64) float64 { return float64(x) / float64(len(source)) }
				b.ReportMetric(per(peak), "heap/B")
				b.ReportMetric(per(uint64(e.Peak())), "counted/B")
				b.ReportMetric(float64(took.Nanoseconds())/float64(len(source)), "ns/B")
				if prog != nil {
					_ = prog.LinkTo(0, func(uint64, []byte) {})
					b.ReportMetric(per(prog.HostBytes()), "kept/B")
				}
				runtime.KeepAlive(prog)
			}
		})
	}
	for name, source := range realSources(b) {
		run("real/"+name, source)
	}
	for name, source := range hostileSources(n) {
		run("hostile/"+name, source)
	}
}

// A source may take the memory that follows from its size, and no more, whatever it makes
// of it; what is counted is what is allocated.
func TestModuleMemory(t *testing.T) {
	d, err := newDevice(Config{})
	require.NoError(t, err)
	defer d.Close()
	tooLarge := 0
	n := 256 << 10
	if testing.Short() {
		n = 64 << 10
	}
	for name, source := range hostileSources(n) {
		e := ptx.NewEffort(gocontext.Background(), gpu.ModuleMemory(uint64(len(source))))
		prog, err := compile(e, "x.ptx", source, d.props, false)
		require.LessOrEqual(t, e.Peak(), int(gpu.ModuleMemory(uint64(len(source)))), name)
		if errors.Is(err, gpu.ErrTooLarge) {
			tooLarge++
		}
		if err == nil {
			_ = prog.LinkTo(0, func(uint64, []byte) {})
			require.LessOrEqual(t, prog.HostBytes(), gpu.ModuleMemory(uint64(len(source))), name)
		}
	}
	require.Positive(t, tooLarge)
	for name, source := range realSources(t) {
		e := ptx.NewEffort(gocontext.Background(), gpu.ModuleMemory(uint64(len(source))))
		_, err := compile(e, name, source, d.props, false)
		require.NotErrorIs(t, err, gpu.ErrTooLarge, name)
		require.Less(t, e.Peak(), int(gpu.ModuleMemory(uint64(len(source))))*3/4, "%s: room is left", name)
	}
}

// looking is a context that ends at the given look at it.
type looking struct {
	gocontext.Context
	looks, last int
}

func (c *looking) Err() error {
	if c.looks++; c.last > 0 && c.looks >= c.last {
		return gocontext.Canceled
	}
	return nil
}

// Reading, checking and decoding a source look at the context all along, and end when it does.
func TestCancelAnywhere(t *testing.T) {
	d, err := newDevice(Config{})
	require.NoError(t, err)
	defer d.Close()
	n := 200 << 10
	if testing.Short() {
		n = 50 << 10
	}
	load := func(source []byte, last int) (looks int, err error) {
		ctx := &looking{Context: gocontext.Background(), last: last}
		_, err = compile(ptx.NewEffort(ctx, 1<<40), "x.ptx", source, d.props, false)
		return ctx.looks, err
	}
	for name, source := range hostileSources(n) {
		switch name {
		case "one name", "one number", "blanks", "raw", "comments": // a word, or nothing
			continue
		case "targets": // is quadratic, but for its bound on memory
			continue
		}
		looks, err := load(source, 0)
		if err != nil {
			continue // it ended before there was much to look at
		}
		require.Greater(t, looks, 2, name)
		for _, last := range []int{1, looks / 2, looks} {
			_, err := load(source, last)
			require.ErrorIs(t, err, gocontext.Canceled, "%s: look %d of %d", name, last, looks)
		}
	}
}
