package capi

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/fatbin"
)

// Handles of a module and of its functions are good until it is unloaded, and one function has one.
func TestModuleHandles(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	image, name := p.text("kernel add\nglobal g"), p.text("add")
	module := p.word64("cuModuleLoadData", image)
	f := p.word64("cuModuleGetFunction", module, name)
	require.Equal(t, f, p.word64("cuModuleGetFunction", module, name))
	require.Equal(t, module, p.word64("cuFuncGetModule", f))
	require.Equal(t, module, p.word64("cuFuncGetModule", f))
	p.gives(cuda.ErrNotFound, "cuModuleGetFunction", p.out, module, p.text("sub"))
	p.gives(cuda.ErrNotFound, "cuModuleGetGlobal_v2", p.out, 0, module, p.text("h"))
	p.gives(cuda.ErrInvalidValue, "cuModuleGetGlobal_v2", p.out, 0, module, p.text("add"))
	p.gives(cuda.ErrInvalidValue, "cuModuleGetGlobal_v2", 0, 0, module, p.text("g"))
	p.gives(cuda.ErrInvalidHandle, "cuModuleGetFunction", p.out, f, name)
	p.gives(cuda.ErrInvalidValue, "cuModuleGetFunction", p.out, module, 0)
	p.gives(cuda.ErrInvalidValue, "cuModuleGetFunction", 0, module, name)
	p.ok("cuModuleGetGlobal_v2", p.out, p.out+8, module, p.text("g"))
	require.EqualValues(t, 64, p.word(p.out+8))
	p.ok("cuModuleUnload", module)
	p.gives(cuda.ErrInvalidHandle, "cuModuleUnload", module)
	p.gives(cuda.ErrInvalidHandle, "cuFuncGetAttribute", p.out, 0, f)
	p.gives(cuda.ErrInvalidHandle, "cuLaunchKernel", f, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
}

// Modules come as text, in a file, in fatbins of each kind and in the wrapper that nvcc makes.
func TestModulesOfEachKind(t *testing.T) {
	p := newProgramInContext(t)
	p.gpu.KernelAdd()
	text := "kernel add\n" + strings.Repeat("global g\n", 40)
	images := map[string][]byte{
		"text":  []byte(text + "\x00"),
		"plain": makeFatbin(t, part{kind: fatbin.KindPTX, arch: 70, data: text}),
		"LZ4":   makeFatbin(t, part{kind: fatbin.KindPTX, arch: 70, data: text, how: fatbin.FlagLZ4}),
		"zstd":  makeFatbin(t, part{kind: fatbin.KindPTX, arch: 70, data: text, how: fatbin.FlagZstd}),
	}
	for name, image := range images {
		at := p.mem.Keep(image)
		wrapper := binary.LittleEndian.AppendUint32(nil, wrapperMagic)
		wrapper = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(wrapper, 1), at)
		file := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(file, image, 0o644))
		p.ok("cuModuleLoadData", p.out, at)
		p.ok("cuModuleLoad", p.out, p.text(file))
		if name != "text" {
			p.ok("cuModuleLoadFatBinary", p.out, p.mem.Keep(append(wrapper, make([]byte, 8)...)))
		}
		p.ok("cuLibraryLoadData", p.out, at, 0, 0, 0, 0, 0, 0)
	}
	require.Equal(t, 4+4+3, p.gpu.Calls["ModuleLoad"], "libraries are loaded when they are used")
	for name, want := range map[string]cuda.Result{"/nowhere": fileNotFound, "/dev": invalidImage, "/dev/zero": invalidImage} {
		p.gives(want, "cuModuleLoad", p.out, p.text(name))
	}
	p.gives(noBinaryForGPU, "cuModuleLoadData", p.out, p.mem.Keep(makeFatbin(t, part{kind: fatbin.KindELF, arch: 70, data: "code"})))
	p.gives(noBinaryForGPU, "cuModuleLoadData", p.out, p.mem.Keep(makeFatbin(t, part{kind: fatbin.KindPTX, arch: 90, data: text})))
	p.gives(noBinaryForGPU, "cuModuleLoadData", p.out, p.text("\x7fELF"))
	p.gives(cuda.ErrInvalidValue, "cuModuleLoadData", p.out, 8)
}

// The compiler's log goes where the program wants it, cut to the room, and a refusal leaves nothing.
func TestLogOfARefusedModule(t *testing.T) {
	p := newProgramInContext(t)
	log := p.mem.Keep(make([]byte, 32))
	options := p.halves(jitErrorLog, jitErrorLogBytes, jitWallTime)
	values := p.words(log, 16, 0)
	p.gives(cuda.ErrInvalidPTX, "cuModuleLoadDataEx", p.out, p.text("nonsense"), 3, options, values)
	b := make([]byte, 32)
	require.NoError(t, p.mem.Read(b, log))
	require.Equal(t, "image:1:1: \"non\x00", string(b[:16]))
	require.Equal(t, make([]byte, 16), b[16:], "beyond the room")
	require.EqualValues(t, 16, p.word(values+8))
	p.gives(cuda.ErrInvalidValue, "cuModuleLoadDataEx", p.out, p.text("nonsense"), 3, 8, values)
	p.gives(cuda.ErrInvalidValue, "cuModuleLoadDataEx", p.out, p.text("nonsense"), 1000, options, values)
}

// A library is loaded into each context that uses it, and goes with neither of them.
func TestLibraries(t *testing.T) {
	p := newProgram(t)
	p.gpu.KernelAdd()
	lib := p.word64("cuLibraryLoadData", p.text(".entry add\nglobal g"), 0, 0, 0, 0, 0, 0)
	kernel := p.word64("cuLibraryGetKernel", lib, p.text("add"))
	p.gives(cuda.ErrNotFound, "cuLibraryGetKernel", p.out, lib, p.text("sub"))
	p.gives(invalidContext, "cuKernelGetFunction", p.out, kernel)
	require.Zero(t, p.gpu.Calls["ModuleLoad"])
	first := p.word64("cuCtxCreate_v2", 0, 0)
	require.Equal(t, kernel, p.word64("cuLibraryGetKernel", lib, p.text("add")))
	f := p.word64("cuKernelGetFunction", kernel)
	p.gives(cuda.ErrNotFound, "cuLibraryGetKernel", p.out, lib, p.text("sub"))
	second := p.word64("cuCtxCreate_v2", 0, 0)
	require.Equal(t, kernel, p.word64("cuLibraryGetKernel", lib, p.text("add")))
	require.NotEqual(t, f, p.word64("cuKernelGetFunction", kernel))
	require.Equal(t, 2, p.gpu.Calls["ModuleLoad"])
	p.ok("cuLibraryGetGlobal", p.out, p.out+8, lib, p.text("g"))
	p.ok("cuCtxDestroy_v2", second)
	p.ok("cuCtxSetCurrent", first)
	p.ok("cuKernelGetFunction", p.out, kernel)
	p.ok("cuLibraryUnload", lib)
	p.gives(cuda.ErrInvalidHandle, "cuLibraryUnload", lib)
	p.gives(cuda.ErrInvalidHandle, "cuKernelGetFunction", p.out, kernel)
}

// Whichever call of the layer below fails, and how: the program gets an error, and the device
// everything back.
func TestFailuresBelow(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.ENODEV} {
		for n := 1; ; n++ {
			p := newProgram(t)
			p.gpu.KernelAdd()
			p.gpu.FailNext(n, "", errno)
			failed := p.useEverything()
			p.gpu.FailNext(0, "", nil)
			p.lib.Close()
			if p.gpu.Failed == "" {
				require.Greater(t, n, 20)
				break
			}
			switch p.gpu.Failed { // of others errors come later, or the library finds another way
			case "open", "ModuleLoad", "ModuleFunction":
				require.NotEqual(t, cuda.Success, failed, "%v of %s, call %d", errno, p.gpu.Failed, n)
			}
		}
	}
}

// useEverything makes calls until one fails, and returns its result.
func (p *program) useEverything() cuda.Result {
	for _, step := range []func() cuda.Result{
		func() cuda.Result { return p.call("cuCtxCreate_v2", p.out, 0, 0) },
		func() cuda.Result { return p.call("cuMemAlloc_v2", p.out+8, 4096) },
		func() cuda.Result { return p.call("cuMemHostAlloc", p.out+16, 4096, 0) },
		func() cuda.Result { return p.call("cuStreamCreate", p.out+24, 0) },
		func() cuda.Result { return p.call("cuEventCreate", p.out+32, 0) },
		func() cuda.Result { return p.call("cuModuleLoadData", p.out+40, p.text("kernel add")) },
		func() cuda.Result { return p.call("cuModuleGetFunction", p.out+48, p.word(p.out+40), p.text("add")) },
		func() cuda.Result { return p.call("cuMemsetD32_v2", p.word(p.out+8), 1, 16) },
		func() cuda.Result {
			arguments := p.words(p.out+8, p.halves(16), p.halves(2))
			return p.call("cuLaunchKernel", p.word(p.out+48), 1, 1, 1, 16, 1, 1, 0, p.word(p.out+24), arguments, 0)
		},
		func() cuda.Result { return p.call("cuEventRecord", p.word(p.out+32), p.word(p.out+24)) },
		func() cuda.Result { return p.call("cuEventSynchronize", p.word(p.out+32)) },
		func() cuda.Result {
			return p.call("cuMemcpyDtoH_v2", p.mem.Keep(make([]byte, 64)), p.word(p.out+8), 64)
		},
		func() cuda.Result { return p.call("cuStreamDestroy_v2", p.word(p.out+24)) },
		func() cuda.Result { return p.call("cuModuleUnload", p.word(p.out+40)) },
		func() cuda.Result { return p.call("cuMemFree_v2", p.word(p.out+8)) },
	} {
		if r := step(); r != cuda.Success {
			return r
		}
	}
	return cuda.Success
}
