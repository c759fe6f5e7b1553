package preflight

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// part is a section of an object to be made. Its link is the index of another one, of which the
// first has 1.
type part struct {
	name  string
	kind  elf.SectionType
	flags elf.SectionFlag
	link  uint32
	addr  uint64
	data  []byte
	entry uint64
}

// makeObject makes an ELF file for a machine.
func makeObject(kind elf.Type, machine elf.Machine, parts ...part) []byte {
	le := binary.LittleEndian
	names := []byte{0}
	parts = append(parts, part{name: ".shstrtab", kind: elf.SHT_STRTAB})
	headers := make([]byte, sectionBytes) // of the section 0
	b := make([]byte, headerBytes)
	for i, p := range parts {
		h := make([]byte, sectionBytes)
		le.PutUint32(h, uint32(len(names)))
		names = append(append(names, p.name...), 0)
		if i == len(parts)-1 {
			p.data = names
		}
		le.PutUint32(h[4:], uint32(p.kind))
		le.PutUint64(h[8:], uint64(p.flags))
		le.PutUint64(h[16:], p.addr)
		le.PutUint64(h[24:], uint64(len(b)))
		le.PutUint64(h[32:], uint64(len(p.data)))
		le.PutUint32(h[40:], p.link)
		le.PutUint64(h[56:], p.entry)
		b = append(b, p.data...)
		headers = append(headers, h...)
	}
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	le.PutUint16(b[16:], uint16(kind))
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[58:], sectionBytes)
	le.PutUint16(b[60:], uint16(len(parts)+1))
	le.PutUint16(b[62:], uint16(len(parts)))
	return append(b, headers...)
}

// makeSymbols makes a symbol table, and the strings for its names.
func makeSymbols(symbols ...symbol) (table, strings []byte) {
	le := binary.LittleEndian
	strings = []byte{0}
	table = make([]byte, symbolBytes)
	for _, s := range symbols {
		t := make([]byte, symbolBytes)
		le.PutUint32(t, uint32(len(strings)))
		t[4], t[5] = elf.ST_INFO(s.bind, s.kind), s.other
		le.PutUint16(t[6:], uint16(s.section))
		le.PutUint64(t[8:], s.value)
		strings = append(append(strings, s.name...), 0)
		table = append(table, t...)
	}
	return table, strings
}

// makeDynamic makes a dynamic section that needs libraries, and the strings for their names.
func makeDynamic(libraries ...string) (table, strings []byte) {
	strings = []byte{0}
	for _, l := range libraries {
		table = binary.LittleEndian.AppendUint64(table, uint64(elf.DT_NEEDED))
		table = binary.LittleEndian.AppendUint64(table, uint64(len(strings)))
		strings = append(append(strings, l...), 0)
	}
	return append(table, make([]byte, dynamicBytes)...), strings
}

// imports makes a program with undefined symbols and needed libraries, and further sections.
func imports(names []symbol, libraries []string, more ...part) []byte {
	symbols, symbolNames := makeSymbols(names...)
	dynamic, libraryNames := makeDynamic(libraries...)
	return makeObject(elf.ET_DYN, elf.EM_X86_64, append([]part{
		{name: ".dynsym", kind: elf.SHT_DYNSYM, link: 2, data: symbols, entry: symbolBytes},
		{name: ".dynstr", kind: elf.SHT_STRTAB, data: symbolNames},
		{name: ".dynamic", kind: elf.SHT_DYNAMIC, link: 4, data: dynamic, entry: dynamicBytes},
		{name: ".libraries", kind: elf.SHT_STRTAB, data: libraryNames},
	}, more...)...)
}

// cubin makes machine code, with a kernel or with a function that is none.
func cubin(kernel bool) []byte {
	s := symbol{name: []byte("add"), bind: elf.STB_GLOBAL, kind: elf.STT_FUNC, section: 1}
	if kernel {
		s.other = entryFlag
	}
	table, strings := makeSymbols(s)
	return makeObject(elf.ET_EXEC, machineCUDA, part{name: ".symtab", kind: elf.SHT_SYMTAB, link: 2, data: table, entry: symbolBytes},
		part{name: ".strtab", kind: elf.SHT_STRTAB, data: strings})
}

// image is an image of a fatbin to be made. Its flags say how it is compressed.
type image struct {
	ptx   bool
	arch  uint32
	data  []byte
	flags uint64
}

const (
	packedLZ4  = 1 << 13
	packedZstd = 1 << 15
)

// makeFatbin makes a fatbin as nvcc does.
func makeFatbin(t testing.TB, images ...image) []byte {
	t.Helper()
	le := binary.LittleEndian
	var all []byte
	for _, m := range images {
		data := bytes.Clone(m.data)
		switch m.flags {
		case packedLZ4:
			data = make([]byte, lz4.CompressBlockBound(len(m.data)))
			n, err := lz4.CompressBlock(m.data, data, nil)
			require.NoError(t, err)
			data = data[:n]
		case packedZstd:
			w, err := zstd.NewWriter(nil)
			require.NoError(t, err)
			data = w.EncodeAll(m.data, nil)
		}
		const header, kindPTX, kindELF = 64, 1, 2
		h := make([]byte, header)
		le.PutUint16(h, kindELF)
		if m.ptx {
			le.PutUint16(h, kindPTX)
		}
		le.PutUint32(h[4:], header)
		le.PutUint32(h[16:], uint32(len(data)))
		for len(data)%fatbinAlign != 0 {
			data = append(data, 0)
		}
		le.PutUint64(h[8:], uint64(len(data)))
		le.PutUint32(h[28:], m.arch)
		le.PutUint64(h[40:], m.flags)
		le.PutUint64(h[56:], uint64(len(m.data)))
		all = append(append(all, h...), data...)
	}
	h := le.AppendUint32(nil, fatbinMagic)
	h = le.AppendUint16(le.AppendUint16(h, 1), 16)
	return append(le.AppendUint64(h, uint64(len(all))), all...)
}
