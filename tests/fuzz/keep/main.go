// Command keep adds to testdata/fuzz of each target what its long runs found and what
// is new: the inputs, small ones first, that reach code which no input before them
// reached.
//
//	go run ./tests/fuzz/keep [-dir .cache/fuzz] [-most 40] [-bytes 204800] [TARGET...]
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// config is what the flags say.
type config struct {
	dir   string
	most  int   // files of a target
	bytes int64 // of a target
	try   int   // inputs of a target that are looked at
}

func main() {
	var c config
	flag.StringVar(&c.dir, "dir", filepath.Join(".cache", "fuzz"), "folder of make fuzz-long")
	flag.IntVar(&c.most, "most", 40, "most files of a target")
	flag.Int64Var(&c.bytes, "bytes", 200<<10, "most bytes of a target")
	flag.IntVar(&c.try, "try", 400, "inputs of a target that are tried, the smallest")
	flag.Parse()
	if err := c.all(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "keep:", err)
		os.Exit(1)
	}
}

// all goes through the targets, or those that have one of the names.
func (c *config) all(names []string) error {
	f, err := os.Open(filepath.Join("tests", "fuzz", "targets.txt"))
	if err != nil {
		return err
	}
	defer f.Close() // it is only read
	program, of := "", ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] == "#" || len(names) > 0 && !slices.Contains(names, fields[1]) {
			continue
		}
		pkg, target := fields[0], fields[1]
		corpus, err := inputs(filepath.Join(c.dir, "corpus", pkg, target))
		if err != nil {
			return err
		}
		if len(corpus) == 0 {
			continue
		}
		if of != pkg {
			if program, err = build(c.dir, pkg); err != nil {
				return err
			}
			of = pkg
		}
		if err := c.keep(program, pkg, target, corpus); err != nil {
			return fmt.Errorf("%s %s: %w", pkg, target, err)
		}
	}
	return nil
}

// input is a file of a corpus.
type input struct {
	path string
	size int64
}

// inputs lists a folder, the smallest first; one that does not exist is empty.
func inputs(dir string) ([]input, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var list []input
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		list = append(list, input{filepath.Join(dir, e.Name()), info.Size()})
	}
	slices.SortStableFunc(list, func(a, b input) int { return int(a.size - b.size) })
	return list, nil
}

// build makes the test program of a package, which counts what it covers.
func build(dir, pkg string) (string, error) {
	program, err := filepath.Abs(filepath.Join(dir, "cover.test"))
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "test", "-c", "-cover", "-coverpkg=./...", "-o", program, "./"+pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the tests of %s: %w\n%s", pkg, err, out)
	}
	return program, nil
}

// keep copies what is worth it into the package.
func (c *config) keep(program, pkg, target string, corpus []input) error {
	home := filepath.Join(pkg, "testdata", "fuzz", target)
	old, err := inputs(home)
	if err != nil {
		return err
	}
	seen, files, size := map[string]bool{}, len(old), int64(0)
	for _, in := range old {
		size += in.size
		if _, err := cover(program, pkg, target, in.path, seen); err != nil {
			return err
		}
	}
	kept := 0
	for _, in := range corpus[:min(len(corpus), c.try)] {
		if files >= c.most || size+in.size > c.bytes {
			break
		}
		fresh, err := cover(program, pkg, target, in.path, seen)
		if err != nil {
			return err
		}
		if !fresh {
			continue
		}
		data, err := os.ReadFile(in.path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(home, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(home, filepath.Base(in.path)), data, 0o644); err != nil {
			return err
		}
		kept, files, size = kept+1, files+1, size+in.size
	}
	fmt.Printf("%-28s %4d new of %5d, now %3d files, %6d bytes\n", target, kept, len(corpus), files, size)
	return nil
}

// cover runs one input beside the package's other test data, adds the code that it reaches to seen, and reports whether
// there was any that was not there.
func cover(program, pkg, target, path string, seen map[string]bool) (fresh bool, err error) {
	dir, err := os.MkdirTemp("", "keep")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir) // a temporary folder
	home := filepath.Join(dir, "testdata", "fuzz", target)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return false, err
	}
	if err := linkTestdata(pkg, dir); err != nil {
		return false, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(filepath.Join(home, "input"), data, 0o644); err != nil {
		return false, err
	}
	profile := filepath.Join(dir, "profile")
	cmd := exec.Command(program, "-test.run", "^"+target+"$/^input$", "-test.coverprofile", profile)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Errorf("%s: %w\n%s", path, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(text) {
		place, rest, _ := strings.Cut(string(line), " ")
		if strings.HasSuffix(strings.TrimSpace(rest), " 0") || seen[place] {
			continue
		}
		seen[place], fresh = true, true
	}
	return fresh, nil
}

// linkTestdata links what a package's tests read into a folder; its corpora are not among them.
func linkTestdata(pkg, dir string) error {
	from, err := filepath.Abs(filepath.Join(pkg, "testdata"))
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() == "fuzz" {
			continue
		}
		err = errors.Join(err, os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, "testdata", e.Name())))
	}
	return err
}
