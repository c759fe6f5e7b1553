// Package paging is the interface by which a para-virtualized guest of GPUvm changes page tables:
// operations on page directories that the hypervisor keeps, one or up to MaxOps in a call.
//
// An operation is 24 bytes, little-endian:
//
//	0x00  u32  the operation
//	0x04  u32  directory: BAR1, BAR3, or a number that the guest chose with NewDirectory
//	0x08  u64  A
//	0x10  u64  B
//
// Operations of a call run in order, up to the first that fails. The guest chooses numbers itself,
// so that no operation has an answer to wait for.
package paging

import (
	"encoding/binary"
	"fmt"
)

// Op is what an operation does.
type Op uint32

// Operations.
const (
	NewDirectory  Op = 1 // makes an empty directory of that number
	FreeDirectory Op = 2 // with its tables; no channel uses it
	NewTable      Op = 3 // makes the tables of 128 MiB of addresses; A: the index in the directory
	Map           Op = 4 // writes an entry; A: the virtual address, with Large for a page of 2 MiB; B: the entry, with the guest's addresses
	Flush         Op = 5 // drops the translations through the directory
	SetChannel    Op = 6 // makes the directory a channel's; A: its number
)

// Numbers of directories.
const (
	BAR1  = 1  // the address space of BAR1, which always exists
	BAR3  = 3  // likewise of BAR3
	First = 16 // the least that a guest may choose
	Last  = 16 + 255
)

// Sizes and flags.
const (
	Large   = 1   // in A of Map
	OpBytes = 24  // of an operation
	MaxOps  = 128 // of a call
)

// Call is an operation with its arguments.
type Call struct {
	Op        Op
	Directory uint32
	A, B      uint64
}

// Append encodes an operation.
func Append(b []byte, c Call) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(c.Op))
	b = binary.LittleEndian.AppendUint32(b, c.Directory)
	b = binary.LittleEndian.AppendUint64(b, c.A)
	return binary.LittleEndian.AppendUint64(b, c.B)
}

// Decode reads the operations of a call. Unknown operations are left to who runs them.
func Decode(b []byte) ([]Call, error) {
	if len(b) == 0 || len(b)%OpBytes != 0 || len(b) > MaxOps*OpBytes {
		return nil, fmt.Errorf("a call of %d bytes; it takes 1 to %d operations of %d", len(b), MaxOps, OpBytes)
	}
	calls := make([]Call, 0, len(b)/OpBytes)
	for ; len(b) > 0; b = b[OpBytes:] {
		calls = append(calls, Call{
			Op:        Op(binary.LittleEndian.Uint32(b)),
			Directory: binary.LittleEndian.Uint32(b[4:]),
			A:         binary.LittleEndian.Uint64(b[8:]),
			B:         binary.LittleEndian.Uint64(b[16:]),
		})
	}
	return calls, nil
}
