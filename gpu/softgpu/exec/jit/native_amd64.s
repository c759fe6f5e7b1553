//go:build linux

#include "go_asm.h"
#include "textflag.h"

// func callNative(f *Frame) *Frame
//
// Native code is a leaf: it uses no stack beyond the return address, leaves SP and BP
// as they are and keeps nothing in registers when it returns.
TEXT ·callNative(SB), NOSPLIT, $0-16
	MOVQ f+0(FP), DI
	MOVQ Frame_entry(DI), AX
	CALL AX
	MOVQ DI, ret+8(FP)
	RET
