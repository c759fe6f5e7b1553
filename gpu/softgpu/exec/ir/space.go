package ir

import "pvdrm/gpu/softgpu/exec/tlb"

// Space is where an access goes.
type Space uint8

const (
	SpaceGlobal Space = iota // and .const
	SpaceShared
	SpaceLocal
	SpaceGeneric
	SpaceParam   // of the kernel
	SpaceConst   // for isspacep only
	SpaceCluster // .shared of any block of the cluster
	Spaces
)

// WindowOf splits a generic address. It does not tell .shared of the block from that of others.
func WindowOf(va uint64) (Space, uint64) {
	switch va &^ (tlb.WindowSize - 1) {
	case tlb.SharedBase:
		return SpaceCluster, va - tlb.SharedBase
	case tlb.LocalBase:
		return SpaceLocal, va - tlb.LocalBase
	case tlb.ParamBase:
		return SpaceParam, va - tlb.ParamBase
	}
	return SpaceGlobal, va
}

var SpaceNames = [Spaces]string{SpaceShared: "in .shared", SpaceCluster: "in .shared of the cluster", SpaceLocal: "in .local", SpaceParam: "in .param"}
