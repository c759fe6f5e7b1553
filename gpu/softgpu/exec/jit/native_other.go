//go:build !amd64 || !linux

package jit

import "pvdrm/gpu/softgpu/exec/ir"

// callNative is never called.
func callNative(*Frame) {}

// nativeWorks is false: there is a compiler for amd64 only.
const nativeWorks = false

// tryNative is never called.
func tryNative() error { return nil }

// makeNative is never called.
func makeNative(*ir.Program, *ir.Function, []uint16, bool) *machineCode { return nil }

// compiles is false: everything is interpreted.
func compiles(*ir.Inst) bool { return false }
