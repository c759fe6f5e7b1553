package fatbin

import "bytes"

// ELF, as far as it is needed (elf(5)).
const (
	ELFMagic = 0x464c457f

	elfHeader    = 64
	elfSection   = 64
	elfSegment   = 56
	elfSymbol    = 24
	elfClass64   = 2
	elfLittle    = 1
	machineCUDA  = 190
	sectionTable = 2 // SHT_SYMTAB
	sectionEmpty = 8 // SHT_NOBITS
	symbolFunc   = 2 // STT_FUNC
	symbolEntry  = 0x10
	maxSymbols   = 1 << 20
)

// ReadAt returns n bytes of a file from an offset, which it may share. What is not there is an error.
type ReadAt func(off, n uint64) ([]byte, error)

// inside returns ReadAt for a file in memory.
func inside(b []byte) ReadAt {
	return func(off, n uint64) ([]byte, error) {
		if off > uint64(len(b)) || n > uint64(len(b))-off {
			return nil, damaged("%d bytes at %d of %d", n, off, len(b))
		}
		return b[off : off+n], nil
	}
}

// table is the table of sections or of segments of an ELF file.
type table struct {
	rows  []byte
	count uint64
	size  uint64 // of a row
	end   uint64 // of the table in the file
}

func (t *table) row(i uint64) []byte { return t.rows[i*t.size:][:t.size] }

// readTable reads a table, after its rows' size was compared.
func readTable(at ReadAt, off, count, size, want uint64) (t table, err error) {
	if off == 0 || count == 0 {
		return t, nil
	}
	if size != want || off > MaxBytes || count > MaxBytes/size {
		return t, damaged("%d rows of %d bytes at %d", count, size, off)
	}
	t = table{count: count, size: size, end: off + count*size}
	t.rows, err = at(off, count*size)
	return t, err
}

// tables reads the header of an ELF file of machine code, and its tables.
func tables(at ReadAt) (sections, segments table, err error) {
	h, err := at(0, elfHeader)
	if err != nil {
		return sections, segments, err
	}
	if le.Uint32(h) != ELFMagic || h[4] != elfClass64 || h[5] != elfLittle || le.Uint16(h[18:]) != machineCUDA {
		return sections, segments, damaged("it is no ELF file of a GPU's machine code")
	}
	h = bytes.Clone(h)
	off, count := le.Uint64(h[40:]), uint64(le.Uint16(h[60:]))
	if off != 0 && count == 0 && off <= MaxBytes { // more than fit there: the first section tells
		first, err := at(off, elfSection)
		if err != nil {
			return sections, segments, err
		}
		count = le.Uint64(first[32:])
	}
	if sections, err = readTable(at, off, count, uint64(le.Uint16(h[58:])), elfSection); err != nil {
		return sections, segments, err
	}
	segments, err = readTable(at, le.Uint64(h[32:]), uint64(le.Uint16(h[56:])), uint64(le.Uint16(h[54:])), elfSegment)
	return sections, segments, err
}

// ELFBytes returns the size of an ELF file of machine code: the end of all that its tables name. It asks at for the last
// byte of each, so that a file in memory is found to be whole.
func ELFBytes(at ReadAt) (uint64, error) {
	sections, segments, err := tables(at)
	if err != nil {
		return 0, err
	}
	end := max(elfHeader, sections.end, segments.end)
	part := func(off, n uint64) error {
		switch {
		case n == 0:
			return nil
		case off > MaxBytes || n > MaxBytes-off:
			return damaged("%d bytes of machine code at %d", n, off)
		}
		_, err := at(off+n-1, 1)
		end = max(end, off+n)
		return err
	}
	for i := range sections.count {
		s := sections.row(i)
		if le.Uint32(s[4:]) == sectionEmpty || i == 0 { // the first one is none
			continue
		}
		if err := part(le.Uint64(s[24:]), le.Uint64(s[32:])); err != nil {
			return 0, err
		}
	}
	for i := range segments.count {
		s := segments.row(i)
		if err := part(le.Uint64(s[8:]), le.Uint64(s[32:])); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// Kernels lists the kernels of a cubin, or of the first image of machine code in a fatbin.
func Kernels(b []byte) ([]string, error) {
	if len(b) >= 4 && le.Uint32(b) == Magic {
		images, _, err := Images(b)
		if err != nil {
			return nil, err
		}
		for i := range images {
			if images[i].Kind != KindELF {
				continue
			}
			code, err := images[i].Contents()
			if err != nil {
				return nil, err
			}
			return kernels(inside(code))
		}
		return nil, damaged("a fatbin without machine code")
	}
	return kernels(inside(b))
}

// kernels reads the symbols of an ELF file.
func kernels(at ReadAt) (names []string, err error) {
	sections, _, err := tables(at)
	if err != nil {
		return nil, err
	}
	for i := range sections.count {
		s := sections.row(i)
		link := uint64(le.Uint32(s[40:]))
		if le.Uint32(s[4:]) != sectionTable || link >= sections.count {
			continue
		}
		symbols, err := at(le.Uint64(s[24:]), le.Uint64(s[32:]))
		if err != nil {
			return nil, err
		}
		t := sections.row(link)
		strings, err := at(le.Uint64(t[24:]), le.Uint64(t[32:]))
		if err != nil {
			return nil, err
		}
		for n := 0; len(symbols) >= elfSymbol && n < maxSymbols; n++ {
			name := uint64(le.Uint32(symbols))
			if symbols[4]&0xf == symbolFunc && symbols[5]&symbolEntry != 0 && name < uint64(len(strings)) {
				text, _, _ := bytes.Cut(strings[name:], []byte{0})
				names = append(names, string(text))
			}
			symbols = symbols[elfSymbol:]
		}
	}
	return names, nil
}
