//go:build amd64 && linux

package simt

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/simt/internal/codemem"
)

func needNative(t testing.TB) {
	if !nativeWorks {
		t.Skip("the processor lacks AVX-512: kernels are interpreted")
	}
}

// nativeWarp makes a warp able to run native code.
func nativeWarp(w *warp) {
	if w.block == nil {
		w.block, w.worker = &block{prog: &Program{}, kernel: &Kernel{}}, &worker{}
	}
	w.worker.control = new(Control)
	w.worker.sites = make([]site, maxSites)
	w.limit, w.budget = noLimit, quantum
	w.frame0 = nativeFrame{}
	w.frame0.prepare(w)
}

// runCode compiles code, of which the last operation is one that is not compiled,
// and runs it from the start for the lanes of the warp. It returns where that ended.
func runCode(t testing.TB, w *warp, code []inst, fixed ...const32) int32 {
	fn := &function{regs32: len(w.r32), regs64: len(w.r64), preds: len(w.pr), end: int32(len(code)), const32: fixed}
	list := make([]uint16, len(code))
	for i := range code {
		if stores(code[i].op) {
			list[i] = 1
		}
	}
	text, entries := compileFunction(&Program{code: code}, fn, list, w.mask != allLanes)
	require.NotNil(t, text)
	m, err := codemem.Map(text)
	require.NoError(t, err)
	defer func() { require.NoError(t, codemem.Unmap(m)) }()
	if entries[0] == 0 {
		return 0
	}
	w.code = code
	w.native = &native{sites: list}
	return w.runNative(&nativeCode{entry: addressOf(m)}, addressOf(m)+uintptr(entries[0]))
}

// interpret runs one operation as the dispatch loop does.
func interpret(w *warp, in *inst) {
	active := w.mask
	defer func() { w.mask = active }()
	if in.guard != 0 {
		m := w.pr[in.guard-1]
		if in.guardNeg {
			m = ^m
		}
		if w.mask &= m; w.mask == 0 {
			return
		}
	}
	w.step(in)
}

// rowInst makes an operation of a row on random registers.
func rowInst(r *rand.Rand, key string, w *warp) inst {
	any := func(n int) uint32 { return r.Uint32N(uint32(n)) }
	in := inst{e: noReg, imm: r.Uint64(), other: -1}
	args := ""
	if row, ok := laneRows[key]; ok {
		in.fn, in.op, args = row.fn, row.op, row.form[2:]
		in.d, in.kind = any(len(w.r32)), kLane32
		if fileOf(row.form[0]) == in64 {
			in.d, in.kind = any(len(w.r64)), kLane64
		}
	} else {
		row := compareRows[key]
		in.cmp, in.op, args = row.fn, row.op, row.args
		in.d, in.kind = any(len(w.pr)), kCompare
		if in.combine = boolOp(r.IntN(4)); in.combine != boolNone {
			in.c, in.combNeg = any(len(w.pr)), r.IntN(2) == 0
		}
		if r.IntN(2) == 0 {
			in.e = any(len(w.pr))
		}
	}
	for n := range args {
		size := map[regKind]int{in32: len(w.r32), in64: len(w.r64), inPred: len(w.pr)}[fileOf(args[n])]
		*[]*uint32{&in.a, &in.b, &in.c}[n] = any(size)
	}
	if r.IntN(3) == 0 {
		in.guard, in.guardNeg = 1+any(len(w.pr)), r.IntN(2) == 0
	}
	return in
}

// nativeKeys are all rows that are compiled.
func nativeKeys() (keys []string) {
	for key := range opcodes {
		keys = append(keys, key)
	}
	return keys
}

// What is compiled is in the lane table, with the same operands.
func TestNativeRows(t *testing.T) {
	for key, row := range nativeRows() {
		if have, ok := laneRows[key]; ok {
			require.Equal(t, have.form, row.form, key)
			require.Equal(t, opcodes[key], have.op, key)
			continue
		}
		have, ok := compareRows[key]
		require.True(t, ok, key)
		require.Equal(t, "?="+have.args, row.form, key)
		require.Equal(t, opcodes[key], have.op, key)
	}
}

// The end of each piece of code: an operation that is not compiled and may read all.
var endOfCode = inst{kind: kTrap, other: -1}

// Each compiled row gives the registers that its lane function gives, whichever of
// its registers are the same, for all lanes and for some.
func TestNativeLanes(t *testing.T) {
	needNative(t)
	for _, key := range nativeKeys() {
		r := rand.New(rand.NewPCG(7, uint64(len(key))))
		for n := range 100 {
			want := fuzzWarp()
			randomLanes(r, want)
			if n%2 != 0 {
				want.mask = masks[1+r.IntN(len(masks)-1)]
			}
			in := rowInst(r, key, want)
			got := clone(want)
			nativeWarp(got)
			interpret(want, &in)
			require.EqualValues(t, 1, runCode(t, got, []inst{in, endOfCode}), key)
			require.True(t, equalLanes(want, got), "%s %+v\nmask %#x\nwant %x %x %x\ngot  %x %x %x", key, in, want.mask,
				want.r32, want.r64, want.pr, got.r32, got.r64, got.pr)
		}
	}
}

// Many operations one after the other give what they give one by one: values stay in
// vector registers, or do not fit there, and constants are the same in all lanes.
func TestNativeSequences(t *testing.T) {
	needNative(t)
	keys := nativeKeys()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(8, seed))
		want := &warp{r32: make([][32]uint32, 20), r64: make([][32]uint64, 8), pr: make([]uint32, 5), mask: allLanes, live: allLanes}
		randomLanes32(r, want)
		var fixed []const32
		for i := range uint32(4) {
			fixed = append(fixed, const32{i, edges32[r.IntN(len(edges32))]})
			fillEach(&want.r32[i], fixed[i].value)
		}
		if seed%3 == 0 {
			want.mask = r.Uint32() | 1
		}
		var code []inst
		for len(code) < 60 {
			in := rowInst(r, keys[r.IntN(len(keys))], want)
			if in.kind == kLane32 && in.d < 4 {
				continue // constants are not written
			}
			code = append(code, in)
		}
		got := clone(want)
		nativeWarp(got)
		require.EqualValues(t, len(code), runCode(t, got, append(code, endOfCode), fixed...))
		for i := range code {
			interpret(want, &code[i])
		}
		for i := range want.r32 {
			require.Equal(t, want.r32[i], got.r32[i], "seed %d: 32-bit register %d\n%+v", seed, i, code)
		}
		for i := range want.r64 {
			require.Equal(t, want.r64[i], got.r64[i], "seed %d: 64-bit register %d\n%+v", seed, i, code)
		}
		require.Equal(t, want.pr, got.pr, "seed %d: predicates\n%+v", seed, code)
	}
}

// randomLanes32 is randomLanes for files of different sizes.
func randomLanes32(r *rand.Rand, w *warp) {
	all := &warp{r32: make([][32]uint32, len(w.r32)), r64: make([][32]uint64, len(w.r32)), pr: w.pr}
	randomLanes(r, all)
	copy(w.r32, all.r32)
	copy(w.r64, all.r64)
}

// Loads and stores leave the registers, the memory and the fault that the portable
// ones leave, and most do not need the interpreter.
func TestNativeAccesses(t *testing.T) {
	needNative(t)
	native, all := 0, 0
	tested := func(key accessKey, first opcode, portable laneFunc) laneFunc {
		return func(w *warp, in *inst) {
			nativeWarp(w)
			x := *in
			x.kind, x.op, x.other = kMasked, accessOp(first, key.wide, key.writes), -1
			x.target = int32(key.size)
			code := []inst{x, endOfCode}
			all++
			for range 2 { // the second time it knows the page
				if known(&x) && runCode(t, w, code) == 1 {
					native++
					return
				}
			}
			w.pc = 0
			portable(w, in)
		}
	}
	for key, fn := range portableAccesses {
		in := inst{d: 0, align: uint8(key.size - 1)}
		testAccess(t, key, in, fn, tested(key, opLoad, fn))
		in.d = 1 // the register with the address
		testAccess(t, key, in, fn, tested(key, opLoad, fn))
	}
	for key, fn := range portableElements {
		testElements(t, key, fn, tested(key, opLoads, fn))
	}
	require.Greater(t, native, all/16, "of %d accesses hardly any is native", all)
}

// spinning is a kernel that loads a word again and again, for ever.
const spinning = `.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 p) {
	.reg .u32 %r<3>; .reg .u64 %rd<3>; .reg .pred %p;
	ld.param.u64 %rd1, [p];
L:	ld.global.u32 %r1, [%rd1];
	add.u32 %r2, %r2, %r1;
	setp.ne.u32 %p, %r1, 12345;
	@%p bra L;
	st.global.u32 [%rd1], %r2;
	ret;
}`

// A kernel that loops in native code can be stopped, and is told of mappings
// that went.
func TestNativeStops(t *testing.T) {
	needNative(t)
	m := newMemory(4096)
	k := kernel(t, build(t, "spin.ptx", []byte(spinning), m), "spin")
	m.mapRange(bufA, 4096)
	ctl := new(Control)
	errs := make(chan error)
	go func() {
		errs <- Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1), Params: params(uint64(bufA)), Native: NativeAtOnce}, m, ctl, 1)
	}()
	ctl.FlushTLB()
	ctl.Stop(gpu.LostTimeout)
	var lost *gpu.LostError
	require.ErrorAs(t, <-errs, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
}

// Memory that vanishes under native code ends the kernel, and not the process.
func TestNativeLosesMemory(t *testing.T) {
	needNative(t)
	m := newMemory(4096)
	k := kernel(t, build(t, "spin.ptx", []byte(spinning), m), "spin")
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(page)) }()
	m.pages[bufA], m.prot[bufA] = page, gpu.ProtRead|gpu.ProtWrite
	errs := make(chan error)
	go func() {
		errs <- Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1), Params: params(uint64(bufA)), Native: NativeAtOnce}, m, new(Control), 1)
	}()
	require.NoError(t, unix.Mprotect(page, unix.PROT_NONE))
	var lost *gpu.LostError
	require.ErrorAs(t, <-errs, &lost)
	require.Equal(t, gpu.LostDevice, lost.Cause)
}

// What is too large is interpreted, and so is everything if that is asked for.
func TestNativeBounds(t *testing.T) {
	needNative(t)
	code := make([]inst, maxNativeInsts+1)
	text, _ := compileFunction(&Program{code: code}, &function{end: int32(len(code))}, nil, false)
	require.Nil(t, text)
	text, _ = compileFunction(&Program{code: code[:1]}, &function{end: 1, regs64: maxNativeRegs + 1}, nil, false)
	require.Nil(t, text)
	k := &Kernel{prog: &Program{code: []inst{endOfCode}}, fn: &function{end: 1}}
	require.Nil(t, k.nativeFor(NativeNever))
	require.NotNil(t, k.nativeFor(NativeHot))
	require.Nil(t, k.native.full.code.Load(), fmt.Sprint("not hot yet: ", k.native.full.wanted.Load()))
}
