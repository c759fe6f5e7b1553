package lower

import "pvdrm/gpu/softgpu/exec/ir"

// What a program is made with weighs, in bytes, as a ptx.Effort counts them.
var (
	registerBytes = ir.WeightOf[register]()
	reachBytes    = ir.WeightOf[reach]() + ir.MapFactor*16
	mentionBytes  = ir.WeightOf[mention]()

	// basicBlockBytes is for a block, its list of successors, and its part of the order.
	basicBlockBytes = ir.ListFactor*ir.WeightOf[basicBlock]() + 16 + ir.WeightOf[nodeState]() + 32
	componentBytes  = ir.ListFactor*24 + 8
	spanBytes       = 2*ir.WeightOf[interval]() + 16 + 8
	// productBytes is for a product, its maps, and the mentions of its operands.
	productBytes = ir.WeightOf[product]() + 480
)
