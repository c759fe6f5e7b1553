package escape

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// burn computes on all processors, with all the memory that it can have, until this
// process ends.
func burn(*Self, Host) string {
	const held = 192 << 20 // within the bound of memory
	b := make([]byte, held)
	for range 2 * runtime.NumCPU() {
		go func() {
			for i := 0; ; i = (i + 4096) % len(b) {
				b[i]++
			}
		}()
	}
	return nothing
}

// BenchmarkBesideAnAttacker measures what is left to a guest of its throughput while another
// guest's backend burns all processors and memory, in percent of what it has alone. With
// control groups each has its weight of the processors; without, the kernel's scheduler shares
// them by thread.
func BenchmarkBesideAnAttacker(b *testing.B) {
	dir := runDir(b)
	socket := filepath.Join(dir, "arbiter")
	a := start(b, dir, "arbiter", "--socket", socket, "--log", "info")
	a.waitFor(b, "waiting for backends")
	c := start(b, dir, append([]string{"run", "--arbiter", socket}, endless...)...)
	c.waitFor(b, `"verified":true`)
	throughput := func() float64 {
		const measured = 3 * time.Second
		before := strings.Count(c.output(), `"verified":true`)
		time.Sleep(measured)
		return float64(strings.Count(c.output(), `"verified":true`)-before) / measured.Seconds()
	}
	for b.Loop() {
		alone := throughput()
		attacker, out := startAdversary(b, "burn", Host{})
		report(b, attacker, out)
		beside := throughput()
		attacker.Stop()
		b.ReportMetric(alone, "alone/s")
		b.ReportMetric(beside, "beside/s")
		b.ReportMetric(100*beside/alone, "%")
		b.ReportMetric(grouped(out), "cgroup")
	}
}

// grouped is 1 if an adversary has a control group.
func grouped(out *watched) float64 {
	if strings.Contains(out.String(), `"cgroup":`) { // the reason why it has none
		return 0
	}
	return 1
}
