package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite/gloop"
)

// gloopSize are the sizes of a program's input: on the software GPU, in a quick bench of that, and on a card, where
// programs then run for 50 ms or more.
type gloopSize struct{ soft, quick, card int }

var gloopSizes = map[string]gloopSize{
	"throttle": {soft: 200, quick: 8, card: 64}, "tpacf": {soft: 16, quick: 4, card: 400}, "lavamd": {soft: 27, quick: 8, card: 65536},
	"mummergpu": {soft: 16, quick: 8, card: 2048}, "hybridsort": {soft: 32, quick: 8, card: 2048},
	"grep": {soft: 16, quick: 4, card: 256}, "img": {soft: 16, quick: 4, card: 1024},
	"echo": {soft: 16, quick: 2, card: 16}, "matmul": {soft: 16, quick: 2, card: 16},
}

// size is that of a program's input.
func (b *gloopBench) size(program string) int {
	if b.quick && !b.dev.device.kind().far {
		return min(gloopSizes[program].quick*b.scale, gloop.MaxSize)
	}
	return b.full(program)
}

// full is size of a bench that is not quick.
func (b *gloopBench) full(program string) int {
	n := gloopSizes[program].soft
	if b.dev.device.kind().far {
		n = gloopSizes[program].card
	}
	return min(n*b.scale, gloop.MaxSize)
}

// guest starts a guest that runs `gdev gloop` with arguments. socket is the arbiter's, "" for none.
func (b *gloopBench) guest(socket, name string, weight uint32, args ...string) (*spinner, error) {
	command := []string{"run"}
	if b.vm {
		command = machineCommand()
	}
	dev := (&fairFlags{dev: b.dev}).guestDevice(socket, name, weight)
	return startGuest(name, append(append(append(command, dev.args()...), "--", "gdev", "gloop"), args...))
}

// together starts guests that serve requests, n of them, under a policy if there is an arbiter, and
// calls do with them.
func (b *gloopBench) together(ctx context.Context, policy string, n int, do func(guests spinners) error) (err error) {
	var a *fairArbiter
	socket := ""
	if policy != "" {
		if a, err = (&fairFlags{dev: b.dev}).startArbiter(ctx, b.log, policy); err != nil {
			return err
		}
		socket = a.socket
		defer func() { err = errors.Join(err, a.stop()) }()
	}
	var guests spinners
	defer func() { err = errors.Join(err, guests.end()) }()
	for i := range n {
		s, err := b.guest(socket, fmt.Sprintf("guest-%d", i+1), 1, "--serve")
		if err != nil {
			return err
		}
		guests = append(guests, s)
	}
	return do(guests)
}

// ask has a guest run a program.
func (s *spinner) ask(program string, o gloop.Options) error {
	line, err := json.Marshal(gloop.Request{Program: program, Options: o})
	if err == nil {
		_, err = s.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, errors.Join(err, errSaidAbove))
	}
	return nil
}

// answer is the result of what the guest was asked for.
func (s *spinner) answer(ctx context.Context) (r gloop.Result, err error) {
	line, err := s.line(ctx)
	if err == nil {
		err = json.Unmarshal([]byte(line), &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s said %q: %w", s.name, line, errors.Join(err, errSaidAbove))
	}
	return r, nil
}

// runAll has all guests run a program at the same time. The sample's times are those of the last one
// to end.
func (all spinners) runAll(ctx context.Context, program string, o gloop.Options, row *bench.GLoopRow) (x bench.GLoopSample, err error) {
	for _, s := range all {
		if err := s.ask(program, o); err != nil {
			return x, err
		}
	}
	row.Verified = row.Error == ""
	row.Launches = 0
	for _, s := range all {
		r, err := s.answer(ctx)
		if err != nil {
			return x, err
		}
		p := r.Seconds
		x.Total, x.Kernel = max(x.Total, p.Total()-p.Init-p.Fin), max(x.Kernel, p.Kernel)
		x.Points = max(x.Points, float64(r.Points))
		row.Launches += r.Launches
		if !r.Verified {
			row.Verified, row.Error = false, r.Error
		}
	}
	return x, nil
}

// contender is a guest that repeats a program while others do.
type contender struct {
	program string
	weight  uint32
	options gloop.Options
}

// spinArgs are the arguments of `gdev gloop` for it.
func (c contender) spinArgs() []string {
	args := []string{"--spin", "--version", string(c.options.Version), "--size", fmt.Sprint(c.options.Size),
		"--pause", c.options.Pause.String(), "--slice", c.options.Slice.String()}
	if c.options.Dir != "" {
		args = append(args, "--dir", c.options.Dir)
	}
	if c.options.Bounce {
		args = append(args, "--bounce")
	}
	return append(args, c.program)
}

// contend has guests share the GPU for a while, and returns how they used it and whether all
// results were right.
func (b *gloopBench) contend(ctx context.Context, contenders []contender) (run *bench.FairRun, right error, err error) {
	fair := &fairFlags{dev: b.dev}
	a, err := fair.startArbiter(ctx, b.log, b.policy)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	x := &contest{fairArbiter: a}
	defer func() { err = errors.Join(err, x.spinners.end()) }()
	for i, c := range contenders {
		g := bench.FairGuest{Name: fmt.Sprintf("guest-%d", i+1), Workload: c.program, Weight: c.weight}
		s, err := b.guest(a.socket, g.Name, g.Weight, c.spinArgs()...)
		if err != nil {
			return nil, nil, err
		}
		x.spinners, x.guests = append(x.spinners, s), append(x.guests, g)
	}
	if err := x.spinners.waitReady(ctx); err != nil {
		return nil, nil, err
	}
	if err := pause(ctx, min(settling, b.length/2)); err != nil {
		return nil, nil, err
	}
	if err := x.spinners.begin(); err != nil {
		return nil, nil, err
	}
	if run, err = x.observe(ctx, b.policy, b.length); err != nil {
		return nil, nil, err
	}
	for _, s := range x.spinners {
		_ = s.stdin.Close() // which ends it
	}
	for i, s := range x.spinners {
		var spun gloop.Spun
		line, err := s.line(ctx)
		if err == nil {
			err = json.Unmarshal([]byte(line), &spun)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s said %q at its end: %w", s.name, line, errors.Join(err, errSaidAbove))
		}
		run.Guests[i].Kernels, run.Guests[i].Ran = int(spun.Units), time.Duration(spun.Seconds*float64(time.Second))
		if !spun.Result.Verified {
			right = errors.Join(right, fmt.Errorf("%s: %s", contenders[i].program, spun.Result.Error))
		}
	}
	return run, right, nil
}
