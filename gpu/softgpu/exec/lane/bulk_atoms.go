package lane

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
	"pvdrm/gpu/tensormap"
)

// BulkAtom is the operation of a bulk reduction on elements of a type, with its name in PTX; nil if there
// is none.
func BulkAtom(op, typ string, size int) *ir.AtomOp {
	name := op + "." + typ
	if name == "add.f16" || name == "add.bf16" {
		name = "add.noftz." + typ
	}
	update := Updates[name]
	if f := bulkUpdates[name]; f != nil {
		update = f
	}
	if update == nil {
		return nil
	}
	return &ir.AtomOp{Size: uint64(size), Update: update, Global: GlobalUpdates[name]}
}

// bulkUpdates are the operations that only bulk reductions have.
var bulkUpdates = map[string]ir.UpdateFunc{
	"min.f16":  func(old, b, _ uint64) uint64 { return half(scalar.Min32, old, b) },
	"max.f16":  func(old, b, _ uint64) uint64 { return half(scalar.Max32, old, b) },
	"min.bf16": func(old, b, _ uint64) uint64 { return brain(scalar.Min32, old, b) },
	"max.bf16": func(old, b, _ uint64) uint64 { return brain(scalar.Max32, old, b) },
}

// half and brain compute with f16 and bf16 as float32.

func half(f func(a, b float32) float32, a, b uint64) uint64 {
	return uint64(scalar.F16from32(f(scalar.F16to32(uint32(a)), scalar.F16to32(uint32(b)))))
}

func brain(f func(a, b float32) float32, a, b uint64) uint64 {
	return uint64(scalar.Bf16from32(f(scalar.Bf16to32(uint32(a)), scalar.Bf16to32(uint32(b)))))
}

// tensorElements are the types of PTX that stand for the elements of tensors in reductions.
var tensorElements = [tensormap.Types]struct {
	name, bits string
}{
	tensormap.U32: {name: "u32", bits: "b32"}, tensormap.S32: {name: "s32", bits: "b32"}, tensormap.U64: {name: "u64", bits: "b64"},
	tensormap.S64: {name: "s64"}, tensormap.F16: {name: "f16"}, tensormap.BF16: {name: "bf16"},
	tensormap.F32: {name: "f32"}, tensormap.F64: {name: "f64"}, tensormap.F32FTZ: {name: "f32"},
	tensormap.TF32: {name: "f32"}, tensormap.TF32FTZ: {name: "f32"},
}

// TensorAtoms are the operations of reductions into tensors, by the type of elements.
var TensorAtoms = func() map[string]*[tensormap.Types]*ir.AtomOp {
	all := map[string]*[tensormap.Types]*ir.AtomOp{}
	for _, op := range []string{"add", "min", "max", "inc", "dec", "and", "or", "xor"} {
		all[op] = new([tensormap.Types]*ir.AtomOp)
		for t, e := range tensorElements {
			name := e.name
			if op == "and" || op == "or" || op == "xor" {
				name = e.bits
			}
			if name != "" {
				all[op][t] = BulkAtom(op, name, int(tensormap.Type(t).Size()))
			}
		}
	}
	return all
}()
