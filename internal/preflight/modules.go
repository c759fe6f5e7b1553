package preflight

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pvdrm/frontend/cuda/capi"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// fatbinSection has the fatbins of an ELF file, one after the other.
const fatbinSection = ".nv_fatbin"

const (
	whyMachineCode  = "there is only machine code for NVIDIA's GPUs, and no PTX"
	mendMachineCode = "compile with PTX in it: nvcc -gencode arch=compute_XX,code=compute_XX"
	fatbinAlign     = 8
)

// fatbins looks at the fatbins of a section or a file.
func (in *inspector) fatbins(b []byte) { in.each(b, in.fatbin) }

// each calls back with the images of each fatbin. Padding may stand between them.
func (in *inspector) each(b []byte, do func(name string, images []capi.Image)) {
	for len(b) >= fatbinAlign && in.ctx.Err() == nil {
		if !bytes.HasPrefix(b, []byte{0x50, 0xed, 0x55, 0xba}) {
			b = b[fatbinAlign:]
			continue
		}
		in.fatbinCount++
		name := fmt.Sprintf("fatbin %d", in.fatbinCount)
		images, size, err := capi.Images(b)
		if err != nil {
			in.damaged(name, err)
		} else {
			do(name, images)
		}
		b = b[min(len(b), (max(size, fatbinAlign)+fatbinAlign-1)&^(fatbinAlign-1)):]
	}
}

func (in *inspector) damaged(what string, err error) {
	in.add(Finding{Kind: KindDamaged, What: what, Why: err.Error()})
}

// fatbin looks at the PTX that the device would be given.
func (in *inspector) fatbin(name string, images []capi.Image) {
	best := in.choose(images)
	if best == nil {
		in.machineCode(name, images)
		return
	}
	if text, ok := in.contents(name, best); ok {
		in.source(text, best.Arch)
	}
}

// choose returns the PTX that the device would be given, that for newer devices where there is no
// other, and nil where there is none. It notes what that needs.
func (in *inspector) choose(images []capi.Image) *capi.Image {
	best, newer := capi.Choose(images, uint32(in.options.Capability))
	if best == nil && newer != 0 {
		best, _ = capi.Choose(images, newer)
	}
	if best == nil {
		best = in.debug(images)
	}
	if best == nil {
		return nil
	}
	lowest := best.Arch
	for _, m := range images {
		if m.PTX() {
			lowest = min(lowest, m.Arch)
		}
	}
	in.needs(lowest)
	return best
}

// debug returns the PTX that the machine code of a fatbin was made from, or nil.
func (in *inspector) debug(images []capi.Image) *capi.Image {
	for i := range images {
		size := images[i].Size()
		if size > in.budget {
			return nil
		}
		in.budget -= size
	}
	return capi.Debug(images, uint32(in.options.Capability))
}

// contents takes an image out of its fatbin, within the budget.
func (in *inspector) contents(name string, m *capi.Image) ([]byte, bool) {
	if m.Size() > in.budget {
		in.damaged(name, fmt.Errorf("the images of the file have more than %d bytes", maxContents))
		return nil, false
	}
	in.budget -= m.Size()
	b, err := m.Contents()
	if err != nil {
		in.damaged(name, err)
		return nil, false
	}
	return b, true
}

// machineCode reports a fatbin without PTX, unless it has no kernels.
func (in *inspector) machineCode(name string, images []capi.Image) {
	for i := range images {
		code, ok := in.contents(name, &images[i])
		if !ok {
			return
		}
		if kernels(code) {
			in.coded++
			return
		}
	}
}

// needs notes that PTX is for a compute capability, times ten.
func (in *inspector) needs(arch uint32) {
	const sane = 10000
	if arch <= sane {
		in.report.Lowest = max(in.report.Lowest, int(arch))
	}
}

// sum adds what is said of all modules at once.
func (in *inspector) sum() {
	if n := in.report.Lowest; n > in.options.Capability {
		in.add(Finding{Kind: KindSM, What: "the PTX", Mend: fmt.Sprintf("run it with --sm %d.%d", n/10, n%10),
			Why: fmt.Sprintf("it is for compute capability %d.%d or later, the device reports %d.%d", n/10, n%10, in.options.Capability/10, in.options.Capability%10)})
	}
	if in.coded > 0 {
		in.add(Finding{Kind: KindMachineCode, What: fmt.Sprintf("%d of %d fatbins", in.coded, in.fatbinCount), Why: whyMachineCode, Mend: mendMachineCode})
	}
}

// source has the software GPU compile PTX, as it does where a program loads it. Arch is what its
// fatbin says that it is for; 0 where there is none.
func (in *inspector) source(ptx []byte, arch uint32) {
	ptx = bytes.TrimRight(ptx, "\x00")
	sum := sha256.Sum256(ptx)
	if in.modules[sum] {
		return
	}
	in.modules[sum] = true
	in.report.Modules++
	name := fmt.Sprintf("module %d", in.report.Modules)
	if arch == 0 {
		arch = targetOf(ptx)
		in.needs(arch)
	}
	config := softgpu.Config{Capability: in.options.Capability}
	for _, c := range softgpu.Capabilities { // what would be refused on an older device was reported as such
		if c >= int(arch) && c >= in.options.Capability {
			config.Capability = c
			break
		}
	}
	kernels, err := softgpu.Interpreted(in.ctx, config, name, ptx)
	from := len(in.report.Kernels)
	in.kernels(kernels, ptx)
	if in.options.Rewrites && err == nil {
		_ = in.rewrites(ptx, from) // too large for that: nothing is said of its kernels
	}
	var refused *gpu.BuildError
	switch {
	case err == nil || in.ctx.Err() != nil:
	case errors.As(err, &refused):
		in.diagnoses(name, refused.Diagnostics, bytes.Split(ptx, []byte("\n")))
	default:
		in.add(Finding{Kind: KindPTX, What: name, Why: err.Error()})
	}
}

// targetOf is the architecture that a source names, 0 where it names none.
func targetOf(ptx []byte) uint32 {
	_, rest, _ := bytes.Cut(ptx, []byte(".target"))
	rest = bytes.TrimLeft(rest[:min(len(rest), 100)], " \t\r\n")
	digits, ok := bytes.CutPrefix(rest, []byte("sm_"))
	if !ok {
		return 0
	}
	end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	n, err := strconv.ParseUint(string(digits[:end]), 10, 16)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// diagnoses says of each complaint in which kernel or function it is, and shows the line. What
// repeats in a kernel appears once.
func (in *inspector) diagnoses(module string, all []gpu.Diagnostic, lines [][]byte) {
	type place struct{ function, message string }
	var order []place
	at := map[place][]int{}
	for _, d := range all {
		p := place{message: strings.TrimPrefix(d.Message, "error: ")}
		if d.Line >= 1 && d.Line <= len(lines) {
			p.function = functionAt(lines[:d.Line])
		}
		if at[p] == nil {
			order = append(order, p)
		}
		at[p] = append(at[p], d.Line)
	}
	for _, p := range order {
		in.add(diagnosis(module, p.function, p.message, at[p], lines))
	}
}

// diagnosis is the finding for a complaint about some lines.
func diagnosis(module, function, message string, at []int, lines [][]byte) Finding {
	f := Finding{Kind: KindPTX, What: module, Why: message}
	if function != "" {
		f.What += ", " + function
	}
	if at[0] < 1 || at[0] > len(lines) {
		return f
	}
	f.What += fmt.Sprintf(", line %d", at[0])
	if len(at) > 1 {
		f.What += fmt.Sprintf(" and %d more", len(at)-1)
	}
	const most = 100
	if text := bytes.TrimSpace(lines[at[0]-1]); len(text) > 0 {
		f.Why += fmt.Sprintf(": %s", text[:min(len(text), most)])
	}
	return f
}

// functionAt is the kernel or function that begins last in lines: "kernel add", or empty.
func functionAt(lines [][]byte) string {
	for i := len(lines) - 1; i >= 0; i-- {
		for word, what := range map[string]string{".entry": "kernel", ".func": "function"} {
			_, rest, ok := bytes.Cut(lines[i], []byte(word))
			if !ok || bytes.HasPrefix(bytes.TrimSpace(lines[i]), []byte("//")) {
				continue
			}
			// The name may stand on the next line, behind results in parentheses.
			if i+1 < len(lines) {
				rest = append(append(bytes.Clone(rest), ' '), lines[i+1]...)
			}
			rest = bytes.TrimSpace(rest)
			if bytes.HasPrefix(rest, []byte("(")) {
				_, rest, _ = bytes.Cut(rest, []byte(")"))
			}
			name := strings.FieldsFunc(string(rest[:min(len(rest), maxName)]), func(r rune) bool { return strings.ContainsRune(" \t\r(){};", r) })
			if len(name) > 0 {
				return what + " " + name[0]
			}
		}
	}
	return ""
}
