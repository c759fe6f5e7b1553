package x86

// Op is an EVEX instruction on vectors of 512 bits, as the Intel manual encodes
// it (volume 2, section 2.7): opcode map, prefix, W and opcode.
type Op struct {
	Name   string
	table  uint8 // 1: 0F, 2: 0F38, 3: 0F3A
	prefix uint8 // 0: none, 1: 66, 2: F3, 3: F2
	wide   bool  // EVEX.W
	code   uint8
	memory uint8 // bytes of a memory operand, without broadcast: the unit of short displacements
	digit  uint8 // in place of the register, for shifts by a constant
	imm    bool
	// width is the length of the vector where the encoding names a shorter one:
	// 1: 128 bits, 2: 256 bits, 0: 512 bits.
	width uint8
	shape shape                                 // for pairs
	same  *Op                                   // the same on 256 bits, if there is one
	more  func(n *lowering, s *step, d, a, b y) // the instructions in place of it, if it has none

	narrow   func(a *Asm, i *narrowed) // those in place of it, or of its form of 256 bits, in narrow code
	takes    takes                     // what those take for the last operand
	negative [2]bool                   // of a product and a sum: which of the two has another sign
}

// Floating point.
var (
	ADDPS  = Op{Name: "vaddps", table: 1, code: 0x58, memory: 64}
	MULPS  = Op{Name: "vmulps", table: 1, code: 0x59, memory: 64}
	SUBPS  = Op{Name: "vsubps", table: 1, code: 0x5c, memory: 64}
	DIVPS  = Op{Name: "vdivps", table: 1, code: 0x5e, memory: 64}
	SQRTPS = Op{Name: "vsqrtps", table: 1, code: 0x51, memory: 64}
	MINPS  = Op{Name: "vminps", table: 1, code: 0x5d, memory: 64}
	MAXPS  = Op{Name: "vmaxps", table: 1, code: 0x5f, memory: 64}
	ADDPD  = Op{Name: "vaddpd", table: 1, prefix: 1, wide: true, code: 0x58, memory: 64}
	MULPD  = Op{Name: "vmulpd", table: 1, prefix: 1, wide: true, code: 0x59, memory: 64}
	SUBPD  = Op{Name: "vsubpd", table: 1, prefix: 1, wide: true, code: 0x5c, memory: 64}
	DIVPD  = Op{Name: "vdivpd", table: 1, prefix: 1, wide: true, code: 0x5e, memory: 64}
	SQRTPD = Op{Name: "vsqrtpd", table: 1, prefix: 1, wide: true, code: 0x51, memory: 64}

	FMADD231PS  = Op{Name: "vfmadd231ps", table: 2, prefix: 1, code: 0xb8, memory: 64}
	FMSUB231PS  = Op{Name: "vfmsub231ps", table: 2, prefix: 1, code: 0xba, memory: 64}
	FNMADD231PS = Op{Name: "vfnmadd231ps", table: 2, prefix: 1, code: 0xbc, memory: 64}
	FNMSUB231PS = Op{Name: "vfnmsub231ps", table: 2, prefix: 1, code: 0xbe, memory: 64}
	FMADD213PS  = Op{Name: "vfmadd213ps", table: 2, prefix: 1, code: 0xa8, memory: 64}
	FMSUB213PS  = Op{Name: "vfmsub213ps", table: 2, prefix: 1, code: 0xaa, memory: 64}
	FNMADD213PS = Op{Name: "vfnmadd213ps", table: 2, prefix: 1, code: 0xac, memory: 64}
	FNMSUB213PS = Op{Name: "vfnmsub213ps", table: 2, prefix: 1, code: 0xae, memory: 64}
	FMADD231PD  = Op{Name: "vfmadd231pd", table: 2, prefix: 1, wide: true, code: 0xb8, memory: 64}

	CMPPS     = Op{Name: "vcmpps", table: 1, code: 0xc2, memory: 64, imm: true}
	CMPPD     = Op{Name: "vcmppd", table: 1, prefix: 1, wide: true, code: 0xc2, memory: 64, imm: true}
	RNDSCALE  = Op{Name: "vrndscaleps", table: 3, prefix: 1, code: 0x08, memory: 64, imm: true}
	RNDSCALED = Op{Name: "vrndscalepd", table: 3, prefix: 1, wide: true, code: 0x09, memory: 64, imm: true}

	CVTDQ2PS   = Op{Name: "vcvtdq2ps", table: 1, code: 0x5b, memory: 64}
	CVTUDQ2PS  = Op{Name: "vcvtudq2ps", table: 1, prefix: 3, code: 0x7a, memory: 64}
	CVTTPS2DQ  = Op{Name: "vcvttps2dq", table: 1, prefix: 2, code: 0x5b, memory: 64}
	CVTTPS2UDQ = Op{Name: "vcvttps2udq", table: 1, code: 0x78, memory: 64}
	CVTPS2PD   = Op{Name: "vcvtps2pd", table: 1, code: 0x5a, memory: 32}
	CVTPD2PS   = Op{Name: "vcvtpd2ps", table: 1, prefix: 1, wide: true, code: 0x5a, memory: 64}
	CVTDQ2PD   = Op{Name: "vcvtdq2pd", table: 1, prefix: 2, code: 0xe6, memory: 32}
	CVTUDQ2PD  = Op{Name: "vcvtudq2pd", table: 1, prefix: 2, code: 0x7a, memory: 32}
)

// Integers and logic.
var (
	PADDD   = Op{Name: "vpaddd", table: 1, prefix: 1, code: 0xfe, memory: 64}
	PSUBD   = Op{Name: "vpsubd", table: 1, prefix: 1, code: 0xfa, memory: 64}
	PADDQ   = Op{Name: "vpaddq", table: 1, prefix: 1, wide: true, code: 0xd4, memory: 64}
	PSUBQ   = Op{Name: "vpsubq", table: 1, prefix: 1, wide: true, code: 0xfb, memory: 64}
	PMULLD  = Op{Name: "vpmulld", table: 2, prefix: 1, code: 0x40, memory: 64}
	PMULLQ  = Op{Name: "vpmullq", table: 2, prefix: 1, wide: true, code: 0x40, memory: 64}
	PMULUDQ = Op{Name: "vpmuludq", table: 1, prefix: 1, wide: true, code: 0xf4, memory: 64}
	PMULDQ  = Op{Name: "vpmuldq", table: 2, prefix: 1, wide: true, code: 0x28, memory: 64}

	PANDD     = Op{Name: "vpandd", table: 1, prefix: 1, code: 0xdb, memory: 64}
	PORD      = Op{Name: "vpord", table: 1, prefix: 1, code: 0xeb, memory: 64}
	PXORD     = Op{Name: "vpxord", table: 1, prefix: 1, code: 0xef, memory: 64}
	PANDQ     = Op{Name: "vpandq", table: 1, prefix: 1, wide: true, code: 0xdb, memory: 64}
	PORQ      = Op{Name: "vporq", table: 1, prefix: 1, wide: true, code: 0xeb, memory: 64}
	PXORQ     = Op{Name: "vpxorq", table: 1, prefix: 1, wide: true, code: 0xef, memory: 64}
	PTERNLOGD = Op{Name: "vpternlogd", table: 3, prefix: 1, code: 0x25, memory: 64, imm: true}
	PTERNLOGQ = Op{Name: "vpternlogq", table: 3, prefix: 1, wide: true, code: 0x25, memory: 64, imm: true}

	PMINSD = Op{Name: "vpminsd", table: 2, prefix: 1, code: 0x39, memory: 64}
	PMINUD = Op{Name: "vpminud", table: 2, prefix: 1, code: 0x3b, memory: 64}
	PMAXSD = Op{Name: "vpmaxsd", table: 2, prefix: 1, code: 0x3d, memory: 64}
	PMAXUD = Op{Name: "vpmaxud", table: 2, prefix: 1, code: 0x3f, memory: 64}
	PMINSQ = Op{Name: "vpminsq", table: 2, prefix: 1, wide: true, code: 0x39, memory: 64}
	PMINUQ = Op{Name: "vpminuq", table: 2, prefix: 1, wide: true, code: 0x3b, memory: 64}
	PMAXSQ = Op{Name: "vpmaxsq", table: 2, prefix: 1, wide: true, code: 0x3d, memory: 64}
	PMAXUQ = Op{Name: "vpmaxuq", table: 2, prefix: 1, wide: true, code: 0x3f, memory: 64}
	PABSD  = Op{Name: "vpabsd", table: 2, prefix: 1, code: 0x1e, memory: 64}

	PSLLVD = Op{Name: "vpsllvd", table: 2, prefix: 1, code: 0x47, memory: 64}
	PSRLVD = Op{Name: "vpsrlvd", table: 2, prefix: 1, code: 0x45, memory: 64}
	PSRAVD = Op{Name: "vpsravd", table: 2, prefix: 1, code: 0x46, memory: 64}
	PSLLVQ = Op{Name: "vpsllvq", table: 2, prefix: 1, wide: true, code: 0x47, memory: 64}
	PSRLVQ = Op{Name: "vpsrlvq", table: 2, prefix: 1, wide: true, code: 0x45, memory: 64}
	PSRAVQ = Op{Name: "vpsravq", table: 2, prefix: 1, wide: true, code: 0x46, memory: 64}
	PSLLD  = Op{Name: "vpslld", table: 1, prefix: 1, code: 0x72, memory: 64, digit: 6, imm: true}
	PSRLD  = Op{Name: "vpsrld", table: 1, prefix: 1, code: 0x72, memory: 64, digit: 2, imm: true}
	PSLLQ  = Op{Name: "vpsllq", table: 1, prefix: 1, wide: true, code: 0x73, memory: 64, digit: 6, imm: true}
	PSRLQ  = Op{Name: "vpsrlq", table: 1, prefix: 1, wide: true, code: 0x73, memory: 64, digit: 2, imm: true}

	PCMPD   = Op{Name: "vpcmpd", table: 3, prefix: 1, code: 0x1f, memory: 64, imm: true}
	PCMPUD  = Op{Name: "vpcmpud", table: 3, prefix: 1, code: 0x1e, memory: 64, imm: true}
	PCMPQ   = Op{Name: "vpcmpq", table: 3, prefix: 1, wide: true, code: 0x1f, memory: 64, imm: true}
	PCMPUQ  = Op{Name: "vpcmpuq", table: 3, prefix: 1, wide: true, code: 0x1e, memory: 64, imm: true}
	PTESTMD = Op{Name: "vptestmd", table: 2, prefix: 1, code: 0x27, memory: 64}
	PTESTMQ = Op{Name: "vptestmq", table: 2, prefix: 1, wide: true, code: 0x27, memory: 64}
)

// Moves and rearrangement. LOAD and STORE need no alignment.
var (
	MOVD       = Op{Name: "vmovdqa32", table: 1, prefix: 1, code: 0x6f, memory: 64}
	MOVQ       = Op{Name: "vmovdqa64", table: 1, prefix: 1, wide: true, code: 0x6f, memory: 64}
	LOADD      = Op{Name: "vmovdqu32", table: 1, prefix: 2, code: 0x6f, memory: 64}
	LOADQ      = Op{Name: "vmovdqu64", table: 1, prefix: 2, wide: true, code: 0x6f, memory: 64}
	STORED     = Op{Name: "vmovdqu32", table: 1, prefix: 2, code: 0x7f, memory: 64}
	STOREQ     = Op{Name: "vmovdqu64", table: 1, prefix: 2, wide: true, code: 0x7f, memory: 64}
	BROADCASTD = Op{Name: "vpbroadcastd", table: 2, prefix: 1, code: 0x58, memory: 4}
	BROADCASTQ = Op{Name: "vpbroadcastq", table: 2, prefix: 1, wide: true, code: 0x59, memory: 8}
	FROMGPD    = Op{Name: "vpbroadcastd", table: 2, prefix: 1, code: 0x7c}
	FROMGPQ    = Op{Name: "vpbroadcastq", table: 2, prefix: 1, wide: true, code: 0x7c}
	TOGPQ      = Op{Name: "vmovq", table: 1, prefix: 1, wide: true, code: 0x7e, width: 1}
	TOGPD      = Op{Name: "vmovd", table: 1, prefix: 1, code: 0x7e, width: 1}

	PMOVZXDQ     = Op{Name: "vpmovzxdq", table: 2, prefix: 1, code: 0x35, memory: 32}
	PMOVSXDQ     = Op{Name: "vpmovsxdq", table: 2, prefix: 1, code: 0x25, memory: 32}
	PMOVQD       = Op{Name: "vpmovqd", table: 2, prefix: 2, code: 0x35, memory: 32}
	EXTRACTI64X4 = Op{Name: "vextracti64x4", table: 3, prefix: 1, wide: true, code: 0x3b, memory: 32, imm: true}
	INSERTI64X4  = Op{Name: "vinserti64x4", table: 3, prefix: 1, wide: true, code: 0x3a, memory: 32, imm: true}
	SHUFI64X2    = Op{Name: "vshufi64x2", table: 3, prefix: 1, wide: true, code: 0x43, memory: 64, imm: true}
	PERMI2D      = Op{Name: "vpermi2d", table: 2, prefix: 1, code: 0x76, memory: 64}
	PERMT2D      = Op{Name: "vpermt2d", table: 2, prefix: 1, code: 0x7e, memory: 64}

	PCOMPRESSD = Op{Name: "vpcompressd", table: 2, prefix: 1, code: 0x8b, memory: 4}
	PCOMPRESSQ = Op{Name: "vpcompressq", table: 2, prefix: 1, wide: true, code: 0x8b, memory: 8}
	PGATHERDD  = Op{Name: "vpgatherdd", table: 2, prefix: 1, code: 0x90, memory: 4}
	PGATHERQD  = Op{Name: "vpgatherqd", table: 2, prefix: 1, code: 0x91, memory: 4}
	PGATHERQQ  = Op{Name: "vpgatherqq", table: 2, prefix: 1, wide: true, code: 0x91, memory: 8}
	PSCATTERDD = Op{Name: "vpscatterdd", table: 2, prefix: 1, code: 0xa0, memory: 4}
	PSCATTERQD = Op{Name: "vpscatterqd", table: 2, prefix: 1, code: 0xa1, memory: 4}
	PSCATTERQQ = Op{Name: "vpscatterqq", table: 2, prefix: 1, wide: true, code: 0xa1, memory: 8}
)

// MaskOp is a VEX instruction on mask registers (section 2.3 of the same manual).
type MaskOp struct {
	Name   string
	table  uint8
	prefix uint8
	wide   bool
	long   bool // VEX.L
	code   uint8
}

var (
	KANDD    = MaskOp{"kandd", 1, 1, true, true, 0x41}
	KANDND   = MaskOp{"kandnd", 1, 1, true, true, 0x42} // the first source is inverted
	KORD     = MaskOp{"kord", 1, 1, true, true, 0x45}
	KXORD    = MaskOp{"kxord", 1, 1, true, true, 0x47}
	KUNPCKWD = MaskOp{"kunpckwd", 1, 0, false, true, 0x4b}
	KUNPCKBW = MaskOp{"kunpckbw", 1, 1, false, true, 0x4b}
	KNOTD    = MaskOp{"knotd", 1, 1, true, false, 0x44}
	KORTESTD = MaskOp{"kortestd", 1, 1, true, false, 0x98}
	KSHIFTRD = MaskOp{"kshiftrd", 3, 1, false, false, 0x31}
	KFROMGP  = MaskOp{"kmovd", 1, 3, false, false, 0x92}
	KTOGP    = MaskOp{"kmovd", 1, 3, false, false, 0x93}
	KLOAD    = MaskOp{"kmovd", 1, 1, true, false, 0x90}
	KSTORE   = MaskOp{"kmovd", 1, 1, true, false, 0x91}
)
