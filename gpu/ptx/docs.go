package ptx

import (
	"fmt"
	"io"
	"strings"
)

//go:generate go run ./internal/ptxdoc ../../docs/ptx.md

// sections are the headings of the manual's chapter 9.7 that the table covers.
var sections = []struct{ number, title string }{
	{"9.7.1", "Integer arithmetic"},
	{"9.7.2", "Extended-precision integer arithmetic"},
	{"9.7.3", "Floating point"},
	{"9.7.4", "Half precision floating point"},
	{"9.7.5", "Comparison and selection"},
	{"9.7.6", "Half precision comparison"},
	{"9.7.7", "Logic and shift"},
	{"9.7.8", "Data movement and conversion"},
	{"9.7.9", "Texture"},
	{"9.7.10", "Surface"},
	{"9.7.11", "Control flow"},
	{"9.7.12", "Parallel synchronisation and communication"},
	{"9.7.13", "Warp level matrix"},
	{"9.7.14", "Asynchronous warpgroup matrix"},
	{"9.7.15", "Stack manipulation"},
	{"9.7.16", "Scalar video"},
	{"9.7.17", "SIMD video"},
	{"9.7.18", "Miscellaneous"},
}

// WriteDocs writes docs/ptx.md: every row of the instruction table and what
// becomes of it.
func WriteDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString(docsHead)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s %s\n\n| instruction | status |\n| --- | --- |\n", s.number, s.title)
		for _, f := range Forms() {
			if f.Section == s.number {
				status := f.Status.String()
				if f.Note != "" {
					status += ": " + f.Note
				}
				fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(f.Syntax(), "|", `\|`), status)
			}
		}
	}
	b.WriteString("\n## 10 Special registers\n\nAll run.\n\n| register | type |\n| --- | --- |\n")
	for s := SpecialNone + 1; s < numSpecials; s++ {
		fmt.Fprintf(&b, "| `%s` | .%s |\n", s, s.Type())
	}
	fmt.Fprintf(&b, docsTail, MaxSource>>20, MaxStatements, MaxOperands, MaxVariables, MaxDirectives, MaxInitialiser,
		MaxScopes, MaxNesting, MaxDiagnostics)
	_, err := io.WriteString(w, b.String())
	return err
}

const docsHead = `# PTX

Generated from the instruction table of gpu/ptx by "go generate ./gpu/ptx"; do not edit.

A kernel reaches the software GPU as PTX text. It is parsed, checked and decoded when the module is loaded; what is
wrong with it is reported then, with file, line and column, up to twenty complaints at once. Nothing of a module runs
that was not accepted as a whole.

* **runs**: the software GPU executes it.
* **parsed only**: it is parsed, checked and printed, so that modules for a real GPU can be read and rewritten; the
  software GPU refuses to load a module that contains it, and names the instruction.
* **refused**: only its text is kept. The software GPU refuses to load a module that contains it. A name stands for
  all instructions that begin with it.

In the lists, braces enclose what may be left out, and (a/b) means one of a and b. Modifiers may be written in any
order, but for the types among themselves. Section numbers are those of the PTX ISA manual, version 8.5.
`

const docsTail = `
## Directives

Understood: .version, .target, .address_size, .visible, .extern, .weak, .common, .entry, .func, .param, .reg, .const,
.global, .local, .shared, .align, .ptr, .attribute(.managed), .maxntid, .reqntid, .minnctapersm, .maxnctapersm, .maxnreg,
.noreturn, .pragma, .alias, .branchtargets, .calltargets, .callprototype, .file, .loc, .section.

Parsed only: .reqnctapercluster, .explicitcluster, .maxclusterrank, .blocksareclusters, .abi_preserve,
.abi_preserve_control, and variables of type .texref, .samplerref and .surfref.

## Where this differs from ptxas

* The .version and .target of a module are not compared with its instructions, but for this: in modules of PTX before 3.2 mad.f32 without a
  rounding is mad.rn.f32, as ptxas has it, for every target; those before 2.3, which had no .address_size, have 64-bit addresses.
* Variables in .global and .const must be declared outside functions.
* Variable argument lists (a parameter of type .b8[]) are refused; vprintf takes its arguments through a pointer.
* An element of an array is written as an address, [a+4]; a[1] is refused.
* Numbers must fit in 64 bits, the table of lop3 in 8.
* A launch has no clusters: each block is a cluster of its own, as on a GPU without a cluster size.
* No shared memory is reserved: %%reserved_smem_offset_begin and the others are 0 (an H200 reserves 1 KiB).

## Limits

| what | at most |
| --- | --- |
| source | %d MiB |
| statements of all functions | %d |
| operands | %d |
| variables, ranges of registers and parameters | %d |
| directives at module scope | %d |
| elements of initialisers | %d |
| nesting of braces in bodies | %d |
| nesting of initialisers and expressions | %d |
| complaints before giving up | %d |
`
