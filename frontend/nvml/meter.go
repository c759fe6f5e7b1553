package nvml

import (
	"cmp"
	"slices"
	"time"

	"pvdrm/hypercall"
)

// A sample period is as long as it is in NVIDIA's library: a sixth of a second, or what passed
// between two calls if that was longer and not too long to speak of the present.
const (
	shortestPeriod = time.Second / 6
	longestPeriod  = 2 * time.Second
)

// meter turns counters of time into rates. Library.mu guards it.
type meter struct {
	last sample // the end of the last period
	now  rates  // of that period; at is zero before the first
}

// sample is what the guest had used at some time.
type sample struct {
	at    time.Time
	usage hypercall.Usage
}

// rates are parts of a sample period, in percent.
type rates struct {
	at              time.Time // its end
	compute, copies uint32
	processes       []processRates
	timed           bool // processes are known
}

type processRates struct{ pid, compute, copies uint32 }

// begin begins the first sample period. Without it the first question begins it.
func (m *meter) begin(l *Library, file File) {
	if s, err := l.sample(file); err == nil {
		m.last = s
	}
}

func (l *Library) sample(file File) (sample, error) {
	u, err := file.Usage()
	return sample{l.cfg.Now(), u}, err
}

// rates returns those of a device in the last sample period. If there is none that ended lately, it waits for
// the end of one.
func (l *Library) rates(d *device) (rates, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if !slices.Contains(l.devices, d) {
			return rates{}, fail(ErrUninitialized, "nvmlShutdown was called meanwhile")
		}
		m, now := &d.meter, l.cfg.Now()
		if !m.now.at.IsZero() && now.Sub(m.now.at) < shortestPeriod {
			return m.now, nil
		}
		if now.Sub(m.last.at) > longestPeriod {
			s, err := l.sample(d.file)
			if err != nil {
				return rates{}, err
			}
			m.last = s
		}
		left := shortestPeriod - now.Sub(m.last.at)
		if left <= 0 {
			s, err := l.sample(d.file)
			if err != nil {
				return rates{}, err
			}
			m.now, m.last = between(m.last, s), s
			return m.now, nil
		}
		l.mu.Unlock()
		l.cfg.Sleep(left)
		l.mu.Lock()
	}
}

// between computes the rates of the time between two samples.
func between(a, b sample) rates {
	period := b.usage.NowNS - min(a.usage.NowNS, b.usage.NowNS)
	percent := func(from, to uint64) uint32 {
		const whole = 100
		if period == 0 || to <= from {
			return 0
		}
		return uint32(min(whole, float64(to-from)/float64(period)*whole+0.5))
	}
	r := rates{at: b.at, timed: true, compute: percent(a.usage.ComputeNS, b.usage.ComputeNS), copies: percent(a.usage.CopyNS, b.usage.CopyNS)}
	before := byProcess(a.usage.Clients)
	for _, p := range byProcess(b.usage.Clients) {
		var was hypercall.Client
		if i, found := slices.BinarySearchFunc(before, p.Process, compareProcess); found {
			was = before[i]
		}
		r.timed = r.timed && p.Timed != 0
		r.processes = append(r.processes, processRates{p.Process, percent(was.ComputeNS, p.ComputeNS), percent(was.CopyNS, p.CopyNS)})
	}
	return r
}

func compareProcess(c hypercall.Client, pid uint32) int { return cmp.Compare(c.Process, pid) }

// byProcess sums up the files of each process, and sorts by process.
func byProcess(clients []hypercall.Client) []hypercall.Client {
	list := slices.Clone(clients)
	slices.SortFunc(list, func(a, b hypercall.Client) int { return cmp.Compare(a.Process, b.Process) })
	n := 0
	for _, c := range list {
		if n > 0 && list[n-1].Process == c.Process {
			p := &list[n-1]
			p.VRAM, p.ComputeNS, p.CopyNS, p.Timed = p.VRAM+c.VRAM, p.ComputeNS+c.ComputeNS, p.CopyNS+c.CopyNS, p.Timed&c.Timed
			continue
		}
		list[n] = c
		n++
	}
	return list[:n]
}
