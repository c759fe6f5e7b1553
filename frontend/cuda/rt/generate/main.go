// Command generate writes what is made of the table in frontend/cuda/rt: the entry
// points that are missing and the list of all, in frontend/cuda/rt/c, and
// docs/cuda-runtime-api.md. It runs in frontend/cuda/rt.
package main

import (
	"fmt"
	"os"

	"pvdrm/frontend/cuda/rt"
)

const (
	source = "c/unsupported.c"
	names  = "static/names.def"
	doc    = "../../../docs/cuda-runtime-api.md"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() error {
	if err := os.WriteFile(source, []byte(rt.C()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(names, []byte(rt.Definitions()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(doc, []byte(rt.Page()), 0o644)
}
