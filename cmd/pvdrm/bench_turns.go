package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/arbiter"
	"pvdrm/internal/bench"
)

// Rounds in which policies take turns, and the length of a turn: short, so that what
// else the host does meets all policies alike. A turn counts from when the policy
// has had time to have its way.
const (
	fairTurns  = 25
	quickTurns = 3
	turnLength = 300 * time.Millisecond
	turnLead   = 50 * time.Millisecond
)

// takeTurns has guests that all do the same share the GPU while its policy changes:
// what a policy costs is what they get done less than under FIFO. In each round every
// policy has two turns, in one order and then in the other (ABBA), so that what
// changes steadily cancels out.
func (f *fairFlags) takeTurns(ctx context.Context, log *zap.Logger, sets [][]int) (rows []bench.TurnRow, err error) {
	if f.turns == 0 || !slices.Contains(f.policies, "fifo") || len(f.policies) < 2 {
		return nil, nil
	}
	order := slices.Clone(f.policies)
	slices.Reverse(order)
	order = append(slices.Clone(f.policies), order...)
	for _, workload := range f.workloads {
		for _, weights := range sets {
			if len(weights) < 2 {
				continue // a policy decides among guests
			}
			progress("policies in turn, %d guests with %s", len(weights), workload)
			rounds, err := f.turnsOf(ctx, log, order, workload, weights)
			if err != nil {
				return nil, err
			}
			for _, policy := range f.policies {
				if policy != "fifo" {
					rows = append(rows, bench.NewTurnRow(policy, workload, len(weights), rounds[policy]))
				}
			}
		}
	}
	return rows, nil
}

// turnsOf has policies take turns in that order, again and again.
func (f *fairFlags) turnsOf(ctx context.Context, log *zap.Logger, order []string, workload string, weights []int) (_ map[string][]bench.Round, err error) {
	x, err := f.contest(ctx, log, order[0], []string{workload}, weights)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.end()) }()
	rounds := map[string][]bench.Round{}
	for range f.turns {
		rate := map[string]float64{} // of two turns
		for _, policy := range order {
			p := policyOf(policy)
			if err := x.server.Switch(0, p.Policy, p.Settings); err != nil {
				return nil, err
			}
			run, err := x.observe(ctx, policy, turnLength)
			if err != nil {
				return nil, err
			}
			rate[policy] += run.Rate(turnLead) / 2
		}
		for policy, r := range rate {
			rounds[policy] = append(rounds[policy], bench.Round{Throughput: r, Alone: rate["fifo"]})
		}
	}
	return rounds, nil
}

// useLog keeps what an arbiter tells of the use of its GPU.
type useLog struct {
	mu  sync.Mutex
	all []arbiter.Use
}

func (l *useLog) add(u arbiter.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, u)
}

// begin forgets all, and returns from when on it is kept.
func (l *useLog) begin() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
	return time.Now()
}

// uses are those since begin.
func (l *useLog) uses() []arbiter.Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
