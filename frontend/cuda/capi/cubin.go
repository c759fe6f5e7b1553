package capi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strings"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/link"
	"pvdrm/gpu/fatbin"
)

// Machine code that ptxas made with line information (nvcc -lineinfo, -G) has the PTX that it was
// made from beside it, for debuggers: a section of the ELF file, with a zero byte in place of the end of
// each line. PVDRM runs that. What -G or -lineinfo adds to the PTX, lines and DWARF, is not in it.
// Machine code that nvlink or nvJitLink linked has a section for each unit, whose name has a number behind it.
const debugSection = ".nv_debug_ptx_txt"

// ELF, as far as it is needed (elf(5)).
const (
	elfHeader      = 64
	elfSection     = 64
	elfClass64     = 2
	elfLittle      = 1
	elfRelocatable = 1
	machineCUDA    = 190
	sectionBits    = 1     // SHT_PROGBITS
	compressed     = 0x800 // SHF_COMPRESSED
	maxNamesBytes  = 64 << 20
)

// bytesAt returns a part of a file. What is not there is an error.
type bytesAt fatbin.ReadAt

// inFile returns bytesAt for a file in memory.
func inFile(b []byte) bytesAt {
	return func(offset, size uint64) ([]byte, error) {
		if offset > uint64(len(b)) || size > uint64(len(b))-offset {
			return nil, fmt.Errorf("damaged machine code: %d bytes at %d of %d: %w", size, offset, len(b), invalidImage)
		}
		return b[offset : offset+size], nil
	}
}

// inProgram returns bytesAt for a file in the program's memory, whose size nothing tells.
func inProgram(mem Memory, addr uint64) bytesAt {
	return func(offset, size uint64) ([]byte, error) {
		if offset > maxImage {
			return nil, fmt.Errorf("damaged machine code: bytes at %d: %w", offset, invalidImage)
		}
		b := make([]byte, size)
		return b, mem.Read(b, addr+offset)
	}
}

// elf is the table of sections of an ELF file of machine code.
type elf struct {
	at      bytesAt
	headers []byte
	count   uint64
	strings []byte // the sections' names
	whole   bool   // the file can be loaded; else it is to be linked
}

// openELF reads the table. What is no such file is errCubin.
func openELF(at bytesAt) (*elf, error) {
	le := binary.LittleEndian
	h, err := at(0, elfHeader)
	if err != nil || le.Uint32(h) != fatbin.ELFMagic || h[4] != elfClass64 || h[5] != elfLittle || le.Uint16(h[18:]) != machineCUDA || le.Uint16(h[58:]) != elfSection {
		return nil, errCubin
	}
	e := &elf{at: at, count: uint64(le.Uint16(h[60:])), whole: le.Uint16(h[16:]) != elfRelocatable}
	names := uint64(le.Uint16(h[62:]))
	if e.headers, err = at(le.Uint64(h[40:]), e.count*elfSection); err != nil {
		return nil, err
	}
	if names >= e.count {
		return nil, errCubin
	}
	e.strings, err = e.contents(names, maxNamesBytes)
	return e, err
}

// contents reads a section of up to limit bytes.
func (e *elf) contents(i, limit uint64) ([]byte, error) {
	s := e.headers[i*elfSection:]
	size := binary.LittleEndian.Uint64(s[32:])
	if size > limit {
		return nil, fmt.Errorf("machine code with a section of %d bytes; %d are possible: %w", size, limit, invalidImage)
	}
	return e.at(binary.LittleEndian.Uint64(s[24:]), size)
}

// debug returns what follows debugSection in the name of a section that has PTX.
func (e *elf) debug(i uint64) (suffix string, ok bool) {
	le := binary.LittleEndian
	s := e.headers[i*elfSection:]
	name := uint64(le.Uint32(s))
	if name >= uint64(len(e.strings)) || le.Uint32(s[4:]) != sectionBits || le.Uint64(s[8:])&compressed != 0 {
		return "", false
	}
	rest, ok := bytes.CutPrefix(e.strings[name:], []byte(debugSection))
	if !ok {
		return "", false
	}
	end := bytes.IndexByte(rest, 0)
	if end < 0 || end > 0 && rest[0] != '.' {
		return "", false
	}
	return string(rest[:end]), true
}

// Attributes of kernels stand in sections of their own: an array of a format, a number and 16 bits, which are the
// value or its size in bytes.
const (
	infoSection   = ".nv.info."
	infoSized     = 4    // the format of those with a value of a size
	infoRegisters = 0x1b // the limit of registers that the compiler was given
	infoNoLimit   = 255
	maxInfo       = 1 << 16
)

// registers returns the limit of registers that the code was compiled with: what all kernels say; 0 for none.
func (e *elf) registers() uint32 {
	limit, seen := uint32(infoNoLimit), false
	le := binary.LittleEndian
	for i := range e.count {
		name := uint64(le.Uint32(e.headers[i*elfSection:]))
		if name >= uint64(len(e.strings)) || !bytes.HasPrefix(e.strings[name:], []byte(infoSection)) {
			continue
		}
		b, err := e.contents(i, maxInfo)
		if err != nil {
			return 0 // which matters for an attribute alone
		}
		for len(b) >= 4 {
			format, number, value := b[0], b[1], le.Uint16(b[2:])
			if b = b[4:]; format == infoSized {
				b = b[min(int(value), len(b)):]
			} else if number == infoRegisters {
				if seen && limit != uint32(value) {
					return 0
				}
				limit, seen = uint32(value), true
			}
		}
	}
	if limit == infoNoLimit {
		return 0
	}
	return limit
}

// debugPTX returns the PTX that an ELF file of machine code was made from, for a device of compute
// capability cc (× 10). Without it, it is errCubin.
func debugPTX(at bytesAt, cc uint32) ([]byte, error) {
	e, err := openELF(at)
	if err != nil {
		return nil, err
	}
	units, linked, err := e.debugUnits(cc)
	if err != nil {
		return nil, err
	}
	ptx := units[0]
	if linked || len(units) > 1 {
		ptx, err = linkDebug(units)
	}
	return withRegisters(ptx, e.registers()), err
}

// debugUnits returns the PTX of each unit that the file was made from, and whether they were linked.
func (e *elf) debugUnits(cc uint32) (units [][]byte, linked bool, err error) {
	left := uint64(drm.MaxSource)
	for i := range e.count {
		suffix, ok := e.debug(i)
		if !ok {
			continue
		}
		if len(units) == link.MaxUnits {
			return nil, false, fmt.Errorf("machine code of more than %d units: %w", link.MaxUnits, invalidImage)
		}
		text, err := e.contents(i, left)
		if err != nil {
			return nil, false, err
		}
		left -= uint64(len(text))
		text = bytes.TrimSpace(bytes.ReplaceAll(text, []byte{0}, []byte{'\n'}))
		if len(text) == 0 {
			continue
		}
		if arch := ptxTarget(text); arch > cc {
			return nil, false, errOther(arch, cc)
		}
		units = append(units, text)
		linked = linked || e.whole && (suffix != "" || runtimeCall.Match(text))
	}
	if len(units) == 0 {
		return nil, false, errCubin
	}
	return units, linked, nil
}

// runtimeCall finds the declaration of a function of CUDA's device runtime.
var runtimeCall = regexp.MustCompile(`\.extern\s+\.func[^;{]*\b(__)?cuda[A-Z]`)

// linkDebug links the PTX of the units that a file of machine code was linked from. Units without PTX, and
// libcudadevrt is one, may be missing.
func linkDebug(units [][]byte) ([]byte, error) {
	l := link.New()
	for i, text := range units {
		if err := l.Add(fmt.Sprintf("unit %d", i+1), text); err != nil {
			return nil, linkError(err)
		}
	}
	l.UseRuntime()
	ptx, err := l.Complete()
	if missing := link.Missing(err); len(missing) > 0 {
		return nil, fmt.Errorf("the machine code was linked of units of which some have no PTX, those with %s: %w", strings.Join(missing, ", "), noBinaryForGPU)
	}
	return ptx, linkError(err)
}

// CubinPTX returns the PTX that a file of machine code was made from, or nil where it has none.
func CubinPTX(b []byte) []byte {
	ptx, err := debugPTX(inFile(b), math.MaxUint32)
	if err != nil {
		return nil
	}
	return ptx
}

// Debug returns the PTX that machine code of a fatbin was made from, where the fatbin has it and a
// device of compute capability cc (× 10) can run it, or nil.
func Debug(images []Image, cc uint32) (best *Image) {
	for i := range images {
		m := &images[i]
		if m.PTX() || m.Arch > cc || best != nil && m.Arch <= best.Arch {
			continue
		}
		code, err := m.Contents()
		if err != nil {
			continue
		}
		if ptx, err := debugPTX(inFile(code), cc); err == nil {
			best = fatbin.Text(m.Arch, ptx)
		}
	}
	return best
}
