package jit

import (
	"sync/atomic"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Code for launches whose blocks have rows of whole warps, where %tid.x is one more from lane to lane and %tid.y and %tid.z
// are the same in a warp, is another than for other launches (strides.go).

// maxWraps is how many warps may leave such code because an index wraps around, until launches have the other one.
const maxWraps = 64

// shaped is the code for such launches.
type shaped struct {
	code  atomic.Pointer[Code]
	wraps atomic.Int32
}

// codeKind is what code is made for: warps of which some lanes run, or all; launches whose blocks have rows of whole warps;
// and a processor.
type codeKind struct {
	masked, inRows bool
	tiled          bool // blocks have several rows
	isa            ISA
}

// For returns the code of launches with blocks of this size.
func (n *Code) For(block [3]uint32) *Code {
	if block[0]%32 != 0 && (block[1] != 1 || block[2] != 1) || n.inRows.wraps.Load() > maxWraps {
		return n
	}
	c := n.inRows.code.Load()
	if c == nil {
		c = &Code{charge: n.charge, plain: n, tiled: block[1] > 1}
		if !n.inRows.code.CompareAndSwap(nil, c) {
			c = n.inRows.code.Load()
		}
	}
	return c
}

// wrapped counts an operation that code for rows has left to the interpreter, if it is one that makes 64 bits of 32: no
// others of a plain form leave.
func (n *Code) wrapped(in *ir.Inst) {
	if n.plain != nil && in.Kind == ir.KLane64 && in.Op >= ir.OpRow {
		n.plain.inRows.wraps.Add(1)
	}
}
