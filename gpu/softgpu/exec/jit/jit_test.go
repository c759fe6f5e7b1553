//go:build amd64 && linux

package jit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/lane/table"
	"pvdrm/internal/codemem"
)

// eachISA runs a test for all that the processor has, with -short for the widest only.
func eachISA(t *testing.T, test func(t *testing.T, isa ISA)) {
	if best() == Interpreted {
		t.Skip("the processor lacks SSE4.2: kernels are interpreted")
	}
	first := Plain
	if testing.Short() {
		first = best()
	}
	for isa := first; isa <= best(); isa++ {
		t.Run(isa.String(), func(t *testing.T) { test(t, isa) })
	}
}

// nativeWarp makes a warp able to run native code.
func nativeWarp(w *ir.Warp) {
	if w.Block == nil {
		w.Block, w.Worker = &ir.Block{Prog: &ir.Program{}, Fn: &ir.Function{}}, &ir.Worker{}
	}
	w.Budget = 1 << 12
}

// machine is what a worker has to run native code.
type machine struct {
	isa   ISA
	word  atomic.Uint64
	sites *Sites
}

func newMachine(isa ISA) *machine {
	return &machine{isa: isa, sites: &Sites{pages: make([]Site, ownSites+maxSites), area: newArea()}}
}

// run compiles code, of which the last operation is one that is not compiled,
// and runs it from the start for the lanes of the warp. It returns where that ended.
func (m *machine) run(t testing.TB, w *ir.Warp, code []ir.Inst, fixed ...ir.Const32) int32 {
	fn := &ir.Function{Regs32: len(w.R32), Regs64: len(w.R64), Preds: len(w.Pr), End: int32(len(code)), Const32: fixed}
	list := make([]uint16, len(code))
	for i := range code {
		if stores(code[i].Op) {
			list[i] = 1
		}
	}
	prog := &ir.Program{Code: code}
	made := compileFunction(prog, fn, list, codeKind{masked: w.Mask != ir.AllLanes, isa: m.isa})
	require.NotNil(t, made)
	mapped, err := codemem.Map(made.code)
	require.NoError(t, err)
	defer func() { require.NoError(t, codemem.Unmap(mapped)) }()
	if made.entries[0] == 0 {
		return 0
	}
	var f Frame
	f.Prepare(w, m.sites, &m.word)
	n := &Code{prog: prog, sites: list}
	pc, _ := n.Run(&f, w, m.sites, &machineCode{entry: addressOf(mapped)}, addressOf(mapped)+uintptr(made.entries[0]), Turn{Limit: noLimit})
	return pc
}

// interpret runs one operation as the dispatch loop does.
func interpret(w *ir.Warp, in *ir.Inst) {
	active := w.Mask
	defer func() { w.Mask = active }()
	if in.Guard != 0 {
		m := w.Pr[in.Guard-1]
		if in.GuardNeg {
			m = ^m
		}
		if w.Mask &= m; w.Mask == 0 {
			return
		}
	}
	lane.Step(w, in)
}

// rowInst makes an operation of a row on random registers.
func rowInst(r *rand.Rand, key string, w *ir.Warp) ir.Inst {
	below := func(n int) uint32 { return r.Uint32N(uint32(n)) }
	in := ir.Inst{E: ir.NoReg, Imm: r.Uint64(), Other: -1}
	args := ""
	if row, ok := table.Lanes[key]; ok {
		in.Fn, in.Op, args = row.Fn, row.Op, row.Form[2:]
		in.D, in.Kind = below(len(w.R32)), ir.KLane32
		if fileOf(row.Form[0]) == ir.In64 {
			in.D, in.Kind = below(len(w.R64)), ir.KLane64
		}
	} else {
		row := table.Compares[key]
		in.Cmp, in.Op, args = row.Fn, row.Op, row.Args
		in.D, in.Kind = below(len(w.Pr)), ir.KCompare
		if in.Combine = ir.BoolOp(r.IntN(4)); in.Combine != ir.BoolNone {
			in.C = below(len(w.Pr))
			if r.IntN(2) == 0 {
				in.Combine |= ir.BoolNot
			}
		}
		if r.IntN(2) == 0 {
			in.E = below(len(w.Pr))
		}
	}
	for n := range args {
		size := map[ir.RegKind]int{ir.In32: len(w.R32), ir.In64: len(w.R64), ir.InPred: len(w.Pr)}[fileOf(args[n])]
		*[]*uint32{&in.A, &in.B, &in.C, &in.E}[n] = below(size)
	}
	if r.IntN(3) == 0 {
		in.Guard, in.GuardNeg = 1+below(len(w.Pr)), r.IntN(2) == 0
	}
	return in
}

// nativeKeys are all rows that are compiled.
func nativeKeys() (keys []string) { return slices.Sorted(maps.Keys(nativeRows())) }

// What is compiled is in the lane table, with the same operands.
func TestNativeRows(t *testing.T) {
	for key, row := range nativeRows() {
		if have, ok := table.Lanes[key]; ok {
			require.Equal(t, have.Form, row.form, key)
			continue
		}
		have, ok := table.Compares[key]
		require.True(t, ok, key)
		require.Equal(t, "?="+have.Args, row.form, key)
	}
}

// The end of each piece of code: an operation that is not compiled and may read all.
var endOfCode = ir.Inst{Kind: ir.KTrap, Other: -1}

// Each compiled row gives the registers that its lane function gives, whichever of
// its registers are the same, for all lanes and for some.
func TestNativeLanes(t *testing.T) { eachISA(t, testNativeLanes) }

func testNativeLanes(t *testing.T, isa ISA) {
	for _, key := range nativeKeys() {
		r := rand.New(rand.NewPCG(7, uint64(len(key))))
		for n := range exectest.Rounds(20, 50) {
			want := exectest.FuzzWarp()
			exectest.RandomLanes(r, want)
			if n%2 != 0 {
				want.Mask = exectest.Masks[1+r.IntN(len(exectest.Masks)-1)]
			}
			in := rowInst(r, key, want)
			got := exectest.Clone(want)
			nativeWarp(got)
			interpret(want, &in)
			at := newMachine(isa).run(t, got, []ir.Inst{in, endOfCode})
			if at == 0 && nativeRows()[key].check != nil {
				interpret(got, &in) // as the warp does
			} else {
				require.EqualValues(t, 1, at, key)
			}
			require.True(t, exectest.EqualLanes(want, got), "%s %+v\nmask %#x\nwant %x %x %x\ngot  %x %x %x", key, in, want.Mask,
				want.R32, want.R64, want.Pr, got.R32, got.R64, got.Pr)
		}
	}
}

// Many operations one after the other give what they give one by one: values stay in
// vector registers, or do not fit there, and constants are the same in all lanes.
func TestNativeSequences(t *testing.T) { eachISA(t, testNativeSequences) }

func testNativeSequences(t *testing.T, isa ISA) { testSequences(t, isa, nativeKeys(), 400) }

// The same with operations that native code asks for: it goes on behind each of them.
func TestNativeHelp(t *testing.T) { eachISA(t, testNativeHelp) }

func testNativeHelp(t *testing.T, isa ISA) {
	keys := slices.Concat(slices.Collect(maps.Keys(table.Lanes)), slices.Collect(maps.Keys(table.Compares)))
	slices.Sort(keys)
	testSequences(t, isa, keys, 200)
}

func testSequences(t *testing.T, isa ISA, keys []string, seeds uint64) {
	for seed := range seeds {
		r := rand.New(rand.NewPCG(8, seed))
		want := &ir.Warp{R32: make([][32]uint32, 20), R64: make([][32]uint64, 8), Pr: make([]uint32, 5), Mask: ir.AllLanes, Live: ir.AllLanes}
		randomLanes32(r, want)
		var fixed []ir.Const32
		for i := range uint32(4) {
			fixed = append(fixed, ir.Const32{Reg: i, Value: exectest.Edges32[r.IntN(len(exectest.Edges32))]})
			lane.FillEach(&want.R32[i], fixed[i].Value)
		}
		if seed%3 == 0 {
			want.Mask = r.Uint32() | 1
		}
		var code []ir.Inst
		for len(code) < 60 {
			in := rowInst(r, keys[r.IntN(len(keys))], want)
			if in.Kind == ir.KLane32 && in.D < 4 {
				continue // constants are not written
			}
			code = append(code, in)
		}
		got := exectest.Clone(want)
		nativeWarp(got)
		for at := 0; at < len(code); {
			left := append(code[at:len(code):len(code)], endOfCode)
			if n := int(newMachine(isa).run(t, got, left, fixed...)); n < len(left)-1 { // a row's check
				interpret(got, &left[n])
				at += n + 1
			} else {
				break
			}
		}
		for i := range code {
			interpret(want, &code[i])
		}
		for i := range want.R32 {
			require.Equal(t, want.R32[i], got.R32[i], "seed %d: 32-bit register %d\n%+v", seed, i, code)
		}
		for i := range want.R64 {
			require.Equal(t, want.R64[i], got.R64[i], "seed %d: 64-bit register %d\n%+v", seed, i, code)
		}
		require.Equal(t, want.Pr, got.Pr, "seed %d: predicates\n%+v", seed, code)
	}
}

// randomLanes32 is RandomLanes for files of different sizes.
func randomLanes32(r *rand.Rand, w *ir.Warp) {
	all := &ir.Warp{R32: make([][32]uint32, len(w.R32)), R64: make([][32]uint64, len(w.R32)), Pr: w.Pr}
	exectest.RandomLanes(r, all)
	copy(w.R32, all.R32)
	copy(w.R64, all.R64)
}

// Loads and stores leave the registers, the memory and the fault that the portable
// ones leave, and most do not need the interpreter.
func TestNativeAccesses(t *testing.T) { eachISA(t, testNativeAccesses) }

func testNativeAccesses(t *testing.T, isa ISA) {
	native, all := 0, 0
	tested := func(key ir.AccessKey, first ir.Opcode, portable ir.Func) ir.Func {
		return func(w *ir.Warp, in *ir.Inst) {
			nativeWarp(w)
			m := newMachine(isa)
			x := *in
			x.Kind, x.Op, x.Other = ir.KMasked, ir.AccessOp(first, key.Wide, key.Writes), -1
			x.Target = int32(key.Size)
			code := []ir.Inst{x, endOfCode}
			all++
			for range 2 { // the second time it knows the page
				if known(&x) && m.run(t, w, code) == 1 {
					native++
					return
				}
			}
			w.PC = 0
			portable(w, in)
		}
	}
	for key, fn := range lane.AccessFuncs {
		in := ir.Inst{D: 0, Align: uint8(key.Size - 1)}
		exectest.TestAccess(t, key, in, fn, tested(key, ir.OpLoad, fn))
		in.D = 1 // the register with the address
		exectest.TestAccess(t, key, in, fn, tested(key, ir.OpLoad, fn))
	}
	for key, fn := range lane.ElementFuncs {
		exectest.TestElements(t, key, fn, tested(key, ir.OpLoads, fn))
	}
	require.Greater(t, native, all/16, "of %d accesses hardly any is native", all)
}

// Parameters are loaded by the lanes that a guard names, and by those that run.
func TestNativeParameters(t *testing.T) { eachISA(t, testNativeParameters) }

func testNativeParameters(t *testing.T, isa ISA) {
	r := rand.New(rand.NewPCG(11, 1))
	for n := range 200 {
		in := ir.Inst{Kind: ir.KLane32, Op: ir.OpParam, Fn: lane.LoadParam, D: r.Uint32N(5), Imm: 8 * r.Uint64N(4), C: 4, Other: -1, Guard: r.Uint32N(4), GuardNeg: r.IntN(2) == 0}
		if n%2 != 0 {
			in.Kind, in.C = ir.KLane64, 8
		}
		want := exectest.FuzzWarp()
		exectest.RandomLanes(r, want)
		if n%3 == 0 {
			want.Mask = exectest.Masks[1+r.IntN(len(exectest.Masks)-1)]
		}
		nativeWarp(want)
		want.Block.Params = make([]byte, 32)
		for i := range want.Block.Params {
			want.Block.Params[i] = byte(r.Uint32())
		}
		got := exectest.Clone(want)
		interpret(want, &in)
		require.EqualValues(t, 1, newMachine(isa).run(t, got, []ir.Inst{in, endOfCode}))
		require.True(t, exectest.EqualLanes(want, got), "%+v", in)
	}
}

// What is too large is interpreted, and so is everything if that is asked for.
func TestNativeBounds(t *testing.T) { eachISA(t, testNativeBounds) }

func testNativeBounds(t *testing.T, isa ISA) {
	code := make([]ir.Inst, maxNativeInsts+1)
	require.Nil(t, compileFunction(&ir.Program{Code: code}, &ir.Function{End: int32(len(code))}, nil, codeKind{isa: isa}))
	require.Nil(t, compileFunction(&ir.Program{Code: code[:1]}, &ir.Function{End: 1, Regs64: maxNativeRegs + 1}, nil, codeKind{isa: isa}))
	p, n := &ir.Program{Code: []ir.Inst{endOfCode}}, &Code{}
	require.Nil(t, n.Prepare(p, &ir.Function{End: 1}, NativeNever))
	require.NotNil(t, n.Prepare(p, &ir.Function{End: 1}, NativeHot))
	require.Nil(t, n.full.code.Load(), fmt.Sprint("not hot yet: ", n.full.wanted.Load()))
}
