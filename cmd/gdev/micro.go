package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"pvdrm/frontend"
	"pvdrm/frontend/carrier"
	"pvdrm/frontend/carrier/local"
	"pvdrm/frontend/carrier/virtio"
	"pvdrm/internal/bench/micro"
)

// openCarrier connects to the backend that this process has.
func openCarrier() (carrier.Carrier, error) {
	if path := os.Getenv(frontend.SocketEnv); path != "" {
		return local.Open(path)
	}
	path, err := virtio.Find()
	if err != nil {
		return nil, err
	}
	return virtio.Open(path)
}

// newFlags returns the flags of a command. They print nothing: misuse does.
func newFlags(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parse parses the arguments of a command that takes so many names at most. Unless ok, the
// command is over and its exit code is known.
func parse(flags *flag.FlagSet, args []string, names int, tooMany string, stdout, stderr io.Writer) (code int, ok bool) {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK, false
	case err != nil:
		return misuse(stderr, err.Error()), false
	case flags.NArg() > names:
		return misuse(stderr, tooMany), false
	}
	return exitOK, true
}

// microCommand is `gdev micro`. It returns the exit code.
func microCommand(args []string, stdout, stderr io.Writer) int {
	flags := newFlags("micro")
	asJSON := flags.Bool("json", false, "")
	budget := flags.Duration("time", 300*time.Millisecond, "")
	if code, ok := parse(flags, args, 0, "micro takes no names", stdout, stderr); !ok {
		return code
	}
	results, err := micro.Run(micro.Target{Open: openFile, Carrier: openCarrier, Budget: *budget})
	if err == nil {
		err = writeMicro(stdout, results, *asJSON)
	}
	if err != nil {
		fmt.Fprintf(stderr, "gdev: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func writeMicro(w io.Writer, results []micro.Result, asJSON bool) error {
	about := map[string]micro.Micro{}
	for _, m := range micro.All() {
		about[m.Name] = m
	}
	enc := json.NewEncoder(w)
	for _, r := range results {
		if asJSON {
			if err := enc.Encode(r); err != nil {
				return err
			}
			continue
		}
		m := about[r.Micro]
		line := fmt.Sprintf("%-18s %14.1f ns  %s", r.Micro, r.NS, m.Description)
		if r.BaselineNS > 0 {
			line += fmt.Sprintf("; %s: %.1f ns, ratio %.4g", m.Baseline, r.BaselineNS, r.NS/r.BaselineNS)
		}
		if r.Exits != nil {
			line += fmt.Sprintf("; %d doorbells, %d interrupts, %d grants", r.Exits.Doorbells, r.Exits.Interrupts, r.Exits.Grants)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
