package preflight

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/ptx/rewrite"
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

	// With Options.Rewrites: whether the kernel can be divided and suspended on a GPU whose driver cannot
	// stop it, "" where it can, else why not.
	Whole         *string `json:"whole,omitempty"`
	Unsuspendable *string `json:"unsuspendable,omitempty"`
}

// kernels adds those of a module to the report.
func (in *inspector) kernels(all []exec.Interpreted, source []byte) {
	lines := bytes.Split(source, []byte("\n"))
	for _, k := range all {
		if len(in.report.Kernels) == MaxKernels {
			return
		}
		in.report.Kernels = append(in.report.Kernels, Kernel{
			Name: sample.Printable(k.Kernel, maxName), Operations: k.Operations, Interpreted: len(k.Lines), Instructions: instructions(k.Lines, lines),
		})
	}
}

// rewrites says of the kernels of a module, of which those from one on are in the report, what package
// rewrite makes of them. A module that is too large for that stays without.
func (in *inspector) rewrites(source []byte, from int) error {
	divided, err := rewritten(in, source, rewrite.Split)
	if err != nil {
		return err
	}
	suspended, err := rewritten(in, source, func(e *ptx.Effort, m *ptx.Module, source []byte) (list []rewrite.Suspended, err error) {
		_, list, err = rewrite.Suspend(e, m, source, rewrite.SuspendOptions{})
		return list, err
	})
	if err != nil {
		return err
	}
	at := map[string]int{}
	for i := range suspended {
		at[sample.Printable(suspended[i].Name, maxName)] = i
	}
	for i := from; i < len(in.report.Kernels); i++ {
		k := &in.report.Kernels[i]
		if n, ok := at[k.Name]; ok {
			k.Whole, k.Unsuspendable = new(sample.Printable(divided.Kernels[n].Why, maxText)), new(sample.Printable(suspended[n].Why, maxText))
		}
	}
	return nil
}

// rewritten is what do makes of a module, with the effort that a device spends on one.
func rewritten[T any](in *inspector, source []byte, do func(*ptx.Effort, *ptx.Module, []byte) (T, error)) (result T, err error) {
	e := ptx.NewEffort(in.ctx, gpu.ModuleMemory(uint64(len(source))))
	defer e.Catch(&err)
	m, err := ptx.LoadWithin(e, "", source)
	if err != nil {
		return result, err
	}
	return do(e, m, source)
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
