package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/sample"
)

// Bounds of what --kernel-counts logs.
const (
	maxTallyRows  = 20
	maxTallyName  = 60
	maxTallyLines = 3 // of the source
)

// logTally logs what ran compiled, a line for each kernel.
func logTally(log *zap.Logger, rows []ptxexec.Tallied) {
	for _, r := range rows[:min(len(rows), maxTallyRows)] {
		log.Warn(tallyLine(&r))
	}
	if more := len(rows) - maxTallyRows; more > 0 {
		log.Warn(fmt.Sprintf("%d more kernels, of which less was interpreted", more))
	}
}

// tallyLine says what of a kernel ran compiled, and why not the rest.
func tallyLine(r *ptxexec.Tallied) string {
	type part struct {
		cause ptxexec.Cause
		n     uint64
	}
	var parts []part
	for i, n := range r.Interpreted {
		if n != 0 {
			parts = append(parts, part{cause: ptxexec.Cause(i), n: n})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(b.n, a.n) })
	var texts []string
	for _, p := range parts {
		text := fmt.Sprintf("%d %v", p.n, p.cause)
		if p.cause == ptxexec.CauseOperation && len(r.Lines) > 0 {
			var lines []string
			for _, l := range r.Lines[:min(len(r.Lines), maxTallyLines)] {
				lines = append(lines, fmt.Sprint(l.Number))
			}
			text += " (PTX line " + strings.Join(lines, ", ") + ")"
		}
		texts = append(texts, text)
	}
	line := fmt.Sprintf("kernel %s: launches: %d; native code entered: %d; instructions of warps interpreted: %d",
		sample.Printable(r.Kernel, maxTallyName), r.Launches, r.Entered, r.All())
	if len(texts) > 0 {
		line += ": " + strings.Join(texts, ", ")
	}
	return line
}
