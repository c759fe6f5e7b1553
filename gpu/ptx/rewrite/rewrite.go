// Package rewrite changes kernels of a PTX module so that they can be taken off a GPU that cannot
// preempt them.
//
// Split adds to a module, for each kernel whose blocks may run apart, a second kernel that takes the
// first block and the size of the whole grid as parameters, and reads them where the first one reads
// %ctaid and %nctaid. A launch of the first kernel equals launches of the second one of ranges of
// blocks, in order.
//
// Suspend adds a twin that looks at a signal at heads of loops and, when that is set, saves its state and
// ends. Launched again, it goes on from there.
//
// What cannot be changed without a risk is left as it is, with a reason that people can read. The
// module itself stays the same to its last byte: what is added stands behind it. So variables,
// attributes of kernels and addresses of functions do not change, and both kernels use the same
// variables.
package rewrite

import (
	"bytes"
	"fmt"
	"strconv"

	"pvdrm/gpu/ptx"
)

// Kernel is what became of one kernel of a module.
type Kernel struct {
	Name string
	Twin string // the kernel that was added for it; "" where there is none
	Why  string // there is none: words that go on a sentence whose subject is the kernel
}

// Result is a module with what was added to it.
type Result struct {
	Source  []byte   // of the module, and what was added
	Kernels []Kernel // of the module, those that have a body, in their order
}

// Added reports whether anything was added to the module.
func (r *Result) Added() bool {
	for i := range r.Kernels {
		if r.Kernels[i].Twin != "" {
			return true
		}
	}
	return false
}

// maxParams bounds the parameters of a kernel that is added, in bytes.
const maxParams = 4096

// fresh returns the start of names that a source does not use.
func fresh(e *ptx.Effort, source []byte) string {
	const word = "pvdrm"
	used := map[string]bool{}
	for rest := source; ; {
		at := bytes.Index(rest, []byte(word))
		if at < 0 {
			break
		}
		rest = rest[at+len(word):]
		digits := len(rest) - len(bytes.TrimLeft(rest[:min(len(rest), maxDigits)], "0123456789")) - max(0, len(rest)-maxDigits)
		e.Memory(64)
		used[string(rest[:digits])] = true
	}
	n := 0
	for ; used[strconv.Itoa(n)]; n++ {
		e.Step()
	}
	return fmt.Sprintf("%s%d_", word, n)
}

// maxDigits is more than the numbers of fresh names have.
const maxDigits = 12

// kernels returns the kernels of a module that have a body.
func kernels(m *ptx.Module) (list []*ptx.Func) {
	for _, d := range m.Directives {
		if f, ok := d.(*ptx.Func); ok && f.Entry && f.Defined {
			list = append(list, f)
		}
	}
	return list
}

// private returns the name of a variable of each thread that the module declares outside
// functions, "" if there is none: two kernels cannot both have it.
func private(m *ptx.Module) string {
	for _, d := range m.Directives {
		if v, ok := d.(*ptx.Var); ok && (v.Space == ptx.SpaceReg || v.Space == ptx.SpaceLocal) {
			return v.Name
		}
	}
	return ""
}

// paramBytes is what the parameters of a kernel take, as its launches lay them out.
func paramBytes(f *ptx.Func) uint64 {
	var n uint64
	for _, v := range f.Params {
		a := max(v.Alignment(), 1)
		n = (n+a-1)/a*a + v.Size()
	}
	return n
}

// appended returns a source with functions behind it, each declared before all of them are defined.
func appended(e *ptx.Effort, source []byte, added []*ptx.Func) ([]byte, error) {
	source = bytes.TrimRight(source, "\x00")
	e.Memory(2 * len(source))
	var b bytes.Buffer
	b.Write(source)
	b.WriteByte('\n')
	for _, f := range added {
		if !f.Entry {
			declared := *f
			declared.Defined, declared.Body, declared.Text = false, nil, ""
			if err := ptx.PrintFunc(&b, &declared); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range added {
		e.Memory(printedBytes * len(f.Body))
		if err := ptx.PrintFunc(&b, f); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// printedBytes is what a statement takes when it is printed, about; a buffer may have twice that.
const printedBytes = 128
