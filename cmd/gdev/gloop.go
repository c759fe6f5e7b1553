package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"pvdrm/frontend/cuda"
	"pvdrm/internal/suite/gloop"
)

const gloopUsage = `gdev gloop runs the programs with which GLoop was measured, on this guest's GPU,
and checks their results.

Usage: gdev gloop [flags] PROGRAM... | --all

  --version V   vanilla, gloop, gloop-noshared or split; all for each of them
  --size N      times the smallest input: 1 to 65536
  --json        print one JSON object a line in place of the table
  --blocks N, --threads N   of throttle
  --if          throttle calls postTaskIfNecessary in place of postTask
  --dir DIR     what grep searches, in place of files that it makes
  --cold        grep reads from the disk
  --bounce      files and sockets are copied to device memory, in place of being
                read from granted memory
  --ptx DIR     kernels are PTX that another compiler made of the sources
  --suspend K   kernels leave the GPU after each K callbacks, without being asked
  --pause TIME  clients of servers wait before each request
  --slice TIME  loops look at their signal each quarter of it

Programs:
`

// gloopJob is what `gdev gloop` was asked for.
type gloopJob struct {
	gloop.Options
	names       []string
	versions    []gloop.Version
	json        bool
	spin, serve bool
}

func parseGLoop(args []string) (j gloopJob, err error) {
	flags := flag.NewFlagSet("gloop", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints
	version := flags.String("version", string(gloop.GLoop), "")
	all := flags.Bool("all", false, "")
	flags.IntVar(&j.Size, "size", 1, "")
	flags.BoolVar(&j.json, "json", false, "")
	flags.IntVar(&j.Blocks, "blocks", 0, "")
	flags.IntVar(&j.Threads, "threads", 0, "")
	flags.BoolVar(&j.If, "if", false, "")
	flags.StringVar(&j.Dir, "dir", "", "")
	flags.StringVar(&j.PTX, "ptx", "", "")
	flags.BoolVar(&j.Cold, "cold", false, "")
	flags.BoolVar(&j.Bounce, "bounce", false, "")
	flags.IntVar(&j.Suspend, "suspend", 0, "")
	flags.DurationVar(&j.Slice, "slice", 0, "")
	flags.DurationVar(&j.Pause, "pause", 0, "")
	flags.BoolVar(&j.spin, "spin", false, "")
	flags.BoolVar(&j.serve, "serve", false, "")
	for {
		if err := flags.Parse(args); err != nil {
			return j, err
		}
		if flags.NArg() == 0 {
			break
		}
		j.names, args = append(j.names, flags.Arg(0)), flags.Args()[1:]
	}
	if *all {
		for _, p := range gloop.Programs() {
			j.names = append(j.names, p.Name)
		}
	}
	j.versions = []gloop.Version{gloop.Version(*version)}
	if *version == "all" {
		j.versions = gloop.Versions
	}
	for _, n := range j.names {
		if _, err := gloop.Find(n); err != nil {
			return j, err
		}
	}
	switch {
	case j.serve:
		return j, nil
	case len(j.names) == 0:
		return j, errors.New("name programs to run, or say --all")
	case j.spin && (len(j.names) > 1 || len(j.versions) > 1):
		return j, errors.New("--spin takes one program, of one version")
	}
	return j, nil
}

// gloopCommand is `gdev gloop`. Not in the usage are, for pvdrm bench gloop: --serve, which runs a
// request of each line of standard input, and --spin, which repeats a program until standard input
// ends (see spin).
func gloopCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	j, err := parseGLoop(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, gloopUsage)
		for _, p := range gloop.Programs() {
			fmt.Fprintf(stdout, "  %-12s  %s\n", p.Name, p.Description)
		}
		return exitOK
	case err != nil:
		return misuse(stderr, "gloop: "+err.Error())
	}
	ok, err := j.do(stdin, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "gdev: %v\n", err)
	}
	if err != nil || !ok {
		return exitFailed
	}
	return exitOK
}

// do does what was asked for, and reports whether all results were right.
func (j *gloopJob) do(stdin io.Reader, stdout io.Writer) (ok bool, err error) {
	drv, err := cuda.Init(openFile)
	if err == nil {
		err = drv.Close() // each program opens a file of its own
	}
	switch {
	case err != nil:
		return false, err
	case j.serve:
		return true, serveGLoop(drv, stdin, stdout)
	case j.spin:
		return true, spinGLoop(drv, *j, stdin, stdout)
	}
	return j.run(drv, stdout)
}

// run runs the programs, and reports whether all were right.
func (j *gloopJob) run(drv *cuda.Driver, stdout io.Writer) (ok bool, err error) {
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if !j.json {
		fmt.Fprintln(t, "program\tversion\tinit\tdata\tI/O\tcopy\tkernel\tfin\ttotal, ms\tlaunches\tpoints\t")
	}
	ok = true
	for _, name := range j.names {
		for _, v := range j.versions {
			o := j.Options
			o.Version = v
			r, err := gloop.Run(drv, name, o)
			if err != nil {
				return false, err
			}
			ok = ok && r.Verified
			if j.json {
				if err := json.NewEncoder(stdout).Encode(r); err != nil {
					return false, err
				}
				continue
			}
			verdict := "verified"
			if !r.Verified {
				verdict = "FAILED: " + r.Error
			}
			s := r.Seconds
			fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%d\t  %s\n", r.Program, r.Version, 1e3*s.Init, 1e3*s.Data, 1e3*s.IO,
				1e3*s.Copy, 1e3*s.Kernel, 1e3*s.Fin, 1e3*s.Total(), r.Launches, r.Points, verdict)
		}
	}
	return ok, t.Flush()
}

// serveGLoop runs a program for each line, a gloop.Request, and prints a line with its result.
func serveGLoop(drv *cuda.Driver, stdin io.Reader, stdout io.Writer) error {
	in, out := json.NewDecoder(stdin), json.NewEncoder(stdout)
	for {
		var req gloop.Request
		if err := in.Decode(&req); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := gloop.Run(drv, req.Program, req.Options)
		if err != nil {
			r.Error = err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

// spinGLoop repeats a program until standard input ends. It prints "ready" when the first unit of
// work has ended, counts from then or from when it was sent a line, and prints a gloop.Spun at its
// end.
func spinGLoop(drv *cuda.Driver, j gloopJob, stdin io.Reader, stdout io.Writer) error {
	stop, restart := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(stop)
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			select {
			case restart <- struct{}{}:
			default: // the last is not begun yet
			}
		}
	}()
	var mu sync.Mutex // guards what follows
	var spun gloop.Spun
	var began, last time.Time
	ready := false
	o := j.Options
	o.Version = j.versions[0]
	o.Again = func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	o.Done = func() {
		mu.Lock()
		defer mu.Unlock()
		last = time.Now()
		if !ready {
			ready, began = true, last
			fmt.Fprintln(stdout, "ready")
			return
		}
		select {
		case <-restart:
			spun.Units, began = 0, last
		case <-stop: // what ends later does not count
		default:
			spun.Units++
			spun.Seconds = last.Sub(began).Seconds()
		}
	}
	r, err := gloop.Run(drv, j.names[0], o)
	if err != nil {
		return err
	}
	spun.Result = r
	return json.NewEncoder(stdout).Encode(spun)
}
