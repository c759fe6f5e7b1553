package fatbin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// withCalls makes an ELF file of machine code with symbols and pairs of their numbers in its table of calls.
func withCalls(names []string, pairs ...uint32) []byte {
	text, symbols := []byte{0}, make([]byte, elfSymbol)
	for _, name := range names {
		s := make([]byte, elfSymbol)
		le.PutUint32(s, uint32(len(text)))
		s[4] = symbolFunc
		symbols, text = append(symbols, s...), append(append(text, name...), 0)
	}
	var table []byte
	for _, n := range pairs {
		table = le.AppendUint32(table, n)
	}
	titles := "\x00.text\x00.symtab\x00.strtab\x00" + callTable + "\x00"
	b := make([]byte, elfHeader)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[18:], machineCUDA)
	le.PutUint32(b[20:], 1)
	headers := make([]byte, elfSection)
	for _, s := range []struct {
		title, kind, link uint32
		size              uint64 // of a row
		data              []byte
	}{
		{title: 7, kind: sectionTable, link: 2, size: elfSymbol, data: symbols}, {title: 15, kind: 3, data: text},
		{title: 23, kind: 0x70000001, data: table}, {title: 1, kind: 3, data: []byte(titles)},
	} {
		h := make([]byte, elfSection)
		le.PutUint32(h, s.title)
		le.PutUint32(h[4:], s.kind)
		le.PutUint64(h[24:], uint64(len(b)))
		le.PutUint64(h[32:], uint64(len(s.data)))
		le.PutUint32(h[40:], s.link)
		le.PutUint64(h[56:], s.size)
		b, headers = append(b, s.data...), append(headers, h...)
	}
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[52:], elfHeader)
	le.PutUint16(b[58:], elfSection)
	le.PutUint16(b[60:], uint16(len(headers)/elfSection))
	le.PutUint16(b[62:], 4)
	return append(b, headers...)
}

// TestCallersOf asks for who may call a function, of each kind of image.
func TestCallersOf(t *testing.T) {
	names := []string{"quiet", "loud", "through", "vprintf", "pointer", "helper"}
	const quiet, loud, through, printf, pointer, helper = 1, 2, 3, 4, 5, 6
	code := withCalls(names, 0, 0xffffffff, loud, printf, through, helper, helper, loud, quiet, quiet, 0, 0xfffffffe, quiet, 1,
		0, 0xfffffffd, pointer, 1, 0, 0xfffffffc, loud, printf, quiet, quiet)
	const ptx = `.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.func helper(.param .b64 p) { call.uni (r), vprintf, (a, b); ret; }
.visible .entry through(.param .u64 p) { call.uni helper, (p); ret; }
.visible .entry quiet() { ret; }
.entry pointer() { p: .callprototype _ (); call r, (), p; }
.entry loud() { call (r), vprintf, (a, b); }`
	for name, image := range map[string][]byte{"cubin": code, "PTX": []byte(ptx),
		"fatbin": pack(t, entry{kind: KindELF, arch: 90, lz4: true, data: code}, entry{kind: KindPTX, arch: 90, data: []byte(ptx)})} {
		c := CallersOf(image, "vprintf")
		for _, f := range names {
			require.Equal(t, f != "quiet", c.May(f), "%s: %s", name, f)
		}
	}
	all := bytes.Replace(code, []byte(callTable), []byte(".nv.callgrapi"), 1)
	for name, c := range map[string]struct {
		image []byte
		may   bool
	}{
		"no table":                  {image: all, may: true},
		"a table that says nothing": {image: withCalls(names), may: true},
		"damaged":                   {image: code[:len(code)-1], may: true},
		"not mentioned":             {image: withCalls([]string{"quiet", "loud"}), may: false},
		"another's pointer":         {image: withCalls([]string{"quiet", "vprintf"}, 0, 0xfffffffd, 2, 1), may: false},
		"a part that is not known":  {image: withCalls([]string{"quiet", "vprintf"}, 0, 0xfffffff0, 1, 2), may: true},
		"nothing":                   {image: nil, may: false},
		"a fatbin without contents": {image: pack(t), may: false},
	} {
		require.Equal(t, c.may, CallersOf(c.image, "vprintf").May("quiet"), name)
	}
}
