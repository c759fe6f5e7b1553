package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite/gloop"
)

// grep is Figure 5.6: warm, then with files that the machine's kernel has forgotten, and GNU grep if
// there is a directory.
func (b *gloopBench) grep(ctx context.Context, figure string) (end error) {
	if b.text > 0 {
		made, err := os.MkdirTemp("", "gloop-text")
		if err != nil {
			return err
		}
		defer func() { end = errors.Join(end, os.RemoveAll(made)) }()
		progress("figure %s: makes %d MB of text", figure, b.text)
		if err := gloop.MakeGrepText(made, b.text); err != nil {
			return err
		}
		b.dir = made
	}
	gnu, err := b.newGNUGrep()
	if err != nil {
		return err
	}
	if gnu != nil {
		defer func() { end = errors.Join(end, os.Remove(gnu.words)) }()
	}
	return b.together(ctx, "", 1, func(guests spinners) error {
		for _, cold := range []bool{false, true} {
			sides := b.sides(figure, "grep", string(gloop.Vanilla), b.versions...)
			for i := range sides {
				sides[i].options.Cold = cold
			}
			sides = append(sides, gnu.sides(figure, cold)...)
			for i := range sides {
				if cold {
					sides[i].row.Case = strings.TrimPrefix(sides[i].row.Case+", cold", ", ")
				}
			}
			if err := b.turns(ctx, guests, sides, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// gnuGrep is GNU grep on this machine: on the processors of this process, as guests and their backends.
type gnuGrep struct {
	dir   string
	words string // a file with a word a line
	files []string
	want  map[string]uint32 // how often each word occurs
}

// newGNUGrep prepares it; nil where there is no directory that both search.
func (b *gloopBench) newGNUGrep() (g *gnuGrep, err error) {
	if b.dir == "" || b.vm {
		return nil, nil
	}
	g = &gnuGrep{dir: b.dir}
	if g.files, g.want, err = gloop.GrepCounts(b.dir); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "gloop-words")
	if err != nil {
		return nil, err
	}
	g.words = file.Name()
	_, err = io.WriteString(file, strings.Join(gloop.GrepWords(), "\n")+"\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(g.words))
	}
	return g, nil
}

// sides are GNU grep as it is used, with one process, and with one for each processor; and what it takes to count
// lines in place of words.
func (g *gnuGrep) sides(figure string, cold bool) (all []gloopSide) {
	if g == nil {
		return nil
	}
	add := func(what string, processes int, args ...string) {
		s := gloopSide{row: bench.GLoopRow{Figure: figure, Program: "grep", Version: "gnu-grep", Case: what, Guests: 1, Base: string(gloop.Vanilla)}}
		s.run = func(ctx context.Context, row *bench.GLoopRow) (bench.GLoopSample, error) {
			return g.run(ctx, row, cold, processes, args)
		}
		all = append(all, s)
	}
	add("grep -row", 1, "-owhaF")
	if n := runtime.NumCPU(); n > 1 {
		add(fmt.Sprintf("%d of grep -ow", n), n, "-owhaF")
		add(fmt.Sprintf("%d of grep -cw, lines", n), n, "-cwhaF")
	}
	return all
}

// run runs grep once. It is right if it found each word as often as the reference, where it prints words.
func (g *gnuGrep) run(ctx context.Context, row *bench.GLoopRow, cold bool, processes int, args []string) (x bench.GLoopSample, err error) {
	if cold {
		if err := gloop.GrepForget(g.files); err != nil {
			return x, err
		}
	}
	tallies, failed := make([]map[string]uint32, processes), make([]error, processes)
	began := time.Now()
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() { tallies[i], failed[i] = g.process(ctx, i, processes, args) })
	}
	all.Wait()
	x.Total = time.Since(began).Seconds()
	if err := errors.Join(failed...); err != nil {
		return x, err
	}
	row.Verified = true
	if args[0] == "-cwhaF" {
		return x, nil
	}
	found := map[string]uint32{}
	for _, t := range tallies {
		for w, n := range t {
			found[w] += n
		}
	}
	if !maps.Equal(found, g.want) {
		row.Verified, row.Error = false, "GNU grep found other words"
	}
	return x, nil
}

// process runs one of several greps, each of which has every n-th file, and counts the lines that it prints.
func (g *gnuGrep) process(ctx context.Context, i, n int, args []string) (tally map[string]uint32, err error) {
	args = append(args, "-f", g.words)
	cmd := exec.CommandContext(ctx, "xargs", append([]string{"-0", "grep"}, args...)...)
	if n == 1 {
		cmd = exec.CommandContext(ctx, "grep", append(args, "-r", g.dir)...)
	} else {
		var names strings.Builder
		for k := i; k < len(g.files); k += n {
			names.WriteString(g.files[k] + "\x00")
		}
		cmd.Stdin = strings.NewReader(names.String())
	}
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	counts := map[string]*uint32{}
	for lines := bufio.NewScanner(bufio.NewReaderSize(out, 1<<20)); lines.Scan(); {
		at := counts[string(lines.Bytes())]
		if at == nil {
			at = new(uint32)
			counts[lines.Text()] = at
		}
		*at++
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 123) { // in some files no word was found
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	tally = map[string]uint32{}
	for w, n := range counts {
		tally[w] = *n
	}
	return tally, nil
}
