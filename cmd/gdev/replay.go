package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"pvdrm/drm/trace"
)

// replayCommand is `gdev replay`. It returns the exit code.
func replayCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := newFlags("replay")
	asJSON := flags.Bool("json", false, "")
	if code, ok := parse(flags, args, 1, "replay takes one file", stdout, stderr); !ok {
		return code
	}
	in := stdin
	if flags.NArg() == 1 && flags.Arg(0) != "-" {
		f, err := os.Open(flags.Arg(0))
		if err != nil {
			fmt.Fprintf(stderr, "gdev: %v\n", err)
			return exitFailed
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	r, err := trace.NewReader(in)
	var report trace.Report
	if err == nil {
		report, err = trace.Replay(r, openFile)
	}
	if *asJSON && err == nil {
		err = json.NewEncoder(stdout).Encode(report.Summary())
	} else if err == nil {
		err = report.Print(stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "gdev: %v\n", err)
		return exitFailed
	}
	if len(report.Differences) > 0 {
		return exitFailed
	}
	return exitOK
}
