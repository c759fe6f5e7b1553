package ptx_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/ref"
	"pvdrm/tests/ptx/internal/fixture"
	"pvdrm/tests/ptx/internal/random"
)

// engine is something that runs PTX.
type engine struct {
	name string
	// run executes a fixture and returns the contents of its output buffers. A
	// kernel that ends with a fault is a *gpu.LostError; any other error says
	// why the fixture cannot be run.
	run func(f *fixture.Fixture) ([][]byte, error)
	// plain engines compute the same with and without SIMD built in: native code of less than the
	// processor has, and the reference. A run with -short leaves them out.
	plain bool
}

// engines are all that must agree with the GPU.
var engines = []engine{
	{name: "exec", run: func(f *fixture.Fixture) ([][]byte, error) { return runExec(f, exec.NativeNever, 1) }},
	{name: "exec with native code", run: func(f *fixture.Fixture) ([][]byte, error) { return runExec(f, exec.NativeAtOnce, 1) }},
	{name: "exec with native code of AVX2", run: func(f *fixture.Fixture) ([][]byte, error) { return runOn(f, exec.AVX2) }, plain: true},
	{name: "exec with native code of SSE4.2", run: func(f *fixture.Fixture) ([][]byte, error) { return runOn(f, exec.Plain) }, plain: true},
	{name: "exec with modelled time", run: func(f *fixture.Fixture) ([][]byte, error) {
		return runTimed(f, exec.CompileTimed, exec.NativeAtOnce, 1)
	}},
	{name: "exec, preempted again and again", run: func(f *fixture.Fixture) ([][]byte, error) { return runPreempted(f, 1) }},
	{name: "ref", run: runRef, plain: true},
}

// leftOut reports whether this run leaves an engine out.
func (e engine) leftOut() bool { return e.plain && testing.Short() }

// rounds is how many random kernels a test runs: few with -short, some in make test, and all in make test-long.
func rounds(few, some, all int) int {
	switch {
	case testing.Short():
		return few
	case os.Getenv("PVDRM_TEST_LONG") == "":
		return some
	}
	return all
}

// runOn runs native code for less than the processor has.
func runOn(f *fixture.Fixture, isa exec.ISA) ([][]byte, error) {
	defer exec.UseISA(exec.InUse())
	exec.UseISA(isa)
	return runExec(f, exec.NativeAtOnce, 1)
}

// Addresses of buffers: each has a region of its own, so that a kernel that
// runs over an end faults. The module's variables lie below them.
const (
	bufferBase = uint64(0x10) << regionBits
	dataBase   = uint64(0x01) << regionBits
	regionBits = 32
	pageBytes  = 64 << 10
)

// memory is a exec.Space with one region for each buffer. It is not changed
// while a kernel runs.
type memory map[uint64][]byte // by region number

// add makes a region of zeros, aligned to words, and returns its bytes.
func (m memory) add(base uint64, n int) []byte {
	m[base>>regionBits] = wordBytes(make([]uint64, (n+pageBytes)/pageBytes*pageBytes/8))
	return m[base>>regionBits]
}

// Lookup implements exec.Space.
func (m memory) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	region := m[va>>regionBits]
	at := va & (1<<regionBits - 1) &^ (pageBytes - 1)
	if at >= uint64(len(region)) {
		return nil, 0, 0, false
	}
	return region[at : at+pageBytes], va &^ (pageBytes - 1), gpu.ProtRead | gpu.ProtWrite, true
}

// program is a compiled module of either engine.
type program[K any] interface {
	Link(base uint64) ([]byte, error)
	Kernel(name string) (K, bool)
}

// runExec runs a fixture on the software GPU's engine.
func runExec(f *fixture.Fixture, native exec.Native, workers int) (outputs [][]byte, err error) {
	return runTimed(f, exec.Compile, native, workers)
}

// runTimed runs a fixture on programs that compile makes.
func runTimed(f *fixture.Fixture, compile func(*ptx.Module) (*exec.Program, error), native exec.Native, workers int) (outputs [][]byte, err error) {
	return runProgram(f, compile, func(k *exec.Kernel, l exec.Launch, m memory) error {
		l.Native = native
		return exec.Run(k, l, m, new(exec.Control), workers)
	})
}

// pausing is a memory whose kernel is preempted when it looks for a page.
type pausing struct {
	memory
	control *exec.Control
}

// Lookup implements exec.Space.
func (p pausing) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	p.control.Preempt()
	return p.memory.Lookup(va)
}

// pauses is how often a launch is preempted, before it runs to its end.
const pauses = 200

// runPreempted runs a fixture whose kernels stop at each loop head after an access, and go
// on from a state that was encoded, interpreted and compiled in turns.
func runPreempted(f *fixture.Fixture, workers int) (outputs [][]byte, err error) {
	return runProgram(f, exec.Compile, func(k *exec.Kernel, l exec.Launch, m memory) error {
		for n := range pauses {
			l.Native = []exec.Native{exec.NativeNever, exec.NativeAtOnce}[n%2]
			c := new(exec.Control)
			err := exec.Run(k, l, pausing{m, c}, c, workers)
			var stopped *exec.Preempted
			if !errors.As(err, &stopped) {
				return err
			}
			code, err := stopped.State.MarshalBinary()
			if err != nil {
				return err
			}
			l.From = new(exec.State)
			if err := l.From.UnmarshalBinary(code); err != nil {
				return err
			}
		}
		return exec.Run(k, l, m, new(exec.Control), workers)
	})
}

// statements bounds what the reference interpreter runs of one kernel.
const statements = 1 << 30

// runRef runs a fixture on the reference interpreter.
func runRef(f *fixture.Fixture) (outputs [][]byte, err error) {
	return runProgram(f, ref.Compile, func(k *ref.Kernel, l exec.Launch, m memory) error {
		return ref.Run(k, l, m, statements)
	})
}

// runProgram runs a fixture on the program that compile makes.
func runProgram[P program[K], K any](f *fixture.Fixture, compile func(*ptx.Module) (P, error), run func(K, exec.Launch, memory) error) (outputs [][]byte, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("engine panicked: %v", e)
		}
	}()
	mod, err := ptx.Load(f.Name+".ptx", f.Source)
	if err != nil {
		return nil, err
	}
	prog, err := compile(mod)
	if err != nil {
		return nil, err
	}
	image, err := prog.Link(dataBase)
	if err != nil {
		return nil, err
	}
	m := memory{}
	copy(m.add(dataBase, len(image)), image)
	address := func(buffer int) uint64 { return bufferBase + uint64(buffer)<<regionBits }
	for i := range f.Buffers {
		b := &f.Buffers[i]
		if b.Object == nil {
			copy(m.add(address(i), b.Bytes()), b.Initial())
		} else if err := m.addObject(b, address(i)); err != nil {
			return nil, err
		}
	}
	maps := make([][]byte, len(f.Tensors))
	for i := range f.Tensors {
		if maps[i], err = tensorMap(&f.Tensors[i], address(f.Tensors[i].Buffer)); err != nil {
			return nil, err
		}
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		k, ok := prog.Kernel(r.Kernel)
		if !ok {
			return nil, fmt.Errorf("no kernel %s", r.Kernel)
		}
		limits := exec.DefaultLimits()
		limits.SharedBytes = 96 << 10
		l := exec.Launch{Grid: r.Grid, Block: r.Block, SharedBytes: r.Shared, Params: r.Params(address, func(n int) []byte { return maps[n] }), Limits: limits,
			Model: exec.NewModel(4, 0)}
		if err := run(k, l, m); err != nil {
			return nil, err
		}
	}
	for i := range f.Buffers {
		b := &f.Buffers[i]
		switch {
		case !b.Output:
		case b.Object != nil:
			data, err := m.contents(b, address(i))
			if err != nil {
				return nil, err
			}
			outputs = append(outputs, data)
		default:
			outputs = append(outputs, m[address(i)>>regionBits][:b.Bytes()])
		}
	}
	return outputs, nil
}

// lost returns the fault in err.
func lost(err error) (*gpu.LostError, bool) {
	var e *gpu.LostError
	return e, errors.As(err, &e)
}

// TestRandomKernels runs random kernels on all engines, which must agree, and
// on several workers.
func TestRandomKernels(t *testing.T) {
	for seed := range uint64(rounds(40, 80, 120)) {
		f, err := fixture.Parse(fmt.Sprintf("random%d", seed), []byte(random.Kernel(seed)))
		require.NoError(t, err)
		want, err := engines[0].run(f)
		require.NoError(t, err, f.Name)
		others := append([]engine{{name: "exec with 4 workers", run: func(f *fixture.Fixture) ([][]byte, error) { return runExec(f, exec.NativeAtOnce, 4) }}}, engines[1:]...)
		for _, e := range others {
			if e.leftOut() {
				continue
			}
			got, err := e.run(f)
			require.NoError(t, err, "%s: %s", f.Name, e.name)
			diffs, _ := f.Compare(got, want)
			require.Empty(t, diffs, "%s: %s differs from %s", f.Name, e.name, engines[0].name)
		}
	}
}

// TestWorkersDoNotMatter runs kernels of several blocks on several workers.
func TestWorkersDoNotMatter(t *testing.T) {
	for _, c := range readCorpus(t) {
		if c.recording == nil || c.recording.Fault != "" || c.fixture.Runs[0].Grid[0] < 4 {
			continue
		}
		one, err := runExec(c.fixture, exec.NativeAtOnce, 1)
		if err != nil {
			continue // TestCorpus reports it
		}
		many, err := runExec(c.fixture, exec.NativeHot, 4)
		if err != nil {
			t.Errorf("%s: with 4 workers: %v", c.fixture.Name, err)
			continue
		}
		if diffs, _ := c.fixture.Compare(many, one); len(diffs) > 0 {
			t.Errorf("%s: with 4 workers %d values differ from those with one: %v", c.fixture.Name, len(diffs), diffs[0])
		}
	}
}

// reservedKernel writes the registers of reserved shared memory and the sizes of
// what a block has.
const reservedKernel = `//! out out 7 u32
//! run k grid 1 block 1 shared 48 args out
.version 8.5
.target sm_90
.address_size 64
.shared .align 16 .b8 var[64];
.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<8>;
	.reg .b64 %rd;
	ld.param.u64 %rd, [out];
	mov.u32 %r0, %reserved_smem_offset_begin;
	mov.u32 %r1, %reserved_smem_offset_end;
	mov.u32 %r2, %reserved_smem_offset_cap;
	mov.u32 %r3, %reserved_smem_offset_0;
	mov.u32 %r4, %reserved_smem_offset_1;
	mov.u32 %r5, %total_smem_size;
	mov.u32 %r6, %aggr_smem_size;
	mov.u32 %r7, var;
	add.u32 %r5, %r5, %r7;
	st.global.v4.u32 [%rd], {%r0, %r1, %r2, %r3};
	st.global.u32 [%rd+16], %r4;
	st.global.u32 [%rd+20], %r5;
	st.global.u32 [%rd+24], %r6;
	ret;
}
`

// TestNoReservedSharedMemory is no fixture: a GPU answers otherwise, since its
// driver reserves some (an H200's has 1 KiB below the first variable). Here
// there is none, and all registers must say so.
func TestNoReservedSharedMemory(t *testing.T) {
	f, err := fixture.Parse("reserved", []byte(reservedKernel))
	require.NoError(t, err)
	want := make([]byte, 7*4)
	binary.LittleEndian.PutUint32(want[20:], 128)
	binary.LittleEndian.PutUint32(want[24:], 128)
	for _, e := range engines {
		got, err := e.run(f)
		require.NoError(t, err, e.name)
		require.Equal(t, [][]byte{want}, got, e.name)
	}
}
