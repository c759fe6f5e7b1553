package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"pvdrm/drm"
	"pvdrm/drm/trace"
	"pvdrm/frontend"
	"pvdrm/gem"
	"pvdrm/hypercall"
	"pvdrm/internal/suite"
)

// fileCounters is what one DRM file of a program counted, on both ends.
type fileCounters struct {
	Bench   string                `json:"bench"`
	Backend hypercall.Counters    `json:"backend"`
	Waits   frontend.WaitCounters `json:"waits"`
	Pool    gem.PoolCounters      `json:"pool"`
}

// counterLog takes the counters of files as they are closed, which happens on
// the goroutine that runs the programs.
type counterLog struct {
	closed []fileCounters
	cards  []cardCounts
}

// onCard runs programs on a card, whose counters it keeps.
func (l *counterLog) onCard(g *cardGPU) runner {
	return func(name string, opts suite.Options) (suite.Result, error) {
		before := g.counts().Counters
		res, err := g.run(name, opts)
		l.cards = append(l.cards, cardCounts(g.counts().Sub(before)))
		return res, err
	}
}

// countedFile is a file whose counters are read before it is closed.
type countedFile struct {
	*frontend.File
	log *counterLog
}

// Close is part of drm.File.
func (f *countedFile) Close() error {
	if c, err := f.Counters(); err == nil { // a file that is lost has none
		c.Doorbells, c.Interrupts = 0, 0 // of the whole guest since its start: nobody's here
		f.log.closed = append(f.log.closed, fileCounters{Backend: c, Waits: f.Waits(), Pool: f.Pool()})
	}
	return f.File.Close()
}

// open opens a file that is counted.
func (l *counterLog) open() (drm.File, error) {
	file, err := frontend.OpenDefault()
	if err != nil {
		return nil, err
	}
	return trace.FromEnv(&countedFile{file, l})
}

// print writes what the files of a program counted that were closed since the last call.
func (l *counterLog) print(w io.Writer, bench string, asJSON bool) error {
	closed, cards := l.closed, l.cards
	l.closed, l.cards = nil, nil
	for _, c := range cards {
		if err := c.print(w, bench, asJSON); err != nil {
			return err
		}
	}
	for _, c := range closed {
		c.Bench = bench
		if asJSON {
			if err := json.NewEncoder(w).Encode(struct {
				Counters fileCounters `json:"counters"`
			}{c}); err != nil {
				return err
			}
			continue
		}
		b, ms := c.Backend, func(ns uint64) float64 { return time.Duration(ns).Seconds() * 1e3 }
		_, err := fmt.Fprintf(w, "  ring       %d entries in %d multicalls, the largest of %d; %d batches of commands\n"+
			"  memory     %d grants, %d KiB; %d PTEs; objects: %d with a grant of their own, %d from the pool, %d in the slab\n"+
			"  backend    polled %.2f ms, slept %d times, %.2f ms\n"+
			"  program    polled %.2f ms, slept %d times, %.2f ms\n",
			b.Requests, b.Multicalls, b.LargestMulticall, b.Batches,
			b.Grants, b.GrantedBytes>>10, b.PTEs, c.Pool.Made, c.Pool.Reused, c.Pool.Slab,
			ms(b.PollingNS), b.Sleeps, ms(b.SleepingNS),
			ms(c.Waits.PollingNS), c.Waits.Sleeps, ms(c.Waits.SleepingNS))
		if err != nil {
			return err
		}
	}
	return nil
}
