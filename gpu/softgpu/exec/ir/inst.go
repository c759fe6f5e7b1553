package ir

import "math"

// AtomOp is an atom or red instruction: register a (64 bits) + imm is the
// address, b and c are the operands, d receives the old value.
type AtomOp struct {
	Kind   AtomKind
	Size   uint64 // bytes: 2, 4 or 8
	Align  uint64 // of the address, where it is more: that of a vector
	Update UpdateFunc
	Global UpdateFunc // in global memory, where that differs
	Word   WordFunc   // the same as Global or Update of 32 bits in global memory, faster; may be nil
	Result bool       // atom, not red
}

// AtomKind names what an AtomOp of 4 or 8 bytes does, for the compiler to native code.
type AtomKind uint8

// Kinds of AtomOps. Those of integers have the type's sign where it matters.
const (
	AtomOther AtomKind = iota // one that the compiler does not know
	AtomAdd
	AtomAnd
	AtomOr
	AtomXor
	AtomExch
	AtomCas // c if the old value is b
	AtomInc
	AtomDec
	AtomMin
	AtomMax
	AtomMinSigned
	AtomMaxSigned
	AtomAddFloat
	AtomAddDouble
)

// WordFunc updates *p in one atomic step and returns the old value.
type WordFunc func(p *uint32, b, c uint64) uint32

// CopyOp is a cp.async: register b (64 bits) + Offset is the address that Size bytes come
// from, and Source, a 32-bit register or NoReg, how many of them there are.
type CopyOp struct {
	Offset, Size uint64
	Source       uint32
}

// MBarrierOp is an mbarrier instruction: register a (64 bits) + imm is the address, or the
// state of MBarrierPending; d receives the state before, or the answer.
type MBarrierOp struct {
	Kind    MBarrierKind
	Operand uint32 // a count, bytes, a state or a parity; NoReg: 1
	Size    uint64 // of Operand, in bytes
	Bytes   bool   // Operand is bytes to expect
	Drop    bool   // arrivals are not expected again
	Parity  bool
}

// AsyncOp is st.async or red.async: Count registers of Size bytes go to the address in register a
// (64 bits) + imm, and as many bytes are complete at the mbarrier in register Barrier + Offset.
type AsyncOp struct {
	Regs    [4]uint32
	Count   int
	Size    uint64
	Barrier uint32
	Offset  uint64
	Update  UpdateFunc // of red.async
}

// PairOp is atom.exch.b128 or atom.cas.b128: pairs of 64-bit registers, the lower half first. Old gets
// what was there, or is NoReg; B is stored, or with Compare it is compared, and C stored.
type PairOp struct {
	Old, B, C [2]uint32
	Compare   bool
}

// MBarrierKind is what an MBarrierOp does.
type MBarrierKind uint8

// Kinds of MBarrierOps.
const (
	MBarrierInit MBarrierKind = iota
	MBarrierArrive
	MBarrierExpect
	MBarrierTest
	MBarrierPending
	MBarrierComplete // bytes
	MBarrierNothing  // but for its checks
)

// UpdateFunc makes the new value of an atomic operation from the old one and
// its operands.
type UpdateFunc func(old, b, c uint64) uint64

// AnyDepth is the depth of a function that calls itself, calls through a register, or
// takes memory of its frame: only Limits.StackBytes bounds it.
const AnyDepth = math.MaxInt32

// Func computes one operation for all lanes of a warp.
type Func func(*Warp, *Inst)

// CompareFunc compares two registers lane by lane; bit i of the result is lane i.
type CompareFunc func(*Warp, *Inst) uint32

// Kind says how the dispatch loop runs an instruction.
type Kind uint8

const (
	// KLane32 and KLane64 compute all lanes of r32[d] or r64[d] from the same
	// lane of other registers and do nothing else. Running lanes that are not
	// active is harmless; the loop restores them.
	KLane32 Kind = iota
	KLane64
	// KMasked runs fn, which looks at the active lanes itself.
	KMasked
	// KCompare sets predicate d, and e where it is not NoReg, to the comparison,
	// combined with predicate c as in.combine says.
	KCompare
	// KJump goes to target.
	KJump
	// KBranch goes to target where predicate a holds (in.neg: does not), else
	// to other. If e is not 0, lanes that disagree go to e together.
	KBranch
	// KCompareBranch is a KCompare of the plain form and the KBranch that
	// follows it.
	KCompareBranch
	// KIndexed goes to x.targets[r32[a]].
	KIndexed
	KCall // x.call
	KRet
	KExit
	KBarrier // x.barrier
	// KWarpSync runs fn once all lanes named by the mask in r32[e] have arrived.
	KWarpSync
	KSleep // for about r32[a] nanoseconds
	// KPass passes a head of a loop, after an operation that took long.
	KPass
	// KChildren waits for what the kernel has launched; r32[a] is the depth up to which kernels may, r32[d] the error.
	KChildren
	KTrap
)

// NoReg stands for no register.
const NoReg = math.MaxUint32

// BoolOp combines a comparison with a predicate.
type BoolOp uint8

const (
	BoolNone BoolOp = iota
	BoolAnd
	BoolOr
	BoolXor
	BoolNot // added to one of these: the predicate is negated first
)

// Inst is one flat operation. The meaning of the fields depends on kind; d is
// the destination and a, b, c, e are operands, all indexes of registers in the
// frame of the function.
type Inst struct {
	Fn    Func
	Cmp   CompareFunc
	Imm   uint64
	X     *Extra
	D     uint32
	A     uint32
	B     uint32
	C     uint32
	E     uint32
	Guard uint32 // 1 + index of the predicate in front; 0: none

	Target int32 // position in program.code; of a memory access: bytes of an element
	Other  int32 // of KBranch

	Kind     Kind
	GuardNeg bool // @!p
	Neg      bool // of KBranch; of a vector load or store: it is one access
	Combine  BoolOp
	Align    uint8 // of a memory access: alignment in bytes, minus 1
	Space    Space // of a memory access
	Op       Opcode
}

// Extra holds what few instructions need.
type Extra struct {
	Targets  []int32 // of KIndexed
	Call     *CallSite
	Barrier  *BarrierOp
	Atom     *AtomOp
	Shfl     *ShflOp
	Tex      *TexOp
	Matrix   *MatrixOp
	Group    *GroupOp
	Copy     *CopyOp
	Bulk     *BulkOp
	Replace  *ReplaceOp
	MBarrier *MBarrierOp
	Async    *AsyncOp
	Pair     *PairOp
	Video    *VideoOp
	Detail   string // of KTrap
}

// Function is one decoded .func or .entry. Its code lies in program.code.
type Function struct {
	Name   string
	Number int   // in Program.Funcs
	Entry  int32 // position of its first instruction
	End    int32 // and after its last one

	Regs32, Regs64, Preds int // registers of a frame, constants and temporaries included

	// Registers that hold constants, written when a frame is made.
	Const32 []Const32
	Const64 []Const64
	Relocs  []int // of Const64: addresses in the data segment, to which Link adds its base
	// Of Const32 and Const64: addresses in .shared, to which each block adds Block.Own.
	Shared32, Shared64 []int
	Kernel             bool

	// Registers that may be read before they are written; they start as zero.
	Zero32, Zero64, ZeroPr []uint32

	// Registers, not of predicates, that one operation of a kernel writes, and in all lanes that run it.
	Once32, Once64 []uint32

	LocalBytes int  // .local and .param of a frame, a multiple of 16
	FrameBytes int  // what a frame takes of the call stack of a thread
	Depth      int  // and with the frames of what it calls, at most; see depths
	Grows      bool // a frame grows while it runs, by alloca
	Params     []Formal
	Results    []Formal

	MaxThreads int       // .maxntid, 0: none
	ReqBlock   [3]uint32 // .reqntid, 0: none
	ReqCluster [3]uint32 // .reqnctapercluster, 0: none
	MaxCluster uint32    // .maxclusterrank, 0: none
	Shared     uint32    // kernels: bytes of static .shared
	DynShared  uint32    // kernels: where dynamic .shared starts
	ParamBytes int       // kernels: bytes of the parameter block
}

type Const32 struct{ Reg, Value uint32 }

type Const64 struct {
	Reg   uint32
	Value uint64
}

// Formal is a parameter or result of a .func: bytes of local memory, or a register.
type Formal struct {
	Offset int // in the local memory of the frame, a multiple of 4
	Size   int // bytes
	Reg    uint32
	Kind   RegKind
}

// Place is where a formal is, in the frame of its function.
func (f *Formal) Place() Actual { return Actual{Offset: f.Offset, Reg: f.Reg, Kind: f.Kind} }

// RegKind says in which file a register lies.
type RegKind uint8

const (
	InMemory RegKind = iota // not in a register
	In32
	In64
	InPred
)

// CallSite describes a call: which memory or registers of the caller become
// the callee's parameters, and which receive its results.
type CallSite struct {
	Fn      *Function   // nil for an indirect call
	May     []*Function // what an indirect call may reach by its declaration; nil: any
	Args    []Actual
	Results []Actual
	// Sizes in bytes that an indirect call expects of its callee.
	ParamSizes, ResultSizes []int
}

// Actual is an argument or the place of a result on the caller's side.
type Actual struct {
	Offset int // in the caller's local memory
	Reg    uint32
	Kind   RegKind
}

// BarrierOp is a barrier instruction.
type BarrierOp struct {
	ID, Count uint32 // 32-bit registers; count may be NoReg
	Number    uint32 // the value of ID where it is a constant, else NoReg
	Arrive    bool
	Reduce    BoolOp // BoolNone: none or popc
	Popc      bool
	Pred      uint32
	PredNeg   bool
	Cluster   bool // barrier.cluster: of all blocks of the cluster, arrive or wait
}

func EndsBlock(k Kind) bool {
	switch k {
	case KJump, KBranch, KIndexed, KRet, KExit, KTrap:
		return true
	}
	return false
}

const MaxLivePasses = 32

func NewSets(n, words int) [][]uint64 {
	all := make([]uint64, n*words)
	sets := make([][]uint64, n)
	for i := range sets {
		sets[i] = all[i*words : (i+1)*words]
	}
	return sets
}

// Elements are the registers of a vector load or store, the first n of them.
func Elements(in *Inst) (regs [4]uint32, n int) {
	if in.E == NoReg {
		return [4]uint32{in.D, in.B}, 2
	}
	return [4]uint32{in.D, in.B, in.C, in.E}, 4
}

// AccessFuncs are the loads and stores by size and by the width of the register
// with the address.
type AccessKey struct {
	Size   int // bytes
	Wide   bool
	Writes bool
}

// ShflOp is what kind of shuffle it is.
type ShflOp struct {
	Mode ShflMode
}

type ShflMode uint8
