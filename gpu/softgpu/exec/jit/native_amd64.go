//go:build amd64 && linux

package jit

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/cpu"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/internal/codemem"
)

// callNative calls the code at f.entry. It returns the frame of the warp that has left it, which is
// another one where that has come into its turn in a ring or a chain.
//
//go:noescape
func callNative(f *Frame) *Frame

// best is what this processor has.
func best() ISA {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasFMA && x.HasBMI1 && x.HasPOPCNT:
		return AVX512
	case x.HasAVX2 && x.HasFMA && x.HasBMI1 && x.HasBMI2 && x.HasPOPCNT:
		return AVX2
	case x.HasSSE42 && x.HasSSE41 && x.HasSSSE3 && x.HasPOPCNT:
		return Plain
	}
	return Interpreted
}

// newArea makes the memory that code for AVX2, and that of atomic operations, has beside its registers.
func newArea() []byte {
	area := aligned(make([]byte, areaBytes+areaAlign-1))
	x86.FillArea(area)
	return area
}

// tryNative reports whether the host allows native code.
func tryNative() error {
	m, err := codemem.Map([]byte{0xc3}) // ret
	if err != nil {
		return err
	}
	return codemem.Unmap(m)
}

// maxCodeBytes bounds the machine code of all kernels of the process; those that have none
// are interpreted. Code for Plain takes four times as much. codeBytes is what there is, in pages of the host.
const (
	maxCodeBytes = 14 << 20
	codePage     = 4096
)

// most is a bound on code for an ISA.
func most(bytes int, isa ISA) int {
	if isa == Plain {
		return 4 * bytes
	}
	return bytes
}

var codeBytes atomic.Int64

// makeNative compiles a function. The code is empty where the host or the bounds
// on code forbid it.
func makeNative(p *ir.Program, fn *ir.Function, sites []uint16, kind codeKind) *machineCode {
	made := compileFunction(p, fn, sites, kind)
	if made == nil {
		return &machineCode{}
	}
	size := (int64(len(made.code)) + codePage - 1) &^ (codePage - 1)
	if codeBytes.Add(size) > int64(most(maxCodeBytes, kind.isa)) {
		codeBytes.Add(-size)
		return &machineCode{}
	}
	m, err := codemem.Map(made.code)
	if err != nil {
		codeBytes.Add(-size)
		return &machineCode{}
	}
	n := &machineCode{entry: addressOf(m), at: make([]uintptr, len(made.entries)), kept: made.kept, told: map[int32]uintptr{}, backs: map[callOf]uintptr{}}
	for pc, off := range made.told {
		n.told[pc] = addressOf(m) + uintptr(off)
	}
	for call, off := range made.returns {
		n.backs[call] = addressOf(m) + uintptr(off)
	}
	for i, off := range made.entries {
		if off != 0 {
			n.at[i] = addressOf(m) + uintptr(off)
		}
	}
	if made.called != 0 {
		n.called = addressOf(m) + uintptr(made.called)
	}
	runtime.AddCleanup(n, func(m []byte) {
		codemem.Unmap(m)
		codeBytes.Add(-size)
	}, m)
	return n
}
