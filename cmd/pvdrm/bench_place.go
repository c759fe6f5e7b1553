package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"pvdrm/internal/bench"
	"pvdrm/internal/bench/agent"
	"pvdrm/internal/bench/micro"
)

// agentProcess is an agent in a pvdrm of its own: `pvdrm bench-native`, or
// `gdev agent` under `pvdrm run` or `pvdrm up`.
type agentProcess struct {
	*agent.Client
	cmd   *exec.Cmd
	hello agent.Hello
}

// ownProgram is pvdrm's own file.
func ownProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding pvdrm's own file: %w", err)
	}
	return self, nil
}

// startAgent starts an agent of a pvdrm for a mode, on a device that arguments choose.
func (f *benchFlags) startAgent(ctx context.Context, program string, mode bench.Mode, device []string) (*agentProcess, error) {
	cmd := exec.Command(program, f.agentArgs(mode, device)...)
	if env := f.dev.device.kind().nativeEnv; env != nil && mode == bench.Native {
		cmd.Env = env(os.Environ())
	}
	return startAgent(ctx, cmd)
}

// startPiped starts a program with pipes for its input and output. It ends when its input
// is closed.
func startPiped(cmd *exec.Cmd) (to io.WriteCloser, from io.ReadCloser, err error) {
	cmd.Stderr = os.Stderr
	// A session of its own: ^C is for us, and we end it by closing its input. The
	// main goroutine, which starts it, never leaves its thread; see main.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if to, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if from, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	return to, from, cmd.Start()
}

// startAgent starts an agent by its command and waits until it answers, which in a virtual
// machine means that the machine is up.
func startAgent(ctx context.Context, cmd *exec.Cmd) (*agentProcess, error) {
	to, from, err := startPiped(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting pvdrm %s: %w", cmd.Args[1], err)
	}
	a := &agentProcess{Client: agent.NewClient(to, from), cmd: cmd}
	answer, err := a.Do(ctx, agent.Request{Hello: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pvdrm %s: %w", cmd.Args[1], err), a.stop())
	}
	if answer.Hello != nil {
		a.hello = *answer.Hello
	}
	return a, nil
}

// withoutPreemption adds to the value of GODEBUG that goroutines are not stopped at any
// instruction. Where Go is built with its SIMD package, a thread on which that has
// happened once runs scalar floating point at a fifth of its speed, since the upper
// halves of its vector registers count as used. The checks of programs are such code,
// and on an NVIDIA GPU, where nothing else of pvdrm computes, took most of the time.
func withoutPreemption(godebug string) string {
	const off = "asyncpreemptoff=1"
	if godebug == "" {
		return off
	}
	return godebug + "," + off
}

// stop ends the agent: by the end of its input, else by a signal, else by force.
func (a *agentProcess) stop() error {
	err := a.Close()
	ended := make(chan error, 1)
	go func() { ended <- a.cmd.Wait() }()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case e := <-ended:
			return errors.Join(err, e)
		case <-time.After(15 * time.Second):
			_ = a.cmd.Process.Signal(sig) // it may have ended just now
		}
	}
	return errors.Join(err, <-ended)
}

// place is a series that an agent runs.
type place struct {
	agent  *agentProcess
	series bench.Series
	budget time.Duration     // of each micro-benchmark
	scales map[string]int    // of programs' input
	known  map[string]string // digests of the results of programs on scaled input that were checked
	apart  bool              // copies end before kernels begin
	// processors is how many the agent has, or 0 for all.
	processors int
}

// Series implements bench.Place.
func (p place) Series() bench.Series { return p.series }

// config is what the frontend is told.
func (p place) config() string { return bench.Switches(p.series.Config) }

// Run implements bench.Place.
func (p place) Run(ctx context.Context, name string, round int) (bench.Sample, error) {
	a, err := p.agent.Do(ctx, agent.Request{Bench: name, Scale: p.scales[name], Known: p.known[name], Apart: p.apart,
		Floor: p.series.Mode == bench.Floor, Config: p.config()})
	if err != nil {
		return bench.Sample{}, err
	}
	if a.Result == nil {
		return bench.Sample{}, errors.New("the agent answered without a result")
	}
	if a.Result.Verified && a.Result.Digest != "" {
		p.known[name] = a.Result.Digest
	}
	s := bench.NewSample(p.series, round, *a.Result, a.DeviceSeconds)
	s.Processors = p.processors
	return s, nil
}

// Micro implements bench.Place.
func (p place) Micro(ctx context.Context) ([]micro.Result, error) {
	a, err := p.agent.Do(ctx, agent.Request{Micro: true, Budget: p.budget, Config: p.config()})
	return a.Micro, err
}
