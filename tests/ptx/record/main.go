// Command record runs the fixtures of tests/ptx on an NVIDIA GPU and writes
// what it returned.
//
//	record [-device N] [-level N] [-match TEXT] [-out FILE] ROOT…
//	record -unpack FILE
//
// The first form runs all fixtures (*.ptx) below the given folders and writes
// their recordings to one archive in the txtar format, so that they are easy to
// carry from the machine with the GPU. The second writes the recordings of an
// archive to their places beside the fixtures. Run it in the root of the
// repository. The program needs libcuda.so.1 at run time and nothing to build:
//
//	CGO_ENABLED=0 go build -o bin/record ./tests/ptx/record
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"pvdrm/tests/ptx/internal/fixture"
)

// defaultLevel is the one of CUDA programs.
const defaultLevel = 4

func main() {
	runtime.LockOSThread() // CUDA contexts belong to threads
	device := flag.Int("device", 0, "number of the GPU")
	level := flag.Int("level", defaultLevel, "how much the driver's compiler optimises, 0 to 4; with 0, what it does wrong goes away")
	match := flag.String("match", "", "only fixtures whose path contains this text")
	out := flag.String("out", "recorded.txtar", "archive to write")
	archive := flag.String("unpack", "", "write the recordings of this archive beside their fixtures")
	child := flag.Bool("child", false, "internal: record the fixtures named on standard input")
	flag.Parse()
	var err error
	switch {
	case *archive != "":
		err = unpack(*archive)
	case *child:
		err = serve(*device, *level, os.Stdin, os.Stdout)
	default:
		err = record(*device, *level, *match, *out, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// record writes an archive even if some fixtures could not be recorded.
func record(ordinal, level int, match, out string, roots []string) error {
	paths, err := find(roots, match)
	if err != nil {
		return err
	}
	var a txtar.Archive
	var failed int
	all := len(paths)
	for len(paths) > 0 {
		results, err := runChild(ordinal, level, paths)
		for _, r := range results {
			if r.Error != "" {
				failed++
				fmt.Printf("%s: %s\n", r.Path, r.Error)
				continue
			}
			a.Files = append(a.Files, txtar.File{Name: strings.TrimSuffix(r.Path, ".ptx") + ".out", Data: []byte(r.Text)})
		}
		paths = paths[len(results):]
		if err != nil && len(results) == 0 && len(a.Files) == 0 {
			return err // not the fixture's fault: there is no GPU
		}
		if err != nil && len(paths) > 0 {
			failed++
			fmt.Printf("%s: the driver did not survive it: %v\n", paths[0], err)
			paths = paths[1:]
		}
	}
	if err := save(out, &a); err != nil {
		return err
	}
	fmt.Printf("%d of %d recorded in %s, %d failed\n", len(a.Files), all, out, failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d fixtures could not be recorded", failed, all)
	}
	return nil
}

func save(out string, a *txtar.Archive) error { return os.WriteFile(out, txtar.Format(a), 0o644) }

func read(path string) (*fixture.Fixture, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return fixture.Parse(path, source)
}

// find lists the fixtures below the roots.
func find(roots []string, match string) (paths []string, err error) {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".ptx" && strings.Contains(path, match) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}

func unpack(path string) error {
	a, err := txtar.ParseFile(path)
	if err != nil {
		return err
	}
	for _, f := range a.Files {
		name := filepath.FromSlash(f.Name)
		if !filepath.IsLocal(name) || filepath.Ext(name) != ".out" {
			return fmt.Errorf("%s: name %q is not that of a recording", path, f.Name)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d recordings written\n", len(a.Files))
	return nil
}
