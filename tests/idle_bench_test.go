package tests

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	guestimage "pvdrm/guest-image"
	"pvdrm/vmm"
)

// BenchmarkIdle is what PVDRM adds to a virtual machine that does nothing: the
// processor time of a machine that has used its GPU before and of its backend,
// without that of the same machine without a GPU, which idles beside it. Times are
// per cent of a processor; an operation is an interval of 10 s.
func BenchmarkIdle(b *testing.B) {
	const interval = 10 * time.Second
	with, err := bootGuest()
	require.NoError(b, err)
	defer func() { require.NoError(b, with.close()) }()
	img, err := guestImage()
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	without, err := vmm.Start(ctx, vmm.Config{Kernel: img.Kernel, Initrd: img.Initrd, MemoryMiB: 768,
		Append: "vt.global_cursor_default=0", CacheDir: guestimage.DefaultCacheDir(), BootTimeout: patience})
	require.NoError(b, err)
	defer func() { require.NoError(b, without.Shutdown(ctx)) }()
	require.NoError(b, without.WaitReady(ctx))
	code, err := with.Run(ctx, []string{"gdev", "run", "nop"}, nil, os.Stderr, os.Stderr)
	require.NoError(b, err)
	require.Zero(b, code)
	time.Sleep(interval / 2) // both have settled

	processes := [3]int{with.PID(), without.PID(), os.Getpid()} // the backend is in this process, which sleeps
	var used [3]time.Duration
	start := time.Now()
	for i, pid := range processes {
		used[i] -= cpuTime(b, pid)
	}
	for b.Loop() {
		time.Sleep(interval)
	}
	for i, pid := range processes {
		used[i] += cpuTime(b, pid)
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / time.Since(start).Seconds() }
	b.ReportMetric(percent(used[0]), "%qemu")
	b.ReportMetric(percent(used[1]), "%qemu-without-gpu")
	b.ReportMetric(percent(used[2]), "%backend")
	b.ReportMetric(percent(used[0]-used[1]+used[2]), "%added")
}

// cpuTime is the processor time that a process has used.
func cpuTime(b *testing.B, pid int) time.Duration {
	const processTime = 2                 // CPUCLOCK_SCHED of Linux's posix-timers.h
	clock := int32(^pid)<<3 | processTime // as clock_getcpuclockid(3) makes it
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(clock, &t))
	return time.Duration(t.Nano())
}
