// Package agent is how `pvdrm bench` runs programs in other places: a process
// there (`gdev agent` in a guest, `pvdrm bench-native` on the bare device)
// reads requests on its standard input and answers on its standard output, one
// JSON object a line, one request at a time, until the input ends.
package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"pvdrm/hypercall/trap"
	"pvdrm/internal/bench/micro"
	"pvdrm/internal/suite"
)

// Request asks for one thing: Hello, a run of Bench, or the micro-benchmarks.
type Request struct {
	Hello  bool          `json:"hello,omitempty"`
	Bench  string        `json:"bench,omitempty"`  // name of a program
	Scale  int           `json:"scale,omitempty"`  // of its input; 0 is 1
	Trial  bool          `json:"trial,omitempty"`  // leave out the check of the result; the native agent does
	Apart  bool          `json:"apart,omitempty"`  // wait for copies before kernels; see suite.Options
	Known  string        `json:"known,omitempty"`  // digest of a result that needs no check; see suite.Options
	Floor  bool          `json:"floor,omitempty"`  // without a GPU; see package floor
	Micro  bool          `json:"micro,omitempty"`  // all micro-benchmarks
	Budget time.Duration `json:"budget,omitempty"` // of each micro-benchmark
	Config string        `json:"config,omitempty"` // value of frontend.ConfigEnv
	// Contexts runs Bench in so many contexts at the same time, for Answer.Results.
	Contexts int `json:"contexts,omitempty"`
}

// Answer answers a Request.
type Answer struct {
	Hello  *Hello         `json:"hello,omitempty"`
	Result *suite.Result  `json:"result,omitempty"`
	Micro  []micro.Result `json:"micro,omitempty"`
	// Results belong to a Request with Contexts.
	Results []suite.Result `json:"results,omitempty"`
	// DeviceSeconds is how long the engines of the device worked during the run,
	// where the agent knows.
	DeviceSeconds float64 `json:"device_seconds,omitempty"`
	// Phases are the counters of a guest of GPUvm, by phase and in all ("total").
	Phases map[string]PhaseCounts `json:"phases,omitempty"`
	Error  string                 `json:"error,omitempty"` // why there is no result
}

// PhaseCounts is what GPUvm counted during a phase of a program.
type PhaseCounts struct {
	trap.Counters
	Doorbells uint64
}

// Add returns the sum.
func (c PhaseCounts) Add(o PhaseCounts) PhaseCounts {
	return PhaseCounts{Counters: c.Sub(trap.Counters{}.Sub(o.Counters)), Doorbells: c.Doorbells + o.Doorbells}
}

// Since returns what was counted since an earlier time.
func (c PhaseCounts) Since(o PhaseCounts) PhaseCounts {
	return PhaseCounts{Counters: c.Sub(o.Counters), Doorbells: c.Doorbells - o.Doorbells}
}

// ByPhase runs a program with what counts, and returns the counters by phase.
func ByPhase(counts func() PhaseCounts, run func(passed func(phase string)) error) (map[string]PhaseCounts, error) {
	phases := map[string]PhaseCounts{}
	first := counts()
	last := first
	err := run(func(phase string) {
		now := counts()
		phases[phase] = phases[phase].Add(now.Since(last))
		last = now
	})
	phases["total"] = counts().Since(first)
	return phases, err
}

// Together runs a program n times at the same time.
func Together(n int, run func() (suite.Result, error)) (results []suite.Result, err error) {
	results = make([]suite.Result, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i], errs[i] = run() })
	}
	all.Wait()
	return results, errors.Join(errs...)
}

// Hello tells where an agent runs.
type Hello struct {
	System     string `json:"system"`    // name and release of the kernel
	Processor  string `json:"processor"` // model
	Processors int    `json:"processors"`
	Device     string `json:"device,omitempty"` // of the native agent
}

// Serve answers requests from in on out until in ends. A request that fails is
// answered with its error; the error of Serve is one of reading or writing.
func Serve(in io.Reader, out io.Writer, handle func(Request) (Answer, error)) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var req Request
		if err := dec.Decode(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		a, err := handle(req)
		if err != nil {
			a = Answer{Error: err.Error()}
		}
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}

// Client sends requests to an agent.
type Client struct {
	to   io.WriteCloser
	from *bufio.Reader
}

// NewClient talks to the agent behind two streams.
func NewClient(to io.WriteCloser, from io.Reader) *Client {
	return &Client{to, bufio.NewReader(from)}
}

// Do sends a request and waits for its answer. When ctx ends it gives up, and
// the Client must not be used any more but for Close. What an agent reports as
// an error is an error.
func (c *Client) Do(ctx context.Context, req Request) (Answer, error) {
	type outcome struct {
		a   Answer
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		o.a, o.err = c.do(req)
		done <- o
	}()
	select {
	case o := <-done:
		return o.a, o.err
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

func (c *Client) do(req Request) (a Answer, err error) {
	b, err := json.Marshal(req)
	if err != nil {
		return a, err
	}
	if _, err := c.to.Write(append(b, '\n')); err != nil {
		return a, fmt.Errorf("the agent is gone: %w", err)
	}
	line, err := c.from.ReadBytes('\n')
	if err != nil {
		return a, fmt.Errorf("the agent ended instead of answering: %w", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("the agent answered %q: %w", line, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// Close ends the agent's input, and so the agent. It does not wait for it.
func (c *Client) Close() error { return c.to.Close() }
