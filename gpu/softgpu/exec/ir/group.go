package ir

// GroupOp is a wgmma.mma_async, as one warp runs it: 16 rows of the 64 of a and d.
//
// A thread has of a and d what it has of a product of 16×8 (MatrixOp), tile after tile. B lies in
// shared memory, and a may. There a piece is 16 bytes: elements of one row of a, or column of b,
// or, transposed, of eight rows or columns for one k.
type GroupOp struct {
	MatrixOp // its K counts a's columns, half of b's rows where a is sparse; Regs has a

	Columns int       // of b and d
	Sums    []uint32  // registers of d, which is c as well
	Memory  bool      // a lies in shared memory
	Place   [2]uint32 // 64-bit registers with the descriptors of a and b
	Trans   [2]bool   // a and b are transposed
	Negate  bool      // products are subtracted
	Scale   uint32    // predicate: what d holds is added to
	Not     bool      // where it does not hold
	Cut     int32     // of a Tile
}

// GroupSize is how many warps a warpgroup has.
const GroupSize = 4

// GroupTile is a worker's memory for a and b as threads would have them in registers.
type GroupTile struct{ A, B [4][32]uint32 }
