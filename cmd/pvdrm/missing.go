package main

import (
	"fmt"
	"slices"
	"strings"

	"pvdrm/internal/missing"
	"pvdrm/internal/sample"
)

// missingPage is where users read on.
const missingPage = "docs/cuda-programs.md"

// missingSections says which section of missingPage tells more, by what a text has in it; the
// first that fits counts.
var missingSections = []struct{ word, section string }{
	{word: "CUDA_ERROR_INVALID_PTX", section: "What to know about the driver API"},
	{word: "CUDA_ERROR_NO_BINARY_FOR_GPU", section: "The runtime API (cudart)"},
	{word: "cuGetExportTable", section: "The runtime API (cudart)"},
	{word: "cuGraph", section: "Graphs and stream capture"},
	{word: "cudaGraph", section: "Graphs and stream capture"},
	{word: "graphs that", section: "Graphs and stream capture"},
	{word: "captur", section: "Graphs and stream capture"},
	{word: "cudaError", section: "The runtime API (cudart)"},
	{word: "", section: "What to know about the driver API"},
}

// missingSection is the section that tells more about a text of a missing.Report.
func missingSection(text string) string {
	for _, s := range missingSections {
		if strings.Contains(text, s.word) {
			return s.section
		}
	}
	return ""
}

// otherGPU reports whether a text of a missing.Report is about a module without code for the GPU. NVIDIA's driver refuses
// it, too, and libraries try such modules: NCCL has kernels for some GPUs only beside those for all.
func otherGPU(text string) bool {
	_, rest, _ := strings.Cut(text, ": ")
	return strings.HasPrefix(rest, "CUDA_ERROR_NO_BINARY_FOR_GPU")
}

// ofModule reports whether a text of a missing.Report is about a module that a program did not get.
func ofModule(text string) bool {
	call, rest, _ := strings.Cut(text, ": ")
	return (strings.HasPrefix(call, "cuLibrary") || strings.HasPrefix(call, "cuModule")) &&
		(strings.HasPrefix(rest, "CUDA_ERROR_INVALID_PTX") || strings.HasPrefix(rest, "CUDA_ERROR_NO_BINARY_FOR_GPU"))
}

// closingLines says what a program lacked; nothing where it lacked nothing. Of a program that did not fail
// only modules count, because kernels that were not launched go unnoticed where nothing asks for errors. The
// texts come from the program, so they are made printable, and are no more than a Report holds.
func closingLines(r missing.Report, failed bool) []string {
	head := "the program failed. PVDRM lacks or refused what it asked for:"
	if !failed {
		r.Lines = slices.DeleteFunc(slices.Clone(r.Lines), func(text string) bool { return !ofModule(text) })
		r.More = 0
		head = "PVDRM refused modules of the program. Their kernels did not run, so results can be wrong without an error:"
		if !slices.ContainsFunc(r.Lines, func(text string) bool { return !otherGPU(text) }) {
			head = "modules of the program have no code for this GPU. Where the program has other kernels for it, as NCCL has, all is well; else results can be wrong without an error:"
		}
	}
	if len(r.Lines) == 0 {
		return nil
	}
	lines := []string{head}
	var sections []string
	for i, text := range r.Lines[:min(len(r.Lines), missing.MaxKept)] {
		if r.More > 0 && i == missing.MaxKept-1 {
			lines = append(lines, fmt.Sprintf("  … and %d more; the last:", r.More))
		}
		text = sample.Printable(text, missing.MaxText)
		lines = append(lines, "  "+text)
		section := fmt.Sprintf("%q", missingSection(text))
		if !strings.Contains(strings.Join(sections, ", "), section) {
			sections = append(sections, section)
		}
	}
	return append(lines, fmt.Sprintf("read on in %s: %s; `pvdrm check PROGRAM` looks at all of a program, PVDRM_CUDA_LOG=errors prints every call that fails",
		missingPage, strings.Join(sections, ", ")))
}
