package simt

import (
	"maps"
	"slices"
)

// opcode names an operation for the compiler to native code; opNone is one that
// it does not know. The rows of the lane table follow the ones listed here.
type opcode uint8

const (
	opNone opcode = iota
	opPredAnd
	opPredOr
	opPredXor
	opPredNot
	opPredMov
	opPredImm
	opPredMask
	opTid      // dimension imm
	opBlock    // word imm of blockWords
	opParam    // c bytes at imm of the kernel's parameters
	opLoad     // target bytes, with the address in a 32-bit register
	opLoadWide // the same with a 64-bit register
	opStore
	opStoreWide
	opLoads // the registers of elements
	opLoadsWide
	opStores
	opStoresWide
	opRow // the first row
)

// Positions in nativeFrame.block, for opBlock.
const (
	wordNTid   = 0
	wordCTAID  = 3
	wordNCTAID = 6
)

// opcodes are the opcodes of those rows of the lane table that can be compiled,
// by the first key of the row; rowOps are the rows by opcode - opRow. Rows have the
// same opcodes in each process, though nothing depends on it.
var opcodes, rowOps = numberRows()

func numberRows() (map[string]opcode, []rowOp) {
	numbers := map[string]opcode{}
	var rows []rowOp
	known := nativeRows()
	for _, key := range slices.Sorted(maps.Keys(known)) {
		numbers[key] = opRow + opcode(len(rows))
		rows = append(rows, known[key])
	}
	if int(opRow)+len(rows) > 256 {
		panic("simt: more rows than opcodes")
	}
	return numbers, rows
}
