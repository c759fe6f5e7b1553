package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stopwatch is a device that measures its launches: their processor time, to which other
// work on the machine does not count, and the time by the clock.
type stopwatch struct {
	device
	used, took *time.Duration
}

func (s stopwatch) launch(kernel string, grid, block dim, args ...any) error {
	start, begin := processorTime(), time.Now()
	err := s.device.launch(kernel, grid, block, args...) // returns when the kernel has ended
	*s.used += processorTime() - start
	*s.took += time.Since(begin)
	return err
}

func processorTime() time.Duration {
	var u unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Nano())
}

// BenchmarkKernels reports the processor time of the kernels of each program on
// the software GPU, and their time by the clock, the least of all runs.
func BenchmarkKernels(b *testing.B) {
	dev := softGPU(b)
	for _, p := range append(All(), Extra()...) {
		b.Run(p.Name, func(b *testing.B) {
			const never = time.Duration(1<<63 - 1)
			least, shortest := never, never
			for b.Loop() {
				var used, took time.Duration
				res := run(p, func() (device, error) {
					d, err := openBare(dev)
					return stopwatch{d, &used, &took}, err
				}, Options{})
				require.Empty(b, res.Error)
				least, shortest = min(least, used), min(shortest, took)
			}
			b.ReportMetric(float64(least.Microseconds())/1e3, "cpu-ms")
			b.ReportMetric(float64(shortest.Microseconds())/1e3, "ms")
		})
	}
}
