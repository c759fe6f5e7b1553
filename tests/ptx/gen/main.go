// Command gen writes the fixtures of tests/ptx/op and tests/ptx/matrix: one small kernel for
// each instruction with its modifiers. Run it as "go run ./tests/ptx/gen" in the
// root of the repository; a test checks that its files are up to date.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

func main() {
	for dir, files := range folders() {
		if err := write(filepath.Join("tests", "ptx", dir), files); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// write replaces the sources in a directory and removes those that are no
// longer in the table, with their recordings.
func write(dir string, files map[string]string) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.ptx"))
	if err != nil {
		return err
	}
	for _, path := range old {
		name := filepath.Base(path[:len(path)-len(".ptx")])
		if _, ok := files[name]; ok {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		if err := os.Remove(path[:len(path)-len(".ptx")] + ".out"); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name+".ptx"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// folders are the fixtures by folder and name: those that a GPU has run, and the others.
func folders() map[string]map[string]string {
	recorded, waiting := map[string]string{}, map[string]string{}
	for _, files := range []map[string]string{sources(), matrixSources(), groupSources(), placeSources()} {
		for name, text := range files {
			if unrecorded(name) {
				waiting[name] = text
			} else {
				recorded[name] = text
			}
		}
	}
	return map[string]map[string]string{"op": recorded, "matrix": waiting, "texture": textureSources(), "tensor": tensorSources()}
}

// unrecorded reports whether no GPU has run a fixture to its end. An H100 (driver 580.159.04) ends
// cp.async with a policy of createpolicy by an illegal instruction, which a hint need not do.
func unrecorded(name string) bool { return name == "cp.async.cg.hint" || derived()[name] }

// derived are the names of fixtures that only later GPUs can run.
var derived = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, s := range derivedSpecs() {
		names[s.name] = true
	}
	return names
})

// sources returns the text of all fixtures by name.
func sources() map[string]string {
	files := map[string]string{}
	groups := [][]spec{intSpecs(), quadSpecs(), carrySpecs(), logicSpecs(), floatSpecs(), halfSpecs(), compareSpecs(),
		selectSpecs(), convertSpecs(), moveSpecs(), memorySpecs(), atomicSpecs(), vectorAtomicSpecs(), warpSpecs(), barrierSpecs(), miscSpecs(), contractSpecs(), videoSpecs(), hintSpecs(), derivedSpecs()}
	for _, group := range groups {
		for _, s := range group {
			if _, twice := files[s.name]; twice {
				panic("two fixtures are named " + s.name)
			}
			files[s.name] = s.text()
		}
	}
	return files
}
