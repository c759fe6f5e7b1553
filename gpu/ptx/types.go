package ptx

import "fmt"

// Type is a fundamental or packed type (sections 5.2 and 9.2).
type Type uint8

// Types.
const (
	TypeNone Type = iota
	Pred
	B8
	B16
	B32
	B64
	B128
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	F16
	F16x2
	BF16
	BF16x2
	F32
	F64
	TF32
	E4M3x2
	E5M2x2
	U16x2
	S16x2
	TexRef
	SamplerRef
	SurfRef
	S4 // of matrices only, as those that follow
	U4
	B1
	E4M3
	E5M2
	S2 // of cvt.pack only
	U2
	F32x2
	E2M3x2
	E3M2x2
	E2M1x2
	numTypes
)

var typeNames = [numTypes]string{"", "pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64",
	"s8", "s16", "s32", "s64", "f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32", "e4m3x2", "e5m2x2",
	"u16x2", "s16x2", "texref", "samplerref", "surfref", "s4", "u4", "b1", "e4m3", "e5m2", "s2", "u2", "f32x2",
	"e2m3x2", "e3m2x2", "e2m1x2"}

// String returns the name without its dot, such as "f32".
func (t Type) String() string {
	if t >= numTypes {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return typeNames[t]
}

var typeSizes = [numTypes]uint8{Pred: 1, B8: 1, B16: 2, B32: 4, B64: 8, B128: 16, U8: 1, U16: 2, U32: 4,
	U64: 8, S8: 1, S16: 2, S32: 4, S64: 8, F16: 2, F16x2: 4, BF16: 2, BF16x2: 4, F32: 4, F64: 8, TF32: 4,
	E4M3x2: 2, E5M2x2: 2, U16x2: 4, S16x2: 4, TexRef: 8, SamplerRef: 8, SurfRef: 8, S4: 1, U4: 1, B1: 1, E4M3: 1, E5M2: 1, S2: 1, U2: 1, F32x2: 8, E2M3x2: 2, E3M2x2: 2, E2M1x2: 1}

// Size returns the bytes of one value; 1 for a predicate.
func (t Type) Size() int { return int(typeSizes[t]) }

// Bits returns the bits of one value; 1 for a predicate.
func (t Type) Bits() int {
	if t == Pred {
		return 1
	}
	return 8 * int(typeSizes[t])
}

// Opaque reports whether t is the type of a texture, sampler or surface.
func (t Type) Opaque() bool { return t == TexRef || t == SamplerRef || t == SurfRef }

// Float reports whether t is a floating-point type, packed ones included.
func (t Type) Float() bool {
	switch t {
	case F16, F16x2, BF16, BF16x2, F32, F32x2, F64, TF32, E4M3x2, E5M2x2, E2M3x2, E3M2x2, E2M1x2:
		return true
	}
	return false
}

// Signed reports whether t is a signed integer type.
func (t Type) Signed() bool { return t >= S8 && t <= S64 || t == S16x2 }

// Unsigned reports whether t is an unsigned integer type.
func (t Type) Unsigned() bool { return t >= U8 && t <= U64 || t == U16x2 }

// Untyped reports whether t is a .b type.
func (t Type) Untyped() bool { return t >= B8 && t <= B128 }

// Space is a state space (section 5.1).
type Space uint8

// State spaces. SpaceGeneric means that none is written.
const (
	SpaceGeneric Space = iota
	SpaceReg
	SpaceConst
	SpaceGlobal
	SpaceLocal
	SpaceParam // .param; which kind follows from where it is declared
	SpaceShared
	SpaceSharedCTA     // .shared::cta, the same as .shared
	SpaceSharedCluster // .shared::cluster
	SpaceParamEntry    // .param::entry
	SpaceParamFunc     // .param::func
	numSpaces
)

var spaceNames = [numSpaces]string{"", "reg", "const", "global", "local", "param", "shared", "shared::cta",
	"shared::cluster", "param::entry", "param::func"}

// String returns the name without its dot; "" for SpaceGeneric.
func (s Space) String() string { return spaceNames[s] }

// Rounding is a rounding modifier (section 9.7.3 and cvt).
type Rounding uint8

// Roundings.
const (
	RoundNone Rounding = iota
	RN                 // nearest, ties to even
	RZ                 // towards zero
	RM                 // towards minus infinity
	RP                 // towards plus infinity
	RNA                // nearest, ties away from zero
	RNI                // to an integer, nearest even
	RZI
	RMI
	RPI
	numRoundings
)

var roundNames = [numRoundings]string{"", "rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"}

func (r Rounding) String() string { return roundNames[r] }

// Cmp is the comparison of set and setp (section 9.3.1).
type Cmp uint8

// Comparisons.
const (
	CmpNone Cmp = iota
	CmpEQ
	CmpNE
	CmpLT
	CmpLE
	CmpGT
	CmpGE
	CmpLO // unsigned <
	CmpLS // unsigned <=
	CmpHI // unsigned >
	CmpHS // unsigned >=
	CmpEQU
	CmpNEU
	CmpLTU
	CmpLEU
	CmpGTU
	CmpGEU
	CmpNUM // neither is NaN
	CmpNAN // one is NaN
	numCmps
)

var cmpNames = [numCmps]string{"", "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
	"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}

func (c Cmp) String() string { return cmpNames[c] }

// Bool is the boolean operator of set and setp, and of bar.red.
type Bool uint8

// Boolean operators.
const (
	BoolNone Bool = iota
	BoolAnd
	BoolOr
	BoolXor
	BoolPopc // bar.red.popc
	numBools
)

var boolNames = [numBools]string{"", "and", "or", "xor", "popc"}

func (b Bool) String() string { return boolNames[b] }

// Atomic is the operation of atom, red and redux.
type Atomic uint8

// Atomic operations.
const (
	AtomicNone Atomic = iota
	AtomicAnd
	AtomicOr
	AtomicXor
	AtomicCas
	AtomicExch
	AtomicAdd
	AtomicInc
	AtomicDec
	AtomicMin
	AtomicMax
	numAtomics
)

var atomicNames = [numAtomics]string{"", "and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max"}

func (a Atomic) String() string { return atomicNames[a] }

// Order is the memory ordering of a memory operation (section 8.4).
type Order uint8

// Orderings.
const (
	OrderNone Order = iota
	OrderWeak
	OrderVolatile
	OrderRelaxed
	OrderAcquire
	OrderRelease
	OrderAcqRel
	OrderSC
	numOrders
)

var orderNames = [numOrders]string{"", "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc"}

func (o Order) String() string { return orderNames[o] }

// MemScope is the scope of a memory operation or fence (section 8.5).
type MemScope uint8

// Scopes. ScopeGL is membar's old name of ScopeGPU.
const (
	ScopeNone MemScope = iota
	ScopeCTA
	ScopeCluster
	ScopeGPU
	ScopeSys
	ScopeGL
	numScopes
)

var scopeNames = [numScopes]string{"", "cta", "cluster", "gpu", "sys", "gl"}

func (s MemScope) String() string { return scopeNames[s] }

// Cache is a cache operator (section 9.7.8.1). They do not change results.
type Cache uint8

// Cache operators.
const (
	CacheNone Cache = iota
	CacheCA
	CacheCG
	CacheCS
	CacheLU
	CacheCV
	CacheWB
	CacheWT
	numCaches
)

var cacheNames = [numCaches]string{"", "ca", "cg", "cs", "lu", "cv", "wb", "wt"}

func (c Cache) String() string { return cacheNames[c] }

// Evict is a hint about a cache level (section 9.7.8.2). Hints do not change results.
type Evict uint8

// Hints.
const (
	EvictNone Evict = iota
	EvictL1Normal
	EvictL1Unchanged
	EvictL1First
	EvictL1Last
	EvictL1NoAllocate
	EvictL2Normal
	EvictL2First
	EvictL2Last
	numEvicts
)

var evictNames = [numEvicts]string{"", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
	"L1::evict_last", "L1::no_allocate", "L2::evict_normal", "L2::evict_first", "L2::evict_last"}

func (e Evict) String() string { return evictNames[e] }

// Prefetch is the .L2:: prefetch size of a load. It does not change results.
type Prefetch uint8

// Prefetch sizes.
const (
	PrefetchNone Prefetch = iota
	PrefetchL2x64
	PrefetchL2x128
	PrefetchL2x256
	PrefetchL1 // prefetch.L1
	PrefetchL2 // prefetch.L2
	numPrefetches
)

var prefetchNames = [numPrefetches]string{"", "L2::64B", "L2::128B", "L2::256B", "L1", "L2"}

func (p Prefetch) String() string { return prefetchNames[p] }

// Mode is a modifier that belongs to one kind of instruction and chooses what
// it does.
type Mode uint8

// Modes.
const (
	ModeNone   Mode = iota
	ModeUp          // shfl
	ModeDown        // shfl
	ModeBfly        // shfl
	ModeIdx         // shfl
	ModeAll         // vote, match
	ModeAny         // vote, match
	ModeUni         // vote
	ModeBallot      // vote
	ModeF4E         // prmt
	ModeB4E         // prmt
	ModeRC8         // prmt
	ModeECL         // prmt
	ModeECR         // prmt
	ModeRC16        // prmt
	ModeLo          // mul, mad, dp2a
	ModeHi          // mul, mad, dp2a
	ModeWide        // mul, mad
	ModeLeft        // shf.l
	ModeRight       // shf.r, tld4.r
	ModeClamp       // szext, bmsk, suld, sust
	ModeWrap        // szext, bmsk
	ModeSync        // bar, barrier
	ModeArrive      // bar, barrier
	ModeRed         // bar, barrier
	ModeFinite      // testp
	ModeInfinite
	ModeNumber
	ModeNotANumber
	ModeNormal
	ModeSubnormal
	ModeWarp // bar.warp
	ModeTrap // suld, sust
	ModeZero // suld, sust
	ModeGreen
	ModeBlue
	ModeAlpha
	ModeWidth // txq, suq
	ModeHeight
	ModeDepth
	ModeChannelType
	ModeChannelOrder
	ModeNormalized
	ModeArraySize
	ModeLevels
	ModeLoad        // wmma
	ModeStore       // wmma
	ModeMMA         // wmma
	ModeCommitGroup // cp.async
	ModeWaitGroup
	ModeWaitAll
	ModeWait // griddepcontrol
	ModeLaunch
	ModeInc // setmaxnreg
	ModeDec
	ModeInit // mbarrier
	ModeInval
	ModeArriveDrop
	ModeTestWait
	ModeTryWait
	ModePendingCount
	ModeFractional  // createpolicy
	ModeBarrierInit // fence.mbarrier_init
	numModes
)

var modeNames = [numModes]string{"", "up", "down", "bfly", "idx", "all", "any", "uni", "ballot",
	"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", "lo", "hi", "wide", "l", "r", "clamp", "wrap",
	"sync", "arrive", "red", "finite", "infinite", "number", "notanumber", "normal", "subnormal", "warp",
	"trap", "zero", "g", "b", "a", "width", "height", "depth", "channel_data_type", "channel_order",
	"normalized_coords", "array_size", "num_mipmap_levels", "load", "store", "mma", "commit_group",
	"wait_group", "wait_all", "wait", "launch_dependents", "inc", "dec", "init", "inval",
	"arrive_drop", "test_wait", "try_wait", "pending_count", "fractional", "mbarrier_init"}

func (m Mode) String() string { return modeNames[m] }

// Flags are the modifiers that are either there or not.
type Flags uint64

// Flags.
const (
	FTZ       Flags = 1 << iota // flush subnormals to zero
	Sat                         // saturate
	SatFinite                   // cvt to the 8-bit formats: clamp to the largest finite value
	Approx
	Full // div.full
	CC   // set the carry flag
	Sync // the _sync forms: vote, match, shfl, redux (and bar.warp)
	Uni
	Aligned
	Relu
	NaN // min, max, redux: propagate NaN
	XorSign
	Abs        // xorsign.abs, redux.abs
	NoFTZ      // atom.noftz
	To         // cvta.to
	Wrap       // shf.wrap
	Clamp      // shf.clamp
	ShiftAmt   // bfind.shiftamt
	OOB        // fma.oob
	Mask       // pmevent.mask
	NC         // ld.global.nc: through the read-only cache
	Bytes      // suld.b, sust.b, sured.b: without a conversion
	Samples    // sust.p: with a conversion
	Base       // tex.base: the first level
	Level      // tex.level, txq.level
	Gradient   // tex.grad
	Trans      // ldmatrix, stmatrix, movmatrix
	Popc       // mma and wmma on bits
	Async      // cp.async
	Global     // cp.async: where it copies from
	Hint       // L2::cache_hint: the last operand is a policy
	Barrier    // cp.async.mbarrier
	NoInc      // cp.async.mbarrier.arrive.noinc
	ExpectTx   // mbarrier
	Parity     // mbarrier
	PlusOne    // vmad.po
	Shift7     // vmad.shr7
	Shift15    // vmad.shr15
	Pack       // cvt.pack
	MMIO       // ld.mmio, st.mmio
	Proxy      // fence.proxy, membar.proxy
	ProxyAlias // and for which
	Sparse     // mma.sp, wgmma.mma_async.sp
	Ordered    // mma.sp::ordered_metadata
	CompleteTx // completion of a bulk or remote access: bytes at an mbarrier
	numFlags   = iota
)

var flagNames = [numFlags]string{"ftz", "sat", "satfinite", "approx", "full", "cc", "sync", "uni", "aligned",
	"relu", "NaN", "xorsign", "abs", "noftz", "to", "wrap", "clamp", "shiftamt", "oob", "mask", "nc", "b", "p", "base", "level", "grad", "trans", "popc", "async", "global", "L2::cache_hint",
	"mbarrier", "noinc", "expect_tx", "parity", "po", "shr7", "shr15", "pack", "mmio", "proxy", "alias", "sp", "sp::ordered_metadata", "mbarrier::complete_tx::bytes"}

// Mods are the modifiers of an instruction. The zero value of each field means
// that it is not written. Mods is comparable.
type Mods struct {
	Types    [4]Type // as written; set and cvt have the destination first
	Round    Rounding
	Cmp      Cmp
	Bool     Bool
	Space    Space
	Vec      uint8 // 0, 2, 4 or 8
	Order    Order
	Scope    MemScope
	Cache    Cache
	L1, L2   Evict
	Prefetch Prefetch
	Atomic   Atomic
	Mode     Mode
	Geometry Geometry
	Shape    Shape
	Fragment Fragment
	Layouts  [2]Layout // of a matrix, or of a and b
	Count    uint8     // 1, 2 or 4 matrices: ldmatrix, stmatrix; eighths of the columns of a wgmma
	Step     GroupStep
	Flags    Flags
	Words    Words
}

// Type returns the first type of the instruction.
func (m *Mods) Type() Type { return m.Types[0] }

// Has reports whether all of the flags are set.
func (m *Mods) Has(f Flags) bool { return m.Flags&f == f }
