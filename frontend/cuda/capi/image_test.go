package capi

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu/fatbin"
)

// codeWith is a cubin with the symbols of kernels.
func codeWith(names ...string) []byte {
	strings, symbols := "\x00", make([]byte, 24)
	for _, name := range names {
		s := binary.LittleEndian.AppendUint32(nil, uint32(len(strings)))
		s = append(s, 0x12, 0x10) // a global function that is an entry
		symbols = append(symbols, append(s, make([]byte, 18)...)...)
		strings += name + "\x00"
	}
	b := cubin(".symtab", string(symbols), ".strtab", strings)
	at := binary.LittleEndian.Uint64(b[40:]) + elfSection // of the first section behind the empty one
	binary.LittleEndian.PutUint32(b[at+4:], 2)
	binary.LittleEndian.PutUint32(b[at+40:], 2)
	return b
}

// newImageProgram is newProgramInContext on a device that takes machine code.
func newImageProgram(t *testing.T) *program {
	p := newIdleProgram(t)
	p.gpu.Params[drm.ParamImages] = 1
	p.gpu.Params[drm.ParamComputeMajor], p.gpu.Params[drm.ParamComputeMinor] = 9, 0
	p.gpu.KernelAdd()
	p.ok("cuInit", 0)
	p.word64("cuCtxCreate_v2", 0, 0)
	return p
}

// A device that takes machine code gets what suits it as it is, and PTX where nothing does.
func TestMachineCodeForADevice(t *testing.T) {
	p := newImageProgram(t)
	code := codeWith("add")
	elf := func(arch uint32, how uint64) part {
		return part{kind: fatbin.KindELF, arch: arch, data: string(code), how: how}
	}
	text := part{kind: fatbin.KindPTX, arch: 50, data: ".entry add\n"}
	for name, c := range map[string]struct {
		image, want []byte
		wrapped     bool
	}{
		"a cubin":      {image: code, want: code},
		"its own":      {image: makeFatbin(t, elf(80, 0), elf(90, 0), text, elf(100, 0)), want: makeFatbin(t, elf(90, 0))},
		"compressed":   {image: makeFatbin(t, elf(90, fatbin.FlagLZ4)), want: makeFatbin(t, elf(90, fatbin.FlagLZ4)), wrapped: true},
		"special":      {image: makeFatbin(t, elf(90, fatbin.FlagOwn), elf(90, 0)), want: makeFatbin(t, elf(90, fatbin.FlagOwn), elf(90, 0))},
		"others' code": {image: makeFatbin(t, elf(80, 0), text, elf(120, 0)), want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			p.gpu.Image = nil
			at := p.mem.Keep(c.image)
			if c.wrapped {
				w := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, wrapperMagic), 1)
				at = p.mem.Keep(append(binary.LittleEndian.AppendUint64(w, at), make([]byte, 8)...))
			}
			m := p.word64("cuModuleLoadData", at)
			require.Equal(t, c.want, p.gpu.Image)
			p.word64("cuModuleGetFunction", m, p.text("add"))
			require.EqualValues(t, 1, uint32(p.word64("cuModuleGetFunctionCount", m)))
		})
	}
	p.gives(noBinaryForGPU, "cuModuleLoadData", p.out, p.mem.Keep(makeFatbin(t, elf(80, 0), elf(120, 0))))
	p.gives(invalidImage, "cuModuleLoadData", p.out, p.text("\x7fELF"))
}

// The device tells of machine code what PTX would say.
func TestAttributesOfMachineCode(t *testing.T) {
	p := newImageProgram(t)
	add := p.gpu.Kernels["add"]
	add.Attributes.PTXVersion, add.Attributes.Binary = 80, 90
	add.Attributes.ClusterX, add.Attributes.ClusterY, add.Attributes.ClusterZ, add.Attributes.NeedsSize = 2, 1, 1, 1
	lib := p.word64("cuLibraryLoadData", p.mem.Keep(codeWith("add", "sub")), 0, 0, 0, 0, 0, 0)
	require.Nil(t, p.gpu.Image, "libraries are loaded when they are used")
	require.EqualValues(t, 2, uint32(p.word64("cuLibraryGetKernelCount", lib)))
	f := p.word64("cuKernelGetFunction", p.word64("cuLibraryGetKernel", lib, p.text("add")))
	for attr, want := range map[uint64]uint32{funcPTX: 80, funcBinary: 90, funcClusterWidth: 2, funcClusterMustBeSet: 1} {
		require.EqualValues(t, want, uint32(p.word64("cuFuncGetAttribute", attr, f)), attr)
	}
	p.gives(cuda.ErrNotFound, "cuLibraryGetKernel", p.out, lib, p.text("mul"))
}

// Refusals of machine code have the results that NVIDIA's driver gives.
func TestRefusedMachineCode(t *testing.T) {
	p := newImageProgram(t)
	for log, want := range map[string]cuda.Result{
		"damaged": invalidImage,
		"cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (209)": noBinaryForGPU,
	} {
		p.gpu.Refusal = log
		p.gives(want, "cuModuleLoadData", p.out, p.mem.Keep(codeWith("add")))
	}
}

// A thread without a context learns from the machine code itself which kernels a library has.
func TestKernelsOfMachineCode(t *testing.T) {
	p := newImageProgram(t)
	p.ok("cuCtxPopCurrent_v2", p.out)
	lib := p.word64("cuLibraryLoadData", p.mem.Keep(makeFatbin(t, part{kind: fatbin.KindELF, arch: 90, data: string(codeWith("add")), how: fatbin.FlagZstd})), 0, 0, 0, 0, 0, 0)
	p.word64("cuLibraryGetKernel", lib, p.text("add"))
	p.gives(cuda.ErrNotFound, "cuLibraryGetKernel", p.out, lib, p.text("sub"))
}

// A real GPU has what the software GPU does not, and loads kernels when they are used.
func TestAttributesOfARealGPU(t *testing.T) {
	p := newImageProgram(t)
	for attr, want := range map[uint64]int32{17: 0, 79: 1, 90: 1, 120: 1, 127: 1, 131: -1} {
		require.EqualValues(t, want, int32(p.word32("cuDeviceGetAttribute", attr, 0)), attr)
	}
	require.EqualValues(t, 2, p.word32("cuModuleGetLoadingMode"))
	soft := newProgram(t)
	require.EqualValues(t, 1, soft.word32("cuModuleGetLoadingMode"))
	require.Zero(t, soft.word32("cuDeviceGetAttribute", 90, 0))
}

// Tensor maps, and how many clusters run at the same time, are the driver's to tell on a real GPU.
func TestQuestionsToTheDriver(t *testing.T) {
	p := newImageProgram(t)
	mem := p.word64("cuMemAlloc_v2", 4096)
	out := p.mem.Keep(make([]byte, 128))
	dims, strides, box, steps := p.words(64, 64), p.words(256), p.halves(32, 32), p.halves(1, 1)
	p.ok("cuTensorMapEncodeTiled", out, 7, 2, mem, dims, strides, box, steps, 0, 3, 2, 0)
	require.EqualValues(t, 36, p.word(out))
	require.Equal(t, mem, p.word(out+120))
	p.gives(cuda.ErrNotSupported, "cuTensorMapReplaceAddress", out, mem)
	p.gives(cuda.ErrInvalidValue, "cuTensorMapEncodeTiled", out, 7, 2, mem+1, dims, strides, box, steps, 0, 3, 2, 0)

	f := p.word64("cuModuleGetFunction", p.word64("cuModuleLoadData", p.mem.Keep(codeWith("add"))), p.text("add"))
	bytes := func(at uint64, n int) []byte {
		b := make([]byte, n)
		require.NoError(t, p.mem.Read(b, at))
		return b
	}
	attribute := p.mem.Keep(append(bytes(p.halves(4, 0, 2, 1, 1), 20), make([]byte, 52)...)) // clusters of 2
	cfg := append(bytes(p.halves(8, 1, 1, 32, 1, 1, 77, 0), 32), bytes(p.words(0, attribute, 1), 24)...)
	require.EqualValues(t, 10<<16|77, p.word32("cuOccupancyMaxActiveClusters", f, p.mem.Keep(cfg)))
	require.EqualValues(t, 8, p.word32("cuOccupancyMaxPotentialClusterSize", f, p.mem.Keep(cfg)))
	p.ok("cuFuncSetAttribute", f, funcNotPortable, 1)
	require.EqualValues(t, 1<<24|10<<16|77, p.word32("cuOccupancyMaxPotentialClusterSize", f, p.mem.Keep(cfg)))
}

// NVIDIA's driver counts blocks of machine code that it would not launch, but proposes none of them (H200, CUDA 13.0).
func TestBlockSizeOfBoundedCode(t *testing.T) {
	p := newImageProgram(t)
	p.gpu.Kernels["add"].Attributes.MaxThreads = 128
	f := p.word64("cuModuleGetFunction", p.word64("cuModuleLoadData", p.mem.Keep(codeWith("add"))), p.text("add"))
	require.NotZero(t, p.word32("cuOccupancyMaxActiveBlocksPerMultiprocessor", f, 256, 0))
	p.ok("cuOccupancyMaxPotentialBlockSize", p.out, p.out+8, f, 0, 0, 0)
	require.EqualValues(t, 128, uint32(p.word(p.out+8)))
	p.ok("cuOccupancyMaxPotentialBlockSize", p.out, p.out+8, f, 0, 0, 64)
	require.EqualValues(t, 64, uint32(p.word(p.out+8)))
}
