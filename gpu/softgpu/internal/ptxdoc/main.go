// Ptxdoc writes docs/ptx.md: the PTX instruction table, and which rows the software GPU runs.
//
// Usage: ptxdoc FILE
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ptxdoc:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: ptxdoc FILE")
	}
	f, err := os.Create(os.Args[1])
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}
