//go:build amd64 && linux

package simt

import (
	"runtime"

	"golang.org/x/sys/cpu"

	"pvdrm/gpu/softgpu/simt/internal/codemem"
)

// callNative calls the code at f.entry.
//
//go:noescape
func callNative(f *nativeFrame)

// nativeWorks says whether this processor runs what is compiled.
var nativeWorks = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasFMA

// tryNative reports whether the host allows native code.
func tryNative() error {
	m, err := codemem.Map([]byte{0xc3}) // ret
	if err != nil {
		return err
	}
	return codemem.Unmap(m)
}

// makeNative compiles a function. The code is empty where the host or the bounds
// on code forbid it.
func makeNative(p *Program, fn *function, sites []uint16, masked bool) *nativeCode {
	code, entries := compileFunction(p, fn, sites, masked)
	if code == nil {
		return &nativeCode{}
	}
	m, err := codemem.Map(code)
	if err != nil {
		return &nativeCode{}
	}
	n := &nativeCode{entry: addressOf(m), at: make([]uintptr, len(entries))}
	for i, off := range entries {
		if off != 0 {
			n.at[i] = addressOf(m) + uintptr(off)
		}
	}
	runtime.AddCleanup(n, func(m []byte) { codemem.Unmap(m) }, m)
	return n
}
