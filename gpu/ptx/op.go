package ptx

// Op is an instruction: the part of its name before the first dot. What the
// modifiers choose is in Mods.
type Op uint8

// Instructions.
const (
	OpNone Op = iota
	// OpRefused is any instruction that this package knows by name only; its
	// text is in Instr.Raw.
	OpRefused
	OpAbs
	OpActivemask
	OpAdd
	OpAddc
	OpAlloca
	OpAnd
	OpApplypriority
	OpAtom
	OpBar
	OpBarrier
	OpBfe
	OpBfi
	OpBfind
	OpBmsk
	OpBra
	OpBrev
	OpBrkpt
	OpBrx
	OpCall
	OpClz
	OpCnot
	OpCopysign
	OpCos
	OpCvt
	OpCvta
	OpDiscard
	OpDiv
	OpDp2a
	OpDp4a
	OpElect
	OpEx2
	OpExit
	OpFence
	OpFma
	OpFns
	OpIsspacep
	OpLd
	OpLdu
	OpLg2
	OpLop3
	OpMad
	OpMad24
	OpMadc
	OpMatch
	OpMax
	OpMembar
	OpMin
	OpMov
	OpMul
	OpMul24
	OpNanosleep
	OpNeg
	OpNot
	OpOr
	OpPmevent
	OpPopc
	OpPrefetch
	OpPrefetchu
	OpPrmt
	OpRcp
	OpRed
	OpRedux
	OpRem
	OpRet
	OpRsqrt
	OpSad
	OpSelp
	OpSet
	OpSetp
	OpShf
	OpShfl
	OpShl
	OpShr
	OpSin
	OpSlct
	OpSqrt
	OpSt
	OpStackrestore
	OpStacksave
	OpSub
	OpSubc
	OpSzext
	OpTanh
	OpTestp
	OpTrap
	OpVote
	OpXor
	numOps
)

var opNames = [numOps]string{"", "refused",
	"abs", "activemask", "add", "addc", "alloca", "and", "applypriority", "atom", "bar",
	"barrier", "bfe", "bfi", "bfind", "bmsk", "bra", "brev", "brkpt", "brx", "call", "clz",
	"cnot", "copysign", "cos", "cvt", "cvta", "discard", "div", "dp2a", "dp4a", "elect", "ex2",
	"exit", "fence", "fma", "fns", "isspacep", "ld", "ldu", "lg2", "lop3",
	"mad", "mad24", "madc", "match", "max", "membar", "min", "mov", "mul", "mul24", "nanosleep",
	"neg", "not", "or", "pmevent", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red", "redux",
	"rem", "ret", "rsqrt", "sad", "selp", "set", "setp", "shf", "shfl", "shl", "shr", "sin",
	"slct", "sqrt", "st", "stackrestore", "stacksave", "sub", "subc", "szext", "tanh", "testp",
	"trap", "vote", "xor",
}

// String returns the name of the instruction, such as "add".
func (o Op) String() string { return opNames[o] }
