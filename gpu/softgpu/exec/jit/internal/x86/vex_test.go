package x86

import "strings"

// Numbers of registers of 256 bits that have each bit set in some place.
var yRegs = [][3]y{{0, 1, 2}, {15, 8, 7}, {7, 15, 8}, {8, 7, 15}}

// plainName is the name of an instruction without the size of masked elements.
var plainNames = strings.NewReplacer("vpandd", "vpand", "vpandq", "vpand", "vpord", "vpor", "vporq", "vpor", "vpxord", "vpxor", "vpxorq", "vpxor",
	"vmovdqa32", "vmovdqa", "vmovdqu32", "vmovdqu")

func pairSamples() []sample {
	var l sampleList
	l.yThree()
	l.yTwo()
	l.yMoves()
	l.yLanes()
	l.yGeneral()
	return l
}

// yThree are operations on three vectors.
func (l *sampleList) yThree() {
	ops := []*Op{&yCMPEQD, &yCMPEQQ, &yCMPGTD, &yCMPGTQ, &yANDN, &yPACKDW, &yPACKWB, &ySHUFPS, &yPERMD, &yBLENDD, &yUNPACKL, &yUNPACKH, &yUNPACKLQ, &yUNPACKHQ, &yJOIN, &UNPCKLD, &UNPCKHD, &UNPCKLQ, &UNPCKHQ, &CMPPS, &CMPPD}
	for _, op := range three {
		if (op.same == op || op.shape == sTernary && op.table == 2) && op != &PANDQ && op != &PORQ && op != &PXORQ { // which are PANDD and so on here
			ops = append(ops, op)
		}
	}
	for _, op := range ops {
		name := plainNames.Replace(op.Name)
		for _, r := range yRegs {
			l.add(func(a *Asm) { a.y(op, r[0], r[1], r[2], 3) }, "%s ymm%d, ymm%d, ymm%d%s", name, r[0], r[1], r[2], immediate(op))
		}
		for _, m := range mems {
			l.add(func(a *Asm) { a.ym(op, 9, 2, m, 3) }, "%s ymm9, ymm2, ymmword ptr %s%s", name, m.text(), immediate(op))
		}
	}
	for _, r := range yRegs {
		l.add(func(a *Asm) { a.y(&yBLENDV, r[0], r[1], r[2], r[0]<<4) }, "vblendvps ymm%d, ymm%d, ymm%d, ymm%d", r[0], r[1], r[2], r[0])
		l.add(func(a *Asm) { a.y(&yINSERT, r[0], r[1], r[2], 1) }, "vinserti128 ymm%d, ymm%d, xmm%d, 1", r[0], r[1], r[2])
		l.add(func(a *Asm) { a.y(&yEXTRACT, r[0], 0, r[2], 1) }, "vextracti128 xmm%d, ymm%d, 1", r[2], r[0])
	}
}

// yTwo are operations on two.
func (l *sampleList) yTwo() {
	for _, op := range []*Op{&SQRTPS, &SQRTPD, &yROUNDS, &yROUNDD, &CVTDQ2PS, &CVTTPS2DQ, &CVTPS2DQ, &PABSD, &yPERMQ, &yTEST, &MOVD, &PSHUFD} {
		for _, r := range yRegs {
			l.add(func(a *Asm) { a.y(op, r[0], 0, r[1], 3) }, "%s ymm%d, ymm%d%s", plainNames.Replace(op.Name), r[0], r[1], immediate(op))
		}
	}
	for _, op := range []*Op{&PSLLD, &PSRLD, &PSRAD, &PSLLQ, &PSRLQ, &PSLLW, &PSRAW} {
		for _, r := range yRegs {
			l.add(func(a *Asm) { a.y(op, r[0], 0, r[1], 3) }, "%s ymm%d, ymm%d, 3", op.Name, r[0], r[1])
		}
	}
	for _, op := range []*Op{&PMOVZXDQ, &PMOVSXDQ, &CVTPS2PD, &CVTDQ2PD, &BROADCASTD, &BROADCASTQ} {
		l.add(func(a *Asm) { a.y(op, 9, 0, 14, 0) }, "%s ymm9, xmm14", op.Name)
	}
	for _, op := range []*Op{&CVTPD2PS, &CVTTPD2DQ} {
		l.add(func(a *Asm) { a.y(op, 9, 0, 14, 0) }, "%s xmm9, ymm14", op.Name)
	}
	for _, r := range []R{RAX, R14} {
		l.add(func(a *Asm) { a.y(&yMASKD, uint8(r), 0, 11, 0) }, "vmovmskps %s, ymm11", names32[r])
		l.add(func(a *Asm) { a.y(&yMASKQ, uint8(r), 0, 11, 0) }, "vmovmskpd %s, ymm11", names32[r])
		l.add(func(a *Asm) { a.y(&yMASKB, uint8(r), 0, 11, 0) }, "vpmovmskb %s, ymm11", names32[r])
		l.add(func(a *Asm) { a.x(&yFROMD, 11, 0, uint8(r), 0) }, "vmovd xmm11, %s", names32[r])
		l.add(func(a *Asm) { a.x(&yFROMQ, 11, 0, uint8(r), 0) }, "vmovq xmm11, %s", names64[r])
		l.add(func(a *Asm) { a.x(&yTOD, 11, 0, uint8(r), 0) }, "vmovd %s, xmm11", names32[r])
		l.add(func(a *Asm) { a.x(&yTOQ, 11, 0, uint8(r), 0) }, "vmovq %s, xmm11", names64[r])
	}
}

// yMoves are loads and stores.
func (l *sampleList) yMoves() {
	l.add(func(a *Asm) { a.y(&PMADDWD, 9, 2, 14, 0) }, "vpmaddwd ymm9, ymm2, ymm14")
	for _, m := range mems {
		l.add(func(a *Asm) { a.ym(&BROADCASTX4, 9, 0, m, 0) }, "vbroadcasti128 ymm9, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&yINSERT, 9, 3, m, 1) }, "vinserti128 ymm9, ymm3, xmmword ptr %s, 1", m.text())
		l.add(func(a *Asm) { a.ym(&yEXTRACT, 9, 0, m, 1) }, "vextracti128 xmmword ptr %s, ymm9, 1", m.text())
		l.add(func(a *Asm) { a.xm(&LOADD, 9, 0, m, 0) }, "vmovdqu xmm9, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&LOADD, 9, 0, m, 0) }, "vmovdqu ymm9, ymmword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&STORED, 9, 0, m, 0) }, "vmovdqu ymmword ptr %s, ymm9", m.text())
		l.add(func(a *Asm) { a.xm(&STORED, 9, 0, m, 0) }, "vmovdqu xmmword ptr %s, xmm9", m.text())
		l.add(func(a *Asm) { a.xm(&LOADXA, 9, 0, m, 0) }, "vmovdqa xmm9, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.xm(&STOREXA, 9, 0, m, 0) }, "vmovdqa xmmword ptr %s, xmm9", m.text())
		l.add(func(a *Asm) { a.ym(&BROADCASTD, 9, 0, m, 0) }, "vpbroadcastd ymm9, dword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&yBROADCASTQ, 9, 0, m, 0) }, "vpbroadcastq ymm9, qword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&PMOVZXBD, 9, 0, m, 0) }, "vpmovzxbd ymm9, qword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&PMOVZXWD, 9, 0, m, 0) }, "vpmovzxwd ymm9, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&yMASKLOAD, 9, 3, m, 0) }, "vpmaskmovd ymm9, ymm3, ymmword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&yMASKSTORE, 9, 3, m, 0) }, "vpmaskmovd ymmword ptr %s, ymm3, ymm9", m.text())
		l.add(func(a *Asm) { a.ym(&yMASKLOADQ, 9, 3, m, 0) }, "vpmaskmovq ymm9, ymm3, ymmword ptr %s", m.text())
		l.add(func(a *Asm) { a.ym(&yMASKSTOREQ, 9, 3, m, 0) }, "vpmaskmovq ymmword ptr %s, ymm3, ymm9", m.text())
		l.add(func(a *Asm) { a.xm(&yTOQ, 9, 0, m, 0) }, "vmovq qword ptr %s, xmm9", m.text())
		l.add(func(a *Asm) { a.xm(&ySTORESS, 9, 0, m, 0) }, "vmovss dword ptr %s, xmm9", m.text())
		l.add(func(a *Asm) { a.xm(&yCVTSI2SS, 9, 3, m, 0) }, "vcvtsi2ss xmm9, xmm3, qword ptr %s", m.text())
		l.add(func(a *Asm) { a.xm(&yCVTTSD2SI, uint8(R14), 0, m, 0) }, "vcvttsd2si r14, qword ptr %s", m.text())
		l.add(func(a *Asm) { a.mxcsr(m) }, "vldmxcsr dword ptr %s", m.text())
	}
}

// yLanes are gathers.
func (l *sampleList) yLanes() {
	for _, base := range []R{RDX, R13} {
		for _, index := range []y{4, 12} {
			l.add(func(a *Asm) { a.yLanes(&PGATHERDD, 9, base, index, 1<<20, 3, true) }, "vpgatherdd ymm9, [%s+ymm%d+1048576], ymm3", names64[base], index)
			l.add(func(a *Asm) { a.yLanes(&PGATHERQD, 9, base, index, 1<<20, 3, true) }, "vpgatherqd xmm9, [%s+ymm%d+1048576], xmm3", names64[base], index)
			l.add(func(a *Asm) { a.yLanes(&PGATHERQQ, 9, base, index, 1<<20, 3, true) }, "vpgatherqq ymm9, [%s+ymm%d+1048576], ymm3", names64[base], index)
			l.add(func(a *Asm) { a.yLanes(&PGATHERDQ, 9, base, index, 1<<20, 3, true) }, "vpgatherdq ymm9, [%s+xmm%d+1048576], ymm3", names64[base], index)
		}
	}
}

// yGeneral are those on general registers.
func (l *sampleList) yGeneral() {
	for _, m := range mems {
		l.add(func(a *Asm) { a.extend(zeroByte, R14, m) }, "movzx r14d, byte ptr %s", m.text())
		l.add(func(a *Asm) { a.extend(zeroWord, R14, m) }, "movzx r14d, word ptr %s", m.text())
	}
	l.add(func(a *Asm) { a.rotate(R14, R15, 24) }, "rorx r14d, r15d, 24")
	l.add(func(a *Asm) { a.sum(R14, R14, R15) }, "lea r14, [r14 + r15]")
	l.add(func(a *Asm) { a.index(0x63, true, RBX, R13, R15, 2, 256) }, "movsxd rbx, dword ptr [r13 + 4*r15 + 256]")
	l.add(func(a *Asm) { a.index(0x8b, true, RBX, R13, R15, 3, 256) }, "mov rbx, qword ptr [r13 + 8*r15 + 256]")
	l.add(func(a *Asm) { a.index(0x89, false, R15, RDX, RBX, 0, 256) }, "mov dword ptr [rdx + rbx + 256], r15d")
	l.add(func(a *Asm) { a.index(0x88, false, RBX, RDX, R15, 0, 256) }, "mov byte ptr [rdx + r15 + 256], bl")
	l.add(func(a *Asm) { a.index(0x0fb6, false, RBX, RDX, R15, 0, 256) }, "movzx ebx, byte ptr [rdx + r15 + 256]")
}
