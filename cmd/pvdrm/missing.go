package main

import (
	"fmt"
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

// closingLines says what a program that failed had lacked; nothing where it lacked nothing. The
// texts come from the program, so they are made printable, and are no more than a Report holds.
func closingLines(r missing.Report) []string {
	if len(r.Lines) == 0 {
		return nil
	}
	lines := []string{"the program failed. PVDRM lacks or refused what it asked for:"}
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
