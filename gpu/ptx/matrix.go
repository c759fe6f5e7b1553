package ptx

// Shape is the size of the matrices of an instruction (section 9.7.13): a is m×k, b is
// k×n, c and d are m×n.
type Shape uint8

// Shapes.
const (
	ShapeNone Shape = iota
	ShapeM8N8       // ldmatrix, stmatrix, movmatrix
	ShapeM8N8K4
	ShapeM8N8K16
	ShapeM8N8K32
	ShapeM8N8K128
	ShapeM16N8K4
	ShapeM16N8K8
	ShapeM16N8K16
	ShapeM16N8K32
	ShapeM16N8K64
	ShapeM16N8K128
	ShapeM16N8K256
	ShapeM16N16K8
	ShapeM16N16K16
	ShapeM32N8K16
	ShapeM8N32K16
	ShapeM64K8 // wgmma: Mods.Count says how many columns
	ShapeM64K16
	ShapeM64K32
	ShapeM64K64
	ShapeM64K256
	numShapes
)

var shapeNames = [numShapes]string{"", "m8n8", "m8n8k4", "m8n8k16", "m8n8k32", "m8n8k128", "m16n8k4", "m16n8k8", "m16n8k16",
	"m16n8k32", "m16n8k64", "m16n8k128", "m16n8k256", "m16n16k8", "m16n16k16", "m32n8k16", "m8n32k16",
	"m64nNk8", "m64nNk16", "m64nNk32", "m64nNk64", "m64nNk256"}

var shapeSizes = [numShapes][3]int{{}, {8, 8, 0}, {8, 8, 4}, {8, 8, 16}, {8, 8, 32}, {8, 8, 128}, {16, 8, 4}, {16, 8, 8}, {16, 8, 16},
	{16, 8, 32}, {16, 8, 64}, {16, 8, 128}, {16, 8, 256}, {16, 16, 8}, {16, 16, 16}, {32, 8, 16}, {8, 32, 16},
	{64, 0, 8}, {64, 0, 16}, {64, 0, 32}, {64, 0, 64}, {64, 0, 256}}

func (s Shape) String() string { return shapeNames[s] }

// Size returns m, n and k. Of wgmma n is 0; Instr.Columns has it.
func (s Shape) Size() (m, n, k int) { return shapeSizes[s][0], shapeSizes[s][1], shapeSizes[s][2] }

// Layout is the order of a matrix in memory, or of the elements in a fragment.
type Layout uint8

// Layouts.
const (
	LayoutNone Layout = iota
	LayoutRow
	LayoutCol
	numLayouts
)

var layoutNames = [numLayouts]string{"", "row", "col"}

func (l Layout) String() string { return layoutNames[l] }

// Fragment names a matrix of d = a·b + c.
type Fragment uint8

// Fragments.
const (
	FragmentNone Fragment = iota
	FragmentA
	FragmentB
	FragmentC
	FragmentD
	numFragments
)

var fragmentNames = [numFragments]string{"", "a", "b", "c", "d"}

func (f Fragment) String() string { return fragmentNames[f] }

// ElementBits returns the bits of an element of a matrix of type t in a register.
func (t Type) ElementBits() int {
	switch t {
	case B1:
		return 1
	case S2, U2:
		return 2
	case S4, U4:
		return 4
	}
	return t.Bits()
}

// Element returns the type of a matrix of an instruction, which mma, wgmma, wmma or a matrix
// transfer is.
func (i *Instr) Element(f Fragment) Type {
	t := &i.Mods.Types
	switch {
	case i.Op == OpWgmma: // c is d
		return t[[numFragments]int{FragmentA: 1, FragmentB: 2}[f]]
	case i.Op == OpMma || i.Op == OpWmma && t[2] != TypeNone:
		return t[[numFragments]int{FragmentD: 0, FragmentA: 1, FragmentB: 2, FragmentC: 3}[f]]
	case i.Op != OpWmma || i.Mods.Mode != ModeMMA:
		return t[0]
	case f == FragmentD:
		return t[0]
	case f == FragmentC:
		return t[1]
	}
	return F16
}

// Sparse reports whether matrix a is stored without half of its elements: mma.sp.
func (m *Mods) Sparse() bool { return m.Flags&(Sparse|Ordered) != 0 }

// MetadataBits returns how many bits tell the places of two, or of one tf32 or four of 4 bits,
// of the elements that an mma.sp has of a row of a, and how many elements the row has for these.
func (i *Instr) MetadataBits() (bits, elements int) {
	switch i.Element(FragmentA) {
	case TF32:
		return 4, 2
	case S4, U4:
		return 4, 8
	}
	return 4, 4
}

// Selectors returns how many values the sparsity selector of an mma.sp may have: 4 where one of
// four threads has the metadata of a row, 2 where two have, and 1.
func (i *Instr) Selectors() uint64 {
	_, _, k := i.Mods.Shape.Size()
	bits, elements := i.MetadataBits()
	return uint64(4 * 16 / (k / elements * bits))
}

// Registers returns how many registers of a thread hold its part of a matrix, and their
// type. Those that hold multiplicands are of any type of that size.
func (i *Instr) Registers(f Fragment) (Type, int) {
	m, n, k := i.Mods.Shape.Size()
	t, values := i.Element(f), m*n
	switch {
	case i.Op == OpWgmma:
		return i.groupRegisters(f)
	case i.Op == OpLdmatrix || i.Op == OpStmatrix:
		return B32, int(i.Mods.Count)
	case f == FragmentA && i.Mods.Sparse():
		values = m * k / 2
	case f == FragmentA:
		values = m * k
	case f == FragmentB:
		values = k * n
	}
	quads := i.Op == OpMma && i.Mods.Shape == ShapeM8N8K4 && t != F64 // four matrices at once
	if quads {
		values *= 4
	}
	switch {
	case t == F64:
		return F64, values / 32
	case f >= FragmentC && t != F16:
		return t, values / 32
	case i.Op == OpWmma && f < FragmentC && t == F16: // some of them twice
		return B32, 8
	}
	return B32, values * t.ElementBits() / (32 * 32)
}
