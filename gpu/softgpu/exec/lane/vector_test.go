package lane

import (
	"maps"
	"testing"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
)

// A vector load or store does what one of each element does.
func TestElements(t *testing.T) {
	each := map[ir.AccessKey]ir.Func{}
	for key := range ElementFuncs {
		each[key] = func(w *ir.Warp, in *ir.Inst) { eachElement(w, in, uint64(key.Size), portableAccesses[key]) }
	}
	for key, fn := range portableElements {
		exectest.TestElements(t, key, each[key], fn)
	}
}

// portableAccesses and portableElements are the loads and stores before init may
// replace some by their SIMD twins: variables of a package, its tests' included,
// are initialised first.
var (
	portableAccesses = maps.Clone(AccessFuncs)
	portableElements = maps.Clone(ElementFuncs)
)
