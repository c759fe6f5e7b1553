// Package table is the lane table: the operations that compute each lane for itself, and
// comparisons, with a Go function for each. Package lanegen generates it. Where the
// processor has AVX2 and FMA, twins that compute 8 or 4 lanes at once take the place of
// many portable functions; both give the same bits.
package table

//go:generate go run ../internal/lanegen

import "pvdrm/gpu/softgpu/exec/ir"

// Lane is an operation that writes a register. Package lanegen explains Form.
type Lane struct {
	Fn   ir.Func
	Form string
	Op   ir.Opcode
}

// Compare is a comparison, which gives a bit for each lane.
type Compare struct {
	Fn   ir.CompareFunc
	Args string
	Op   ir.Opcode
}
