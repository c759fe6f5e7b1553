package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"pvdrm/internal/preflight"
	"pvdrm/internal/sample"
)

// Exit codes of pvdrm check.
const (
	checkMissing    = 1
	checkUnreadable = 2
)

// maxCheckName bounds what is shown of a file's name, bytes.
const maxCheckName = 1024

// shownHints bounds what is shown of a report's hints.
const shownHints = 8

func newCheck() *cobra.Command {
	var sm capability
	var asJSON, kernels bool
	c := &cobra.Command{
		Use:   "check [flags] PROGRAM ...",
		Short: "Say what of CUDA programs would not work here, without running them",
		Long: `Look at a program, a library or an object file, at PTX, a fatbin or a cubin, and say
what of it would not work with pvdrm run and pvdrm up: functions of CUDA that PVDRM
does not support, PTX that the software GPU refuses, kernels that have machine code
only, a static CUDA runtime without a symbol table, libraries that need NVIDIA's driver.

It looks at the files that are named, not at libraries that they load, and lists what
they could ask for, which may be more than what they need. Names that a program asks
for at run time appear as hints.

The exit code is 0 when nothing is missing, 1 when something is, and 2 when a file
cannot be read or is nothing of these.`,
		Example: "  pvdrm check ./prog\n  pvdrm check --sm 9.0 --json ./prog ./libkernels.so\n  pvdrm check kernels.ptx",
		Args:    needProgram,
		RunE: func(c *cobra.Command, args []string) error {
			show := showCheck
			if kernels {
				show = showKernels
			}
			if asJSON {
				show = func(w io.Writer, r preflight.Report) error { return json.NewEncoder(w).Encode(r) }
			}
			code := 0
			for _, path := range args {
				r, err := preflight.Inspect(c.Context(), path, preflight.Options{Capability: int(sm), Rewrites: kernels})
				switch {
				case c.Context().Err() != nil:
					return c.Context().Err()
				case err != nil:
					fmt.Fprintf(c.ErrOrStderr(), "pvdrm: %s: %s\n", sample.Printable(path, maxCheckName), sample.Printable(err.Error(), maxCheckName))
					code = checkUnreadable
					continue
				case len(r.Missing) > 0:
					code = max(code, checkMissing)
				}
				if err := show(c.OutOrStdout(), r); err != nil {
					return err
				}
			}
			if code != 0 {
				return exitError{code}
			}
			return nil
		},
	}
	c.Flags().Var(&sm, "sm", "compute capability that the software GPU is to report, as for pvdrm run")
	c.Flags().BoolVar(&kernels, "kernels", false, "list which instructions of each kernel the software GPU interprets, where it compiles the rest, and whether the kernel can be divided and suspended")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each file")
	return c
}

// showKernels is showCheck with the kernels.
func showKernels(w io.Writer, r preflight.Report) error {
	if err := showCheck(w, r); err != nil {
		return err
	}
	var divided, suspended int
	for _, k := range r.Kernels {
		if k.Whole != nil && *k.Whole == "" {
			divided++
		}
		if k.Unsuspendable != nil && *k.Unsuspendable == "" {
			suspended++
		}
		how := "compiled"
		if k.Interpreted > 0 {
			how = fmt.Sprintf("%d of %d operations are interpreted", k.Interpreted, k.Operations)
			if len(k.Instructions) > 0 {
				how += ": " + strings.Join(k.Instructions, ", ")
			}
		}
		for _, can := range []struct {
			name string
			not  *string
		}{{"divided", k.Whole}, {"suspended", k.Unsuspendable}} {
			if can.not != nil && *can.not != "" {
				how += "; cannot be " + can.name + ": it " + *can.not
			} else if can.not != nil {
				how += "; can be " + can.name
			}
		}
		if _, err := fmt.Fprintf(w, "  kernel        %s: %s\n", k.Name, how); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "  kernels       %d, of which %d can be divided and %d suspended\n", len(r.Kernels), divided, suspended)
	return err
}

// showCheck prints a report for a person.
func showCheck(w io.Writer, r preflight.Report) error {
	name := sample.Printable(r.File, maxCheckName)
	state := "nothing is missing"
	if n := len(r.Missing) + r.More; n == 1 {
		state = "1 thing would not work"
	} else if n > 1 {
		state = fmt.Sprintf("%d things would not work", n)
	}
	about := r.Kind
	if r.Modules == 1 {
		about += ", 1 PTX module"
	} else if r.Modules > 1 {
		about += fmt.Sprintf(", %d PTX modules", r.Modules)
	}
	if r.Lowest > 0 {
		about += fmt.Sprintf(" for compute capability %d.%d", r.Lowest/10, r.Lowest%10)
	}
	if _, err := fmt.Fprintf(w, "%s (%s): %s\n", name, about, state); err != nil {
		return err
	}
	var last string // what to do
	mend := func() {
		if last != "" {
			fmt.Fprintf(w, "                → %s\n", last)
		}
	}
	for _, f := range r.Missing {
		if f.Mend != last {
			mend()
		}
		last = f.Mend
		fmt.Fprintf(w, "  %-13s %s: %s\n", f.Kind, f.What, f.Why)
	}
	mend()
	if r.More > 0 {
		fmt.Fprintf(w, "  … and %d more\n", r.More)
	}
	if n := len(r.Hints); n > 0 {
		names := strings.Join(r.Hints[:min(n, shownHints)], ", ")
		if n > shownHints {
			names += fmt.Sprintf(" and %d more", n-shownHints)
		}
		fmt.Fprintf(w, "  hint: it may ask at run time for %s, which are not supported\n", names)
	}
	return nil
}
