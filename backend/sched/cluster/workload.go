package cluster

import (
	"math"
	"math/rand/v2"
	"time"

	"pvdrm/backend/sched"
)

// Mix is the part of the jobs that is user-facing.
type Mix struct {
	Name string
	User float64
}

// Mixes are those of TReM: of Google's and of Alibaba's clusters.
var Mixes = []Mix{{Name: "80:20", User: 0.8}, {Name: "50:50", User: 0.5}}

// MaxOutstanding is how many tasks of a batch job wait or run at most.
const MaxOutstanding = 8

// Means of the jobs' durations, and the shape of their distribution.
const (
	userDuration  = 5 * time.Second
	batchDuration = 600 * time.Second
	paretoShape   = 2
)

// Execution times of the programs' tasks on one GPU.
var (
	userTasks = []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond, 45 * time.Millisecond,
		60 * time.Millisecond, 80 * time.Millisecond, 100 * time.Millisecond, 130 * time.Millisecond, 170 * time.Millisecond}
	batchTasks = []time.Duration{46 * time.Second, 131 * time.Second, 311 * time.Second}
)

// job is a number of equal tasks.
type job struct {
	class  sched.Class
	length time.Duration // of a task
	left   int           // tasks that have not been issued

	// Of a batch job:
	number  int // among them, in order of arrival
	arrived time.Duration
	open    int // tasks that were issued and have not ended
}

// task is one execution of a job's program.
type task struct {
	job         *job
	arrived     time.Duration
	done        time.Duration // before it was revoked, and kept
	revocations int
}

// arrival is a job, or one task of a user-facing job, at its time.
type arrival struct {
	at   time.Duration
	job  *job
	task *task // nil for a batch job, which issues its tasks as others end
}

// arrivals draws a workload; they are not in order of time.
func arrivals(c Config, rng *rand.Rand) []arrival {
	mean := c.Mix.User*userDuration.Seconds() + (1-c.Mix.User)*batchDuration.Seconds()
	interval := mean / float64(c.GPUs) / c.Load
	var out []arrival
	at, batch := time.Duration(0), 0
	for range c.Jobs {
		at += seconds(rng.ExpFloat64() * interval)
		if rng.Float64() >= c.Mix.User {
			j := &job{class: sched.Batch, length: batchTasks[rng.IntN(len(batchTasks))], number: batch, arrived: at}
			batch++
			j.left = max(int(math.Round(float64(pareto(rng, batchDuration))/float64(j.length))), 1)
			out = append(out, arrival{at: at, job: j})
			continue
		}
		j := &job{class: sched.Latency, length: userTasks[rng.IntN(len(userTasks))]}
		end := at + pareto(rng, userDuration)
		for t := at; t < end; t += time.Duration(rng.ExpFloat64() * float64(j.length)) {
			out = append(out, arrival{at: t, job: j, task: &task{job: j, arrived: t}})
		}
	}
	return out
}

// pareto draws a duration of the given mean.
func pareto(rng *rand.Rand, mean time.Duration) time.Duration {
	least := float64(mean) * (paretoShape - 1) / paretoShape
	return time.Duration(least / math.Pow(1-rng.Float64(), 1./paretoShape))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
