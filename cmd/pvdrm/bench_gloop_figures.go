package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite/gloop"
)

func (b *gloopBench) options(program string, v gloop.Version) gloop.Options {
	o := gloop.Options{Version: v, Size: b.size(program), Bounce: b.bounce}
	if program == "grep" {
		o.Dir = b.dir
	}
	return o
}

// gloopSide is one of several things that are run in turns.
type gloopSide struct {
	program string
	options gloop.Options
	row     bench.GLoopRow
	samples []bench.GLoopSample
	guests  spinners // nil for those that turns is called with
}

// turns runs sides in turns, in rounds of which the first does not count, and reports them against
// the side with the number base.
func (b *gloopBench) turns(ctx context.Context, guests spinners, sides []gloopSide, base int) error {
	for round := range b.rounds {
		for i := range sides {
			s := &sides[(i+round)%len(sides)] // each is first at times
			all := guests
			if s.guests != nil {
				all = s.guests
			}
			x, err := all.runAll(ctx, s.program, s.options, &s.row)
			if err != nil {
				return err
			}
			if round > 0 || b.rounds == 1 {
				s.samples = append(s.samples, x)
			}
		}
	}
	for _, s := range sides {
		b.report.Rows = append(b.report.Rows, bench.NewGLoopRow(s.row, s.samples, sides[base].samples))
	}
	return nil
}

// sides are versions of a program, a row for each.
func (b *gloopBench) sides(figure, program, base string, versions ...gloop.Version) (all []gloopSide) {
	for _, v := range versions {
		all = append(all, gloopSide{program: program, options: b.options(program, v),
			row: bench.GLoopRow{Figure: figure, Program: program, Version: string(v), Guests: 1, Base: base}})
	}
	return all
}

// alone is Figure 5.5.
func (b *gloopBench) alone(ctx context.Context, figure string) error {
	return b.together(ctx, "", 1, func(guests spinners) error {
		for _, p := range gloop.Programs() {
			if len(b.programs) > 0 && !slices.Contains(b.programs, p.Name) {
				continue
			}
			base := slices.Index(gloop.Versions, gloop.Vanilla)
			if p.Name == "throttle" {
				base = slices.Index(gloop.Versions, gloop.Split)
			}
			sides := b.sides(figure, p.Name, string(gloop.Versions[base]), gloop.Versions...)
			if p.Name == "throttle" {
				fewer := b.sides(figure, p.Name, string(gloop.Versions[base]), gloop.GLoop)[0]
				fewer.options.If, fewer.row.Case = true, "postTaskIfNecessary"
				sides = append(sides, fewer)
			}
			if err := b.turns(ctx, guests, sides, base); err != nil {
				return err
			}
		}
		return nil
	})
}

// grep is Figure 5.6: warm, then with files that the machine's kernel has forgotten, and GNU grep if
// there is a directory.
func (b *gloopBench) grep(ctx context.Context, figure string) error {
	return b.together(ctx, "", 1, func(guests spinners) error {
		for _, cold := range []bool{false, true} {
			sides := b.sides(figure, "grep", string(gloop.Vanilla), gloop.Vanilla, gloop.GLoop, gloop.NoShared, gloop.Split)
			for i := range sides {
				sides[i].options.Cold = cold
				if cold {
					sides[i].row.Case = "cold"
				}
			}
			if err := b.turns(ctx, guests, sides, 0); err != nil {
				return err
			}
		}
		return b.gnuGrep(ctx, figure)
	})
}

// images are Figures 5.7 and 5.8.
func (b *gloopBench) images(ctx context.Context, figure string) error {
	return b.together(ctx, "", 1, func(guests spinners) error {
		return b.turns(ctx, guests, b.sides(figure, "img", string(gloop.Vanilla), gloop.Vanilla, gloop.GLoop, gloop.NoShared, gloop.Split), 0)
	})
}

// counts are numbers of guests, doubled from 1 to --most.
func (b *gloopBench) counts() (all []int) {
	for n := 1; n <= b.most; n *= 2 {
		all = append(all, n)
	}
	return all
}

// throttles is Figure 5.9. Each case is run with all numbers of guests.
func (b *gloopBench) throttles(ctx context.Context, figure string) error {
	type variant struct {
		name            string
		threads, blocks int
		slice           time.Duration
	}
	const slice = 10 * time.Millisecond
	variants := []variant{
		{name: "1 thread", threads: 1, blocks: 1, slice: slice}, {name: "32 threads", threads: 32, blocks: 1, slice: slice},
		{name: "1024 threads", threads: 1024, blocks: 1, slice: slice}, {name: "30 blocks", threads: 1, blocks: 30, slice: slice},
		{name: "240 blocks", threads: 1, blocks: 240, slice: slice},
		{name: "slice 100µs", threads: 1, blocks: 1, slice: 100 * time.Microsecond}, {name: "slice 1ms", threads: 1, blocks: 1, slice: time.Millisecond},
		{name: "slice 10ms", threads: 1, blocks: 1, slice: slice},
	}
	var one []bench.GLoopSample // of the first variant, one guest
	for _, v := range variants {
		for _, n := range b.counts() {
			progress("figure %s: %d throttles, %s", figure, n, v.name)
			row := bench.GLoopRow{Figure: figure, Program: "throttle", Version: string(gloop.GLoop), Case: v.name, Guests: n, Base: "one with 1 thread"}
			o := b.options("throttle", gloop.GLoop)
			o.Threads, o.Blocks, o.Slice = v.threads, v.blocks, v.slice
			o.Size = max(o.Size/max(v.blocks/8, v.threads/128, 1), 1) // about as much work
			if err := b.repeat(ctx, "wfq:"+v.slice.String(), "throttle", o, row, &one); err != nil {
				return err
			}
		}
	}
	return nil
}

// repeat runs a program in row.Guests guests at the same time, in rounds of which the first does not
// count, and reports it against one, which are the first samples of all.
func (b *gloopBench) repeat(ctx context.Context, policy, program string, o gloop.Options, row bench.GLoopRow, one *[]bench.GLoopSample) error {
	var samples []bench.GLoopSample
	err := b.together(ctx, policy, row.Guests, func(guests spinners) error {
		for round := range b.rounds {
			x, err := guests.runAll(ctx, program, o, &row)
			if err != nil {
				return err
			}
			if round > 0 || b.rounds == 1 {
				samples = append(samples, x)
			}
		}
		return nil
	})
	if *one == nil {
		*one = samples
	}
	b.report.Rows = append(b.report.Rows, bench.NewGLoopRow(row, samples, *one))
	return err
}

// instances is Figure 5.10.
func (b *gloopBench) instances(ctx context.Context, figure string) error {
	for _, program := range []string{"tpacf", "grep"} {
		var one []bench.GLoopSample
		for _, n := range b.counts() {
			row := bench.GLoopRow{Figure: figure, Program: program, Version: string(gloop.GLoop), Guests: n, Base: "one"}
			if err := b.repeat(ctx, b.policy, program, b.options(program, gloop.GLoop), row, &one); err != nil {
				return err
			}
		}
	}
	return nil
}

// preemption is Figure 5.17: event loops against kernels that the device preempts, and against the same
// kernels where it does not, with looks at a signal that it puts into them (auto).
func (b *gloopBench) preemption(ctx context.Context, figure string) error {
	points := *b.gloopFlags
	points.dev.points = true
	auto := &gloopBench{gloopFlags: &points, log: b.log}
	for n := range min(b.most, 6) {
		err := b.together(ctx, b.policy, n+1, func(guests spinners) error {
			return auto.together(ctx, b.policy+wholeCommands, n+1, func(others spinners) error {
				sides := b.sides(figure, "lavamd", string(gloop.Vanilla), gloop.Vanilla, gloop.GLoop, gloop.Vanilla)
				sides[2].guests, sides[2].row.Version = others, bench.GLoopAuto
				for i := range sides {
					sides[i].row.Guests = n + 1
				}
				return b.turns(ctx, guests, sides, 0)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// gloopApp names the program of a figure with shares.
func gloopApp(figure string) string {
	if figure == "5.12" || figure == "5.14" {
		return "grep"
	}
	return "tpacf"
}

// throttlesBeside are a program with a weight and n throttles of weight 1.
func (b *gloopBench) throttlesBeside(program string, weight uint32, n int) []contender {
	app := b.options(program, gloop.GLoop)
	app.Size = min(gloopSizes[program][0]*b.scale, gloop.MaxSize) // in quick benches too: between two runs it needs no GPU
	all := []contender{{program: program, weight: weight, options: app}}
	throttle := b.options("throttle", gloop.GLoop)
	throttle.Size = min(gloopSizes["throttle"][0]*b.scale, gloop.MaxSize)
	for range n {
		all = append(all, contender{program: "throttle", weight: 1, options: throttle})
	}
	return all
}

// equal is Figures 5.11 and 5.12.
func (b *gloopBench) equal(ctx context.Context, figure string) error {
	for _, n := range []int{1, 3, 7} {
		if n >= b.most {
			break
		}
		if _, err := b.shares(ctx, figure, "equal weights", b.throttlesBeside(gloopApp(figure), 1, n)); err != nil {
			return err
		}
	}
	return nil
}

// twoThirds is Figures 5.13 and 5.14.
func (b *gloopBench) twoThirds(ctx context.Context, figure string) error {
	for _, n := range []int{1, 3, 7} {
		if n >= b.most {
			break
		}
		if _, err := b.shares(ctx, figure, "two thirds", b.throttlesBeside(gloopApp(figure), uint32(2*n), n)); err != nil {
			return err
		}
	}
	return nil
}

// shares has guests share the GPU, and reports them.
func (b *gloopBench) shares(ctx context.Context, figure, what string, contenders []contender) ([]bench.GLoopRow, error) {
	progress("figure %s: %d guests", figure, len(contenders))
	run, right, err := b.contend(ctx, contenders)
	if err != nil {
		return nil, err
	}
	row := bench.GLoopRow{Figure: figure, Version: string(gloop.GLoop), Case: what, Verified: right == nil}
	if right != nil {
		row.Error = right.Error()
	}
	rows := bench.GLoopShares(row, run)
	b.report.Rows = append(b.report.Rows, rows...)
	b.report.Runs = append(b.report.Runs, bench.GLoopRun{Figure: figure, Run: run})
	return rows, nil
}

// gloopThink is how long clients of a server wait, so that it needs a part of the GPU only.
const gloopThink = 30 * time.Millisecond

func (b *gloopBench) server(weight uint32) contender {
	o := b.options("matmul", gloop.GLoop)
	o.Pause = gloopThink
	return contender{program: "matmul", weight: weight, options: o}
}

// servers is Figure 5.15.
func (b *gloopBench) servers(ctx context.Context, figure string) error {
	all := []contender{b.server(20), b.server(20), b.server(20), {program: "throttle", weight: 40, options: b.options("throttle", gloop.GLoop)}}
	_, err := b.shares(ctx, figure, "20 % each", all)
	return err
}

// arrivals is Figure 5.16: a server alone, and beside three others.
func (b *gloopBench) arrivals(ctx context.Context, figure string) error {
	before, err := b.shares(ctx, figure, "before", []contender{b.server(60)})
	if err != nil {
		return err
	}
	tpacf := contender{program: "tpacf", weight: 80, options: b.options("tpacf", gloop.GLoop)}
	after, err := b.shares(ctx, figure, "20 %, beside three tpacf", []contender{b.server(60), tpacf, tpacf, tpacf})
	if err != nil {
		return err
	}
	if before[0].Rate == 0 {
		return errors.New("the server alone answered no request")
	}
	rows := b.report.Rows
	server := &rows[len(rows)-len(after)]
	server.Ratio, server.Base = server.Rate/before[0].Rate, "before"
	return nil
}

// start measures how long another guest's kernel takes beside a throttle.
func (b *gloopBench) start(ctx context.Context, figure string) (err error) {
	fair := &fairFlags{dev: b.dev}
	a, err := fair.startArbiter(ctx, b.log, b.policy)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	c := contender{program: "throttle", options: b.options("throttle", gloop.GLoop)}
	s, err := b.guest(a.socket, "throttle", 1, c.spinArgs()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spinners{s}.end()) }()
	if err := (spinners{s}).waitReady(ctx); err != nil {
		return err
	}
	count := 300
	if b.quick {
		count = 60
	}
	probes, err := (&preemptFlags{dev: b.dev, count: count, pause: 7 * time.Millisecond}).probe(ctx, a.socket)
	if err != nil {
		return err
	}
	x := bench.NewPreemptRow(bench.PreemptOff, "", b.policy, took(probes), 0)
	b.report.Rows = append(b.report.Rows, bench.GLoopRow{Figure: figure, Program: "throttle", Version: string(gloop.GLoop), Guests: 2, Verified: true,
		Seconds: x.P99 / 1e6, Case: fmt.Sprintf("p99 of %d, median %.2f ms", x.Count, x.P50/1e3)})
	return nil
}
