package guestimage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// codeSum is the SHA256 of what testdata/code.xz holds: 32 KiB of machine code, packed by liblzma
// with its filters x86 and LZMA2 and a CRC-32.
const codeSum = "455d72306f67fd1a125a64ceece10b1584f520f626d1e6a29039e0ab65d5fa75"

func packedCode(t testing.TB) []byte {
	b, err := os.ReadFile("testdata/code.xz")
	require.NoError(t, err)
	return b
}

func TestUnpackXZ(t *testing.T) {
	out, err := unpackXZ(packedCode(t), 32<<10)
	require.NoError(t, err)
	sum := sha256.Sum256(out)
	require.Equal(t, codeSum, hex.EncodeToString(sum[:]))
	require.Greater(t, bytes.Count(out, []byte{0xe8}), 100, "there is something for the x86 filter to do")
}

func TestUnpackXZRefuses(t *testing.T) {
	good := packedCode(t)
	change := func(at int, b byte) []byte {
		c := bytes.Clone(good)
		c[at] ^= b
		return c
	}
	// header changes a byte of the block header and makes its CRC right again.
	header := func(at int, b byte) []byte {
		c := change(xzStreamHeader+at, b)
		size := (int(c[xzStreamHeader]) + 1) * 4
		h := c[xzStreamHeader : xzStreamHeader+size]
		binary.LittleEndian.PutUint32(h[size-4:], crc32.ChecksumIEEE(h[:size-4]))
		return c
	}
	for name, tc := range map[string]struct {
		in    []byte
		limit int64
		want  string
	}{
		"empty":             {limit: 1 << 20, want: errNotXZ.Error()},
		"gzip":              {in: []byte("\x1f\x8b\x08\x00 something else, long enough"), limit: 1 << 20, want: errNotXZ.Error()},
		"other check":       {in: change(7, 5), limit: 1 << 20, want: errNotXZ.Error()},
		"damaged header":    {in: change(xzStreamHeader+4, 1), limit: 1 << 20, want: "damaged block header"},
		"reserved flag":     {in: header(1, 0x04), limit: 1 << 20, want: "block flags"},
		"other filter":      {in: header(2, 0x01), limit: 1 << 20, want: "other filters"},
		"dictionary":        {in: header(6, 0x3f), limit: 1 << 20, want: "dictionary"},
		"damaged data":      {in: change(len(good)/2, 1), limit: 1 << 20, want: "unpack kernel"},
		"cut short":         {in: good[:len(good)/2], limit: 1 << 20, want: "unpack kernel"},
		"without its check": {in: good[:len(good)-40], limit: 1 << 20, want: "unpack kernel"},
		"too big":           {in: good, limit: 1000, want: "more than 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpackXZ(tc.in, tc.limit)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// x86Encode is the filter's other half, written from the same rules: history is what both ends agree
// on, and a target is made absolute exactly where x86Converted says so.
func x86Encode(b []byte) {
	const length = 5
	history, last := uint32(0), -length
	for pos := 0; pos+length <= len(b); {
		if b[pos]&0xfe != 0xe8 {
			pos++
			continue
		}
		if pos-last > length {
			history = 0
		}
		for range min(pos-last, length) {
			history = history & 0x77 << 1
		}
		last = pos
		op := b[pos+1 : pos+length]
		if !x86Converted(op[3], history) {
			history |= 1
			if x86Sign(op[3]) {
				history |= 0x10
			}
			pos++
			continue
		}
		value := binary.LittleEndian.Uint32(op)
		target := value + uint32(pos+length)
		if history != 0 {
			shift := 8 * [8]uint32{0, 1, 2, 2, 3, 3, 3, 3}[history>>1&7]
			if x86Sign(byte(target >> (24 - shift))) {
				value = target ^ (1<<(32-shift) - 1)
				target = value + uint32(pos+length)
			}
		}
		binary.LittleEndian.PutUint32(op, uint32(int32(target<<7)>>7))
		pos += length
		history = 0
	}
}

// FuzzX86 checks that decoding undoes encoding, on code and on anything else.
func FuzzX86(f *testing.F) {
	f.Add([]byte("\xe8\x00\x00\x00\x00\xe9\xff\xff\xff\xff\xe8\xe8\xe8\x00\x00\xff\xe9\x01\x02\x03\x00"))
	code, err := unpackXZ(packedCode(f), 32<<10)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(code[:512])
	f.Fuzz(func(t *testing.T, b []byte) {
		got := bytes.Clone(b)
		x86Encode(got)
		x86Decode(got)
		require.Equal(t, b, got)
	})
}

func FuzzUnpackXZ(f *testing.F) {
	f.Add(packedCode(f)[:200])
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := unpackXZ(b, 1<<20)
		if err == nil && len(out) > 1<<20 {
			t.Fatal("more than was allowed")
		}
	})
}

// bzImage wraps a payload as boot loaders expect it.
func bzImage(payload []byte) []byte {
	b := make([]byte, 5*512)
	copy(b[bzMagic:], "HdrS")
	binary.LittleEndian.PutUint32(b[bzPayloadOffset:], 16)
	binary.LittleEndian.PutUint32(b[bzPayloadLength:], uint32(len(payload)))
	return append(append(b, make([]byte, 16)...), payload...)
}

func TestExtractVmlinux(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "vmlinux")
	outside := bzImage([]byte("x"))
	binary.LittleEndian.PutUint32(outside[bzPayloadLength:], 1<<31)
	for name, tc := range map[string]struct {
		image []byte
		want  string
	}{
		"short":            {make([]byte, 100), "not a bzImage"},
		"no magic":         {make([]byte, 5000), "not a bzImage"},
		"payload outside":  {outside, "lies outside"},
		"other packing":    {bzImage([]byte("\x1f\x8b\x08 and so on")), errNotXZ.Error()},
		"code, but no ELF": {bzImage(packedCode(t)), "not an ELF"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(from, tc.image, 0o644))
			err := extractVmlinux(from, to)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, tc.want == errNotXZ.Error(), errors.Is(err, errNotXZ))
			require.NoFileExists(t, to)
		})
	}
}

func TestWriteSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, size := range []int{0, 1, 4096, 10000, 1 << 20} {
		b := make([]byte, size)
		if size > 5000 {
			b[5000] = 1
		}
		require.NoError(t, writeSparse(path, b))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, got), "%d bytes", size)
	}
}
