package capi

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/fatbin"
)

// cubin makes an ELF file of machine code with sections: names and contents.
func cubin(sections ...string) []byte {
	le := binary.LittleEndian
	names := "\x00.shstrtab\x00"
	b := make([]byte, elfHeader)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[18:], machineCUDA)
	headers := make([]byte, elfSection, elfSection*3)
	section := func(name, kind int, contents string) {
		s := make([]byte, elfSection)
		le.PutUint32(s, uint32(name))
		le.PutUint32(s[4:], uint32(kind))
		le.PutUint64(s[24:], uint64(len(b)))
		le.PutUint64(s[32:], uint64(len(contents)))
		b, headers = append(b, contents...), append(headers, s...)
	}
	for i := 0; i < len(sections); i += 2 {
		section(len(names), sectionBits, sections[i+1])
		names += sections[i] + "\x00"
	}
	section(1, 3, names)
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[58:], elfSection)
	le.PutUint16(b[60:], uint16(len(headers)/elfSection))
	le.PutUint16(b[62:], uint16(len(headers)/elfSection-1))
	return append(b, headers...)
}

const debugName = ".nv_debug_ptx_txt"

func TestPTXOfCubins(t *testing.T) {
	const text = "\x00\x00.version 8.4\x00.target sm_70\x00\x00"
	const want = ".version 8.4\n.target sm_70"
	good := cubin(debugName, text)
	got, err := parseImage(bytes.Clone(good), ptxOnly70)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	a := new(fakeMemory)
	got, err = readImage(a, a.Keep(good), ptxOnly70)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	require.Equal(t, want, string(CubinPTX(good)))

	_, err = parseImage(good, takes{cc: 60})
	require.ErrorIs(t, err, noBinaryForGPU, "it is for a newer device")
	for name, b := range map[string][]byte{
		"no such section":   cubin(".text", text),
		"another section":   cubin(debugName+"x", text),
		"nothing in it":     cubin(debugName, "\x00\x00"),
		"short":             good[:20],
		"another processor": append(append(bytes.Clone(good[:18]), 62, 0), good[20:]...),
	} {
		_, err := parseImage(b, ptxOnly70)
		require.ErrorIs(t, err, noBinaryForGPU, name)
		require.Nil(t, CubinPTX(b), name)
	}
	for name, at := range map[string]int{"sections": 47, "size": len(good) - 2*elfSection + 39, "offset": len(good) - 2*elfSection + 31} {
		b := bytes.Clone(good)
		b[at] = 0xff
		_, err := parseImage(b, ptxOnly70)
		require.ErrorIs(t, err, invalidImage, name)
		_, err = readImage(a, a.Keep(b), ptxOnly70)
		require.ErrorIs(t, err, invalidImage, name)
	}
}

// lines is PTX as it stands in machine code.
func lines(ptx string) string { return strings.ReplaceAll(ptx, "\n", "\x00") }

// What nvJitLink and nvlink make of several units has the PTX of each.
func TestPTXOfLinkedCubins(t *testing.T) {
	const head = ".version 8.4\n.target sm_70\n.address_size 64\n"
	caller := lines(head + ".extern .func (.param .b32 r) f (.param .b32 a);\n.visible .entry k()\n{\n.reg .b32 %r;\n" +
		".param .b32 p, q;\nst.param.b32 [p], 3;\ncall (q), f, (p);\nld.param.b32 %r, [q];\nret;\n}\n")
	callee := lines(head + ".visible .func (.param .b32 r) f (.param .b32 a)\n{\n.reg .b32 %r;\nld.param.b32 %r, [a];\nst.param.b32 [r], %r;\nret;\n}\n")
	both := cubin(".text.k", "code", debugName+".1130356088", caller, debugName+".1570012606", callee)
	got, err := parseImage(both, ptxOnly70)
	require.NoError(t, err)
	require.Contains(t, string(got), ".entry k")
	require.Regexp(t, `(?s)\.func.*f.*\{`, string(got))
	require.NotContains(t, string(got), ".extern .func")
	require.NotNil(t, CubinPTX(both))

	one, err := parseImage(cubin(debugName+".7", callee), ptxOnly70)
	require.NoError(t, err)
	require.Contains(t, string(one), ".func")

	// cooperative groups: libcudadevrt has no PTX, and PVDRM's device runtime takes its place.
	grid := lines(head + ".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle (.param .b32 scope);\n.visible .entry k()\n{\n.reg .b64 %h;\n" +
		".param .b32 p;\n.param .b64 q;\nst.param.b32 [p], 1;\ncall (q), cudaCGGetIntrinsicHandle, (p);\nld.param.b64 %h, [q];\nret;\n}\n")
	for _, name := range []string{debugName, debugName + ".1"} {
		got, err = parseImage(cubin(name, grid), ptxOnly70)
		require.NoError(t, err, name)
		require.NotContains(t, string(got), ".extern .func")
	}

	_, err = parseImage(both, takes{cc: 60})
	require.ErrorIs(t, err, noBinaryForGPU, "it is for a newer device")
	_, err = parseImage(cubin(debugName+".1", caller), ptxOnly70)
	require.ErrorIs(t, err, noBinaryForGPU)
	require.ErrorContains(t, err, "those with f")
	_, err = parseImage(cubin(debugName+".1", callee, debugName+".2", callee), ptxOnly70)
	require.Equal(t, invalidSource, resultOf(err), "two definitions")
	_, err = parseImage(cubin(debugName+".1", callee, debugName+".2", "no PTX"), ptxOnly70)
	require.Equal(t, invalidImage, resultOf(err))
}

// The limit of registers that a compiler or linker was given is in the machine code, and holds for its PTX.
func TestRegistersOfCubins(t *testing.T) {
	const text = ".target sm_70\x00.visible .entry k() { ret; }"
	info := func(n byte) string {
		return "\x04\x0a\x08\x00\x01\x02\x03\x04\x05\x06\x07\x08\x03\x1b" + string([]byte{n, 0}) + "\x03\x19\x08\x00"
	}
	for _, c := range []struct {
		infos []string
		want  uint32
	}{
		{infos: []string{".nv.info.k", info(32)}, want: 32},
		{infos: []string{".nv.info.k", info(32), ".nv.info.l", info(32)}, want: 32},
		{infos: []string{".nv.info.k", info(32), ".nv.info.l", info(40)}},
		{infos: []string{".nv.info.k", info(32), ".nv.info.l", info(255)}},
		{infos: []string{".nv.info.l", info(255), ".nv.info.k", info(32)}},
		{infos: []string{".nv.info.k", info(255)}},
		{infos: []string{".nv.info", info(32)}},
		{infos: []string{".nv.info.k", "\x04\x0a\xff\xff\x03\x1b\x20\x00"}},
		{infos: []string{".nv.info.k", "\x03\x1b\x20"}},
	} {
		ptx, err := parseImage(cubin(append([]string{debugName, text}, c.infos...)...), ptxOnly70)
		require.NoError(t, err)
		_, got := tunings(ptx)
		require.Equal(t, c.want, got, c.infos)
	}
}

func TestFatbinOfCubins(t *testing.T) {
	code := func(target string) string {
		return string(cubin(debugName, "// "+strings.Repeat("code ", 40)+"\x00.target "+target))
	}
	b := makeFatbin(t, part{fatbin.KindELF, 52, code("sm_52"), fatbin.FlagLZ4}, part{fatbin.KindELF, 70, code("sm_70"), 0}, part{fatbin.KindELF, 80, code("sm_80"), 0})
	got, err := ofFatbin(b, takes{cc: 75})
	require.NoError(t, err)
	require.Contains(t, string(got), "sm_70")
	// What is meant for any device comes first.
	b = makeFatbin(t, part{fatbin.KindELF, 70, code("sm_70"), 0}, part{fatbin.KindPTX, 52, "PTX", 0})
	got, err = ofFatbin(b, takes{cc: 75})
	require.NoError(t, err)
	require.Equal(t, "PTX", string(got))
	_, err = ofFatbin(makeFatbin(t, part{fatbin.KindELF, 90, code("sm_90"), 0}), takes{cc: 75})
	require.Equal(t, noBinaryForGPU, resultOf(err))
	require.NotEqual(t, cuda.ErrInvalidValue, resultOf(err))
}
