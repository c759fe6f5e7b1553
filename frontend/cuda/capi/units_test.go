package capi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/fatbin"
	"pvdrm/internal/progmem/progmemtest"
)

const unitHead = ".version 7.0\n.target sm_50\n.address_size 64\n"

// The wrapper of a linked program leads to its units where it has no PTX of its own.
func TestLinkedPrograms(t *testing.T) {
	a := new(fakeMemory)
	kept := func(p part) uint64 { return a.Keep(makeFatbin(t, p)) }
	words := func(values ...uint64) (b []byte) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return b
	}
	code := kept(part{kind: fatbin.KindELF, arch: 70, data: "machine code"})
	own := kept(part{kind: fatbin.KindPTX, arch: 50, data: "its own PTX"})
	calls := kept(part{kind: fatbin.KindPTX, arch: 50, data: unitHead + ".extern .func f;\n.entry k() { call f; ret; }"})
	defines := kept(part{kind: fatbin.KindPTX, arch: 50, data: unitHead + ".visible .func f { ret; }", how: fatbin.FlagZstd})
	newer := kept(part{kind: fatbin.KindPTX, arch: 90, data: unitHead})
	runtime := kept(part{kind: fatbin.KindELF, arch: 70, data: "code with " + runtimeMark, how: fatbin.FlagLZ4})
	newRuntime := kept(part{kind: fatbin.KindPTX, arch: 50, data: unitHead + ".visible .global .u32 " + runtimeMark + ";"})
	damaged := a.Keep([]byte("P\xed\x55\xba\x01\x00\x10\x00\x50\x00\x00\x00\x00\x00\x00\x00"))
	many := bytes.Repeat(words(runtime), 4097)
	for name, c := range map[string]struct {
		fatbin uint64
		units  []byte
		want   string
		err    cuda.Result
	}{
		"linked":                 {fatbin: code, units: words(calls, runtime, defines, 0), want: ".visible .func f("},
		"a newer runtime":        {fatbin: code, units: words(newRuntime, defines, 0), want: ".visible .func f {"},
		"PTX of its own":         {fatbin: own, units: words(calls, 0), want: "its own PTX"},
		"no units":               {fatbin: code, units: words(0), err: noBinaryForGPU},
		"the runtime only":       {fatbin: code, units: words(runtime, 0), err: noBinaryForGPU},
		"an undefined symbol":    {fatbin: code, units: words(calls, 0), err: invalidSource},
		"calls of the runtime":   {fatbin: code, units: words(calls, runtime, 0), err: cuda.ErrNotSupported},
		"a unit without PTX":     {fatbin: code, units: words(defines, code, 0), err: noBinaryForGPU},
		"a unit for newer ones":  {fatbin: code, units: words(newer, 0), err: noBinaryForGPU},
		"two definitions":        {fatbin: code, units: words(defines, defines, 0), err: invalidSource},
		"PTX that is none":       {fatbin: code, units: words(own, 0), err: invalidImage},
		"a damaged unit":         {fatbin: code, units: words(damaged, 0), err: invalidImage},
		"a wild unit":            {fatbin: code, units: words(0x99, 0), err: cuda.ErrInvalidValue},
		"too many":               {fatbin: code, units: many, err: invalidImage},
		"a damaged linked image": {fatbin: damaged, units: words(defines, 0), err: invalidImage},
	} {
		t.Run(name, func(t *testing.T) {
			wrapper := binary.LittleEndian.AppendUint32(nil, wrapperMagic)
			wrapper = binary.LittleEndian.AppendUint32(wrapper, wrapperLinked)
			rewind := a.Rewind()
			wrapper = append(wrapper, words(c.fatbin, a.Keep(c.units))...)
			got, err := readImage(a, a.Keep(wrapper), ptxOnly70)
			rewind()
			if c.err != 0 {
				require.Equal(t, c.err, resultOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Contains(t, string(got), c.want)
		})
	}
	const end = memoryBase + progmemtest.Bytes - 8
	require.NoError(t, a.Write(end, words(runtime)))
	wrapper := append(append(binary.LittleEndian.AppendUint32(nil, wrapperMagic), 2, 0, 0, 0), words(code, end)...)
	_, err := readImage(a, a.Keep(wrapper), ptxOnly70)
	require.Equal(t, cuda.ErrInvalidValue, resultOf(err), "an array without an end")
}

// cuLink gives NVIDIA's results and log.
func TestLinkErrors(t *testing.T) {
	p := newProgramInContext(t)
	const uses, defines = unitHead + ".extern .func f;\n.entry k() { call f; ret; }\x00", unitHead + ".visible .func f { ret; }\x00"
	log := p.mem.Keep(make([]byte, 200))
	logged := func() string {
		b := make([]byte, 200)
		require.NoError(t, p.mem.Read(b, log))
		text, _, _ := bytes.Cut(b, []byte{0})
		return string(text)
	}
	state := func() uint64 {
		p.ok("cuLinkCreate_v2", 2, p.halves(jitErrorLog, jitErrorLogBytes), p.words(log, 200), p.out)
		return p.word(p.out)
	}
	inputs := 0
	add := func(want cuda.Result, link uint64, text string) {
		t.Helper()
		p.gives(want, "cuLinkAddData_v2", link, inputPTX, p.mem.Keep([]byte(text)), uint64(len(text)), p.text(fmt.Sprintf("in%d", inputs)), 0, 0, 0)
		inputs++
	}
	l := state()
	add(invalidImage, l, "nonsense\x00")
	add(cuda.Success, l, uses)
	p.gives(cuda.ErrInvalidValue, "cuLinkAddData_v2", l, 99, p.text(uses), uint64(len(uses)), 0, 0, 0, 0)
	p.gives(cuda.ErrNotSupported, "cuLinkAddData_v2", l, inputNVVM, p.text(uses), uint64(len(uses)), 0, 0, 0, 0)
	p.gives(invalidImage, "cuLinkAddData_v2", l, inputLibrary, p.text(uses), uint64(len(uses)), 0, 0, 0, 0)
	p.gives(invalidSource, "cuLinkComplete", l, p.out, 0)
	require.Equal(t, "error   : Undefined reference to 'f' in 'in1'\n", logged())
	add(cuda.Success, l, defines)
	add(invalidSource, l, defines)
	require.Equal(t, "error   : Multiple definition of 'f' in 'in3', first defined in 'in2'\n", logged())
	p.gives(cuda.ErrUnknown, "cuLinkComplete", l, p.out, 0)
	p.ok("cuLinkDestroy", l)

	l = state()
	add(cuda.ErrInvalidPTX, l, unitHead+".entry k() { add.u32 %r1 %r2; }")
	require.Contains(t, logged(), "in4:4:26: error: syntax error")
	p.gives(cuda.ErrUnknown, "cuLinkComplete", l, p.out, 0)
}

// Object files and libraries of them give the PTX of their fatbins, and libcudadevrt the right to
// call the device runtime.
func TestLinkObjects(t *testing.T) {
	p := newProgramInContext(t)
	const uses = unitHead + ".extern .func f;\n.extern .func (.param .b32 r) cudaGetLastError;\n" +
		".entry k() { .param .b32 r; call f; call (r), cudaGetLastError; ret; }\x00"
	object := func(parts ...part) []byte {
		b := []byte("\x7fELF and so on ")
		for _, x := range parts {
			b = append(append(b, makeFatbin(t, x)...), "more"...)
		}
		return b
	}
	runtime := object(part{kind: fatbin.KindELF, arch: 70, data: "code with " + runtimeMark, how: fatbin.FlagLZ4})
	p.ok("cuLinkCreate_v2", 0, 0, 0, p.out)
	l := p.word(p.out)
	add := func(want cuda.Result, kind uint64, b []byte) {
		t.Helper()
		p.gives(want, "cuLinkAddData_v2", l, kind, p.mem.Keep(b), uint64(len(b)), 0, 0, 0, 0)
	}
	add(cuda.Success, inputObject, object(part{kind: fatbin.KindPTX, arch: 50, data: uses}))
	add(cuda.Success, inputLibrary, object(part{kind: fatbin.KindPTX, arch: 50, data: unitHead}, part{kind: fatbin.KindPTX, arch: 50, data: unitHead + ".visible .func f { ret; }"}))
	p.gives(invalidSource, "cuLinkComplete", l, p.out, 0)
	add(cuda.Success, inputLibrary, runtime)
	p.gives(cuda.ErrInvalidPTX, "cuLinkComplete", l, p.out, 0) // by the fake GPU, which gets all of it
	add(noBinaryForGPU, inputObject, object(part{kind: fatbin.KindELF, arch: 70, data: "code"}))
	bad := object(part{kind: fatbin.KindPTX, arch: 50, data: uses})
	binary.LittleEndian.PutUint32(bad[bytes.Index(bad, []byte("P\xed"))+fatbin.HeaderBytes+4:], 1)
	add(invalidImage, inputObject, bad)
}
