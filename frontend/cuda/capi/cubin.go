package capi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"pvdrm/drm"
)

// Machine code that ptxas made with line information (nvcc -lineinfo, -G) has the PTX that it was
// made from beside it, for debuggers: a section of the ELF file, with a zero byte in place of the end of
// each line. PVDRM runs that. What -G or -lineinfo adds to the PTX, lines and DWARF, is not in it.
const debugSection = ".nv_debug_ptx_txt\x00"

// ELF, as far as it is needed (elf(5)).
const (
	elfHeader     = 64
	elfSection    = 64
	elfClass64    = 2
	elfLittle     = 1
	machineCUDA   = 190
	sectionBits   = 1     // SHT_PROGBITS
	compressed    = 0x800 // SHF_COMPRESSED
	maxNamesBytes = 64 << 20
)

// bytesAt returns a part of a file. What is not there is an error.
type bytesAt func(offset, size uint64) ([]byte, error)

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

// debugPTX returns the PTX that an ELF file of machine code was made from, for a device of compute
// capability cc (× 10). Without it, and where several units were linked, it is errCubin.
func debugPTX(at bytesAt, cc uint32) ([]byte, error) {
	le := binary.LittleEndian
	h, err := at(0, elfHeader)
	if err != nil || le.Uint32(h) != elfMagic || h[4] != elfClass64 || h[5] != elfLittle || le.Uint16(h[18:]) != machineCUDA || le.Uint16(h[58:]) != elfSection {
		return nil, errCubin
	}
	count, names := uint64(le.Uint16(h[60:])), uint64(le.Uint16(h[62:]))
	headers, err := at(le.Uint64(h[40:]), count*elfSection)
	if err != nil {
		return nil, err
	}
	if names >= count {
		return nil, errCubin
	}
	contents := func(i, limit uint64) ([]byte, error) {
		s := headers[i*elfSection:]
		size := le.Uint64(s[32:])
		if size > limit {
			return nil, fmt.Errorf("machine code with a section of %d bytes; %d are possible: %w", size, limit, invalidImage)
		}
		return at(le.Uint64(s[24:]), size)
	}
	strings, err := contents(names, maxNamesBytes)
	if err != nil {
		return nil, err
	}
	for i := range count {
		s := headers[i*elfSection:]
		name := uint64(le.Uint32(s))
		if name >= uint64(len(strings)) || !bytes.HasPrefix(strings[name:], []byte(debugSection)) ||
			le.Uint32(s[4:]) != sectionBits || le.Uint64(s[8:])&compressed != 0 {
			continue
		}
		text, err := contents(i, drm.MaxSource)
		if err != nil {
			return nil, err
		}
		ptx := bytes.TrimSpace(bytes.ReplaceAll(text, []byte{0}, []byte{'\n'}))
		if len(ptx) == 0 {
			break
		}
		if arch := ptxTarget(ptx); arch > cc {
			return nil, errOther(arch, cc)
		}
		return ptx, nil
	}
	return nil, errCubin
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
		if m.PTX || m.Arch > cc || best != nil && m.Arch <= best.Arch {
			continue
		}
		code, err := m.Contents()
		if err != nil {
			continue
		}
		if ptx, err := debugPTX(inFile(code), cc); err == nil {
			best = &Image{PTX: true, Arch: m.Arch, text: ptx}
		}
	}
	return best
}
