package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/file/fakegpu"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/hypercall"
)

// largest is a source as large as the default quotas allow, of many small kernels.
func largest(tb testing.TB) string {
	var b strings.Builder
	b.WriteString(".version 8.0\n.target sm_50\n.address_size 64\n")
	const most = 10 << 20
	require.LessOrEqual(tb, gpu.ModuleMemory(most+1<<10), quota.Limits{}.Of(quota.ModuleMemory))
	for n := 0; b.Len() < most; n++ {
		fmt.Fprintf(&b, ".visible .entry kernel%d(.param .u64 p) {\n\t.reg .b64 \t%%rd<4>;\n\t.reg .b32 \t%%r<40>;\n"+
			"\tld.param.u64 \t%%rd1, [p];\n\tcvta.to.global.u64 \t%%rd2, %%rd1;\n\tld.global.u32 \t%%r1, [%%rd2];\n", n)
		for i := range 30 {
			fmt.Fprintf(&b, "\tadd.s32 \t%%r%d, %%r%d, %d;\n", i+2, i+1, n)
		}
		b.WriteString("\tst.global.u32 \t[%rd2], %r31;\n\tret;\n}\n")
	}
	return b.String()
}

// How long allocating and freeing takes in one file while another compiles the largest
// module that is allowed.
func BenchmarkBesideCompiler(b *testing.B) {
	device, err := softgpu.New(softgpu.Config{})
	require.NoError(b, err)
	defer device.Close()
	source := largest(b)
	for _, compiling := range []bool{false, true} {
		b.Run(fmt.Sprintf("compiling=%v", compiling), func(b *testing.B) {
			r := &rig{TB: b, dev: device, fake: &fakegpu.Device{}, group: &Group{}, log: zap.NewNop()}
			busy, mine := r.open(), r.open()
			var id uint32
			var began time.Time
			var loads []time.Duration
			load := func() {
				part := len(busy.ring.Bulk())
				for at := 0; at < len(source); at += part {
					text := source[at:min(at+part, len(source))]
					id = busy.part(1, uint64(at), uint64(len(source)), text)
					if at+part < len(source) {
						require.Zero(b, busy.wait(id).errno)
					}
				}
				began = time.Now()
			}
			if compiling {
				load()
			}
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				require.Zero(b, mine.gemNew(1, 64<<10))
				require.Zero(b, mine.ofID(hypercall.OpGemClose, 1))
				took = append(took, time.Since(start))
				if compiling && busy.answered(id) {
					require.Zero(b, busy.wait(id).errno)
					loads = append(loads, time.Since(began))
					require.Zero(b, busy.ofID(hypercall.OpModuleUnload, 1))
					load()
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
			if len(loads) > 0 {
				b.ReportMetric(slices.Max(loads).Seconds(), "s/module")
			}
			mine.Close()
			busy.Close()
		})
	}
}
