// Command propose prints what NVIDIA's headers in a directory declare and the table of package
// cudalibs lacks, as rows to begin with, or with -check the rows that do not fit their prototypes.
//
//	go run ./internal/cudalibs/propose [-check] [-only FILE] LIBRARY HEADER …
//
// FILE has names of functions, one a line, and rows are printed for these alone.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"pvdrm/internal/cudalibs"
	"pvdrm/internal/cudalibs/headers"
)

func main() {
	check := flag.Bool("check", false, "compare the table with the headers")
	only := flag.String("only", "", "file with the names for which rows are printed")
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Args()[1:], *check, *only); err != nil {
		fmt.Fprintln(os.Stderr, "propose:", err)
		os.Exit(1)
	}
}

func run(library string, files []string, check bool, only string) error {
	wanted := map[string]bool{}
	if only != "" {
		text, err := os.ReadFile(only)
		if err != nil {
			return err
		}
		for _, name := range strings.Fields(string(text)) {
			wanted[name] = true
		}
	}
	table := cudalibs.All()
	have, declared := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		h := headers.Parse(string(text), library)
		for _, p := range h.Prototypes {
			declared++
			f := table.Named(p.Name)
			if f != nil {
				have++
			}
			switch {
			case check && f != nil:
				if wrong := headers.Check(f, p, h); wrong != "" {
					fmt.Println(p.Name+":", wrong)
				}
			case !check && f == nil && (only == "" || wanted[p.Name]):
				fmt.Println(headers.Propose(p, h))
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %d functions declared, %d in the table\n", library, declared, have)
	return nil
}
