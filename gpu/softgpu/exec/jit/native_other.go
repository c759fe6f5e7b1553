//go:build !amd64 || !linux

package jit

import "pvdrm/gpu/softgpu/exec/ir"

// callNative is never called.
func callNative(f *Frame) *Frame { return f }

// best is Interpreted: there is a compiler for amd64 only.
func best() ISA { return Interpreted }

// newArea is never called.
func newArea() []byte { return nil }

// tryNative is never called.
func tryNative() error { return nil }

// makeNative is never called.
func makeNative(*ir.Program, *ir.Function, []uint16, codeKind) *machineCode { return nil }

// isPlainBarrier is false: no warps run in rings.
func isPlainBarrier(*ir.Inst) bool { return false }

// compiles is false: everything is interpreted.
func compiles(*ir.Inst, ISA) bool { return false }
