package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// run adds the reports of five seeds.
func run(t *testing.T, c Config) (sum Report) {
	t.Helper()
	for c.Seed = range uint64(5) {
		r, err := Run(c)
		require.NoError(t, err)
		sum.Add(r)
	}
	return sum
}

// The part of the user-facing tasks that meet their SLA is at least TReM's; where
// batch tasks are not revoked it is less than two thirds of that. elastic revokes
// less than priority does.
func TestSLAMet(t *testing.T) {
	for mix, want := range map[Mix][2]float64{Mixes[0]: {0.99, 0.98}, Mixes[1]: {0.98, 0.96}} {
		for i, load := range []float64{1, 2} {
			c := Config{Policy: Elastic, Load: load, Mix: mix}
			elastic := run(t, c)
			require.GreaterOrEqual(t, elastic.SLAMet(), want[i], "%s, load %g", mix.Name, load)
			c.Policy = Priority
			priority := run(t, c)
			require.LessOrEqual(t, elastic.Revocations, priority.Revocations*86/100, "TReM has 14 to 33 %% less")
			require.Less(t, elastic.Lost, priority.Lost)
			c.Policy = Wait
			require.Less(t, run(t, c).SLAMet(), 0.6)
		}
	}
}

// Preemption in place of killing loses no more than starting again takes.
func TestKeep(t *testing.T) {
	for _, mix := range Mixes {
		c := Config{Policy: Elastic, Mix: mix, Keep: true}
		kept := run(t, c)
		require.Less(t, kept.LostPart(), 0.005)
		require.LessOrEqual(t, kept.Lost, time.Duration(kept.Revocations)*75*ms)
		c.Keep = false
		lost := run(t, c)
		require.Greater(t, lost.Lost, 10*kept.Lost)
		require.InDelta(t, kept.SLAMet(), lost.SLAMet(), 0.005)
		require.Equal(t, kept.Useful, lost.Useful, "all tasks end")
	}
}

// A longer revocation meets fewer SLAs; more GPUs meet more.
func TestLatencyAndGPUs(t *testing.T) {
	met := func(gpus int, latency time.Duration) float64 {
		return run(t, Config{Policy: Elastic, GPUs: gpus, Latency: latency}).SLAMet()
	}
	require.Greater(t, met(4, 2*ms), met(4, 100*ms))
	require.Greater(t, met(4, 100*ms), met(4, 1000*ms))
	require.Greater(t, met(4, 10*ms), 0.99)
	require.Greater(t, met(16, 22*ms), met(1, 22*ms))
}

// A task that has been revoked so often goes on to its end.
func TestRevocationLimit(t *testing.T) {
	free, bounded := run(t, Config{Policy: Priority}), run(t, Config{Policy: Priority, MaxRevocations: 3})
	require.Greater(t, free.MostRevoked, 3)
	require.Equal(t, 3, bounded.MostRevoked)
	require.Less(t, bounded.SLAMet(), free.SLAMet())
}

// At every moment each GPU does one thing, none is idle while a task that may have
// it waits, and batch tasks have no GPU that user-facing ones need.
func TestEachMoment(t *testing.T) {
	for i, policy := range append(Policies(), Elastic) {
		keep := i == len(Policies())
		for _, n := range []int{1, 4, 16} {
			t.Run(fmt.Sprintf("%s/%d/%v", policy, n, keep), func(t *testing.T) {
				sla := 200 * ms
				if keep {
					sla = 20 * ms // elastic holds GPUs for tasks that are to come
				}
				last, busy := State{}, time.Duration(0)
				report, err := Run(Config{Policy: policy, GPUs: n, Load: 2, SLA: sla, Seed: uint64(n), Keep: keep, Check: func(s State) {
					require.GreaterOrEqual(t, s.Now, last.Now)
					busy += time.Duration(last.UserRuns+last.BatchRuns) * (s.Now - last.Now)
					last = s
					require.LessOrEqual(t, s.BatchRuns-s.Ending, n-s.Needed, "batch tasks have GPUs that others need")
					require.Equal(t, n, s.UserRuns+s.BatchRuns+s.Idle+s.Revoking)
					if s.UserWaits > 0 {
						require.Zero(t, s.Idle)
					}
					if s.BatchWaits > 0 && s.Idle > 0 {
						require.GreaterOrEqual(t, s.BatchRuns+s.Needed, n, "a GPU that no task may use")
					}
				}})
				require.NoError(t, err)
				require.Equal(t, busy, report.Useful+report.Lost, "the GPUs' time is accounted for")
				for _, took := range report.Batch {
					require.GreaterOrEqual(t, took, batchTasks[0], "each batch job ended")
				}
			})
		}
	}
}

func TestSameSeedSameReport(t *testing.T) {
	a, err := Run(Config{Policy: Elastic, Seed: 7})
	require.NoError(t, err)
	b, err := Run(Config{Policy: Elastic, Seed: 7})
	require.NoError(t, err)
	require.Equal(t, a, b)
	c, err := Run(Config{Policy: Elastic, Seed: 8})
	require.NoError(t, err)
	require.NotEqual(t, a, c)
}

func TestRefusedConfigs(t *testing.T) {
	for _, c := range []Config{{}, {Policy: "luck"}, {Policy: Elastic, GPUs: -1}, {Policy: Elastic, Load: -1},
		{Policy: Elastic, Jobs: -1}, {Policy: Elastic, SLA: -1}, {Policy: Elastic, Mix: Mix{User: 2}}} {
		_, err := Run(c)
		require.ErrorIs(t, err, ErrConfig, "%+v", c)
	}
}
