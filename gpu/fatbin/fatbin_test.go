package fatbin

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// cubin makes an ELF file of machine code with one section of contents and a symbol of a kernel.
func cubin(contents string) []byte {
	b := make([]byte, elfHeader, 1024)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[18:], machineCUDA)
	symbols := make([]byte, 2*elfSymbol)
	le.PutUint32(symbols[elfSymbol:], 1)
	symbols[elfSymbol+4], symbols[elfSymbol+5] = symbolFunc, symbolEntry
	headers := make([]byte, elfSection)
	for _, s := range []struct {
		kind, link uint32
		data       string
	}{{kind: 1, data: contents}, {kind: sectionTable, link: 3, data: string(symbols)}, {kind: 3, data: "\x00kernel\x00"}} {
		h := make([]byte, elfSection)
		le.PutUint32(h[4:], s.kind)
		le.PutUint64(h[24:], uint64(len(b)))
		le.PutUint64(h[32:], uint64(len(s.data)))
		le.PutUint32(h[40:], s.link)
		b, headers = append(b, s.data...), append(headers, h...)
	}
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[58:], elfSection)
	le.PutUint16(b[60:], uint16(len(headers)/elfSection))
	return append(b, headers...)
}

// entry is an image to be made.
type entry struct {
	kind uint16
	arch uint32
	lz4  bool
	data []byte
}

func pack(t testing.TB, entries ...entry) []byte {
	var all []byte
	for _, e := range entries {
		h := make([]byte, EntryBytes)
		data := e.data
		if e.lz4 {
			buf := make([]byte, lz4.CompressBlockBound(len(data)))
			n, err := lz4.CompressBlock(data, buf, nil)
			require.NoError(t, err)
			require.NotZero(t, n)
			data = buf[:n]
			le.PutUint64(h[40:], FlagLZ4)
			le.PutUint32(h[16:], uint32(n))
		}
		le.PutUint16(h, e.kind)
		le.PutUint32(h[4:], EntryBytes)
		le.PutUint64(h[8:], uint64(len(data)))
		le.PutUint32(h[28:], e.arch)
		le.PutUint64(h[56:], uint64(len(e.data)))
		all = append(append(all, h...), data...)
	}
	h := le.AppendUint32(nil, Magic)
	h = le.AppendUint16(le.AppendUint16(h, 1), HeaderBytes)
	return append(le.AppendUint64(h, uint64(len(all))), all...)
}

func TestMachineCodeOfAFatbin(t *testing.T) {
	code := cubin(strings.Repeat("code", 100))
	b := pack(t, entry{kind: KindELF, arch: 80, data: code}, entry{kind: KindELF, arch: 86, lz4: true, data: code},
		entry{kind: KindPTX, arch: 80, data: []byte("PTX")}, entry{kind: KindELF, arch: 90, data: code})
	images, size, err := Images(b)
	require.NoError(t, err)
	require.Equal(t, len(b), size)
	require.ErrorIs(t, Check(b), ErrDamaged, "it has PTX")
	for cc, want := range map[uint32]int{75: 0, 80: 1, 86: 2, 89: 2, 90: 1, 100: 0} {
		part := Machine(b, images, cc)
		if want == 0 {
			require.Nil(t, part)
			continue
		}
		require.NoError(t, Check(part))
		got, _, err := Images(part)
		require.NoError(t, err)
		require.Len(t, got, want)
		names, err := Kernels(part)
		require.NoError(t, err)
		require.Equal(t, []string{"kernel"}, names)
	}
}

func TestCheckRefuses(t *testing.T) {
	code := cubin("code")
	good := pack(t, entry{kind: KindELF, arch: 90, data: code})
	require.NoError(t, Check(good))
	require.NoError(t, Check(code))
	n, err := ELFBytes(inside(append(bytes.Clone(code), "more"...)))
	require.NoError(t, err)
	require.EqualValues(t, len(code), n)
	for name, b := range map[string][]byte{
		"nothing":           {},
		"no image":          pack(t),
		"short ELF":         code[:len(code)-1],
		"short fatbin":      good[:len(good)-1],
		"short inside":      pack(t, entry{kind: KindELF, arch: 90, data: code[:len(code)-1]}),
		"more behind it":    append(bytes.Clone(good), 0),
		"another machine":   append(bytes.Clone(code[:18]), append([]byte{62, 0}, code[20:]...)...),
		"unpacked to much":  binary.LittleEndian.AppendUint64(pack(t, entry{kind: KindELF, arch: 90, lz4: true, data: bytes.Repeat(code, 9)})[:HeaderBytes+56], MaxBytes+1),
		"many sections":     append(bytes.Clone(code[:60]), append([]byte{0xff, 0xff}, code[62:]...)...),
		"a section far off": far(code),
	} {
		require.ErrorIs(t, Check(b), ErrDamaged, name)
	}
}

// far moves a section of an ELF file beyond all bounds.
func far(code []byte) []byte {
	b := bytes.Clone(code)
	le.PutUint64(b[le.Uint64(b[40:])+elfSection+24:], 1<<63)
	return b
}

// Whatever the bytes are, what passes the check can be read, and parts of it pass likewise.
func FuzzCheck(f *testing.F) {
	code := cubin("code")
	f.Add(code)
	f.Add(far(code))
	f.Add(pack(f, entry{kind: KindELF, arch: 90, data: code}, entry{kind: KindELF, arch: 86, lz4: true, data: bytes.Repeat(code, 9)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = Kernels(b)
		if Check(b) != nil || !Is(b) || le.Uint32(b) != Magic {
			return
		}
		images, _, err := Images(b)
		require.NoError(t, err)
		if part := Machine(b, images, 90); part != nil {
			require.NoError(t, Check(part))
		}
	})
}
