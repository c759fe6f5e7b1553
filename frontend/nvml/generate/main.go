// Command generate writes what is made of the table in frontend/nvml: the C functions of
// libnvidia-ml.so.1 and docs/nvml-api.md. It runs in frontend/nvml.
package main

import (
	"fmt"
	"os"

	"pvdrm/frontend/nvml"
)

func main() {
	for file, text := range map[string]string{"entry/entries.c": nvml.C(), "../../docs/nvml-api.md": nvml.Page()} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}
