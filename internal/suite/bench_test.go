package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stopwatch is a device that measures the processor time of its launches, to
// which other work on the machine does not count.
type stopwatch struct {
	device
	used *time.Duration
}

func (s stopwatch) launch(kernel string, grid, block dim, args ...any) error {
	start := processorTime()
	err := s.device.launch(kernel, grid, block, args...) // returns when the kernel has ended
	*s.used += processorTime() - start
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
// the software GPU, the least of all runs.
func BenchmarkKernels(b *testing.B) {
	dev := softGPU(b)
	for _, p := range append(All(), Extra()...) {
		b.Run(p.Name, func(b *testing.B) {
			least := time.Duration(0)
			for b.Loop() {
				var used time.Duration
				res := run(p, func() (device, error) {
					d, err := openBare(dev)
					return stopwatch{d, &used}, err
				}, Options{})
				require.Empty(b, res.Error)
				if least == 0 || used < least {
					least = used
				}
			}
			b.ReportMetric(float64(least.Microseconds())/1e3, "cpu-ms")
		})
	}
}
