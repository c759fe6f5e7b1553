package simt

import "math"

// laneFunc computes one operation for all lanes of a warp.
type laneFunc func(*warp, *inst)

// compareFunc compares two registers lane by lane; bit i of the result is lane i.
type compareFunc func(*warp, *inst) uint32

// kind says how the dispatch loop runs an instruction.
type kind uint8

const (
	// kLane32 and kLane64 compute all lanes of r32[d] or r64[d] from the same
	// lane of other registers and do nothing else. Running lanes that are not
	// active is harmless; the loop restores them.
	kLane32 kind = iota
	kLane64
	// kMasked runs fn, which looks at the active lanes itself.
	kMasked
	// kCompare sets predicate d, and e where it is not noReg, to the comparison,
	// combined with predicate c as in.combine says.
	kCompare
	// kJump goes to target.
	kJump
	// kBranch goes to target where predicate a holds (in.neg: does not), else
	// to other.
	kBranch
	// kCompareBranch is a kCompare of the plain form and the kBranch that
	// follows it.
	kCompareBranch
	// kIndexed goes to x.targets[r32[a]].
	kIndexed
	kCall // x.call
	kRet
	kExit
	kBarrier // x.barrier
	// kWarpSync runs fn once all lanes named by the mask in r32[e] have arrived.
	kWarpSync
	kYield // lets others run
	kTrap
)

// noReg stands for no register.
const noReg = math.MaxUint32

// boolOp combines a comparison with a predicate.
type boolOp uint8

const (
	boolNone boolOp = iota
	boolAnd
	boolOr
	boolXor
)

// inst is one flat operation. The meaning of the fields depends on kind; d is
// the destination and a, b, c, e are operands, all indexes of registers in the
// frame of the function.
type inst struct {
	fn    laneFunc
	cmp   compareFunc
	imm   uint64
	x     *extra
	d     uint32
	a     uint32
	b     uint32
	c     uint32
	e     uint32
	guard uint32 // 1 + index of the predicate in front; 0: none

	target int32 // position in Program.code; of a memory access: bytes of an element
	other  int32 // of kBranch

	kind     kind
	guardNeg bool // @!p
	neg      bool // of kBranch
	combine  boolOp
	combNeg  bool  // the combined predicate is negated
	align    uint8 // of a memory access: alignment in bytes, minus 1
	space    space // of a memory access
	op       opcode
}

// extra holds what few instructions need.
type extra struct {
	targets []int32 // of kIndexed
	call    *callSite
	barrier *barrierOp
	atom    *atomOp
	shfl    *shflOp
	detail  string // of kTrap
}

// function is one decoded .func or .entry. Its code lies in Program.code.
type function struct {
	name  string
	entry int32 // position of its first instruction
	end   int32 // and after its last one

	regs32, regs64, preds int // registers of a frame, constants and temporaries included

	// Registers that hold constants, written when a frame is made.
	const32 []const32
	const64 []const64
	relocs  []int // of const64: addresses in the data segment, to which Link adds its base
	kernel  bool

	// Registers that may be read before they are written; they start as zero.
	zero32, zero64, zeroPr []uint32

	localBytes int // .local and .param of a frame, a multiple of 16
	frameBytes int // what a frame takes of the call stack of a thread
	params     []formal
	results    []formal

	maxThreads int       // .maxntid, 0: none
	reqBlock   [3]uint32 // .reqntid, 0: none
	shared     uint32    // kernels: bytes of static .shared
	dynShared  uint32    // kernels: where dynamic .shared starts
	paramBytes int       // kernels: bytes of the parameter block
}

type const32 struct{ reg, value uint32 }

type const64 struct {
	reg   uint32
	value uint64
}

// formal is a parameter or result of a .func: bytes of local memory, or a register.
type formal struct {
	offset int // in the local memory of the frame, a multiple of 4
	size   int // bytes
	reg    uint32
	kind   regKind
}

// regKind says in which file a register lies.
type regKind uint8

const (
	inMemory regKind = iota // not in a register
	in32
	in64
	inPred
)
