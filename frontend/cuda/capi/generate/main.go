// Command generate writes what is made of the table in frontend/cuda/capi: the C
// functions of cmd/libcuda and docs/cuda-driver-api.md. It runs in frontend/cuda/capi.
package main

import (
	"fmt"
	"os"

	"pvdrm/frontend/cuda/capi"
)

const (
	source  = "entry/entries.c"
	exports = "entry/exports.map"
	doc     = "../../../docs/cuda-driver-api.md"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate() error {
	if err := os.WriteFile(source, []byte(capi.C()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(exports, []byte(capi.Exports()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(doc, []byte(capi.Page()), 0o644)
}
