package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/sched/channels"
	"pvdrm/internal/bench"
)

// neonMeasure makes NEON's experiments on a device, with guests that wait for each of their kernels.
type neonMeasure struct {
	ctx   context.Context
	log   *zap.Logger
	fair  fairFlags
	flags *neonFlags
	alone map[string]float64 // kernels a second of a workload with direct access
}

// neonSettling is some cycles of dfq.
const neonSettling = 300 * time.Millisecond

// measure finds out which kernels take as long as the guests' requests.
func (f *neonFlags) measure(ctx context.Context, g *global) (*neonMeasure, error) {
	log, err := g.logger()
	if err != nil {
		return nil, err
	}
	m := &neonMeasure{ctx: ctx, log: log, flags: f, fair: fairFlags{dev: f.dev, settle: neonSettling}, alone: map[string]float64{}}
	for _, x := range f.cases() {
		for _, d := range x.requests {
			if name := d.String(); !slices.Contains(m.fair.workloads, name) {
				m.fair.workloads = append(m.fair.workloads, name)
			}
		}
	}
	return m, m.fair.calibrate(ctx)
}

// workload is a guest's kernel, each of which it waits for.
func (m *neonMeasure) workload(d time.Duration, off float64) string {
	name := fmt.Sprintf("%v@%g", d, off)
	m.fair.kernels[name] = fmt.Sprintf("%s@%g", m.fair.kernels[d.String()], off)
	return name
}

// contest has guests share the GPU under a policy, or without one.
func (m *neonMeasure) contest(x neonCase, policy string, direct float64) (row bench.NeonRow, err error) {
	var workloads []string
	var base []float64
	for i, d := range x.requests {
		off := x.off
		if i > 0 {
			off = 0
		}
		w := m.workload(d, off)
		if _, known := m.alone[w]; !known {
			progress("alone, %s", w)
			rates, _, err := m.rates(bench.None, []string{w})
			if err != nil {
				return row, err
			}
			m.alone[w] = rates[0]
		}
		workloads, base = append(workloads, w), append(base, m.alone[w])
	}
	progress("%s, %v, %s", x.experiment, workloads, policy)
	under := policy
	if policy == channels.Direct {
		under = bench.None
	}
	rates, denied, err := m.rates(under, workloads)
	if err != nil {
		return row, err
	}
	row = bench.NewNeonRow(x.experiment, m.flags.dev.device.String(), policy, x.requests, x.off, rates, base, direct)
	row.Denied = denied
	return row, nil
}

// rates are the kernels a second of guests that share the GPU for a while, and how often the policy left
// one of them out.
func (m *neonMeasure) rates(policy string, workloads []string) (rates []float64, denied uint64, err error) {
	x, err := m.fair.contest(m.ctx, m.log, policy, workloads, slices.Repeat([]int{1}, len(workloads)))
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, x.end()) }()
	if err := x.spinners.begin(); err != nil {
		return nil, 0, err
	}
	if err := pause(m.ctx, m.flags.length); err != nil {
		return nil, 0, err
	}
	if x.fairArbiter != nil {
		for _, g := range x.server.Stats()[0].Guests {
			for _, e := range g.Engines {
				denied += e.Denied
			}
		}
	}
	counts, err := x.spinners.finish(m.ctx)
	for _, c := range counts {
		rates = append(rates, c.perSecond())
	}
	return rates, denied, err
}
