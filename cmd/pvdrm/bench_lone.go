package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"pvdrm/internal/bench"
)

// Rounds in which one busy guest is measured, and idle guests beside it.
const (
	fairRounds      = 11
	quickFairRounds = 4
	fairIdle        = 63
	quickIdle       = 15
)

// lone measures one busy guest: under an arbiter against without, and beside idle
// guests against alone. It runs the first workload. Which comes first changes from round to round.
func (f *fairFlags) lone(ctx context.Context, log *zap.Logger, policy string) (rows []bench.LoneRow, err error) {
	// There are many runs of one guest, whose rate is steadier than shares are.
	length := f.length / 4
	a, err := f.startArbiter(ctx, log, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()

	under := func() (float64, error) { return f.one(ctx, a.socket, f.workloads[0], length) }
	without := func() (float64, error) { return f.one(ctx, "", f.workloads[0], length) }
	var memory footprint
	beside := func() (rate float64, err error) {
		var all spinners
		defer func() { err = errors.Join(err, all.end()) }()
		for i := range f.idle {
			s, err := f.startSpinner(f.guestDevice(a.socket, fmt.Sprintf("idle-%d", i+1), 1), idle)
			if err != nil {
				return 0, err
			}
			all = append(all, s)
		}
		if err := all.waitReady(ctx); err != nil {
			return 0, err
		}
		if rate, err = under(); err != nil {
			return 0, err
		}
		memory, err = all.footprint()
		return rate, err
	}
	for _, x := range []struct {
		experiment    string
		rounds, idle  int
		measure, base func() (float64, error)
	}{
		{experiment: bench.UnderArbiter, rounds: f.rounds, idle: 0, measure: under, base: without},
		{experiment: bench.BesideIdle, rounds: (f.rounds + 1) / 2, idle: f.idle, measure: beside, base: under}, // starting so many takes long
	} {
		if x.rounds == 0 || x.experiment == bench.BesideIdle && f.idle == 0 {
			continue
		}
		progress("%s, one busy guest: %s", policy, x.experiment)
		var rounds []bench.Round
		for n := range x.rounds {
			var r bench.Round
			steps := []func() (err error){
				func() (err error) { r.Throughput, err = x.measure(); return err },
				func() (err error) { r.Alone, err = x.base(); return err },
			}
			if n%2 == 1 {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				if err := step(); err != nil {
					return nil, err
				}
			}
			rounds = append(rounds, r)
		}
		row := bench.NewLoneRow(x.experiment, policy, f.workloads[0], 1+x.idle, rounds)
		if x.idle > 0 {
			row.IdlePSS, row.IdleRSS = memory.pss, memory.rss
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// one is the kernels a second of a guest that runs a workload for a while.
func (f *fairFlags) one(ctx context.Context, socket, workload string, length time.Duration) (rate float64, err error) {
	s, err := f.startSpinner(f.guestDevice(socket, "busy", 1), f.kernels[workload])
	if err != nil {
		return 0, err
	}
	all := spinners{s}
	defer func() { err = errors.Join(err, all.end()) }()
	if err := all.waitReady(ctx); err != nil {
		return 0, err
	}
	if err := pause(ctx, length); err != nil {
		return 0, err
	}
	counts, err := all.finish(ctx)
	if err != nil {
		return 0, err
	}
	return counts[0].perSecond(), nil
}

// footprint is the memory of a process in bytes.
type footprint struct{ pss, rss uint64 }

// footprint is the mean of the backends' processes. It is zero where this user may not read it: without
// root, of backends that have no namespace of their own.
func (all spinners) footprint() (mean footprint, err error) {
	for _, s := range all {
		pid, err := s.backend()
		if err != nil {
			return mean, fmt.Errorf("the memory of %s: %w", s.name, err)
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if errors.Is(err, fs.ErrPermission) {
			return footprint{}, nil
		}
		if err != nil {
			return mean, fmt.Errorf("the memory of %s: %w", s.name, err)
		}
		one, err := parseRollup(b)
		if err != nil {
			return mean, fmt.Errorf("the memory of %s: %w", s.name, err)
		}
		mean.pss += one.pss
		mean.rss += one.rss
	}
	if n := uint64(len(all)); n > 0 {
		mean.pss /= n
		mean.rss /= n
	}
	return mean, nil
}

// parseRollup reads what is in smaps_rollup; see proc_pid_smaps(5).
func parseRollup(b []byte) (f footprint, err error) {
	for line := range bytes.Lines(b) {
		words := bytes.Fields(line)
		if len(words) != 3 || string(words[2]) != "kB" {
			continue
		}
		at := map[string]*uint64{"Pss:": &f.pss, "Rss:": &f.rss}[string(words[0])]
		if at == nil {
			continue
		}
		kib, err := strconv.ParseUint(string(words[1]), 10, 50)
		if err != nil {
			return f, fmt.Errorf("smaps_rollup: %w", err)
		}
		*at = kib << 10
	}
	if f.pss == 0 || f.rss == 0 {
		return f, errors.New("smaps_rollup has no Pss or Rss")
	}
	return f, nil
}
