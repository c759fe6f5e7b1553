package main

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/suite/division"
)

// divisionCommand is `gdev division TASK`, for pvdrm bench division: it prints "ready", runs the task
// for each line of standard input, and prints the nanoseconds that it took. At the end of the input it
// checks the result, and prints division.Verified.
func divisionCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		return misuse(stderr, "division takes a task's name")
	}
	lines := bufio.NewScanner(stdin)
	drv, err := cuda.Init(openFile)
	if err == nil {
		err = division.Run(drv, args[0], func() { fmt.Fprintln(stdout, "ready") }, lines.Scan, func(d time.Duration) { fmt.Fprintln(stdout, d.Nanoseconds()) })
	}
	if err != nil {
		fmt.Fprintf(stderr, "gdev: %v\n", err)
		return exitFailed
	}
	fmt.Fprintln(stdout, division.Verified)
	return exitOK
}
