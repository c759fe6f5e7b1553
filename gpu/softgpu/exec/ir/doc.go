// Package ir is the decoded form of kernels, and the state that operations work on.
//
// A Function is a run of flat operations (Inst): registers are dense indexes, branch
// targets are positions, and each operation holds the Go function that computes it for
// 32 lanes. Nothing is looked up by name at run time. A Warp, Block and Worker are what
// such a function sees; package run embeds them in its own, which it schedules.
//
// Registers of the source that are not alive at the same time share a place, and
// products are fused into sums where PTX allows it and NVIDIA's compiler does it
// (lower/contract.go), so that results are the hardware's.
package ir
