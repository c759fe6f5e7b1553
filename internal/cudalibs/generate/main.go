// Command generate writes what is made of the table in internal/cudalibs: the C stubs of the
// libraries and docs/cuda-libraries.md. It runs in internal/cudalibs.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pvdrm/internal/cudalibs"
)

const (
	stubs = "../../frontend/cuda/libs"
	page  = "../../docs/cuda-libraries.md"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() error {
	for _, l := range cudalibs.All().Libraries {
		name := filepath.Join(stubs, strings.ToLower(l.Name)+".c")
		if err := os.WriteFile(name, []byte(cudalibs.Stubs(l)), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(stubs, "files.txt"), []byte(cudalibs.Files()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(page, []byte(cudalibs.Page()), 0o644)
}
