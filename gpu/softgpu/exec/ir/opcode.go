package ir

// AccessOp is the opcode of an access, of those that follow a load with a narrow address.
func AccessOp(load Opcode, wide, write bool) Opcode {
	op := load
	if wide {
		op += OpLoadWide - OpLoad
	}
	if write {
		op += OpStore - OpLoad
	}
	return op
}

// Opcode names an operation for the compiler to native code; OpNone is one that
// it does not know. The rows of the lane table follow the ones listed here.
type Opcode uint16

const (
	OpNone Opcode = iota
	OpPredAnd
	OpPredOr
	OpPredXor
	OpPredNot
	OpPredMov
	OpPredImm
	OpPredMask
	OpTid       // dimension imm
	OpBlock     // word imm of blockWords
	OpDynamic   // the address of dynamic .shared
	OpParam     // c bytes at imm of the kernel's parameters
	OpLocalAddr // the address of imm in the frame's local memory
	OpLoadFrame // c bytes from row imm of the frame's local memory on
	OpStoreFrame
	OpLoad     // target bytes, with the address in a 32-bit register
	OpLoadWide // the same with a 64-bit register
	OpStore
	OpStoreWide
	OpLoads // the registers of elements
	OpLoadsWide
	opStores
	OpStoresWide
	OpAtom // x.Atom
	OpShfl
	OpBallot
	OpVoteAll
	OpVoteAny
	OpVoteUni
	OpElect
	OpMatchAny   // of imm bytes
	OpMatchAll   // of imm bytes
	OpRedux      // imm is a ReduxKind
	OpMeet       // of the lanes of a mask
	OpActiveMask // the lanes that run
	OpOfLane     // number imm of what each lane has: LaneID and so on
	OpOfWarp     // number imm of what each warp has: WarpID and so on
	OpAddCarry   // predicate e is the carry, which bit 0 of imm takes and bit 1 makes
	OpAddCarry64
	OpSubCarry
	OpSubCarry64
	OpFence
	OpSpin    // makes the turn of the warp shorter by imm
	OpMatrix  // x.Matrix, a product of lane.MatrixFloat or lane.MatrixInteger
	OpCopy    // x.Copy
	OpRows    // x.Matrix, ldmatrix
	OpRowsOut // and stmatrix
	OpTurn    // movmatrix
	OpTransfer
	OpTransferOut // wmma.load and wmma.store
	OpRestore     // stackrestore: it looks at the other lanes of its frame, which only the interpreter has in one place
	OpRow         // the first row
)

// ReduxKind is what an OpRedux combines lanes by.
type ReduxKind uint64

const (
	ReduxAdd ReduxKind = iota
	ReduxMin
	ReduxMax
	ReduxMinSigned
	ReduxMaxSigned
	ReduxAnd
	ReduxOr
	ReduxXor
)

// What OpOfLane gives.
const (
	LaneID = iota
	LaneMaskEQ
	LaneMaskLT
	LaneMaskLE
	LaneMaskGE
	LaneMaskGT
	LaneWords // their number
)

// What OpOfWarp gives.
const (
	WarpID = iota
	WarpCount
	WarpWorker
	WarpWorkers
	WarpWords // their number
)

// Positions in nativeFrame.block, for OpBlock.
const (
	WordNTid   = 0
	WordCTAID  = 3
	WordNCTAID = 6
)
