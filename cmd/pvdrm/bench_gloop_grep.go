package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"pvdrm/internal/bench"
	"pvdrm/internal/suite/gloop"
)

// gnuGrep counts the same words with GNU grep on this machine, if there is a directory to search, for
// the time that it takes.
func (b *gloopBench) gnuGrep(ctx context.Context, figure string) error {
	if b.dir == "" || b.vm {
		return nil
	}
	var words bytes.Buffer
	for _, w := range gloop.GrepWords() {
		fmt.Fprintln(&words, w)
	}
	row := bench.GLoopRow{Figure: figure, Program: "grep", Version: "gnu-grep", Guests: 1, Verified: true}
	var samples []bench.GLoopSample
	for range b.rounds {
		cmd := exec.CommandContext(ctx, "grep", "-rowhaF", "-f", "-", b.dir)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.Stdin = bytes.NewReader(words.Bytes())
		var found lineCount // grep finds the first word only where its output is /dev/null
		cmd.Stdout = &found
		began := time.Now()
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1: no word was found
			return fmt.Errorf("grep: %w", err)
		}
		samples = append(samples, bench.GLoopSample{Total: time.Since(began).Seconds()})
		row.Case = fmt.Sprintf("grep -row: %d words", found)
	}
	b.report.Rows = append(b.report.Rows, bench.NewGLoopRow(row, samples, nil))
	return nil
}

// lineCount counts the lines that are written to it.
type lineCount int

func (n *lineCount) Write(b []byte) (int, error) {
	*n += lineCount(bytes.Count(b, []byte{'\n'}))
	return len(b), nil
}
