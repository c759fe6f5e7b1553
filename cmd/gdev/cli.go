package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"pvdrm/internal/suite"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // no GPU, or a program failed or computed a wrong result
	exitUsage  = 2
)

const usage = `gdev runs the programs of the Gdev benchmark suite on this guest's GPU.

Usage:
  gdev list                        name the programs
  gdev run [flags] PROGRAM...      run programs, check and time them
  gdev run [flags] --all           run all of them
  gdev micro [--json]              measure calls: what each costs, and what it is
                                   to be compared with
  gdev gloop [flags] PROGRAM...    run programs with callbacks on the GPU; see gdev gloop --help
  gdev replay [--json] [FILE]      make the calls of a trace (of standard input)
                                   again, and compare results and memory

Flags of run:
  --all         run all programs, in the order of the list
  --json        print one JSON object a line for each run instead of the table:
                bench, run, verified, seconds (by phase), doorbells, interrupts, error
  --repeat N    run each program N times; for N > 1 the first run warms up, and
                the table shows the means of the others
  --scale N     larger input, for about N times the work: a power of two
  --known HEX   the digest, in the output of --json, of a run of the program on such
                larger input whose result was right: the same is not checked again
  --counters    say after each program what its ring, its memory and its waits
                counted, on both ends; with --json as objects of their own
  --floor       run without a GPU, on a driver that answers at once and computes
                nothing: what the programs themselves cost. Results are not checked

The phases are init (context, module, memory), htod (copies to the GPU), launch
(kernels), dtoh (copies back) and close. Making the input and checking the result
lie outside of them. Doorbells are the wake-ups of a sleeping backend: the exits
from the guest, which the papers count as hypercalls.

The GPU is that of $PVDRM_SOCKET where it is set (a local guest), else that of the
first virtio-gpu render node in /dev/dri (a virtual machine).

With $PVDRM_TRACE the calls on the GPU are recorded into the file of that name.

Exit codes: 0 all results are right, 1 something failed, 2 wrong usage.
`

// runner runs one program once. Its error is for a name that no program has.
type runner func(name string, opts suite.Options) (suite.Result, error)

// command is the whole program: it does what args say and returns the exit code.
// open is called only when there is something to run.
func command(args []string, stdout, stderr io.Writer, log *counterLog, open func(onFloor bool) (runner, error)) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	case "list":
		if len(args) > 1 {
			return misuse(stderr, "list takes no arguments")
		}
		for _, b := range suite.All() {
			fmt.Fprintf(stdout, "%-10s %s (%s)\n", b.Name, b.Description, b.Input)
		}
		return exitOK
	case "run":
		job, err := parseRun(args[1:])
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, usage)
			return exitOK
		}
		if err != nil {
			return misuse(stderr, err.Error())
		}
		run, err := open(job.floor)
		if err != nil {
			fmt.Fprintf(stderr, "gdev: cannot use the GPU: %v\n", err)
			return exitFailed
		}
		ok, err := job.do(run, log, stdout)
		if err != nil {
			fmt.Fprintf(stderr, "gdev: %v\n", err)
			return exitFailed
		}
		if !ok {
			return exitFailed
		}
		return exitOK
	case "replay":
		return replayCommand(args[1:], os.Stdin, stdout, stderr)
	case "micro":
		return microCommand(args[1:], stdout, stderr)
	case "gloop":
		return gloopCommand(args[1:], os.Stdin, stdout, stderr)
	case "spin": // for pvdrm bench fairness; not in the usage
		return spinCommand(args[1:], os.Stdin, stdout, stderr)
	case "division": // for pvdrm bench division; not in the usage
		return divisionCommand(args[1:], os.Stdin, stdout, stderr)
	case "preempt": // for pvdrm bench preempt; not in the usage
		return preemptCommand(args[1:], os.Stdin, stdout, stderr)
	case "agent": // for pvdrm bench; not in the usage
		return serveAgent(os.Stdin, stdout, stderr)
	}
	return misuse(stderr, fmt.Sprintf("no command %q", args[0]))
}

func misuse(stderr io.Writer, message string) int {
	fmt.Fprintf(stderr, "gdev: %s; see gdev --help\n", message)
	return exitUsage
}

// job is what `gdev run` was asked for.
type job struct {
	names    []string
	json     bool
	repeat   int
	scale    int    // of the input
	known    string // digest of a result that was checked
	floor    bool   // without a GPU: results are not checked
	counters bool   // say what was counted
}

// parseRun reads flags and names in any order.
func parseRun(args []string) (job, error) {
	j := job{}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // command prints
	all := flags.Bool("all", false, "")
	flags.BoolVar(&j.json, "json", false, "")
	flags.IntVar(&j.repeat, "repeat", 1, "")
	flags.IntVar(&j.scale, "scale", 1, "")
	flags.StringVar(&j.known, "known", "", "")
	flags.BoolVar(&j.floor, "floor", false, "")
	flags.BoolVar(&j.counters, "counters", false, "")
	for {
		if err := flags.Parse(args); err != nil {
			return j, err
		}
		if flags.NArg() == 0 {
			break
		}
		name := flags.Arg(0)
		if _, err := suite.Find(name); err != nil {
			return j, err
		}
		j.names = append(j.names, name)
		args = flags.Args()[1:]
	}

	if err := suite.CheckScale(j.scale); err != nil {
		return j, fmt.Errorf("--scale: %w", err)
	}
	switch {
	case j.repeat < 1:
		return j, fmt.Errorf("--repeat %d: must be at least 1", j.repeat)
	case *all && len(j.names) > 0:
		return j, errors.New("name programs or say --all, not both")
	case *all:
		for _, b := range suite.All() {
			j.names = append(j.names, b.Name)
		}
	case len(j.names) == 0:
		return j, errors.New("name programs to run, or say --all")
	}
	return j, nil
}
