package capi

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda"
	"pvdrm/gpu/fatbin"
	"pvdrm/internal/progmem/progmemtest"
)

// part is an entry of a fatbin to be made.
type part struct {
	kind uint16
	arch uint32
	data string
	how  uint64 // compression flag
}

// ptxOnly70 is a device of compute capability 7.0 that takes PTX.
var ptxOnly70 = takes{cc: 70}

func makeFatbin(t testing.TB, parts ...part) []byte {
	t.Helper()
	var all []byte
	for _, p := range parts {
		data, packed := []byte(p.data), uint32(0)
		switch p.how {
		case fatbin.FlagLZ4:
			buf := make([]byte, lz4.CompressBlockBound(len(data)))
			n, err := lz4.CompressBlock(data, buf, nil)
			require.NoError(t, err)
			require.NotZero(t, n, "too small to compress")
			data, packed = buf[:n], uint32(n)
		case fatbin.FlagZstd:
			w, err := zstd.NewWriter(nil)
			require.NoError(t, err)
			data = w.EncodeAll(data, nil)
			packed = uint32(len(data))
		}
		for len(data)%8 != 0 {
			data = append(data, 0)
		}
		h := make([]byte, fatbin.EntryBytes)
		le := binary.LittleEndian
		le.PutUint16(h[0:], p.kind)
		le.PutUint16(h[2:], 0x101)
		le.PutUint32(h[4:], fatbin.EntryBytes)
		le.PutUint64(h[8:], uint64(len(data)))
		le.PutUint32(h[16:], packed)
		le.PutUint32(h[28:], p.arch)
		le.PutUint64(h[40:], p.how|1)
		le.PutUint64(h[56:], uint64(len(p.data)))
		all = append(append(all, h...), data...)
	}
	h := binary.LittleEndian.AppendUint32(nil, fatbin.Magic)
	h = binary.LittleEndian.AppendUint16(h, 1)
	h = binary.LittleEndian.AppendUint16(h, fatbin.HeaderBytes)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(all)))
	return append(h, all...)
}

func TestPTXOfFatbin(t *testing.T) {
	text := func(arch string) string { return "// " + arch + "\n" + strings.Repeat("add.f32 %f1, %f2, %f3;\n", 50) }
	for name, c := range map[string]struct {
		parts []part
		want  string
		err   cuda.Result
	}{
		"plain": {parts: []part{
			{kind: fatbin.KindPTX, arch: 50, data: text("50")},
		}, want: text("50")},
		"LZ4": {parts: []part{
			{kind: fatbin.KindELF, arch: 70, data: "machine code"},
			{kind: fatbin.KindPTX, arch: 50, data: text("lz4"), how: fatbin.FlagLZ4},
		}, want: text("lz4")},
		"zstd": {parts: []part{
			{kind: fatbin.KindPTX, arch: 70, data: text("zstd"), how: fatbin.FlagZstd},
		}, want: text("zstd")},
		"the highest that fits": {parts: []part{
			{kind: fatbin.KindPTX, arch: 50, data: text("50")},
			{kind: fatbin.KindPTX, arch: 70, data: text("70")},
			{kind: fatbin.KindPTX, arch: 90, data: text("90")},
			{kind: fatbin.KindPTX, arch: 60, data: text("60")},
		}, want: text("70")},
		"only for newer devices": {parts: []part{
			{kind: fatbin.KindPTX, arch: 80, data: text("80")},
		}, err: noBinaryForGPU},
		"machine code only": {parts: []part{
			{kind: fatbin.KindELF, arch: 70, data: "machine code"},
		}, err: noBinaryForGPU},
		"empty": {err: noBinaryForGPU},
		"zero bytes at its end": {parts: []part{
			{kind: fatbin.KindPTX, arch: 50, data: text("50") + "\x00\x00\x00"},
		}, want: text("50")},
		"newer beside older ones": {parts: []part{
			{kind: fatbin.KindPTX, arch: 90, data: text("90")},
			{kind: fatbin.KindPTX, arch: 35, data: text("35"), how: fatbin.FlagLZ4},
		}, want: text("35")},
		"for that device alone": {parts: []part{
			{kind: fatbin.KindPTX, arch: 70, data: text("70")},
			{kind: fatbin.KindPTX, arch: 70, data: text("70a"), how: fatbin.FlagOwn},
			{kind: fatbin.KindPTX, arch: 70, data: text("70 again")},
		}, want: text("70a")},
		"for an older device alone": {parts: []part{
			{kind: fatbin.KindPTX, arch: 60, data: text("60a"), how: fatbin.FlagOwn},
			{kind: fatbin.KindPTX, arch: 50, data: text("50")},
		}, want: text("50")},
		"for an older device alone and no other": {parts: []part{
			{kind: fatbin.KindPTX, arch: 60, data: text("60a"), how: fatbin.FlagOwn},
		}, err: noBinaryForGPU},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ofFatbin(makeFatbin(t, c.parts...), ptxOnly70)
			if c.err != 0 {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestDamagedFatbins(t *testing.T) {
	good := makeFatbin(t, part{fatbin.KindPTX, 50, strings.Repeat("some PTX\n", 100), fatbin.FlagLZ4})
	_, err := ofFatbin(good, ptxOnly70)
	require.NoError(t, err)
	for name, spoil := range map[string]func([]byte) []byte{
		"no magic":              func(b []byte) []byte { b[0]++; return b },
		"short":                 func(b []byte) []byte { return b[:10] },
		"header beyond the end": func(b []byte) []byte { b[7] = 0xff; return b },
		"entry beyond the end":  func(b []byte) []byte { b[fatbin.HeaderBytes+15] = 1; return b },
		"no header of an entry": func(b []byte) []byte { b[fatbin.HeaderBytes+4] = 0; return b },
		"huge when unpacked":    func(b []byte) []byte { b[fatbin.HeaderBytes+63] = 1; return b },
		"too small an estimate": func(b []byte) []byte { b[fatbin.HeaderBytes+56], b[fatbin.HeaderBytes+57] = 1, 0; return b },
		"damaged data": func(b []byte) []byte {
			for i := fatbin.HeaderBytes + fatbin.EntryBytes; i < len(b); i++ {
				b[i] = 0xff
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ofFatbin(spoil(bytes.Clone(good)), ptxOnly70)
			require.ErrorIs(t, err, invalidImage)
		})
	}
}

func TestReadImage(t *testing.T) {
	a := new(fakeMemory)
	fat := a.Keep(makeFatbin(t, part{fatbin.KindPTX, 50, "the PTX", 0}))
	wrapper := binary.LittleEndian.AppendUint32(nil, wrapperMagic)
	wrapper = binary.LittleEndian.AppendUint32(wrapper, 1)
	wrapper = binary.LittleEndian.AppendUint64(wrapper, fat)
	wrap := a.Keep(append(wrapper, make([]byte, 8)...))
	wild := a.Keep(append(wrapper[:8:8], bytes.Repeat([]byte{0xee}, 16)...))
	ptx := a.Keep([]byte("PTX as text\x00"))
	elf := a.Keep([]byte("\x7fELF machine code"))
	const unending = memoryBase + progmemtest.Bytes - 8
	require.NoError(t, a.Write(unending, []byte("no end..")))
	short := a.Keep([]byte("x\x00"))
	for name, c := range map[string]struct {
		addr uint64
		want string
		err  cuda.Result
	}{
		"text":      {addr: ptx, want: "PTX as text"},
		"fatbin":    {addr: fat, want: "the PTX"},
		"wrapper":   {addr: wrap, want: "the PTX"},
		"short":     {addr: short, want: "x"},
		"cubin":     {addr: elf, err: noBinaryForGPU},
		"null":      {addr: 0, err: cuda.ErrInvalidValue},
		"wild":      {addr: wild, err: cuda.ErrInvalidValue},
		"unmapped":  {addr: 0x99, err: cuda.ErrInvalidValue},
		"unending":  {addr: unending, err: cuda.ErrInvalidValue},
		"at an end": {addr: unending + 6, err: cuda.ErrInvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readImage(a, c.addr, ptxOnly70)
			if c.err != 0 {
				require.Equal(t, c.err, resultOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

// Whatever the bytes are, there is PTX or an error, and not more of it than can be loaded.
func FuzzFatbin(f *testing.F) {
	f.Add(makeFatbin(f, part{fatbin.KindPTX, 50, "PTX", 0}, part{fatbin.KindELF, 70, "code", 0}))
	f.Add(makeFatbin(f, part{fatbin.KindPTX, 50, strings.Repeat("PTX\n", 40), fatbin.FlagLZ4}))
	f.Add(cubin(debugName, ".target sm_70\x00"))
	f.Add(makeFatbin(f, part{fatbin.KindELF, 70, string(cubin(debugName, ".target sm_70\x00")), 0}))
	f.Add(makeFatbin(f, part{fatbin.KindPTX, 50, strings.Repeat("PTX\n", 40), fatbin.FlagZstd}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ptx, err := parseImage(b, ptxOnly70)
		if err != nil {
			r := resultOf(err)
			require.True(t, r == invalidImage || r == noBinaryForGPU, "%v", err)
			return
		}
		require.LessOrEqual(t, len(ptx), max(len(b), 64<<20))
	})
}

// Whatever the bytes are, a device that takes machine code gets what is whole, or there is an error.
func FuzzMachineCode(f *testing.F) {
	f.Add(makeFatbin(f, part{fatbin.KindELF, 90, string(codeWith("add")), 0}, part{fatbin.KindELF, 80, "code", 0}))
	f.Add(makeFatbin(f, part{fatbin.KindELF, 90, string(codeWith("add")), fatbin.FlagZstd}))
	f.Add(codeWith("add", "sub"))
	f.Fuzz(func(t *testing.T, b []byte) {
		image, err := parseImage(b, takes{cc: 90, machine: true})
		if err != nil {
			r := resultOf(err)
			require.True(t, r == invalidImage || r == noBinaryForGPU, "%v", err)
			return
		}
		require.LessOrEqual(t, len(image), max(len(b), 64<<20))
		_, _ = kernelNames(image)
	})
}
