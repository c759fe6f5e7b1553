package host

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/internal/cudalibs"
	"pvdrm/internal/cudalibs/libstest"
)

// program is a guest's program on a machine: its memory is a mapping of this process.
type program struct {
	libstest.Guest
	machine *Machine
	results []byte
	stream  uint64
}

const half = 1 << 20

func mapped(t *testing.T, n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	return b
}

func newProgram(t *testing.T) *program {
	m, err := NewMachine(Open([]string{libstest.Build(t)}), func() error { return nil })
	require.NoError(t, err)
	mem := mapped(t, 2*half)
	return &program{Guest: libstest.Guest{TB: t, Mem: mem, Base: addressOf(mem), GPU: addressOf(mem) + half}, machine: m, results: mapped(t, half), stream: 0x5712}
}

// call makes a call as the program's side does. Late ones wait for the next.
func (p *program) call(name string, args ...uint64) (o Outcome) {
	batch, c := p.Encode(name, args...)
	if batch == nil {
		return o
	}
	results := p.results[:c.Results]
	clear(results)
	o = p.machine.Run(batch, results, p.stream)
	p.Take(c, results)
	return o
}

// log is what the fake library has noted.
func (p *program) log() string {
	p.call("cublasGetStatusString", 999)
	text, _, _ := strings.Cut(string(p.results[cudalibs.ResultHead:][:cudalibs.MaxText]), "\x00")
	return strings.TrimSpace(text)
}

// made makes a handle.
func (p *program) made(name string, before ...uint64) uint64 {
	args, handle := p.Made(name, before...)
	require.Zero(p, p.call(name, args...).Status)
	return handle()
}

func TestProductWithState(t *testing.T) {
	p := newProgram(t)
	h := p.made("cublasCreate_v2")
	version, mem := p.Room(4, false)
	require.Zero(t, p.call("cublasGetVersion_v2", h, version).Status)
	require.EqualValues(t, 130000, binary.LittleEndian.Uint32(mem))
	one, _ := p.Floats(false, 2)
	zero, _ := p.Floats(false, 0)
	a, _ := p.Floats(true, 1, 2, 3, 4)
	b, _ := p.Floats(true, 1, 0, 0, 1)
	c, got := p.Floats(true, 9, 9, 9, 9)
	gemm := func() Outcome { return p.call("cublasSgemm_v2", h, 0, 0, 2, 2, 2, one, a, 2, b, 2, zero, c, 2) }
	p.log()
	require.Zero(t, gemm().Status)
	require.Equal(t, []float32{2, 4, 6, 8}, got())
	require.Equal(t, "stream1 sgemm2 math0 ws0", p.log())

	p.call("cublasSetMathMode", h, 3)
	p.call("cublasSetWorkspace_v2", h, a, 4096)
	require.Zero(t, gemm().Status)
	require.Zero(t, gemm().Status)
	require.Equal(t, "workspace4096 math3 sgemm2 math3 ws1 sgemm2 math3 ws1", p.log(), "what is the same is not set again")

	p.call("cublasSetStream_v2", h, 0)
	require.Zero(t, gemm().Status)
	require.Equal(t, "stream1 sgemm2 math3 ws0", p.log(), "with the stream goes the workspace")
	p.call("cublasSetWorkspace_v2", h, a, 13)
	require.EqualValues(t, 7, gemm().Status, "what the setter says")

	p.call("cublasSetWorkspace_v2", h, a, 26)
	m1 := uint64(math.MaxUint32)
	require.EqualValues(t, 7, p.call("cublasSgemm_v2", h, 0, 0, m1, 2, 2, one, a, 2, b, 2, zero, c, 2).Status)
}

func TestManyArgumentsAndResults(t *testing.T) {
	p := newProgram(t)
	h := p.made("cublasCreate_v2")
	one, _ := p.Floats(false, 1)
	zero, _ := p.Floats(false, 0)
	a, _ := p.Floats(true, 1, 2, 3, 4)
	b, _ := p.Floats(true, 5, 6, 7, 8)
	c, got := p.Floats(true, 9, 9, 9, 9)
	p.log()
	require.Zero(t, p.call("cublasGemmStridedBatchedEx", h, 0, 0, 1, 1, 1, one, a, 0, 1, 1, b, 0, 1, 1, zero, c, 0, 1, 1, 4, 68, math.MaxUint32).Status)
	require.Equal(t, []float32{5, 12, 21, 32}, got())
	require.Contains(t, p.log(), "batched 0 0 1 1 1 | 0 1 1 | 0 1 1 | 0 1 1 | 4 68 -1")

	to, result := p.Floats(false, 0)
	require.Zero(t, p.call("cublasSdot_v2", h, 4, a, 1, b, 1, to).Status)
	require.Equal(t, []float32{70}, result())
	onGPU, there := p.Floats(true, 0)
	p.call("cublasSetPointerMode_v2", h, 1)
	require.Zero(t, p.call("cublasSdot_v2", h, 4, a, 1, b, 1, onGPU).Status)
	require.Equal(t, []float32{70}, there())
	require.Contains(t, p.log(), "pointer1 dot1")

	info, mem := p.Room(4, false)
	require.Zero(t, p.call("cublasSgeqrfBatched", h, 1, 1, a, 1, b, info, 1).Status)
	require.Zero(t, binary.LittleEndian.Uint32(mem))
	require.Zero(t, p.call("cublasSgeqrfBatched", h, 1000, 1, a, 1, b, info, 1).Status)
	require.EqualValues(t, math.MaxUint32-2, binary.LittleEndian.Uint32(mem))

	g := p.made("curandCreateGenerator", 100)
	require.Zero(t, p.call("curandGenerateNormal", g, c, 4, uint64(math.Float32bits(1.5)), uint64(math.Float32bits(0.25))).Status)
	require.Equal(t, []float32{1.75, 1.75, 1.75, 1.75}, got())
	require.Zero(t, p.call("curandGenerateBinomial", g, c, 1, 10, math.Float64bits(0.5)).Status)
	require.EqualValues(t, 5, math.Float32bits(got()[0]))
}

// Late calls go with the next one, in their order, and their errors are told apart.
func TestLateCalls(t *testing.T) {
	p := newProgram(t)
	d := p.made("cublasLtMatmulDescCreate", 68, 0)
	value, _ := p.Room(4, false)
	p.call("cublasLtMatmulDescSetAttribute", d, 3, value, 4)
	require.True(t, p.Waits())
	buf, mem := p.Room(16, false)
	require.Zero(t, p.call("cublasLtMatmulDescGetAttribute", d, 5, buf, 4, buf+8).Status)
	require.Equal(t, []byte{5, 5, 5, 5, 0, 0, 0, 0, 4}, mem[:9])
	require.Contains(t, p.log(), "attr3:4:00")

	p.made("cublasLtMatmulDescCreate", 999, 0)
	o := p.call("cublasLtGetVersion")
	require.EqualValues(t, 130004, o.Returned)
	require.EqualValues(t, 15, o.Earlier)
	require.Equal(t, cudalibs.All().Named("cublasLtMatmulDescCreate").Index, o.Function)

	algo, mem := p.Room(64, false)
	mem[0], mem[8] = 7, 9
	require.Zero(t, p.call("cublasLtMatmulAlgoConfigSetAttribute", algo, 2, value, 3).Status)
	require.Equal(t, []byte{9, 9, 3}, []byte{mem[0], mem[8], mem[56]})
}

func TestDescriptors(t *testing.T) {
	p := newProgram(t)
	h := p.made("cudnnCreate")
	tensor, plan, pack := p.made("cudnnBackendCreateDescriptor", 31), p.made("cudnnBackendCreateDescriptor", 5), p.made("cudnnBackendCreateDescriptor", 9)
	list, mem := p.Room(32, false)
	copy(mem, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, tensor), plan))
	p.log()
	p.call("cudnnBackendSetAttribute", plan, 1, 15, 2, list)
	copy(mem, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 1<<40), 3))
	p.call("cudnnBackendSetAttribute", plan, 2, 3, 2, list)
	number, value := p.Floats(false, 2.5)
	copy(mem, binary.LittleEndian.AppendUint64(nil, number))
	p.call("cudnnBackendSetAttribute", pack, 3, 6, 1, list)
	binary.LittleEndian.PutUint32(p.Mem[number-p.Base:], 0) // it was read
	require.Zero(t, value()[0])
	require.Zero(t, p.call("cudnnBackendFinalize", plan).Status)
	require.Zero(t, p.call("cudnnBackendExecute", h, plan, pack).Status)
	require.Equal(t, "set1:15[2]d31d5 set2:3[2],1099511627776,3 set3:6[1] stream1 execute5:2.5", p.log())

	found, mem := p.Room(32, false)
	require.Zero(t, p.call("cudnnBackendGetAttribute", plan, 1, 3, 2, found, found+8).Status)
	require.EqualValues(t, []uint64{2, 5, 6}, []uint64{binary.LittleEndian.Uint64(mem), binary.LittleEndian.Uint64(mem[8:]), binary.LittleEndian.Uint64(mem[16:])})
	copy(mem[8:], binary.LittleEndian.AppendUint64(nil, tensor))
	require.Zero(t, p.call("cudnnBackendGetAttribute", plan, 1, 15, 1, found, found+8).Status)
	p.call("cudnnBackendSetAttribute", plan, 1, 15, 1, found+8)
	require.Zero(t, p.call("cudnnBackendFinalize", plan).Status)
	require.Contains(t, p.log(), "d100", "the library has filled the descriptor")
	copy(mem, make([]byte, 16))
	binary.LittleEndian.PutUint64(mem[16:], 99)
	require.Zero(t, p.call("cudnnBackendGetAttribute", plan, 9, 3, 2, found, found+8).Status)
	require.EqualValues(t, []uint64{1, 5, 99}, words(mem[:24]), "what it has not found is not written")
	copy(mem, make([]byte, 16))
	require.Zero(t, p.call("cudnnBackendGetAttribute", plan, 9, 3, 2, 0, found+8).Status)
	require.EqualValues(t, []uint64{0, 5, 99}, words(mem[:24]), "the program does not want the number")
	require.Zero(t, p.call("cudnnBackendGetAttribute", plan, 9, 3, 0, found, 0).Status)
	require.EqualValues(t, []uint64{1, 5, 99}, words(mem[:24]), "only the number")
	bad := p.made("cudnnBackendCreateDescriptor", 77)
	require.EqualValues(t, 3000, p.call("cudnnBackendFinalize", bad).Status)
}

func words(b []byte) (w []uint64) {
	for ; len(b) > 0; b = b[8:] {
		w = append(w, binary.LittleEndian.Uint64(b))
	}
	return w
}

// A handle of cuBLAS is one of cuBLASLt, as PyTorch uses it, but for its end.
func TestHandleOfTwoLibraries(t *testing.T) {
	p := newProgram(t)
	blas, lt := p.made("cublasCreate_v2"), p.made("cublasLtCreate")
	ids, mem := p.Room(8, false)
	found, _ := p.Room(4, false)
	for _, h := range []uint64{blas, lt} {
		clear(mem)
		require.Zero(t, p.call("cublasLtMatmulAlgoGetIds", h, 1, 2, 3, 4, 5, 6, 2, ids, found).Status)
		require.EqualValues(t, []uint64{22<<32 | 21}, words(mem))
	}
	version, _ := p.Room(4, false)
	require.ErrorIs(t, p.Refused("cublasGetVersion_v2", lt, version), cudalibs.ErrHandle)
	require.ErrorIs(t, p.Refused("cublasLtDestroy", blas), cudalibs.ErrHandle)
	require.Zero(t, p.call("cublasGetVersion_v2", blas, version).Status, "it is still there")
}

// A guest that encodes the end of a handle of another kind itself is refused, too.
func TestForeignEnd(t *testing.T) {
	p := newProgram(t)
	blas, lt := p.made("cublasCreate_v2"), p.made("cublasLtCreate")
	version, _ := p.Room(4, false)
	p.call("cublasLtDestroy", lt) // late: it goes with the next call, changed on the way
	batch, c := p.Encode("cublasGetVersion_v2", blas, version)
	binary.LittleEndian.PutUint64(batch[cudalibs.BatchHead+cudalibs.RecordHead:], uint64(p.ID(blas)))
	o := p.machine.Run(batch, p.results[:c.Results], p.stream)
	require.Zero(t, o.Status)
	require.EqualValues(t, cudalibs.All().Named("cublasLtDestroy").Library.Codes.Handle, o.Earlier)
}

func TestPlansAreNumbers(t *testing.T) {
	p := newProgram(t)
	to, mem := p.Room(4, false)
	n, nmem := p.Room(8, false)
	binary.LittleEndian.PutUint32(nmem, 8)
	binary.LittleEndian.PutUint32(nmem[4:], 16)
	require.Zero(t, p.call("cufftPlanMany", to, 2, n, 0, 1, 1, n, 1, 1, 41, 3).Status)
	plan := uint64(binary.LittleEndian.Uint32(mem))
	a, _ := p.Floats(true, 0)
	p.call("cufftSetWorkArea", plan, a)
	require.Zero(t, p.call("cufftXtExec", plan, a, a, math.MaxUint32).Status)
	require.Equal(t, "plan2:16:-1:8:48 fftstream43:1 area43:1 exec43:1:-1", p.log())
}

// What a hostile guest may send is refused, and reaches no library.
func TestRefusals(t *testing.T) {
	p := newProgram(t)
	h := p.made("cublasCreate_v2")
	one, _ := p.Floats(false, 1)
	a, _ := p.Floats(true, 1)
	gemm := func() []byte {
		c, err := cudalibs.All().Named("cublasSgemm_v2").Encode([]uint64{h, 0, 0, 1, 1, 1, one, a, 1, a, 1, one, a, 1}, p)
		require.NoError(t, err)
		return c.Record
	}
	p.log()
	for name, test := range map[string]struct {
		want   cudalibs.Refusal
		change func(r []byte) []byte
	}{
		"another table":  {want: cudalibs.RefusedTable},
		"another handle": {want: cudalibs.RefusedHandle, change: func(r []byte) []byte { r[8] = 200; return r }},
		"cut":            {want: cudalibs.RefusedForm, change: func(r []byte) []byte { return r[:len(r)-8] }},
		"a length":       {want: cudalibs.RefusedForm, change: func(r []byte) []byte { r[4] += 4; return r }},
		"no function":    {want: cudalibs.RefusedForm, change: func(r []byte) []byte { r[3] = 99; return r }},
		"a slot":         {want: cudalibs.RefusedForm, change: func(r []byte) []byte { r[16+7] = 1; return r }},
		"a local function": {want: cudalibs.RefusedMode, change: func(r []byte) []byte {
			binary.LittleEndian.PutUint32(r, cudalibs.All().Named("cublasSetMathMode").Index)
			return r
		}},
		"a library that is not there": {want: cudalibs.RefusedLibrary, change: func(r []byte) []byte {
			binary.LittleEndian.PutUint32(r, cudalibs.All().Named("cusolverDnCreate").Index)
			return r
		}},
		"a function that is not there": {want: cudalibs.RefusedSymbol, change: func(r []byte) []byte {
			binary.LittleEndian.PutUint32(r, cudalibs.All().Named("cublasZgemm_v2").Index)
			return r
		}},
	} {
		batch := binary.LittleEndian.AppendUint64(nil, cudalibs.All().Sum)
		if test.change == nil {
			batch[0]++
			batch = append(batch, gemm()...)
		} else {
			batch = append(batch, test.change(gemm())...)
		}
		o := p.machine.Run(batch, p.results[:24], 0)
		require.Equal(t, test.want, o.Refused, name)
		require.NotZero(t, o.Status, name)
	}
	require.Empty(t, p.log())
	require.Equal(t, cudalibs.RefusedForm, p.machine.Run([]byte{1}, nil, 0).Refused)

	p.call("cublasDestroy_v2", h)
	require.Equal(t, cudalibs.RefusedHandle, p.call("cublasSgemm_v2", h, 0, 0, 1, 1, 1, one, a, 1, a, 1, one, a, 1).Refused, "it is destroyed")
	require.Empty(t, p.machine.objects)
}

// An error of a call that no one waits for is kept until it is taken, and others do not hide it.
func TestLateErrors(t *testing.T) {
	p := newProgram(t)
	h := p.made("cublasCreate_v2")
	one, _ := p.Floats(false, 1)
	a, _ := p.Floats(true, 1)
	send := func(m uint64) {
		c, err := cudalibs.All().Named("cublasSgemm_v2").Encode([]uint64{h, 0, 0, m, 1, 1, one, a, 1, a, 1, one, a, 1}, p)
		require.NoError(t, err)
		p.machine.Run(append(binary.LittleEndian.AppendUint64(nil, cudalibs.All().Sum), c.Record...), p.results[:24], 1)
	}
	clear(p.results[:24])
	send(1)
	require.Zero(t, binary.LittleEndian.Uint64(p.results))
	send(math.MaxUint32)
	send(1)
	require.EqualValues(t, 7, binary.LittleEndian.Uint32(p.results[8:]))
	require.Equal(t, cudalibs.All().Named("cublasSgemm_v2").Index, binary.LittleEndian.Uint32(p.results[12:]))
}

func TestDirectories(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"lib/python3.12/site-packages/nvidia/cu13/lib", "lib/python3.12/site-packages/nvidia/cudnn/lib"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	all := Directories(root)
	require.Contains(t, all, root)
	require.Contains(t, all, root+"/lib/python3.12/site-packages/nvidia/cu13/lib")
	require.Contains(t, all, root+"/lib/python3.12/site-packages/nvidia/cudnn/lib")
	require.Equal(t, []string{root + "/lib"}, Directories(root + "/lib")[:1])
}

// A handle of each library is made ahead, and made as new when the guest has destroyed it.
func TestSpareHandles(t *testing.T) {
	p := newProgram(t)
	require.NoError(t, p.machine.Warm())
	require.Equal(t, "create create create fftdestroy106 create destroy", p.log(), "cuFFT's and cuRAND's are not kept")
	mask := p.machine.libraries.Mask()
	require.NoError(t, p.machine.Recheck())
	require.Equal(t, mask, p.machine.libraries.Mask())
	p.log()
	h := p.made("cublasCreate_v2")
	require.Empty(t, p.log())
	second := p.made("cublasCreate_v2")
	require.Equal(t, "create", p.log())
	one, _ := p.Floats(false, 1)
	a, _ := p.Floats(true, 1)
	use := func(h uint64) {
		require.Zero(t, p.call("cublasSgemm_v2", h, 0, 0, 1, 1, 1, one, a, 1, a, 1, one, a, 1).Status)
	}
	p.call("cublasSetMathMode", h, 3)
	p.call("cublasSetWorkspace_v2", h, a, 64)
	use(h)
	p.log()
	require.Zero(t, p.call("cublasDestroy_v2", h).Status)
	require.Zero(t, p.call("cublasDestroy_v2", second).Status)
	require.Equal(t, "math0 stream0 destroy", p.log())
	use(p.made("cublasCreate_v2"))
	require.Equal(t, "stream1 sgemm1 math0 ws0", p.log())
}

// A library that does not start is not there, and the reason is told.
// It tells its version, for which it does not have to.
func TestLibraryThatDoesNotStart(t *testing.T) {
	p := newProgram(t)
	l := p.machine.libraries
	cublas := cudalibs.All().Libraries[0]
	t.Setenv("PVDRM_TEST_NO_HANDLES", "1")
	require.NoError(t, p.machine.Warm())
	require.Zero(t, l.Mask()&1)
	require.Contains(t, l.Missing(), "cublasCreate_v2 returned 14")
	require.Equal(t, cudalibs.RefusedLibrary, p.machine.Run(append(binary.LittleEndian.AppendUint64(nil, cudalibs.All().Sum),
		binary.LittleEndian.AppendUint64([]byte{byte(cublas.Functions[0].Index), 0, 0, 0, 16, 0, 0, 0}, 5)...), nil, 0).Refused)
	version, mem := p.Room(4, false)
	require.Zero(t, p.call("cublasGetProperty", 0, version).Status)
	require.EqualValues(t, 13, binary.LittleEndian.Uint32(mem))
}
