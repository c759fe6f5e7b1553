package capi

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
)

// cubin makes an ELF file of machine code with a section of a name.
func cubin(name, text string) []byte {
	le := binary.LittleEndian
	names := []byte("\x00.shstrtab\x00" + name + "\x00")
	b := make([]byte, elfHeader)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[18:], machineCUDA)
	b = append(append(b, names...), text...)
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[58:], elfSection)
	le.PutUint16(b[60:], 3)
	le.PutUint16(b[62:], 1)
	section := func(name, kind uint32, offset, size int) {
		s := make([]byte, elfSection)
		le.PutUint32(s, name)
		le.PutUint32(s[4:], kind)
		le.PutUint64(s[24:], uint64(offset))
		le.PutUint64(s[32:], uint64(size))
		b = append(b, s...)
	}
	section(0, 0, 0, 0)
	section(1, 3, elfHeader, len(names))
	section(11, sectionBits, elfHeader+len(names), len(text))
	return b
}

const debugName = ".nv_debug_ptx_txt"

func TestPTXOfCubins(t *testing.T) {
	const text = "\x00\x00.version 8.4\x00.target sm_70\x00\x00"
	const want = ".version 8.4\n.target sm_70"
	good := cubin(debugName, text)
	got, err := parseImage(bytes.Clone(good), 70)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	a := new(fakeMemory)
	got, err = readImage(a, a.Keep(good), 70)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	require.Equal(t, want, string(CubinPTX(good)))

	_, err = parseImage(good, 60)
	require.ErrorIs(t, err, noBinaryForGPU, "it is for a newer device")
	for name, b := range map[string][]byte{
		"no such section":      cubin(".text", text),
		"several linked units": cubin(debugName+".123", text),
		"nothing in it":        cubin(debugName, "\x00\x00"),
		"short":                good[:20],
		"another processor":    append(append(bytes.Clone(good[:18]), 62, 0), good[20:]...),
	} {
		_, err := parseImage(b, 70)
		require.ErrorIs(t, err, noBinaryForGPU, name)
		require.Nil(t, CubinPTX(b), name)
	}
	for name, at := range map[string]int{"sections": 47, "size": len(good) - elfSection + 39, "offset": len(good) - elfSection + 31} {
		b := bytes.Clone(good)
		b[at] = 0xff
		_, err := parseImage(b, 70)
		require.ErrorIs(t, err, invalidImage, name)
		_, err = readImage(a, a.Keep(b), 70)
		require.ErrorIs(t, err, invalidImage, name)
	}
}

func TestFatbinOfCubins(t *testing.T) {
	code := func(target string) string {
		return string(cubin(debugName, "// "+strings.Repeat("code ", 40)+"\x00.target "+target))
	}
	b := makeFatbin(t, part{kindELF, 52, code("sm_52"), entryLZ4}, part{kindELF, 70, code("sm_70"), 0}, part{kindELF, 80, code("sm_80"), 0})
	got, err := ptxOfFatbin(b, 75)
	require.NoError(t, err)
	require.Contains(t, string(got), "sm_70")
	// What is meant for any device comes first.
	b = makeFatbin(t, part{kindELF, 70, code("sm_70"), 0}, part{entryPTX, 52, "PTX", 0})
	got, err = ptxOfFatbin(b, 75)
	require.NoError(t, err)
	require.Equal(t, "PTX", string(got))
	_, err = ptxOfFatbin(makeFatbin(t, part{kindELF, 90, code("sm_90"), 0}), 75)
	require.Equal(t, noBinaryForGPU, resultOf(err))
	require.NotEqual(t, cuda.ErrInvalidValue, resultOf(err))
}
