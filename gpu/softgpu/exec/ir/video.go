package ir

// VideoOp is a video instruction: d from registers a, b and c of 32 bits.
type VideoOp struct {
	Kind     VideoKind
	Lanes    int // values at once: 1, 2 or 4
	A, B     [4]VideoPart
	Signed   bool // the result
	Saturate bool
	Second   VideoSecond

	Shift, Bits uint8 // Lanes 1: the part of d that is written; c has the rest
	Mask        uint8 // other Lanes: those that are written or added

	Holds [3]bool // VideoSet: the result for less, equal and greater
	Wrap  bool    // shifts: the amount counts modulo 32

	// VideoMad.
	SignedProduct          bool // the result of a multiplication, before it is scaled
	PlusOne, Minus, MinusC bool
	Scale                  uint8
}

// VideoPart is where an operand comes from: some bits of a or b.
type VideoPart struct {
	Second      bool // of b
	Signed      bool
	Shift, Bits uint8
}

// VideoKind is what a VideoOp computes.
type VideoKind uint8

// Kinds of VideoOps.
const (
	VideoAdd VideoKind = iota
	VideoSub
	VideoDiff
	VideoMin
	VideoMax
	VideoAverage
	VideoLeft
	VideoRight
	VideoSet
	VideoMad
)

// VideoSecond is what a VideoOp does with its result and c.
type VideoSecond uint8

// Second operations. With VideoMerge, c has the bits that are not written.
const (
	VideoMerge VideoSecond = iota
	VideoSum
	VideoLeast
	VideoMost
)
