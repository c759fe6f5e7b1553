// Command programs runs public CUDA programs, which somebody else has built, as local
// guests on the software GPU, and writes down which of them verify.
//
//	go run ./tests/programs -bin DIR -src DIR -out DIR [-only REGEXP] [-args ARGS] LIST...
//
// A list ([readList]) names the programs of one suite and how each is judged; this folder has
// one for each suite, and hecbench-small.txt with smaller inputs. The folder of -bin holds the binaries as SUITE/NAME, and what else
// the build of NAME makes in SUITE/NAME.files; the folder of -src holds the suites'
// sources as SUITE, of which the programs read their inputs. A result replaces the
// program's earlier one in the results of -out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	var r runner
	flag.StringVar(&r.bin, "bin", "", "folder of the binaries")
	flag.StringVar(&r.src, "src", "", "folder of the suites' sources")
	flag.StringVar(&r.out, "out", filepath.Join("out", "programs"), "folder of the results")
	flag.StringVar(&r.pvdrm, "pvdrm", filepath.Join("bin", "pvdrm"), "the pvdrm that runs them")
	args := flag.String("args", "", "more arguments of pvdrm run, separated by spaces")
	flag.StringVar(&r.sm, "sm", "9.0", "compute capability of the device")
	flag.DurationVar(&r.limit, "timeout", 2*time.Minute, "longest time of a program")
	only := flag.String("only", "", "run only the programs whose names match")
	again := flag.Bool("again", false, "run also programs that have a result")
	flag.Parse()
	r.args = strings.Fields(*args)
	if err := r.lists(flag.Args(), *only, *again); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

// lists runs the programs of some lists one after the other.
func (r *runner) lists(files []string, only string, again bool) error {
	if len(files) == 0 || r.bin == "" || r.src == "" {
		return fmt.Errorf("-bin, -src and at least one list are needed")
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	for _, path := range []*string{&r.bin, &r.src, &r.out, &r.pvdrm} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, file := range files {
		list, err := readList(file)
		if err != nil {
			return err
		}
		results, err := r.suite(ctx, list, wanted, again)
		if err != nil {
			return err
		}
		if err := writeTable(filepath.Join(r.out, list.suite+".md"), list, results); err != nil {
			return err
		}
	}
	return nil
}
