// Command record runs a program and records what it and its children ask NVIDIA's devices for
// by ioctl: the table from which the filter of CUDA workers is generated. It sees each call by
// seccomp's user notification, which lets the call go on, and needs neither a debugger nor
// privileges.
//
//	record -o table.txt -- PROGRAM ARGUMENTS…
//	record -generate table.txt -o ioctls.go
//
// A process counts as serving from the moment it first sends a message: a worker's first one
// says that it is ready, and its filter is in place. The program must install no filter of its
// own that refuses ioctl, since what is refused is not seen.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	generate := flag.String("generate", "", "instead of running a program, make Go source of this table")
	out := flag.String("o", "", "file to write")
	flag.Parse()
	if err := run(*generate, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(table, out string, command []string) error {
	if out == "" || (table == "") == (len(command) == 0) {
		return errors.New("usage: record -o FILE -- PROGRAM ARGUMENTS…, or record -generate TABLE -o FILE")
	}
	if table != "" {
		text, err := os.ReadFile(table)
		if err != nil {
			return err
		}
		source, err := generate(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		return os.WriteFile(out, source, 0o644)
	}
	r := newRecorder()
	ended := r.run(command)
	// What was seen counts, however the program ended.
	if err := os.WriteFile(out, []byte(r.table()), 0o644); err != nil {
		return err
	}
	var exit *exec.ExitError
	if errors.As(ended, &exit) {
		return fmt.Errorf("%s: %w", command[0], ended)
	}
	return ended
}
