// Command generate writes what is made of the table in frontend/libcuda: the C
// functions of cmd/libcuda and the table of docs/libcuda.md. It runs in cmd/libcuda.
package main

import (
	"fmt"
	"os"
	"strings"

	"pvdrm/frontend/libcuda"
)

const (
	source = "entry/entries.c"
	doc    = "../../docs/libcuda.md"
	begin  = "<!-- entry points: go generate ./cmd/libcuda -->\n"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() error {
	if err := os.WriteFile(source, []byte(libcuda.C()), 0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	head, _, ok := strings.Cut(string(text), begin)
	if !ok {
		return fmt.Errorf("%s has no line %q", doc, strings.TrimSpace(begin))
	}
	return os.WriteFile(doc, []byte(head+begin+"\n"+libcuda.Markdown()), 0o644)
}
