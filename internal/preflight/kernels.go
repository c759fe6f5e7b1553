package preflight

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/sample"
)

// MaxKernels bounds the kernels of a Report, and maxInstructions what is named of each.
const (
	MaxKernels      = 1000
	maxInstructions = 16
)

// Kernel says how the software GPU would run a kernel on this machine.
type Kernel struct {
	Name        string `json:"name"`
	Operations  int    `json:"operations"`  // that the kernel is decoded to
	Interpreted int    `json:"interpreted"` // those that are not compiled to native code
	// Instructions are those of which some operation is interpreted, the most frequent first.
	Instructions []string `json:"instructions,omitempty"`
}

// kernels adds those of a module to the report.
func (in *inspector) kernels(all []exec.Interpreted, ptx []byte) {
	lines := bytes.Split(ptx, []byte("\n"))
	for _, k := range all {
		if len(in.report.Kernels) == MaxKernels {
			return
		}
		in.report.Kernels = append(in.report.Kernels, Kernel{
			Name: sample.Printable(k.Kernel, maxName), Operations: k.Operations, Interpreted: len(k.Lines), Instructions: instructions(k.Lines, lines),
		})
	}
}

// instructions names the instructions on lines, with how often they are there.
func instructions(at []int32, lines [][]byte) (names []string) {
	count := map[string]int{}
	for _, line := range at {
		if line >= 1 && int(line) <= len(lines) {
			if name := mnemonic(string(lines[line-1])); name != "" {
				count[name]++
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	for _, name := range order[:min(len(order), maxInstructions)] {
		names = append(names, fmt.Sprintf("%s (%d)", sample.Printable(name, maxName), count[name]))
	}
	return names
}

// mnemonic is the name of the first instruction of a line, without its guard.
func mnemonic(line string) string {
	for word := range strings.FieldsSeq(line) {
		word = strings.TrimSuffix(word, ";")
		switch {
		case strings.HasPrefix(word, "@"), strings.HasSuffix(word, ":"), word == "{", word == "}":
		case strings.HasPrefix(word, "//"):
			return ""
		default:
			return word
		}
	}
	return ""
}
