package ptx

import "reflect"

// What the parts of a module weigh, in bytes, as an Effort counts them: their sizes, and
// those of the places in lists and maps that lead to them.
var (
	instrBytes    = sizeOf[Instr]()
	operandBytes  = sizeOf[Operand]()
	callBytes     = sizeOf[Call]()
	variableBytes = sizeOf[Var]() + listFactor*8
	labelRefBytes = sizeOf[LabelRef]()
	initBytes     = sizeOf[Init]()
	initExtBytes  = sizeOf[InitExt]()
	regBytes      = sizeOf[Reg]()
	opcodeBytes   = mapFactor * (sizeOf[opcode]() + stringBytes)
	localBytes    = mapFactor * (sizeOf[local]() + stringBytes)
	scopeBytes    = sizeOf[scope]() + 16

	// statementBytes is for the largest statement but an instruction or a variable.
	statementBytes = sizeOf[Prototype]()
	directiveBytes = max(sizeOf[Func](), sizeOf[File](), sizeOf[Section]()) + listFactor*interfaceBytes
	symbolBytes    = sizeOf[symbol]() + mapFactor*(stringBytes+8)
)

const (
	stringBytes    = 16
	interfaceBytes = 16
	numberedBytes  = mapFactor * (stringBytes + 8)
	labelBytes     = mapFactor * (stringBytes + 4)
	memberBytes    = 96 // of a register of a range, in its dense or sparse list

	// A list that grows by append is copied to a larger one now and then. A map has
	// places that are not in use, and is copied as well.
	listFactor = 3
	mapFactor  = 3
)

// Instructions and operands are allocated so many at a time as fill 8 KiB, which the
// allocator has without waste.
var (
	instrsPerSlab   = 8192 / instrBytes
	operandsPerSlab = 8192 / operandBytes
)

func sizeOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }
