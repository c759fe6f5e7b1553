// Package kernels has the sources of package suite's kernels, in OpenCL C. The suite itself embeds
// what clang made of them, PTX.
package kernels

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.cl *.h
var sources embed.FS

// Source returns the source of a module, such as "nn", with all it includes in its place.
func Source(module string) (string, error) {
	text, err := sources.ReadFile(module + ".cl")
	if err != nil {
		return "", fmt.Errorf("there are no kernels %q: %w", module, err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		header, ok := strings.CutPrefix(line, `#include "`)
		if !ok {
			b.WriteString(line)
			continue
		}
		header, _, _ = strings.Cut(header, `"`)
		included, err := sources.ReadFile(header) // which includes no other
		if err != nil {
			return "", fmt.Errorf("kernels %q: %w", module, err)
		}
		b.Write(included)
	}
	return b.String(), nil
}
