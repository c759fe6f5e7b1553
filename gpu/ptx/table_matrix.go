package ptx

import "slices"

// matrixForms are the instructions of a warp on matrices: 9.7.13.
func matrixForms() []Form {
	sync, aligned := flag(Sync), flag(Aligned)
	shape := func(s ...Shape) slot { return pick(fieldShape, s...) }
	num := pick(fieldCount, uint8(1), uint8(2), uint8(4))
	shared := opt(pick(fieldSpace, SpaceShared, SpaceSharedCTA))
	f := []Form{
		matrixForm(75, OpLdmatrix, "%=d [p", sync, aligned, shape(ShapeM8N8), num, opt(flag(Trans)), shared, typ(B16)),
		matrixForm(90, OpStmatrix, "[p %d", sync, aligned, shape(ShapeM8N8), num, opt(flag(Trans)), shared, typ(B16)),
		matrixForm(75, OpMovmatrix, "=d:b32 a:b32", sync, aligned, shape(ShapeM8N8), flag(Trans), typ(B16)),
	}
	return slices.Concat(f, mmaForms(), sparseForms(), wmmaForms())
}

// matrixForm makes a row that an architecture and later ones have.
func matrixForm(arch int, op Op, args string, slots ...slot) Form {
	return form(op, "9.7.13", args, slots...).since(arch)
}

// mmaForms are mma, but for mma.sp.
func mmaForms() []Form {
	var forms []Form
	row, col := pick(fieldLayoutA, LayoutRow), pick(fieldLayoutB, LayoutCol)
	add := func(arch int, shapes []Shape, slots ...slot) {
		slots = append([]slot{flag(Sync), flag(Aligned), pick(fieldShape, shapes...), row, col}, slots...)
		forms = append(forms, matrixForm(arch, OpMma, "%=d %a %b %c", slots...))
	}
	either := []Layout{LayoutRow, LayoutCol}
	quads := matrixForm(70, OpMma, "%=d %a %b %c", flag(Sync), flag(Aligned), pick(fieldShape, ShapeM8N8K4), pick(fieldLayoutA, either...),
		pick(fieldLayoutB, either...), typ(F16, F32), typ(F16), typ(F16), typ(F16, F32))
	forms = append(forms, quads.with(wideningMatrix))
	sat, bits := opt(flag(SatFinite)), []slot{typ(S32), typ(B1), typ(B1), typ(S32)}
	for _, d := range []Type{F16, F32} {
		add(75, []Shape{ShapeM16N8K8}, typ(d), typ(F16), typ(F16), typ(d))
		add(80, []Shape{ShapeM16N8K16}, typ(d), typ(F16), typ(F16), typ(d))
		add(89, []Shape{ShapeM16N8K16, ShapeM16N8K32}, typ(d), typ(E4M3, E5M2), typ(E4M3, E5M2), typ(d))
	}
	add(80, []Shape{ShapeM16N8K8, ShapeM16N8K16}, typ(F32), typ(BF16), typ(BF16), typ(F32))
	add(80, []Shape{ShapeM16N8K4, ShapeM16N8K8}, typ(F32), typ(TF32), typ(TF32), typ(F32))
	add(80, []Shape{ShapeM8N8K4}, typ(F64), typ(F64), typ(F64), typ(F64))
	add(90, []Shape{ShapeM16N8K4, ShapeM16N8K8, ShapeM16N8K16}, typ(F64), typ(F64), typ(F64), typ(F64))
	bytes, nibbles := typ(S8, U8), typ(S4, U4)
	add(75, []Shape{ShapeM8N8K16}, sat, typ(S32), bytes, bytes, typ(S32))
	add(80, []Shape{ShapeM16N8K16, ShapeM16N8K32}, sat, typ(S32), bytes, bytes, typ(S32))
	add(75, []Shape{ShapeM8N8K32}, sat, typ(S32), nibbles, nibbles, typ(S32))
	add(80, []Shape{ShapeM16N8K32, ShapeM16N8K64}, sat, typ(S32), nibbles, nibbles, typ(S32))
	add(75, []Shape{ShapeM8N8K128}, append(slices.Clip(bits), pick(fieldBool, BoolXor), flag(Popc))...)
	add(80, []Shape{ShapeM8N8K128}, append(slices.Clip(bits), pick(fieldBool, BoolAnd), flag(Popc))...)
	add(80, []Shape{ShapeM16N8K128, ShapeM16N8K256}, append(slices.Clip(bits), pick(fieldBool, BoolXor, BoolAnd), flag(Popc))...)
	return forms
}

// sparseForms are mma.sp, of an a of which half is stored and e tells what.
func sparseForms() []Form {
	var forms []Form
	add := func(arch int, shapes []Shape, slots ...slot) {
		slots = append([]slot{flag(Sparse | Ordered), flag(Sync), flag(Aligned), pick(fieldShape, shapes...), pick(fieldLayoutA, LayoutRow), pick(fieldLayoutB, LayoutCol)}, slots...)
		forms = append(forms, matrixForm(arch, OpMma, "%=d %a %b %c e:b32 #selector", slots...))
	}
	for _, d := range []Type{F16, F32} {
		add(80, []Shape{ShapeM16N8K16, ShapeM16N8K32}, typ(d), typ(F16), typ(F16), typ(d))
	}
	add(80, []Shape{ShapeM16N8K16, ShapeM16N8K32}, typ(F32), typ(BF16), typ(BF16), typ(F32))
	add(80, []Shape{ShapeM16N8K8, ShapeM16N8K16}, typ(F32), typ(TF32), typ(TF32), typ(F32))
	add(89, []Shape{ShapeM16N8K64}, typ(F32), typ(E4M3, E5M2), typ(E4M3, E5M2), typ(F32))
	sat, bytes, nibbles := opt(flag(SatFinite)), typ(S8, U8), typ(S4, U4)
	add(80, []Shape{ShapeM16N8K32, ShapeM16N8K64}, sat, typ(S32), bytes, bytes, typ(S32))
	add(80, []Shape{ShapeM16N8K64, ShapeM16N8K128}, sat, typ(S32), nibbles, nibbles, typ(S32))
	return forms
}

// wideningMatrix refuses accumulators that would lose bits.
func wideningMatrix(m *Mods) string {
	if m.Types[0] == F16 && m.Types[3] == F32 {
		return ".f16 results need .f16 accumulators"
	}
	return ""
}

// wmmaKinds are the matrices that wmma multiplies, by what they consist of.
var wmmaKinds = []struct {
	arch         int
	shapes       []Shape
	multiplicand []Type
	sum          []Type
	rowCol       bool // a is always in rows and b in columns
	shared       bool // the sums are those of rows before
}{
	{arch: 70, shapes: []Shape{ShapeM16N16K16, ShapeM32N8K16, ShapeM8N32K16}, multiplicand: []Type{F16}, sum: []Type{F16, F32}},
	{arch: 72, shapes: []Shape{ShapeM16N16K16, ShapeM32N8K16, ShapeM8N32K16}, multiplicand: []Type{S8, U8}, sum: []Type{S32}},
	{arch: 80, shapes: []Shape{ShapeM16N16K16, ShapeM32N8K16, ShapeM8N32K16}, multiplicand: []Type{BF16}, sum: []Type{F32}, shared: true},
	{arch: 80, shapes: []Shape{ShapeM16N16K8}, multiplicand: []Type{TF32}, sum: []Type{F32}},
	{arch: 80, shapes: []Shape{ShapeM8N8K4}, multiplicand: []Type{F64}, sum: []Type{F64}},
	{arch: 75, shapes: []Shape{ShapeM8N8K32}, multiplicand: []Type{S4, U4}, sum: []Type{S32}, rowCol: true},
	{arch: 75, shapes: []Shape{ShapeM8N8K128}, multiplicand: []Type{B1}, sum: []Type{S32}, rowCol: true},
}

// sameMultiplicands refuses signed matrices times unsigned ones, which only mma has.
func sameMultiplicands(m *Mods) string {
	if m.Types[2] != TypeNone && m.Types[1] != m.Types[2] {
		return "both matrices must be of one type"
	}
	return ""
}

// wmmaForms are wmma.
func wmmaForms() []Form {
	var forms []Form
	mode := func(m Mode) slot { return pick(fieldMode, m) }
	space := opt(pick(fieldSpace, SpaceGlobal, SpaceShared, SpaceSharedCTA))
	sync, aligned := flag(Sync), flag(Aligned)
	layouts := func(f field, rowCol bool, only Layout) slot {
		if rowCol {
			return pick(f, only)
		}
		return pick(f, LayoutRow, LayoutCol)
	}
	for _, k := range wmmaKinds {
		shapes := pick(fieldShape, k.shapes...)
		load := func(f Fragment, layout slot, ts []Type) {
			forms = append(forms, matrixForm(k.arch, OpWmma, "%=d [p stride:u32?", mode(ModeLoad), pick(fieldFragment, f), sync, aligned, layout, shapes, space, typ(ts...)))
		}
		load(FragmentA, layouts(fieldLayoutA, k.rowCol, LayoutRow), k.multiplicand)
		load(FragmentB, layouts(fieldLayoutA, k.rowCol, LayoutCol), k.multiplicand)
		if !k.shared {
			load(FragmentC, layouts(fieldLayoutA, false, 0), k.sum)
			forms = append(forms, matrixForm(k.arch, OpWmma, "[p %d stride:u32?", mode(ModeStore), pick(fieldFragment, FragmentD), sync, aligned,
				layouts(fieldLayoutA, false, 0), shapes, space, typ(k.sum...)))
		}
		slots := []slot{mode(ModeMMA), sync, aligned, layouts(fieldLayoutA, k.rowCol, LayoutRow), layouts(fieldLayoutB, k.rowCol, LayoutCol), shapes}
		first, sum := k.multiplicand[0], typ(k.sum...)
		switch {
		case first == F16:
			slots = append(slots, sum, sum)
		case first == B1:
			slots = append([]slot{slots[0], pick(fieldBool, BoolXor, BoolAnd), flag(Popc)}, slots[1:]...)
			slots = append(slots, sum, typ(B1), typ(B1), sum)
		case k.sum[0] == S32:
			slots = append(slots, sum, typ(k.multiplicand...), typ(k.multiplicand...), sum, opt(flag(SatFinite)))
		default:
			slots = append(slots, sum, typ(first), typ(first), sum)
		}
		forms = append(forms, matrixForm(k.arch, OpWmma, "%=d %a %b %c", slots...).with(sameMultiplicands))
	}
	return forms
}
