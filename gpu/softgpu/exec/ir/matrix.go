package ir

// MatrixOp is an instruction on matrices, which a whole warp runs.
//
// Products are computed in tiles of 16×8 or 8×8. Thread 4g+t of a warp has of a tile: in
// register n of a the elements of row g + 8·(n mod 2) from column 4e·(n/2) + e·t on, where
// e is how many elements a register holds; of b those of column g from row 4e·n + e·t on; of
// c and d two neighbours of row g + 8·(n/2), or with 16 bits n, from column 2t on.
type MatrixOp struct {
	Rows int // of a tile: 16 or 8
	K    int
	Tiles
	A, B Element
	C, D Element

	// How sums of floating point are formed (docs/ptx.md): how many products at once, and
	// whether c is added to their sum with a rounding of its own.
	Depth int
	After bool
	Bytes bool // elements of 8 bits keep their exponents, else they become f16 first

	Swap     bool    // wmma's m8n32: the transposed matrices, b·a
	Saturate bool    // integers
	And      bool    // bits: and, not xor
	Quads    bool    // mma.m8n8k4 of f16: four products of 8×8
	Columns  [2]bool // Quads: a, b hold columns, rows

	Sparse Sparsity

	Regs  [4][8]uint32 // of a, b, c and d, as many as Count has; NoReg: none
	Count [4]int

	// Of transfers: the matrix, its order in memory, and its leading dimension, a 32-bit
	// register or NoReg for Pitch.
	Fragment int
	Column   bool
	Stride   uint32
	Pitch    uint32
	Trans    bool // ldmatrix, stmatrix
	Tall     int  // rows and columns of the matrix
	Wide     int

	// Of wmma.load and wmma.store: where in memory thread 0 has the first element of each
	// register, and how much further threads 1 and 4 have theirs. Apart says that the other
	// elements of a register lie in other rows of memory.
	Places      [8]MatrixPlace
	Right, Down MatrixPlace
	Apart       bool
	Distinct    int // how many registers hold different elements; the others repeat them
}

// MatrixPlace is a place in a matrix as it lies in memory: elements along a row there, and rows.
type MatrixPlace struct {
	Along, Across uint64
}

// Tiles says how many tiles the product has, and how many registers of a, b and c lie
// between those of one and of the next.
type Tiles struct {
	Number                     int
	StepA, StepB, StepC, StepD int
}

// Sparsity says which elements of a matrix a that has half of them these are: of each row, those
// that the metadata picks of as many neighbours as Chunk, in runs of Run. K of the operation is
// how many there are of a row. The zero value is a matrix that has all.
type Sparsity struct {
	Meta  uint32 // register of 32 bits with the metadata
	First int    // the first of four lanes whose metadata counts
	Rows  bool   // 32 bits of a lane are of one row, else 16 bits each of rows g and g+8
	Chunk int
	Run   int
}

// The matrices of a MatrixOp.
const (
	MatrixA = iota
	MatrixB
	MatrixC
	MatrixD
)

// Element is what a matrix consists of.
type Element uint8

// Elements.
const (
	ElementF16 Element = iota
	ElementBF16
	ElementTF32
	ElementF32
	ElementF64
	ElementE4M3
	ElementE5M2
	ElementS32
	ElementS8
	ElementU8
	ElementS4
	ElementU4
	ElementB1
)

// elementBits are the bits of elements in registers.
var elementBits = [...]int{
	ElementF16: 16, ElementBF16: 16, ElementTF32: 32, ElementF32: 32, ElementF64: 64, ElementE4M3: 8, ElementE5M2: 8,
	ElementS32: 32, ElementS8: 8, ElementU8: 8, ElementS4: 4, ElementU4: 4, ElementB1: 1,
}

// Bits returns the bits of an element in a register.
func (e Element) Bits() int { return elementBits[e] }

// PerRegister returns how many elements a register holds.
func (e Element) PerRegister() int { return max(32/elementBits[e], 1) }

// MaxDepth is the most that k is, in words for bits, and MaxSparse with a matrix a that has half
// of its elements.
const (
	MaxDepth  = 64
	MaxSparse = 128
)

// Tile is the memory of a product of a tile: rows of a and of b, decoded.
type Tile struct {
	A, AExp [16][MaxDepth]int32 // significands and exponents, or integers
	B, BExp [MaxSparse][8]int32
	C       [16][8]uint32 // sums as they are in registers
	CExp    [16][8]int32
	CSig    [16][8]int32
	Sum     [16][8]int32 // of products
	Start   [16][8]int32 // what is left of C
	Max     [16][8]int32

	A64 [16][16]float64
	B64 [16][8]float64
	C64 [16][8]float64

	Cut     int32 // bits of sums that are dropped beyond the 25 of a fraction that mma keeps
	Special bool  // something is infinite or NaN
}
