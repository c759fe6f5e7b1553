// Package preflight says what of a CUDA program would not work on PVDRM, without running it.
//
// It looks at one file: an executable, a library or an object file for x86-64, PTX, a fatbin or a
// cubin. It compares the names that the file asks the driver and the runtime API for with the
// tables of frontend/cuda, and has the software GPU compile the PTX that it would be given. What a
// program asks for may be more than what it needs, and what it computes at run time (names,
// attributes of the device, PTX that it writes) is not seen.
//
// Files may be hostile: sizes, counts and offsets are checked where they are read, the memory is
// that of the file and of one module, and findings are bounded in number and length.
package preflight

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"pvdrm/frontend/cuda/capi"
	"pvdrm/gpu/softgpu"
	"pvdrm/internal/sample"
)

// Kinds of findings.
const (
	KindCall        = "call"         // a function that PVDRM does not support
	KindPTX         = "ptx"          // PTX that the software GPU refuses
	KindSM          = "sm"           // PTX for a higher compute capability
	KindMachineCode = "machine-code" // kernels without PTX
	KindStripped    = "stripped"     // a static runtime without a symbol table
	KindLibrary     = "library"      // a library that does not work here
	KindStatic      = "static"       // a program that cannot load libraries
	KindDamaged     = "damaged"      // a part that cannot be read
)

// Bounds of a Report.
const (
	MaxFindings = 200
	maxHints    = 100
	maxText     = 400     // bytes of a text
	maxFile     = 1 << 30 // bytes of a file
	maxContents = 1 << 30 // bytes of all images of a file, decompressed
)

// Finding is a thing that would not work.
type Finding struct {
	Kind string `json:"kind"`
	What string `json:"what"`           // what it is, such as the name of a function
	Why  string `json:"why"`            // what is wrong with it
	Mend string `json:"mend,omitempty"` // what to do, where that is known
}

// Report is what Inspect found.
type Report struct {
	File string `json:"file"`
	Kind string `json:"kind"` // what the file is
	// Lowest is the lowest compute capability, times ten, on which all its PTX can run; 0 without PTX.
	Lowest  int       `json:"lowest_sm,omitempty"`
	Modules int       `json:"modules"` // PTX modules that were compiled
	Missing []Finding `json:"missing"`
	More    int       `json:"more,omitempty"` // findings beyond MaxFindings
	// Hints are names of functions that are not supported, which stand in the file as texts: it may
	// ask for them at run time.
	Hints []string `json:"hints,omitempty"`
	// Kernels are those of the PTX, at most MaxKernels.
	Kernels []Kernel `json:"kernels,omitempty"`
}

// Options say what device the program is to run on.
type Options struct {
	Capability int  // the compute capability that the software GPU reports, times ten; 0: its default
	Rewrites   bool // say of kernels whether they can be divided and suspended
}

// inspector makes a Report.
type inspector struct {
	ctx     context.Context
	options Options
	report  Report
	seen    map[Finding]bool
	budget  uint64 // bytes of images that may still be decompressed
	modules map[[32]byte]bool

	fatbinCount int
	coded       int // fatbins that have kernels and no PTX
}

// Inspect looks at a file. An error says that it cannot be read, or is nothing of which this
// package knows.
func Inspect(ctx context.Context, path string, options Options) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = f.Close() }() // it is only read
	st, err := f.Stat()
	if err != nil {
		return Report{}, err
	}
	if !st.Mode().IsRegular() {
		return Report{}, errors.New("no regular file")
	}
	if st.Size() > maxFile {
		return Report{}, fmt.Errorf("it has %d bytes; %d are possible", st.Size(), maxFile)
	}
	b := make([]byte, st.Size())
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Report{}, err
	}
	return InspectBytes(ctx, path, b[:n], options)
}

// InspectBytes is Inspect for the contents of a file.
func InspectBytes(ctx context.Context, name string, b []byte, options Options) (Report, error) {
	if options.Capability == 0 {
		options.Capability = softgpu.DefaultCapability
	}
	in := &inspector{ctx: ctx, options: options, seen: map[Finding]bool{}, budget: maxContents, modules: map[[32]byte]bool{},
		report: Report{File: name, Missing: []Finding{}}}
	if err := in.file(b); err != nil {
		return Report{}, err
	}
	in.sum()
	return in.report, ctx.Err()
}

const fatbinMagic = 0xba55ed50

func (in *inspector) file(b []byte) error {
	switch {
	case len(b) >= 4 && binary.LittleEndian.Uint32(b) == fatbinMagic:
		in.report.Kind = "fatbin"
		in.fatbins(b)
		return nil
	case bytes.HasPrefix(b, []byte(elf.ELFMAG)):
		return in.object(b)
	case isPTX(b):
		in.report.Kind = "PTX"
		in.source(b, 0)
		return nil
	}
	return errors.New("no ELF file, fatbin or PTX")
}

// isPTX reports whether a file seems to be PTX: text that has the directive that PTX begins with.
func isPTX(b []byte) bool {
	const far = 1 << 16 // comments may come before it
	head := b[:min(len(b), far)]
	return bytes.Contains(head, []byte(".version")) && !bytes.ContainsRune(bytes.TrimRight(head, "\x00"), 0)
}

func (in *inspector) object(b []byte) error {
	o, err := openObject(b)
	if err != nil {
		return err
	}
	switch {
	case o.machine == machineCUDA:
		in.report.Kind = "cubin"
		if text := capi.CubinPTX(b); text != nil {
			in.source(text, 0)
			return nil
		}
		in.add(Finding{Kind: KindMachineCode, What: "the file", Why: whyMachineCode, Mend: mendMachineCode})
		return nil
	case o.machine != elf.EM_X86_64:
		return fmt.Errorf("an ELF file for %v; PVDRM's libraries are for x86-64", o.machine)
	}
	switch o.kind {
	case elf.ET_EXEC, elf.ET_DYN:
		in.report.Kind = "program or library"
	case elf.ET_REL:
		in.report.Kind = "object file"
	default:
		return fmt.Errorf("an ELF file of type %v, no program or library", o.kind)
	}
	in.libraries(o)
	in.functions(o)
	if s := o.named(fatbinSection); s != nil {
		in.fatbins(o.data(s))
	}
	if s := o.named(unitSection); s != nil {
		in.units(o, s)
	}
	return nil
}

// add adds a finding once, with texts that can be shown.
func (in *inspector) add(f Finding) {
	f.What, f.Why = sample.Printable(f.What, maxText), sample.Printable(f.Why, maxText)
	switch {
	case in.seen[f]:
	case len(in.report.Missing) >= MaxFindings:
		in.report.More++
	default:
		in.seen[f] = true
		in.report.Missing = append(in.report.Missing, f)
	}
}
