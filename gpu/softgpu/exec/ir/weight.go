package ir

import "reflect"

// What the parts of a program weigh, in bytes.
var (
	InstBytes     = WeightOf[Inst]()
	FunctionBytes = WeightOf[Function]() + MapFactor*32 + ListFactor*16
	KernelBytes   = keptPerKernel + MapFactor*24
	FormalBytes   = WeightOf[Formal]()
	callBytes     = WeightOf[CallSite]()
	extraBytes    = WeightOf[Extra]()
	texBytes      = WeightOf[TexOp]()
	matrixBytes   = WeightOf[MatrixOp]()
	groupBytes    = WeightOf[GroupOp]()
	bulkBytes     = WeightOf[BulkOp]() + WeightOf[AtomOp]()
)

const (
	// nativeTables is what a kernel has for each instruction beside its native code.
	nativeTables = 2 + 2*8
	// keptPerKernel is what a kernel has beside its function.
	keptPerKernel = 512
	globalBytes   = MapFactor * 32

	ListFactor = 3 // a list that grows by append is copied now and then
	MapFactor  = 3
)

func WeightOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }

// HostBytes is what the program keeps of the host's memory once it is linked, with the
// tables of native code that its kernels may get; the code itself has a bound of its own.
func (p *Program) HostBytes() uint64 {
	n := cap(p.Code)*InstBytes + 4*cap(p.Lines) + len(p.File) + len(p.globals)*globalBytes
	for i := range p.Code {
		if x := p.Code[i].X; x != nil {
			n += x.Bytes()
		}
	}
	for _, f := range p.Funcs {
		n += FunctionBytes + len(f.Name) + 8*cap(f.Const32) + 16*cap(f.Const64) + 8*(cap(f.Relocs)+cap(f.Shared32)+cap(f.Shared64)) +
			4*(cap(f.Zero32)+cap(f.Zero64)+cap(f.ZeroPr)) + FormalBytes*(cap(f.Params)+cap(f.Results))
		if f.Kernel {
			n += KernelBytes + nativeTables*int(f.End-f.Entry)
		}
	}
	for _, e := range p.Entries {
		n += 16 * cap(e.Attrs.Params)
	}
	for name := range p.globals {
		n += len(name)
	}
	return uint64(n)
}

// Bytes is what x weighs.
func (x *Extra) Bytes() int {
	n := extraBytes + 4*cap(x.Targets) + len(x.Detail)
	if s := x.Call; s != nil {
		n += callBytes + 8*cap(s.May) + 16*(cap(s.Args)+cap(s.Results)) + 8*(cap(s.ParamSizes)+cap(s.ResultSizes))
	}
	if x.Tex != nil {
		n += texBytes
	}
	if x.Bulk != nil {
		n += bulkBytes
	}
	if x.Matrix != nil {
		n += matrixBytes
	}
	if g := x.Group; g != nil {
		n += groupBytes + 4*cap(g.Sums)
	}
	if x.Barrier != nil || x.Atom != nil || x.Shfl != nil || x.Copy != nil || x.Replace != nil || x.MBarrier != nil || x.Async != nil || x.Video != nil || x.Pair != nil {
		n += 64
	}
	return n
}
