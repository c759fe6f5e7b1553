package preflight

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds of an ELF file. debug/elf serves for its constants only: it copies the name of each
// section and symbol, which a file can make as long as itself.
const (
	maxSections = 1 << 16
	maxName     = 512 // bytes of a name; longer ones are those of nothing that is looked for
	maxNeeded   = 4096
)

// Sizes of what an ELF file has of 64 bits.
const (
	headerBytes  = 64
	sectionBytes = 64
	symbolBytes  = 24
	dynamicBytes = 16
)

const machineCUDA = 190 // EM_CUDA, of machine code for NVIDIA's GPUs

var errELF = errors.New("damaged ELF file")

// object is an ELF file of 64 bits, with all of it in memory.
type object struct {
	b        []byte
	kind     elf.Type
	machine  elf.Machine
	sections []section
}

// section is a section header. What it says need not be so.
type section struct {
	name                      []byte
	kind                      elf.SectionType
	flags                     elf.SectionFlag
	link                      uint32
	addr, offset, size, entry uint64
}

// symbol is an entry of a symbol table.
type symbol struct {
	name    []byte // empty where it is too long
	bind    elf.SymBind
	kind    elf.SymType
	other   byte
	section elf.SectionIndex
	value   uint64
}

// openObject reads the section headers.
func openObject(b []byte) (*object, error) {
	if len(b) < headerBytes || !bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		return nil, errELF
	}
	if elf.Class(b[elf.EI_CLASS]) != elf.ELFCLASS64 || elf.Data(b[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil, errors.New("an ELF file that is not for a little-endian processor of 64 bits")
	}
	le := binary.LittleEndian
	o := &object{b: b, kind: elf.Type(le.Uint16(b[16:])), machine: elf.Machine(le.Uint16(b[18:]))}
	at, n, names := le.Uint64(b[40:]), uint64(le.Uint16(b[60:])), uint32(le.Uint16(b[62:]))
	if at == 0 {
		return nil, errors.New("an ELF file without section headers")
	}
	if le.Uint16(b[58:]) != sectionBytes || !o.within(at, sectionBytes) {
		return nil, errELF
	}
	first := readSection(b[at:])
	if n == 0 { // more than the header can say
		n = first.size
	}
	if names == uint32(elf.SHN_XINDEX) {
		names = first.link
	}
	if n > maxSections || !o.within(at, n*sectionBytes) {
		return nil, fmt.Errorf("%w: %d sections", errELF, n)
	}
	o.sections = make([]section, n)
	for i := range o.sections {
		o.sections[i] = readSection(b[at+uint64(i)*sectionBytes:])
	}
	strings := o.linked(names)
	for i := range o.sections {
		o.sections[i].name = nameAt(strings, le.Uint32(b[at+uint64(i)*sectionBytes:]))
	}
	return o, nil
}

func readSection(b []byte) section {
	le := binary.LittleEndian
	return section{kind: elf.SectionType(le.Uint32(b[4:])), flags: elf.SectionFlag(le.Uint64(b[8:])), addr: le.Uint64(b[16:]),
		offset: le.Uint64(b[24:]), size: le.Uint64(b[32:]), link: le.Uint32(b[40:]), entry: le.Uint64(b[56:])}
}

// within reports whether the file has so many bytes at an offset.
func (o *object) within(offset, n uint64) bool {
	return offset <= uint64(len(o.b)) && n <= uint64(len(o.b))-offset
}

// data is the contents of a section, empty where the file does not have them as they are.
func (o *object) data(s *section) []byte {
	if s == nil || s.kind == elf.SHT_NOBITS || s.flags&elf.SHF_COMPRESSED != 0 || !o.within(s.offset, s.size) {
		return nil
	}
	return o.b[s.offset : s.offset+s.size]
}

// linked is the contents of the section with an index.
func (o *object) linked(i uint32) []byte {
	if uint64(i) >= uint64(len(o.sections)) {
		return nil
	}
	return o.data(&o.sections[i])
}

// find returns the first section that fits, nil where there is none.
func (o *object) find(fits func(*section) bool) *section {
	for i := range o.sections {
		if fits(&o.sections[i]) {
			return &o.sections[i]
		}
	}
	return nil
}

func (o *object) named(name string) *section {
	return o.find(func(s *section) bool { return string(s.name) == name })
}

func (o *object) ofKind(kind elf.SectionType) *section {
	return o.find(func(s *section) bool { return s.kind == kind })
}

// nameAt is the string at an offset of a string table, empty where it has no end near.
func nameAt(table []byte, at uint32) []byte {
	if uint64(at) >= uint64(len(table)) {
		return nil
	}
	name := table[at:]
	name = name[:min(len(name), maxName)]
	end := bytes.IndexByte(name, 0)
	if end < 0 {
		return nil
	}
	return name[:end]
}

// symbols calls back with each symbol of a table, until that returns false.
func (o *object) symbols(table *section, each func(symbol) bool) {
	if table == nil || table.entry != symbolBytes {
		return
	}
	strings := o.linked(table.link)
	le := binary.LittleEndian
	for b := o.data(table); len(b) >= symbolBytes; b = b[symbolBytes:] {
		name, _, _ := bytes.Cut(nameAt(strings, le.Uint32(b)), []byte("@")) // linkers write name@version for imports
		s := symbol{name: name, bind: elf.ST_BIND(b[4]), kind: elf.ST_TYPE(b[4]),
			other: b[5], section: elf.SectionIndex(le.Uint16(b[6:])), value: le.Uint64(b[8:])}
		if !each(s) {
			return
		}
	}
}

// needed lists the libraries that the loader loads with the object, by their names.
func (o *object) needed() []string {
	table := o.ofKind(elf.SHT_DYNAMIC)
	if table == nil {
		return nil
	}
	strings := o.linked(table.link)
	var all []string
	le := binary.LittleEndian
	for b := o.data(table); len(b) >= dynamicBytes && len(all) < maxNeeded; b = b[dynamicBytes:] {
		switch elf.DynTag(le.Uint64(b)) {
		case elf.DT_NULL:
			return all
		case elf.DT_NEEDED:
			if at := le.Uint64(b[8:]); at < uint64(len(strings)) {
				all = append(all, string(nameAt(strings, uint32(at))))
			}
		}
	}
	return all
}

// entryFlag is the bit of a symbol's st_other that kernels of machine code have.
const entryFlag = 0x10

// kernels reports whether machine code has kernels: what nvcc adds for the linker has none. Of what
// cannot be read it is true.
func kernels(code []byte) bool {
	o, err := openObject(code)
	if err != nil || o.machine != machineCUDA {
		return true
	}
	found := false
	o.symbols(o.ofKind(elf.SHT_SYMTAB), func(s symbol) bool {
		found = s.kind == elf.STT_FUNC && s.other&entryFlag != 0 && s.section != elf.SHN_UNDEF
		return !found
	})
	return found
}
