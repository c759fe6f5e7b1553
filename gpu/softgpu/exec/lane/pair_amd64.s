#include "textflag.h"

// func loadPair(p *[2]uint64) (lo, hi uint64)
TEXT ·loadPair(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVO (AX), X0
	MOVQ X0, lo+8(FP)
	PSRLDQ $8, X0
	MOVQ X0, hi+16(FP)
	RET

// func storePair(p *[2]uint64, lo, hi uint64)
TEXT ·storePair(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVQ lo+8(FP), X0
	MOVQ hi+16(FP), X1
	PUNPCKLQDQ X1, X0
	MOVO X0, (AX)
	RET

// func swapPair(p *[2]uint64, oldLo, oldHi, nextLo, nextHi uint64) (lo, hi uint64)
TEXT ·swapPair(SB), NOSPLIT, $0-56
	MOVQ p+0(FP), DI
	MOVQ oldLo+8(FP), AX
	MOVQ oldHi+16(FP), DX
	MOVQ nextLo+24(FP), BX
	MOVQ nextHi+32(FP), CX
	LOCK
	CMPXCHG16B (DI)
	MOVQ AX, lo+40(FP)
	MOVQ DX, hi+48(FP)
	RET
