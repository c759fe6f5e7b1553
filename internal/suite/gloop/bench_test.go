package gloop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// processor is the time that processors have spent in this process.
func processor(b *testing.B) time.Duration {
	var r unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano())
}

// BenchmarkVersions measures what a run of each version takes of the processors, on which the software
// GPU runs too: other load of the machine disturbs that less than the time by the clock.
func BenchmarkVersions(b *testing.B) {
	for _, p := range Programs() {
		for _, v := range Versions {
			b.Run(p.Name+"/"+string(v), func(b *testing.B) {
				const warm = 5 // runs after which kernels are native code
				var began time.Duration
				n := 0
				o := Options{Version: v, Size: 8, Again: func() bool {
					if n++; n == warm {
						began = processor(b)
						b.ResetTimer()
					}
					return n < warm+b.N
				}}
				res, err := Run(softGPU(b), p.Name, o)
				require.NoError(b, err)
				require.Empty(b, res.Error)
				b.ReportMetric(float64((processor(b)-began).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
