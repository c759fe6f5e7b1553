// Command fuzz writes random kernels as fixtures, to compare engines with a GPU:
//
//	go run ./tests/ptx/fuzz -seed 1 -n 500 -dir out/fuzz
//	bin/record -level 0 -out fuzz.txtar out/fuzz  # on a machine with a GPU
//	bin/record -unpack fuzz.txtar
//	go test ./tests/ptx -run TestCorpus -fixtures "$PWD/out/fuzz"
//
// Level 0 keeps out the optimiser of the driver's compiler, which has faults: that
// of driver 580 folds bfe and bfi with constants beyond the word wrongly, and
// sometimes crashes. A kernel that an engine gets wrong is worth a place in tests/ptx/kernels.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"pvdrm/tests/ptx/internal/random"
)

func main() {
	seed := flag.Uint64("seed", 1, "seed of the first kernel; each has the next")
	n := flag.Int("n", 100, "number of kernels")
	dir := flag.String("dir", filepath.Join("out", "fuzz"), "folder to write to")
	flag.Parse()
	if err := write(*dir, *seed, *n); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func write(dir string, seed uint64, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range uint64(n) {
		path := filepath.Join(dir, fmt.Sprintf("random%d.ptx", seed+i))
		if err := os.WriteFile(path, []byte(random.Kernel(seed+i)), 0o644); err != nil {
			return err
		}
	}
	return nil
}
