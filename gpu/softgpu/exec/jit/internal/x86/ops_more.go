package x86

// What functions of float64 are made of.
var (
	MINPD    = Op{Name: "vminpd", table: 1, prefix: 1, wide: true, code: 0x5d, memory: 64}
	MAXPD    = Op{Name: "vmaxpd", table: 1, prefix: 1, wide: true, code: 0x5f, memory: 64}
	SCALEFPD = Op{Name: "vscalefpd", table: 2, prefix: 1, wide: true, code: 0x2c, memory: 64}
	GETEXPPD = Op{Name: "vgetexppd", table: 2, prefix: 1, wide: true, code: 0x42, memory: 64}
	GETMANT  = Op{Name: "vgetmantpd", table: 3, prefix: 1, wide: true, code: 0x26, memory: 64, imm: true}

	FMSUB231PD  = Op{Name: "vfmsub231pd", table: 2, prefix: 1, wide: true, code: 0xba, memory: 64}
	FNMADD231PD = Op{Name: "vfnmadd231pd", table: 2, prefix: 1, wide: true, code: 0xbc, memory: 64}
	FNMSUB231PD = Op{Name: "vfnmsub231pd", table: 2, prefix: 1, wide: true, code: 0xbe, memory: 64}
)

// Conversions.
var (
	CVTPS2DQ   = Op{Name: "vcvtps2dq", table: 1, prefix: 1, code: 0x5b, memory: 64}
	CVTPS2UDQ  = Op{Name: "vcvtps2udq", table: 1, code: 0x79, memory: 64}
	CVTTPD2DQ  = Op{Name: "vcvttpd2dq", table: 1, prefix: 1, wide: true, code: 0xe6, memory: 64}
	CVTTPD2UDQ = Op{Name: "vcvttpd2udq", table: 1, wide: true, code: 0x78, memory: 64}
	CVTTPD2QQ  = Op{Name: "vcvttpd2qq", table: 1, prefix: 1, wide: true, code: 0x7a, memory: 64}
	CVTQQ2PD   = Op{Name: "vcvtqq2pd", table: 1, prefix: 2, wide: true, code: 0xe6, memory: 64}
	CVTUQQ2PD  = Op{Name: "vcvtuqq2pd", table: 1, prefix: 2, wide: true, code: 0x7a, memory: 64}
	CVTQQ2PS   = Op{Name: "vcvtqq2ps", table: 1, wide: true, code: 0x5b, memory: 64}
	CVTUQQ2PS  = Op{Name: "vcvtuqq2ps", table: 1, prefix: 3, wide: true, code: 0x7a, memory: 64}
	CVTPH2PS   = Op{Name: "vcvtph2ps", table: 2, prefix: 1, code: 0x13, memory: 32}
	CVTPS2PH   = Op{Name: "vcvtps2ph", table: 3, prefix: 1, code: 0x1d, memory: 32, imm: true}
)

// Integers of other sizes, and bytes.
var (
	PMOVDW   = Op{Name: "vpmovdw", table: 2, prefix: 2, code: 0x33, memory: 32}
	PMOVZXWD = Op{Name: "vpmovzxwd", table: 2, prefix: 1, code: 0x33, memory: 32}
	PMOVSXWD = Op{Name: "vpmovsxwd", table: 2, prefix: 1, code: 0x23, memory: 32}
	PMOVDB   = Op{Name: "vpmovdb", table: 2, prefix: 2, code: 0x31, memory: 16}
	PMOVZXBD = Op{Name: "vpmovzxbd", table: 2, prefix: 1, code: 0x31, memory: 16}
	PSHUFB   = Op{Name: "vpshufb", table: 2, prefix: 1, code: 0x00, memory: 64}
	PSRAD    = Op{Name: "vpsrad", table: 1, prefix: 1, code: 0x72, memory: 64, digit: 4, imm: true}
	PSLLW    = Op{Name: "vpsllw", table: 1, prefix: 1, code: 0x71, memory: 64, digit: 6, imm: true}
	PSRAW    = Op{Name: "vpsraw", table: 1, prefix: 1, code: 0x71, memory: 64, digit: 4, imm: true}
	PMADDWD  = Op{Name: "vpmaddwd", table: 1, prefix: 1, code: 0xf5, memory: 64}
	PSHUFD   = Op{Name: "vpshufd", table: 1, prefix: 1, code: 0x70, memory: 64, imm: true}
	// BROADCASTX4 loads four elements for all quarters of the vector.
	BROADCASTX4 = Op{Name: "vbroadcasti32x4", table: 2, prefix: 1, code: 0x5a, memory: 16}
	// Sixteen bytes; those with an A are aligned, and one access then.
	LOADX   = Op{Name: "vmovdqu32", table: 1, prefix: 2, code: 0x6f, memory: 16, width: 1}
	LOADXA  = Op{Name: "vmovdqa32", table: 1, prefix: 1, code: 0x6f, memory: 16, width: 1}
	STOREX  = Op{Name: "vmovdqu32", table: 1, prefix: 2, code: 0x7f, memory: 16, width: 1}
	STOREXA = Op{Name: "vmovdqa32", table: 1, prefix: 1, code: 0x7f, memory: 16, width: 1}

	PTESTNMD = Op{Name: "vptestnmd", table: 2, prefix: 2, code: 0x27, memory: 64}

	PGATHERDQ  = Op{Name: "vpgatherdq", table: 2, prefix: 1, wide: true, code: 0x90, memory: 8}
	PSCATTERDQ = Op{Name: "vpscatterdq", table: 2, prefix: 1, wide: true, code: 0xa0, memory: 8}
)

// Quarters of a vector: four elements from and to memory, and what turns four vectors of them. LOADX4 makes
// no promise about the other quarters; INSERTX4 has the same vector as d and s. Arg.Imm is the quarter, 0 for LOADX4 and STOREX4.
var (
	LOADX4    = Op{Name: "vmovdqu32", table: 1, prefix: 2, code: 0x6f, memory: 16, width: 1}
	STOREX4   = Op{Name: "vmovdqu32", table: 1, prefix: 2, code: 0x7f, memory: 16, width: 1}
	INSERTX4  = Op{Name: "vinserti32x4", table: 3, prefix: 1, code: 0x38, memory: 16, imm: true}
	EXTRACTX4 = Op{Name: "vextracti32x4", table: 3, prefix: 1, code: 0x39, memory: 16, imm: true}
	UNPCKLD   = Op{Name: "vpunpckldq", table: 1, prefix: 1, code: 0x62, memory: 64}
	UNPCKHD   = Op{Name: "vpunpckhdq", table: 1, prefix: 1, code: 0x6a, memory: 64}
	UNPCKLQ   = Op{Name: "vpunpcklqdq", table: 1, prefix: 1, wide: true, code: 0x6c, memory: 64}
	UNPCKHQ   = Op{Name: "vpunpckhqdq", table: 1, prefix: 1, wide: true, code: 0x6d, memory: 64}
)
