// Command generate writes what is made of the table in frontend/libcudart: the entry
// points that are missing, in cmd/libcudart, and the table of docs/libcuda.md. It
// runs in frontend/libcudart.
package main

import (
	"fmt"
	"os"

	"pvdrm/frontend/libcudart"
)

const (
	source = "../../cmd/libcudart/unsupported.c"
	doc    = "../../docs/libcuda.md"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() error {
	if err := os.WriteFile(source, []byte(libcudart.C()), 0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	out, err := libcudart.InsertTable(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", doc, err)
	}
	return os.WriteFile(doc, []byte(out), 0o644)
}
