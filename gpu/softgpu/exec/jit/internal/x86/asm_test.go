package x86

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/encodings.txt again, with llvm-mc")

// sample is an instruction as text and as calls of an Asm.
type sample struct {
	text string
	emit func(*Asm)
}

// The vector instructions by their operands: three registers, two, and so on.
var (
	three = []*Op{&ADDPS, &MULPS, &SUBPS, &DIVPS, &MINPS, &MAXPS, &ADDPD, &MULPD, &SUBPD, &DIVPD,
		&FMADD231PS, &FMSUB231PS, &FNMADD231PS, &FNMSUB231PS, &FMADD213PS, &FMSUB213PS, &FNMADD213PS, &FNMSUB213PS, &FMADD231PD,
		&PADDD, &PSUBD, &PADDQ, &PSUBQ, &PMULLD, &PMULLQ, &PMULUDQ, &PMULDQ, &PANDD, &PORD, &PXORD, &PANDQ, &PORQ, &PXORQ,
		&PTERNLOGD, &PTERNLOGQ, &PMINSD, &PMINUD, &PMAXSD, &PMAXUD, &PMINSQ, &PMINUQ, &PMAXSQ, &PMAXUQ,
		&PSLLVD, &PSRLVD, &PSRAVD, &PSLLVQ, &PSRLVQ, &PSRAVQ, &SHUFI64X2, &PERMI2D, &PERMT2D,
		&MINPD, &MAXPD, &SCALEFPD, &FMSUB231PD, &FNMADD231PD, &FNMSUB231PD}
	two = []*Op{&SQRTPS, &SQRTPD, &RNDSCALE, &RNDSCALED, &CVTDQ2PS, &CVTUDQ2PS, &CVTTPS2DQ, &CVTTPS2UDQ, &PABSD,
		&PSLLD, &PSRLD, &PSRAD, &PSLLQ, &PSRLQ, &GETEXPPD, &GETMANT, &CVTPS2DQ, &CVTPS2UDQ, &CVTTPD2QQ, &CVTQQ2PD, &CVTUQQ2PD, &PSHUFD, &PSLLW, &PSRAW}
	moves    = []*Op{&MOVD, &MOVQ, &LOADD, &LOADQ}
	compares = []*Op{&CMPPS, &CMPPD, &PCMPD, &PCMPUD, &PCMPQ, &PCMPUQ, &PTESTMD, &PTESTMQ, &PTESTNMD}
	masks    = []*MaskOp{&KANDD, &KANDND, &KORD, &KXORD, &KUNPCKWD, &KUNPCKBW}
)

func immediate(op *Op) string {
	if op.imm {
		return ", 3"
	}
	return ""
}

func unit(op *Op) (name, bcast string) {
	if op.wide {
		return "qword", "{1to8}"
	}
	return "dword", "{1to16}"
}

// regs are numbers that have each bit of a register set in some place.
var regs = [][3]Z{{0, 1, 2}, {31, 16, 8}, {8, 31, 16}, {16, 8, 31}, {5, 21, 26}}

// bases and displacements of memory operands.
var mems = []Mem{{RAX, 0}, {RSP, 64}, {R12, -128}, {R13, 8}, {RBP, 0x12345}, {R15, 4}}

func (m Mem) text() string {
	return fmt.Sprintf("[%s%+d]", names64[m.Base], m.Disp)
}

var names64 = strings.Fields("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")
var names32 = strings.Fields("eax ecx edx ebx esp ebp esi edi r8d r9d r10d r11d r12d r13d r14d r15d")

type sampleList []sample

func (l *sampleList) add(emit func(*Asm), format string, args ...any) {
	*l = append(*l, sample{fmt.Sprintf(format, args...), emit})
}

func samples() []sample {
	var l sampleList
	l.vectors()
	l.compares()
	l.halfVectors()
	l.lanes()
	l.masks()
	l.general()
	l.atomic()
	return l
}

// vectors are operations whose operands are vectors of 64 bytes.
func (l *sampleList) vectors() {
	for _, op := range three {
		u, b := unit(op)
		for _, r := range regs {
			l.add(func(a *Asm) { a.V(op, r[0], r[1], r[2], Arg{Imm: 3}) }, "%s zmm%d, zmm%d, zmm%d%s", op.Name, r[0], r[1], r[2], immediate(op))
		}
		for _, m := range mems {
			l.add(func(a *Asm) { a.VM(op, 1, 17, m, Arg{Mask: 3, Imm: 3}) }, "%s zmm1 {k3}, zmm17, zmmword ptr %s%s", op.Name, m.text(), immediate(op))
			l.add(func(a *Asm) { a.VB(op, 9, 2, m, Arg{Mask: 7, Zero: true, Imm: 3}) }, "%s zmm9 {k7} {z}, zmm2, %s ptr %s%s%s", op.Name, u, m.text(), b, immediate(op))
		}
	}
	for _, op := range two {
		for _, r := range regs {
			l.add(func(a *Asm) { a.V(op, r[0], 0, r[1], Arg{Mask: 1, Imm: 3}) }, "%s zmm%d {k1}, zmm%d%s", op.Name, r[0], r[1], immediate(op))
		}
		for _, m := range mems {
			l.add(func(a *Asm) { a.VM(op, 30, 0, m, Arg{Imm: 3}) }, "%s zmm30, zmmword ptr %s%s", op.Name, m.text(), immediate(op))
		}
	}
	for _, op := range moves {
		for _, r := range regs {
			l.add(func(a *Asm) { a.V(op, r[0], 0, r[1], Arg{Mask: 2}) }, "%s zmm%d {k2}, zmm%d", op.Name, r[0], r[1])
		}
		for _, m := range mems {
			l.add(func(a *Asm) { a.VM(op, 20, 0, m, Arg{Mask: 2, Zero: true}) }, "%s zmm20 {k2} {z}, zmmword ptr %s", op.Name, m.text())
		}
	}
	for _, op := range []*Op{&STORED, &STOREQ} {
		for _, m := range mems {
			l.add(func(a *Asm) { a.VM(op, 20, 0, m, Arg{Mask: 2}) }, "%s zmmword ptr %s {k2}, zmm20", op.Name, m.text())
		}
	}
	for mode, name := range map[Round]string{Nearest: "rn", Down: "rd", Up: "ru", Truncate: "rz"} {
		l.add(func(a *Asm) { a.V(&ADDPS, 1, 2, 3, Arg{Round: mode}) }, "vaddps zmm1, zmm2, zmm3, {%s-sae}", name)
		l.add(func(a *Asm) { a.V(&SQRTPS, 1, 0, 3, Arg{Round: mode}) }, "vsqrtps zmm1, zmm3, {%s-sae}", name)
	}
}

func (l *sampleList) compares() {
	for _, op := range compares {
		u, b := unit(op)
		for _, r := range regs {
			l.add(func(a *Asm) { a.VK(op, K(r[0]&7), r[1], r[2], Arg{Mask: 4, Imm: 3}) }, "%s k%d {k4}, zmm%d, zmm%d%s", op.Name, r[0]&7, r[1], r[2], immediate(op))
		}
		for _, m := range mems {
			l.add(func(a *Asm) { a.VKB(op, 5, 18, m, Arg{Imm: 3}) }, "%s k5, zmm18, %s ptr %s%s%s", op.Name, u, m.text(), b, immediate(op))
			l.add(func(a *Asm) { a.VKM(op, 5, 18, m, Arg{Imm: 3}) }, "%s k5, zmm18, zmmword ptr %s%s", op.Name, m.text(), immediate(op))
		}
	}
}

// halfVectors are operations one of whose operands has half the length, or less.
func (l *sampleList) halfVectors() {
	for _, op := range []*Op{&PMOVZXDQ, &PMOVSXDQ, &CVTPS2PD, &CVTDQ2PD, &CVTUDQ2PD, &CVTPH2PS, &PMOVZXWD, &PMOVSXWD} {
		l.add(func(a *Asm) { a.V(op, 17, 0, 25, Arg{Mask: 1}) }, "%s zmm17 {k1}, ymm25", op.Name)
		for _, m := range mems {
			l.add(func(a *Asm) { a.VM(op, 3, 0, m, Arg{}) }, "%s zmm3, ymmword ptr %s", op.Name, m.text())
		}
	}
	for _, op := range []*Op{&CVTPD2PS, &CVTTPD2DQ, &CVTTPD2UDQ, &CVTQQ2PS, &CVTUQQ2PS} {
		l.add(func(a *Asm) { a.V(op, 17, 0, 25, Arg{Mask: 1}) }, "%s ymm17 {k1}, zmm25", op.Name)
	}
	for _, op := range []*Op{&PMOVQD, &PMOVDW} {
		l.add(func(a *Asm) { a.V(op, 25, 0, 17, Arg{Mask: 1}) }, "%s ymm17 {k1}, zmm25", op.Name)
		l.add(func(a *Asm) { a.VM(op, 25, 0, mems[1], Arg{Mask: 1}) }, "%s ymmword ptr %s {k1}, zmm25", op.Name, mems[1].text())
	}
	l.add(func(a *Asm) { a.V(&CVTPS2PH, 25, 0, 17, Arg{Imm: 1}) }, "vcvtps2ph ymm17, zmm25, 1")
	l.add(func(a *Asm) { a.V(&PSHUFB, 25, 3, 17, Arg{Mask: 1}) }, "vpshufb zmm25 {k1}, zmm3, zmm17")
	l.add(func(a *Asm) { a.V(&PMADDWD, 25, 3, 17, Arg{Mask: 1}) }, "vpmaddwd zmm25 {k1}, zmm3, zmm17")
	for _, op := range []*Op{&UNPCKLD, &UNPCKHD, &UNPCKLQ, &UNPCKHQ} {
		l.add(func(a *Asm) { a.V(op, 25, 3, 17, Arg{}) }, "%s zmm25, zmm3, zmm17", op.Name)
	}
	for _, m := range mems {
		l.add(func(a *Asm) { a.VM(&LOADX4, 19, 0, m, Arg{}) }, "{evex} vmovdqu32 xmm19, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.VM(&STOREX4, 19, 0, m, Arg{}) }, "{evex} vmovdqu32 xmmword ptr %s, xmm19", m.text())
		l.add(func(a *Asm) { a.VM(&INSERTX4, 19, 19, m, Arg{Imm: 2}) }, "vinserti32x4 zmm19, zmm19, xmmword ptr %s, 2", m.text())
		l.add(func(a *Asm) { a.VM(&EXTRACTX4, 19, 0, m, Arg{Imm: 3}) }, "vextracti32x4 xmmword ptr %s, zmm19, 3", m.text())
		l.add(func(a *Asm) { a.VM(&BROADCASTX4, 3, 0, m, Arg{}) }, "vbroadcasti32x4 zmm3, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.VM(&LOADX, 19, 0, m, Arg{}) }, "vmovdqu32 xmm19, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.VM(&LOADXA, 19, 0, m, Arg{}) }, "vmovdqa32 xmm19, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.VM(&STOREX, 19, 0, m, Arg{}) }, "vmovdqu32 xmmword ptr %s, xmm19", m.text())
		l.add(func(a *Asm) { a.VM(&STOREXA, 19, 0, m, Arg{}) }, "vmovdqa32 xmmword ptr %s, xmm19", m.text())
		l.add(func(a *Asm) { a.StorePart(1, m, RBX) }, "mov byte ptr %s, bl", m.text())
		l.add(func(a *Asm) { a.StorePart(2, m, RBX) }, "mov word ptr %s, bx", m.text())
		l.add(func(a *Asm) { a.VM(&PMOVZXBD, 3, 0, m, Arg{Mask: 1}) }, "vpmovzxbd zmm3 {k1}, xmmword ptr %s", m.text())
		l.add(func(a *Asm) { a.VM(&PMOVDB, 25, 0, m, Arg{Mask: 1}) }, "vpmovdb xmmword ptr %s {k1}, zmm25", m.text())
	}
	l.add(func(a *Asm) { a.V(&PCOMPRESSD, 25, 0, 17, Arg{Mask: 1, Zero: true}) }, "vpcompressd zmm17 {k1} {z}, zmm25")
	l.add(func(a *Asm) { a.V(&PCOMPRESSQ, 25, 0, 17, Arg{Mask: 1}) }, "vpcompressq zmm17 {k1}, zmm25")
	l.add(func(a *Asm) { a.V(&EXTRACTI64X4, 25, 0, 17, Arg{Imm: 1}) }, "vextracti64x4 ymm17, zmm25, 1")
	l.add(func(a *Asm) { a.V(&INSERTI64X4, 25, 3, 17, Arg{Imm: 1}) }, "vinserti64x4 zmm25, zmm3, ymm17, 1")
	for _, op := range []*Op{&BROADCASTD, &BROADCASTQ} {
		u, _ := unit(op)
		l.add(func(a *Asm) { a.V(op, 17, 0, 25, Arg{Mask: 1}) }, "%s zmm17 {k1}, xmm25", op.Name)
		for _, m := range mems {
			l.add(func(a *Asm) { a.VM(op, 17, 0, m, Arg{Mask: 5}) }, "%s zmm17 {k5}, %s ptr %s", op.Name, u, m.text())
		}
	}
}

// lanes move single values, or gather and scatter them.
func (l *sampleList) lanes() {
	for _, r := range []R{RAX, R12} {
		l.add(func(a *Asm) { a.FromGP(&FROMGPQ, 19, r, Arg{Mask: 1}) }, "vpbroadcastq zmm19 {k1}, %s", names64[r])
		l.add(func(a *Asm) { a.FromGP(&FROMGPD, 19, r, Arg{}) }, "vpbroadcastd zmm19, %s", names32[r])
		l.add(func(a *Asm) { a.ToGP(&TOGPQ, r, 19) }, "{evex} vmovq %s, xmm19", names64[r])
		l.add(func(a *Asm) { a.ToGP(&TOGPD, r, 19) }, "{evex} vmovd %s, xmm19", names32[r])
		for _, index := range []Z{0, 8, 16, 28} {
			l.add(func(a *Asm) { a.Lanes(&PGATHERDD, 17, r, index, 1<<20, 3) }, "vpgatherdd zmm17 {k3}, [%s+zmm%d+1048576]", names64[r], index)
			l.add(func(a *Asm) { a.Lanes(&PGATHERQD, 17, r, index, 1<<20, 3) }, "vpgatherqd ymm17 {k3}, [%s+zmm%d+1048576]", names64[r], index)
			l.add(func(a *Asm) { a.Lanes(&PGATHERQQ, 17, r, index, 1<<20, 3) }, "vpgatherqq zmm17 {k3}, [%s+zmm%d+1048576]", names64[r], index)
			l.add(func(a *Asm) { a.Lanes(&PSCATTERDD, 17, r, index, 1<<20, 3) }, "vpscatterdd [%s+zmm%d+1048576] {k3}, zmm17", names64[r], index)
			l.add(func(a *Asm) { a.Lanes(&PSCATTERQD, 17, r, index, 1<<20, 3) }, "vpscatterqd [%s+zmm%d+1048576] {k3}, ymm17", names64[r], index)
			l.add(func(a *Asm) { a.Lanes(&PGATHERDQ, 17, r, index, 1<<20, 3) }, "vpgatherdq zmm17 {k3}, [%s+ymm%d+1048576]", names64[r], index)
			l.add(func(a *Asm) { a.Lanes(&PSCATTERDQ, 17, r, index, 1<<20, 3) }, "vpscatterdq [%s+ymm%d+1048576] {k3}, zmm17", names64[r], index)
			l.add(func(a *Asm) { a.Lanes(&PSCATTERQQ, 17, r, index, 1<<20, 3) }, "vpscatterqq [%s+zmm%d+1048576] {k3}, zmm17", names64[r], index)
		}
		l.add(func(a *Asm) { a.KFrom(6, r) }, "{vex3} kmovd k6, %s", names32[r])
		l.add(func(a *Asm) { a.KTo(r, 6) }, "{vex3} kmovd %s, k6", names32[r])
	}
}

// masks are operations on mask registers.
func (l *sampleList) masks() {
	for _, op := range masks {
		l.add(func(a *Asm) { a.KK(op, 1, 6, 3) }, "{vex3} %s k1, k6, k3", op.Name)
	}
	for _, op := range []*MaskOp{&KNOTD, &KORTESTD} {
		l.add(func(a *Asm) { a.KK(op, 5, 0, 2) }, "{vex3} %s k5, k2", op.Name)
	}
	l.add(func(a *Asm) { a.KShift(&KSHIFTRD, 5, 2, 17) }, "kshiftrd k5, k2, 17")
	for _, m := range mems {
		l.add(func(a *Asm) { a.KLoad(5, m) }, "{vex3} kmovd k5, dword ptr %s", m.text())
		l.add(func(a *Asm) { a.KStore(m, 5) }, "{vex3} kmovd dword ptr %s, k5", m.text())
	}
}

// general are operations on general registers.
func (l *sampleList) general() {
	for _, m := range mems {
		l.add(func(a *Asm) { a.RM(MOV, true, R9, m) }, "mov r9, qword ptr %s", m.text())
		l.add(func(a *Asm) { a.RM(CMP, false, RCX, m) }, "cmp ecx, dword ptr %s", m.text())
		l.add(func(a *Asm) { a.Store(true, m, R10) }, "mov qword ptr %s, r10", m.text())
		l.add(func(a *Asm) { a.Store(false, m, RDX) }, "mov dword ptr %s, edx", m.text())
		l.add(func(a *Asm) { a.MI(MOV, false, m, 0x12345) }, "mov dword ptr %s, 0x12345", m.text())
		l.add(func(a *Asm) { a.MI(SUB, true, m, 0x12345) }, "sub qword ptr %s, 0x12345", m.text())
		l.add(func(a *Asm) { a.MI(CMP, false, m, 0x12345) }, "cmp dword ptr %s, 0x12345", m.text())
		l.add(func(a *Asm) { a.JumpMem(m) }, "jmp qword ptr %s", m.text())
	}
	for op, name := range map[Alu]string{ADD: "add", OR: "or", AND: "and", SUB: "sub", XOR: "xor", CMP: "cmp", MOV: "mov"} {
		l.add(func(a *Asm) { a.RR(op, true, R9, RBX) }, "%s r9, rbx", name)
		l.add(func(a *Asm) { a.RR(op, false, RCX, R13) }, "%s ecx, r13d", name)
		l.add(func(a *Asm) { a.RI(op, false, RCX, 0x12345678) }, "%s ecx, 0x12345678", name)
		l.add(func(a *Asm) { a.RI(op, true, R11, -0x12345678) }, "%s r11, -0x12345678", name)
	}
	l.add(func(a *Asm) { a.RR(TEST, false, RBX, R11) }, "test r11d, ebx")
	l.add(func(a *Asm) { a.Imm64(R11, 0x123456789abcdef0) }, "movabs r11, 0x123456789abcdef0")
	l.add(func(a *Asm) { a.SignExtend(R11, RCX) }, "movsxd r11, ecx")
	l.add(func(a *Asm) { a.Not(R11) }, "not r11d")
	l.add(func(a *Asm) { a.ShiftByCL(R11) }, "shr r11, cl")
}

// atomic are operations on words in memory, and what goes with them.
func (l *sampleList) atomic() {
	for _, m := range mems {
		for op, name := range map[Alu]string{ADD: "add", OR: "or", AND: "and", XOR: "xor"} {
			l.add(func(a *Asm) { a.ToMemory(op, true, false, m, RCX) }, "lock %s dword ptr %s, ecx", name, m.text())
			l.add(func(a *Asm) { a.ToMemory(op, false, true, m, R9) }, "%s qword ptr %s, r9", name, m.text())
		}
		l.add(func(a *Asm) { a.ExchangeAdd(true, false, m, RAX) }, "lock xadd dword ptr %s, eax", m.text())
		l.add(func(a *Asm) { a.ExchangeAdd(false, true, m, R11) }, "xadd qword ptr %s, r11", m.text())
		l.add(func(a *Asm) { a.Exchange(false, m, RAX) }, "xchg dword ptr %s, eax", m.text())
		l.add(func(a *Asm) { a.Exchange(true, m, R11) }, "xchg qword ptr %s, r11", m.text())
		l.add(func(a *Asm) { a.CompareExchange(true, true, m, RCX) }, "lock cmpxchg qword ptr %s, rcx", m.text())
		l.add(func(a *Asm) { a.CompareExchange(false, false, m, R10) }, "cmpxchg dword ptr %s, r10d", m.text())
	}
	p := Place{Base: R13, Index: RBX, Shift: 3, Disp: 4096}
	l.add(func(a *Asm) { a.RP(MOV, true, RDX, p) }, "mov rdx, qword ptr [r13 + 8*rbx + 4096]")
	l.add(func(a *Asm) { a.RP(CMP, false, R9, p) }, "cmp r9d, dword ptr [r13 + 8*rbx + 4096]")
	l.add(func(a *Asm) { a.Lea(RAX, p) }, "lea rax, [r13 + 8*rbx + 4096]")
	l.add(func(a *Asm) { a.StoreTo(false, p, RAX) }, "mov dword ptr [r13 + 8*rbx + 4096], eax")
	for c, name := range map[Cond]string{Above: "a", Below: "b", AboveEqual: "ae", Greater: "g", Less: "l"} {
		l.add(func(a *Asm) { a.MoveIf(c, false, RCX, p) }, "cmov%s ecx, dword ptr [r13 + 8*rbx + 4096]", name)
		l.add(func(a *Asm) { a.MoveIf(c, true, RCX, Place{Base: RSI, Index: RSP, Disp: 4096}) }, "cmov%s rcx, qword ptr [rsi + riz + 4096]", name)
	}
	l.add(func(a *Asm) { a.FirstBit(R15, R14) }, "tzcnt r15d, r14d")
	l.add(func(a *Asm) { a.DropBit(R14, R14) }, "blsr r14d, r14d")
}

const (
	recorded    = "testdata/encodings.txt"
	recordedVEX = "testdata/vex.txt"
)

// Each instruction has the bytes that were recorded. They were written down (-update)
// where LLVM disassembled them as the instruction that is meant; it would choose
// shorter forms of some constants and displacements itself.
func TestEncodings(t *testing.T) { encodings(t, samples(), recorded) }

// So have those of 256 bits.
func TestEncodingsOfPairs(t *testing.T) { encodings(t, pairSamples(), recordedVEX) }

func encodings(t *testing.T, list []sample, recorded string) {
	if *update {
		record(t, list, recorded)
	}
	data, err := os.ReadFile(recorded)
	require.NoError(t, err)
	want := map[string]string{}
	for line := range strings.Lines(string(data)) {
		text, code, _ := strings.Cut(strings.TrimSpace(line), "\t")
		want[text] = code
	}
	require.Len(t, want, len(list))
	for _, s := range list {
		var a Asm
		s.emit(&a)
		require.Equal(t, want[s.text], hex.EncodeToString(a.Code()), s.text)
	}
}

var notText = regexp.MustCompile(`\s+`)

// record has LLVM disassemble what we assemble, checks that this is the same
// instruction as the text, and writes our bytes down.
func record(t *testing.T, list []sample, recorded string) {
	norm := func(asm string, bytes bool) []string {
		args := []string{"-triple=x86_64", "-mcpu=sapphirerapids", "-x86-asm-syntax=intel", "-output-asm-variant=1"}
		if bytes {
			args = append(args, "-disassemble")
		}
		cmd := exec.Command("llvm-mc", args...)
		cmd.Stdin = strings.NewReader(asm)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		var lines []string
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(notText.ReplaceAllString(line, " "))
			if n := len(lines); n > 0 && lines[n-1] == "lock" { // a line of its own
				line, lines = "lock "+line, lines[:n-1]
			}
			if line != "" && !strings.HasPrefix(line, ".") {
				line = strings.TrimPrefix(strings.TrimPrefix(line, "{evex} "), "{vex3} ")
				lines = append(lines, line)
			}
		}
		return lines
	}
	var text, code, out strings.Builder
	for _, s := range list {
		var a Asm
		s.emit(&a)
		fmt.Fprintln(&text, s.text)
		for _, b := range a.Code() {
			fmt.Fprintf(&code, "0x%02x ", b)
		}
		fmt.Fprintln(&code)
		fmt.Fprintf(&out, "%s\t%s\n", s.text, hex.EncodeToString(a.Code()))
	}
	want, got := norm(text.String(), false), norm(code.String(), true)
	require.Len(t, want, len(list))
	for i := range list {
		require.Less(t, i, len(got), list[i].text)
		require.Equal(t, want[i], got[i], list[i].text)
	}
	require.Len(t, got, len(list))
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	require.NoError(t, os.WriteFile(recorded, []byte(out.String()), 0o644))
}

// Jumps lead to their labels, forward and back.
func TestLabels(t *testing.T) {
	var a Asm
	back, on := a.NewLabel(), a.NewLabel()
	a.Bind(back)
	a.JumpIf(Equal, on) // 6 bytes
	a.Jump(back)        // 5 bytes
	a.Bind(on)
	a.Return()
	require.True(t, a.Resolve())
	require.Equal(t, "0f8405000000e9f5ffffffc5f877c3", hex.EncodeToString(a.Code()))
	require.Equal(t, 11, a.Offset(on))

	a.Jump(a.NewLabel())
	require.False(t, a.Resolve(), "a label that stands nowhere")
}
