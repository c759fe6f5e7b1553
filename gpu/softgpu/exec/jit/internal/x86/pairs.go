package x86

import (
	"slices"
	"sync"
)

// Pairs: the same instructions where the processor has AVX2 and no AVX-512. An Asm that MakePairs
// has changed writes none of them down as it is told to, but remembers them; Resolve makes code of
// the whole. Each vector of 512 bits is then a pair of halves of 256, and each mask either bits in
// memory or vectors with all bits of a lane alike (pairs_mask.go). Halves are in sixteen registers
// while these last and in the area of memory at r13 otherwise (pairs_state.go); what is not needed
// any more is forgotten (pairs_flow.go). Instructions that AVX2 has not are several there
// (pairs_more.go). Results are the same, bit for bit, with three exceptions that the users of an
// instruction know of: GETEXPPD, GETMANT and SCALEFPD are for what logarithms and powers give them.
//
// Code that is made so uses r13, r14 and r15, which the caller must not.

// kind is what a remembered instruction is.
type kind uint8

const (
	kRaw    kind = iota // bytes of instructions on general registers, as they are
	kV                  // op d, s, r
	kMem                // op d, s, [m]
	kEach               // op d, s, [m] with one element for all lanes
	kToGP               // r = the first lane of s
	kFromGP             // all lanes of d = s
	kLanes              // gather or scatter
	kMask               // an operation on masks
	kShift              // d = s >> imm
	kKFrom              // a mask from a general register, and back
	kKTo
	kKLoad
	kKStore
	kJump
	kJumpIf
	kBind
	kEntry // the label may be entered from outside
	kEnd   // what follows is not reached from here
	kAddress
	kCopy // sixteen bytes, from m by op to disp from of general register s by with
)

// step is an instruction that is remembered.
type step struct {
	kind    kind
	d, s, r uint8
	cond    Cond
	op      *Op
	with    *Op
	mask    *MaskOp
	m       Mem
	arg     Arg
	label   Label
	from    int32 // of raw bytes
	to      int32
}

// pairs is the code that is remembered, and what it takes to lower it. The memory serves one function
// after another: there is more of it than of the code that comes out.
type pairs struct {
	steps []step
	raw   int // bytes of the Asm that steps have
	flow  flow
	at    []*state // by label: where everything is there
	kept  []*state
	used  int // of kept
}

var spare = sync.Pool{New: func() any { return new(pairs) }}

// keep copies a state until rest.
func (p *pairs) keep(s *state) *state {
	if p.used == len(p.kept) {
		p.kept = append(p.kept, new(state))
	}
	p.used++
	k := p.kept[p.used-1]
	*k = *s
	return k
}

// cleared is a slice of n zero values, in the memory of one where that is enough.
func cleared[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// rest gives the memory to others. Nothing may refer to it any more.
func (p *pairs) rest() {
	p.steps, p.raw, p.used = p.steps[:0], 0, 0
	spare.Put(p)
}

// Area is the register that has the address of the area of memory that code for pairs uses. AreaBytes
// is its size; FillArea writes the constants that are in it.
const (
	Area      = R13
	AreaBytes = 5120
)

// MakePairs makes an empty Asm one for AVX2.
func (a *Asm) MakePairs() { a.pairs = spare.Get().(*pairs) }

// Entry says that a label may be entered from outside, with nothing in vector registers.
func (a *Asm) Entry(l Label) {
	if a.pairs != nil {
		a.remember(step{kind: kEntry, label: l})
	}
}

// remember adds an instruction, after the bytes that were written since the last one.
func (a *Asm) remember(s step) {
	p := a.pairs
	if a.n > p.raw {
		p.steps = append(p.steps, step{kind: kRaw, from: int32(p.raw), to: int32(a.n)})
		p.raw = a.n
	}
	p.steps = append(p.steps, s)
}

// goesNowhere says that what was written last does not go on to what comes next.
func (a *Asm) goesNowhere() {
	if a.pairs != nil {
		a.remember(step{kind: kEnd})
	}
}

func memoryKind(each bool) kind {
	if each {
		return kEach
	}
	return kMem
}

// Permutations that code for pairs has in place of PERMI2D with a table, of what is in s and r one behind
// the other. They have no encoding.
var (
	EVERY2    = Op{Name: "every2", imm: true}    // every second lane, from lane imm on
	JOIN      = Op{Name: "join", imm: true}      // lanes of s and r by turns, of their lower halves or, with imm 1, upper ones
	JOINPAIRS = Op{Name: "joinpairs", imm: true} // pairs of them

	EVERY2PAIRS = Op{Name: "every2pairs", imm: true} // every second pair of lanes, from pair imm on
)

// How an instruction uses its operands.
type shape uint8

const (
	sOther      shape = iota
	sBinary           // d = s op r
	sUnary            // d = op r
	sTernary          // d = d op s op r
	sCompare          // mask d = s op r
	sCopy             // d = r, and from memory
	sStore            // [m] = d
	sBroadcast        // d = the first lane of r
	sWiden            // d = op of the lower half of r
	sNarrow           // the lower half of d = op of r
	sNarrowed         // the lower half of r = op of d
	sExtract          // the lower half of r = half imm of d
	sInsert           // d = lower halves of s and r
	sFirst            // all lanes of r = the first of d that the mask has
	sPermute          // d = lanes of s and r, by number in d
	sPack             // [m] = the lower bits of d's lanes
	sUnpack           // d = bytes or words at m
	sShuffle          // d = lanes of s and r, by the instruction
	sQuarter          // quarter imm of d = four elements at m
	sQuarterOut       // four elements at m = quarter imm of d
)

func init() {
	for shape, ops := range map[shape][]*Op{
		sBinary: {&ADDPS, &MULPS, &SUBPS, &DIVPS, &MINPS, &MAXPS, &ADDPD, &MULPD, &SUBPD, &DIVPD, &MINPD, &MAXPD, &SCALEFPD,
			&PADDD, &PSUBD, &PADDQ, &PSUBQ, &PMULLD, &PMULLQ, &PMULUDQ, &PMULDQ, &PANDD, &PORD, &PXORD, &PANDQ, &PORQ, &PXORQ,
			&PMINSD, &PMINUD, &PMAXSD, &PMAXUD, &PMINSQ, &PMINUQ, &PMAXSQ, &PMAXUQ, &PSLLVD, &PSRLVD, &PSRAVD, &PSLLVQ, &PSRLVQ, &PSRAVQ, &PSHUFB, &SHUFI64X2, &PMADDWD, &UNPCKLD, &UNPCKHD, &UNPCKLQ, &UNPCKHQ},
		sUnary: {&SQRTPS, &SQRTPD, &RNDSCALE, &RNDSCALED, &CVTDQ2PS, &CVTUDQ2PS, &CVTTPS2DQ, &CVTTPS2UDQ, &CVTPS2DQ, &CVTPS2UDQ, &CVTTPD2QQ,
			&CVTQQ2PD, &CVTUQQ2PD, &PABSD, &PSHUFD, &PSLLW, &PSRAW, &PSLLD, &PSRLD, &PSRAD, &PSLLQ, &PSRLQ, &GETEXPPD, &GETMANT},
		sTernary: {&FMADD231PS, &FMSUB231PS, &FNMADD231PS, &FNMSUB231PS, &FMADD213PS, &FMSUB213PS, &FNMADD213PS, &FNMSUB213PS,
			&FMADD231PD, &FMSUB231PD, &FNMADD231PD, &FNMSUB231PD, &PTERNLOGD, &PTERNLOGQ},
		sCompare:   {&CMPPS, &CMPPD, &PCMPD, &PCMPUD, &PCMPQ, &PCMPUQ, &PTESTMD, &PTESTMQ, &PTESTNMD},
		sCopy:      {&MOVD, &MOVQ, &LOADD, &LOADQ},
		sStore:     {&STORED, &STOREQ},
		sBroadcast: {&BROADCASTD, &BROADCASTQ},
		sWiden:     {&PMOVZXDQ, &PMOVSXDQ, &CVTPS2PD, &CVTDQ2PD, &CVTUDQ2PD},
		sNarrow:    {&CVTPD2PS, &CVTTPD2DQ, &CVTTPD2UDQ, &CVTQQ2PS, &CVTUQQ2PS},
		sNarrowed:  {&PMOVQD},
		sExtract:   {&EXTRACTI64X4},
		sInsert:    {&INSERTI64X4},
		sFirst:     {&PCOMPRESSD, &PCOMPRESSQ},
		sPermute:   {&PERMI2D},
		sPack:      {&PMOVDB, &PMOVDW},
		sUnpack:    {&PMOVZXBD, &PMOVZXWD, &BROADCASTX4},
		sShuffle:   {&EVERY2, &EVERY2PAIRS, &JOIN, &JOINPAIRS},

		sQuarter: {&LOADX4, &INSERTX4}, sQuarterOut: {&STOREX4, &EXTRACTX4},
	} {
		for _, op := range ops {
			op.shape = shape
		}
	}
	setSame()
}

// gathers reports whether an instruction of kLanes loads.
func gathers(op *Op) bool { return op.code == 0x90 || op.code == 0x91 }

// Sets of halves: bit 2z is the lower half of vector z, bit 2z+1 the upper one.

func lower(z uint8) uint64 { return 1 << (2 * z) }
func both(z uint8) uint64  { return 3 << (2 * z) }

// effect is what an instruction reads and writes: halves, and masks as bits.
type effect struct {
	reads, writes   uint64
	readsK, writesK uint8
}

// effect returns what a step reads, and what it writes without a trace of what was there.
func (s *step) effect() (e effect) {
	switch s.kind {
	case kV, kMem, kEach:
		s.vectorEffect(&e)
	case kToGP:
		e.reads = lower(s.s)
	case kFromGP:
		e.writes = both(s.d)
		e.masked(s)
	case kLanes:
		e.lanesEffect(s)
	case kMask:
		e.readsK = 1<<s.r | 1<<s.s
		if s.mask == &KNOTD {
			e.readsK = 1 << s.r
		}
		if s.mask != &KORTESTD {
			e.writesK = 1 << s.d
		}
	case kShift:
		e.readsK, e.writesK = 1<<s.s, 1<<s.d
	case kKFrom, kKLoad:
		e.writesK = 1 << s.d
	case kKTo, kKStore:
		e.readsK = 1 << s.s
	}
	return e
}

// masked adds what a mask does: the lanes that it has not stay, or become zero.
func (e *effect) masked(s *step) {
	if s.arg.Mask == 0 {
		return
	}
	e.readsK |= 1 << s.arg.Mask
	if !s.arg.Zero {
		e.reads |= e.writes
	}
}

func (s *step) vectorEffect(e *effect) {
	fromReg := uint64(0)
	if s.kind == kV {
		fromReg = both(s.r)
	}
	switch s.op.shape {
	case sBinary, sShuffle:
		e.reads, e.writes = both(s.s)|fromReg, both(s.d)
		if s.zeroes() {
			e.reads = 0
		}
	case sUnary, sCopy:
		e.reads, e.writes = fromReg, both(s.d)
	case sTernary, sPermute:
		e.reads, e.writes = both(s.d)|both(s.s)|fromReg, both(s.d)
	case sCompare:
		e.reads, e.writesK = both(s.s)|fromReg, 1<<s.d
		if s.arg.Mask != 0 {
			e.readsK = 1 << s.arg.Mask
		}
		return
	case sStore, sPack:
		e.reads = both(s.d)
		if s.arg.Mask != 0 {
			e.readsK = 1 << s.arg.Mask
		}
		return
	case sBroadcast, sWiden:
		e.reads, e.writes = fromReg&lower(s.r), both(s.d)
	case sNarrow:
		e.reads, e.writes = fromReg, both(s.d)
	case sNarrowed, sFirst:
		e.reads, e.writes = both(s.d), both(s.r)
	case sExtract:
		e.reads, e.writes = lower(s.d)<<s.arg.Imm, both(s.r)
	case sInsert:
		e.reads, e.writes = lower(s.s)|lower(s.r), both(s.d)
	case sUnpack:
		e.writes = both(s.d)
	case sQuarter:
		e.quarterEffect(s)
	case sQuarterOut:
		e.reads = lower(s.d) << (s.arg.Imm / 2)
	default:
		panic("x86: " + s.op.Name + " has no form for pairs") // a bug of who uses it
	}
	e.masked(s)
}

// zeroes reports whether a step makes a vector zero, whatever its operands are.
func (s *step) zeroes() bool {
	return (s.op == &PXORD || s.op == &PXORQ) && s.kind == kV && s.s == s.r
}

func (e *effect) lanesEffect(s *step) {
	e.reads = both(s.s)
	if s.op.code&1 == 0 && s.op.wide {
		e.reads = lower(s.s) // eight numbers of 32 bits
	}
	data := both(s.d)
	if s.op.code&1 != 0 && !s.op.wide {
		data = lower(s.d) // eight values of 32 bits
	}
	e.readsK = 1 << s.arg.Mask
	e.reads |= data
	if gathers(s.op) {
		e.writes, e.writesK = data, 1<<s.arg.Mask
	}
}
