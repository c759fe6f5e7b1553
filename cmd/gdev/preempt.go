package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/suite/preempt"
)

// preemptCommand is `gdev preempt endless|task`, and `gdev preempt probe NUMBER PAUSE`, for pvdrm
// bench preempt. The first runs an endless kernel until standard input ends, prints "ready" when it
// is queued, and at the end its gaps and a line "end". The second prints a line for each run of a
// short kernel: nanoseconds that it took, and when it ran.
func preemptCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	const wrong = "preempt takes endless, task, or probe NUMBER PAUSE"
	if len(args) == 0 {
		return misuse(stderr, wrong)
	}
	var run func(*cuda.Driver) error
	switch {
	case len(args) == 1 && (args[0] == "endless" || args[0] == "task"):
		run = func(drv *cuda.Driver) error { return endless(drv, args[0] == "task", stdin, stdout) }
	case len(args) == 3 && args[0] == "probe":
		number, err := strconv.ParseUint(args[1], 10, 20)
		if err != nil {
			return misuse(stderr, wrong)
		}
		pause, err := time.ParseDuration(args[2])
		if err != nil {
			return misuse(stderr, wrong)
		}
		run = func(drv *cuda.Driver) error {
			return preempt.Probes(drv, int(number), pause, func(p preempt.Probe) { fmt.Fprintln(stdout, p.Took.Nanoseconds(), p.At) })
		}
	default:
		return misuse(stderr, wrong)
	}
	drv, err := cuda.Init(openFile)
	if err == nil {
		err = run(drv)
	}
	if err != nil {
		fmt.Fprintf(stderr, "gdev: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func endless(drv *cuda.Driver, task bool, stdin io.Reader, stdout io.Writer) error {
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, stdin) // its end is what counts
	}()
	gaps, err := preempt.Endless(drv, task, func() { fmt.Fprintln(stdout, "ready") }, stop)
	if err != nil {
		return err
	}
	for _, g := range gaps {
		fmt.Fprintln(stdout, g.From, g.To)
	}
	fmt.Fprintln(stdout, "end")
	return nil
}
