package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"pvdrm/cmd/gdev/micro"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier"
	"pvdrm/frontend/local"
	"pvdrm/frontend/virtgpu"
)

// openCarrier connects to the backend that this process has.
func openCarrier() (carrier.Carrier, error) {
	if path := os.Getenv(frontend.SocketEnv); path != "" {
		return local.Open(path)
	}
	path, err := virtgpu.Find()
	if err != nil {
		return nil, err
	}
	return virtgpu.Open(path)
}

// microCommand is `gdev micro`. It returns the exit code.
func microCommand(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("micro", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // misuse prints
	asJSON := flags.Bool("json", false, "")
	budget := flags.Duration("time", 300*time.Millisecond, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		return misuse(stderr, err.Error())
	case flags.NArg() > 0:
		return misuse(stderr, "micro takes no names")
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
