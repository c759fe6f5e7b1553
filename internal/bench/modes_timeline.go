package bench

import (
	"fmt"
	"slices"
	"time"

	"pvdrm/frontend/lowlevel"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/suite"
)

// TimelineBench is the program of the thesis's Figure 4.2.
const TimelineBench = "srad"

// Timeline is when a driver flushed the TLB and rang doorbells while it ran a program.
type Timeline struct {
	Bench              string
	Flushes            []time.Duration // since the program began
	Activations        []time.Duration
	Whole              time.Duration
	AfterLastFlush     int // activations behind the last flush
	FlushesBeforeFirst int // flushes before the first activation
}

// recorder notes what a driver does.
type recorder struct {
	lowlevel.Bus
	channels uint64
	began    time.Time
	t        *Timeline
}

// Write is part of lowlevel.Bus.
func (r *recorder) Write(bar int, off uint64, v uint32) {
	r.Bus.Write(bar, off, v)
	switch {
	case r.t == nil:
	case bar == hw.BAR0 && off == hw.RegFlush:
		r.t.Flushes = append(r.t.Flushes, time.Since(r.began))
	case bar == hw.BAR1 && off < r.channels*hw.ControlBytes && off%hw.ControlBytes == hw.ControlPut:
		r.t.Activations = append(r.t.Activations, time.Since(r.began))
	}
}

// RecordTimeline runs a program in mode fv, with traps that are calls.
func RecordTimeline(name string) (t Timeline, err error) {
	r := &recorder{channels: hw.MaxChannels}
	p := &modePlace{name: "fv", wrap: func(b lowlevel.Bus) lowlevel.Bus {
		r.Bus = b
		return r
	}}
	defer func() {
		if e := p.Close(); err == nil {
			err = e
		}
	}()
	if err := p.open(); err != nil {
		return t, fmt.Errorf("time line of %s: %w", name, err)
	}
	t.Bench = name
	r.t, r.began = &t, time.Now()
	result, err := suite.RunRaw(name, func() (suite.RawDevice, error) { return p.driver.NewContext() }, suite.Options{})
	if err != nil {
		return t, err
	}
	if result.Error != "" {
		return t, fmt.Errorf("time line of %s: %s", name, result.Error)
	}
	t.Whole, r.t = time.Since(r.began), nil
	if len(t.Flushes) > 0 && len(t.Activations) > 0 {
		last, first := t.Flushes[len(t.Flushes)-1], t.Activations[0]
		t.AfterLastFlush = len(t.Activations) - count(t.Activations, last)
		t.FlushesBeforeFirst = count(t.Flushes, first)
	}
	return t, nil
}

// count is how many of the times are not after one.
func count(times []time.Duration, until time.Duration) int {
	n, _ := slices.BinarySearch(times, until+1)
	return n
}

// timelineBins is how many columns the chart has.
const timelineBins = 40

// figure is Figure 4.2.
func (t Timeline) figure() (f figure) {
	f.Title, f.unit, f.log = "Figure 4.2: TLB flushes and channel activations of "+t.Bench+" over time (fv, traps by call)", "in a fortieth of the run", true
	f.Caption = fmt.Sprintf("Logarithmic. %d flushes, %d of them before the first activation, and %d activations, %d of them behind the last flush. In the thesis, too, many flushes come before few activations: lazy shadowing saves the scans of most.",
		len(t.Flushes), t.FlushesBeforeFirst, len(t.Activations), t.AfterLastFlush)
	kinds := []struct {
		name  string
		times []time.Duration
	}{{name: "flushes", times: t.Flushes}, {name: "activations", times: t.Activations}}
	for i, k := range kinds {
		f.legend = append(f.legend, swatch{k.name, palette[i]})
	}
	for bin := range timelineBins {
		from, to := t.Whole*time.Duration(bin)/timelineBins, t.Whole*time.Duration(bin+1)/timelineBins
		g := group{}
		if bin%10 == 0 {
			g.name = seconds(from.Seconds())
		}
		for i, k := range kinds {
			n := count(k.times, to-1) - count(k.times, from-1)
			x := bar{title: fmt.Sprintf("%s to %s: %d %s", seconds(from.Seconds()), seconds(to.Seconds()), n, k.name)}
			if n > 0 {
				x.parts = []part{{palette[i], float64(n)}}
			}
			g.bars = append(g.bars, x)
		}
		f.groups = append(f.groups, g)
	}
	return f
}

// manyFigures is Figure 4.10: the phases of so many guests, or contexts, at a time, a chart for each program
// and mode.
func manyFigures(rows []ModeRow) (all []figure) {
	parts := []struct {
		name   string
		phases []string
	}{{name: "init", phases: []string{"init"}}, {name: "kernel and copies", phases: []string{"htod", "launch", "dtoh"}}, {name: "close", phases: []string{"close"}}}
	index := map[string]int{}
	for i := 0; i+len(modePhases) <= len(rows); i += len(modePhases) {
		r := rows[i]
		at, ok := index[r.Bench]
		if !ok {
			at = len(all)
			index[r.Bench] = at
			f := figure{Title: "Figure 4.10: " + r.Bench + " in several guests or contexts at a time"}
			f.unit = "seconds"
			f.Caption = "Medians of all instances. In the thesis init and close of full virtualization grow with contexts and with VMs, those of the others hardly, and the kernel part of para-virtualization is shorter with a VM for each context. It prints no numbers."
			for n, p := range parts {
				f.legend = append(f.legend, swatch{p.name, palette[n]})
			}
			all = append(all, f)
		}
		number, what := max(r.Guests, 1), "guests"
		if r.Contexts > 0 {
			number, what = r.Contexts, "contexts"
		}
		x := bar{title: fmt.Sprintf("%s, %s, %d %s", r.Bench, r.Mode, number, what)}
		for n, p := range parts {
			sum := 0.0
			for _, row := range rows[i : i+len(modePhases)] {
				if slices.Contains(p.phases, row.Phase) {
					sum += row.Seconds
				}
			}
			x.parts = append(x.parts, part{palette[n], sum})
			x.title += ", " + p.name + " " + seconds(sum)
		}
		f := &all[at]
		if n := len(f.groups); n > 0 && f.groups[n-1].name == r.Mode {
			f.groups[n-1].bars = append(f.groups[n-1].bars, x)
			continue
		}
		f.groups = append(f.groups, group{name: r.Mode, bars: []bar{x}})
	}
	return all
}
