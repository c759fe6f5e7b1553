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

	// run, if it is not nil, is what runs in place of a program in guests.
	run func(context.Context, *bench.GLoopRow) (bench.GLoopSample, error)
}

// once runs a side once.
func (s *gloopSide) once(ctx context.Context, guests spinners) (bench.GLoopSample, error) {
	if s.run != nil {
		return s.run(ctx, &s.row)
	}
	if s.guests != nil {
		guests = s.guests
	}
	return guests.runAll(ctx, s.program, s.options, &s.row)
}

// turns runs sides in turns, in rounds of which the first does not count, and reports them against
// the side with the number base.
func (b *gloopBench) turns(ctx context.Context, guests spinners, sides []gloopSide, base int) error {
	for round := range b.rounds {
		for i := range sides {
			s := &sides[(i+round)%len(sides)] // each is first at times
			x, err := s.once(ctx, guests)
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
			base, versions := 0, b.versions
			if p.Name == "throttle" { // is compared with split
				versions = gloop.Versions
				base = slices.Index(versions, gloop.Split)
			}
			sides := b.sides(figure, p.Name, string(versions[base]), versions...)
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

// images are Figures 5.7 and 5.8.
func (b *gloopBench) images(ctx context.Context, figure string) error {
	return b.together(ctx, "", 1, func(guests spinners) error {
		return b.turns(ctx, guests, b.sides(figure, "img", string(gloop.Vanilla), b.versions...), 0)
	})
}

// counts are numbers of guests, doubled from 1 to --most; of a quick bench the first and the last.
func (b *gloopBench) counts() (all []int) {
	for n := 1; n <= b.most; n *= 2 {
		all = append(all, n)
	}
	if b.quick {
		all = slices.Compact([]int{all[0], all[len(all)-1]})
	}
	return all
}

// throttleCase is a case of Figure 5.9.
type throttleCase struct {
	name            string
	threads, blocks int
	slice           time.Duration
	long            bool // not of a quick bench
}

// throttleCases begin with the one that others are compared with. Those of a slice follow each other.
var throttleCases = []throttleCase{
	{name: "1 thread", threads: 1, blocks: 1, slice: loopSlice}, {name: "32 threads", threads: 32, blocks: 1, slice: loopSlice, long: true},
	{name: "1024 threads", threads: 1024, blocks: 1, slice: loopSlice}, {name: "30 blocks", threads: 1, blocks: 30, slice: loopSlice},
	{name: "240 blocks", threads: 1, blocks: 240, slice: loopSlice, long: true},
	{name: "slice 10ms", threads: 1, blocks: 1, slice: loopSlice},
	{name: "slice 1ms", threads: 1, blocks: 1, slice: time.Millisecond, long: true},
	{name: "slice 100µs", threads: 1, blocks: 1, slice: 100 * time.Microsecond},
}

// loopSlice is a loop's slice, where nothing else is said.
const loopSlice = 10 * time.Millisecond

// throttles is Figure 5.9. Each case is run with all numbers of guests.
func (b *gloopBench) throttles(ctx context.Context, figure string) error {
	var one []bench.GLoopSample // of the first case, one guest
	for list := throttleCases; len(list) > 0; {
		n := 1 // cases under one policy have the same guests
		for n < len(list) && list[n].slice == list[0].slice {
			n++
		}
		err := b.together(ctx, "wfq:"+list[0].slice.String(), b.most, func(guests spinners) error {
			for _, c := range list[:n] {
				if err := b.throttle(ctx, figure, c, guests, &one); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// throttle runs a case.
func (b *gloopBench) throttle(ctx context.Context, figure string, c throttleCase, guests spinners, one *[]bench.GLoopSample) error {
	if c.long && b.quick {
		return nil
	}
	for _, n := range b.counts() {
		progress("figure %s: %d throttles, %s", figure, n, c.name)
		row := bench.GLoopRow{Figure: figure, Program: "throttle", Version: string(gloop.GLoop), Case: c.name, Guests: n, Base: "one with 1 thread"}
		o := b.options("throttle", gloop.GLoop)
		o.Threads, o.Blocks, o.Slice = c.threads, c.blocks, c.slice
		o.Size = max(o.Size/max(c.blocks/8, c.threads/128, 1), 1) // about as much work
		if err := b.repeat(ctx, guests[:n], "throttle", o, row, one); err != nil {
			return err
		}
	}
	return nil
}

// repeat runs a program in guests at the same time, in rounds of which the first does not count, and reports it
// against one, which are the first samples of all.
func (b *gloopBench) repeat(ctx context.Context, guests spinners, program string, o gloop.Options, row bench.GLoopRow, one *[]bench.GLoopSample) error {
	var samples []bench.GLoopSample
	for round := range b.rounds {
		x, err := guests.runAll(ctx, program, o, &row)
		if err != nil {
			return err
		}
		if round > 0 || b.rounds == 1 {
			samples = append(samples, x)
		}
	}
	if *one == nil {
		*one = samples
	}
	b.report.Rows = append(b.report.Rows, bench.NewGLoopRow(row, samples, *one))
	return nil
}

// instances is Figure 5.10.
func (b *gloopBench) instances(ctx context.Context, figure string) error {
	return b.together(ctx, b.policy, b.most, func(guests spinners) error {
		for _, program := range []string{"tpacf", "grep"} {
			var one []bench.GLoopSample
			for _, n := range b.counts() {
				row := bench.GLoopRow{Figure: figure, Program: program, Version: string(gloop.GLoop), Guests: n, Base: "one"}
				if err := b.repeat(ctx, guests[:n], program, b.options(program, gloop.GLoop), row, &one); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// preemption is Figure 5.17: event loops against kernels that the device preempts, and against the same
// kernels where it does not, with looks at a signal that it puts into them (auto).
func (b *gloopBench) preemption(ctx context.Context, figure string) error {
	points := *b.gloopFlags
	points.dev.points = true
	auto := &gloopBench{gloopFlags: &points, log: b.log}
	most := min(b.most, 6)
	return b.together(ctx, b.policy, most, func(guests spinners) error {
		return auto.together(ctx, b.policy+wholeCommands, most, func(others spinners) error {
			for n := 1; n <= most; n++ {
				if b.quick && n > 1 && n < most {
					continue
				}
				sides := b.sides(figure, "lavamd", string(gloop.Vanilla), gloop.Vanilla, gloop.GLoop, gloop.Vanilla)
				for i := range sides {
					sides[i].guests, sides[i].row.Guests = guests[:n], n
				}
				sides[2].guests, sides[2].row.Version = others[:n], bench.GLoopAuto
				if err := b.turns(ctx, nil, sides, 0); err != nil {
					return err
				}
			}
			return nil
		})
	})
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
	app.Size = b.full(program) // in quick benches too: between two runs it needs no GPU
	all := []contender{{program: program, weight: weight, options: app}}
	throttle := b.options("throttle", gloop.GLoop)
	throttle.Size = b.full("throttle")
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
