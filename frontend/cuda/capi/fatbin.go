package capi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/internal/progmem"
)

// What nvcc and fatbinary embed in programs. The layout is not in NVIDIA's
// documentation; it is known from cuobjdump's output and from free tools.
const (
	wrapperMagic = 0x466243b1 // struct __fatBinC_Wrapper_t: magic, version, pointer to the fatbin
	fatbinMagic  = 0xba55ed50
	elfMagic     = 0x464c457f

	wrapperBytes = 24
	fatbinHeader = 16
	entryHeader  = 64

	entryPTX = 1

	entryLZ4  = 1 << 13 // flags
	entryZstd = 1 << 15
	entryOwn  = 1 << 20 // for that compute capability alone
)

// Bounds of an image.
const (
	maxImage   = 1 << 30 // bytes of a fatbin
	maxEntries = 4096
)

// readImage finds the PTX that suits a device in what cuModuleLoadData gets: PTX
// text, a fatbin or the wrapper of one, or machine code with the PTX that it was made from. Where
// there is only machine code, it is CUDA_ERROR_NO_BINARY_FOR_GPU.
func readImage(mem Memory, addr uint64, cc uint32) ([]byte, error) {
	if addr == 0 {
		return nil, fmt.Errorf("the image is a null pointer: %w", cuda.ErrInvalidValue)
	}
	head := make([]byte, 4)
	if err := mem.Read(head, addr); err != nil {
		// PTX may be shorter than that.
		return progmem.ReadString(mem, addr, drm.MaxSource)
	}
	switch binary.LittleEndian.Uint32(head) {
	case wrapperMagic:
		w := make([]byte, wrapperBytes)
		if err := mem.Read(w, addr); err != nil {
			return nil, err
		}
		le := binary.LittleEndian
		if le.Uint32(w[4:]) == wrapperLinked {
			return readLinked(mem, le.Uint64(w[8:]), le.Uint64(w[16:]), cc)
		}
		return readFatbinAt(mem, le.Uint64(w[8:]), cc)
	case fatbinMagic:
		return readFatbinAt(mem, addr, cc)
	case elfMagic:
		return debugPTX(inProgram(mem, addr), cc)
	}
	return progmem.ReadString(mem, addr, drm.MaxSource)
}

var errCubin = fmt.Errorf("the image has machine code of NVIDIA's only; compile with PTX in it (nvcc -gencode arch=compute_XX,code=compute_XX, or -lineinfo): %w", noBinaryForGPU)

func readFatbinAt(mem Memory, addr uint64, cc uint32) ([]byte, error) {
	b, err := readFatbin(mem, addr)
	if err != nil {
		return nil, err
	}
	return ptxOfFatbin(b, cc)
}

// readFatbin reads all of a fatbin.
func readFatbin(mem Memory, addr uint64) ([]byte, error) {
	h := make([]byte, fatbinHeader)
	if err := mem.Read(h, addr); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(h[8:])
	if n > maxImage {
		return nil, fmt.Errorf("a fatbin of %d bytes; %d are possible: %w", n, uint64(maxImage), invalidImage)
	}
	b := make([]byte, uint64(binary.LittleEndian.Uint16(h[6:]))+n)
	return b, mem.Read(b, addr)
}

// parseImage is readImage for a file in memory.
func parseImage(b []byte, cc uint32) ([]byte, error) {
	if len(b) >= 4 {
		switch binary.LittleEndian.Uint32(b) {
		case fatbinMagic:
			return ptxOfFatbin(b, cc)
		case elfMagic:
			return debugPTX(inFile(b), cc)
		}
	}
	return b, nil
}

// Image is one of the images of a fatbin.
type Image struct {
	PTX  bool   // else machine code, an ELF file
	Arch uint32 // the virtual architecture of PTX or the GPU of machine code, compute capability × 10

	entry []byte // with its header
	text  []byte // of an image that Debug returned, which has no entry
}

// Images lists the images of the fatbin that b begins with, and returns how many bytes it takes.
func Images(b []byte) (images []Image, size int, err error) {
	damaged := func(what string) error { return fmt.Errorf("damaged fatbin: %s: %w", what, invalidImage) }
	if len(b) < fatbinHeader || binary.LittleEndian.Uint32(b) != fatbinMagic {
		return nil, 0, damaged("no header")
	}
	hdr := int(binary.LittleEndian.Uint16(b[6:]))
	if hdr < fatbinHeader || hdr > len(b) {
		return nil, 0, damaged("its header's size")
	}
	if n := binary.LittleEndian.Uint64(b[8:]); n < uint64(len(b)-hdr) {
		b = b[:hdr+int(n)]
	}
	size = len(b)
	for b = b[hdr:]; len(b) >= entryHeader; { // what is shorter is padding
		if len(images) == maxEntries {
			return nil, size, damaged("too many entries")
		}
		head, n := uint64(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint64(b[8:])
		if head < entryHeader || head > uint64(len(b)) || n > uint64(len(b))-head {
			return nil, size, damaged(fmt.Sprintf("entry %d is larger than what is there", len(images)))
		}
		images = append(images, Image{PTX: binary.LittleEndian.Uint16(b) == entryPTX, Arch: binary.LittleEndian.Uint32(b[28:]), entry: b[:head+n]})
		b = b[head+n:]
	}
	return images, size, nil
}

// ptxOfFatbin returns the PTX for the highest architecture that a device of
// compute capability cc (× 10) can run.
func ptxOfFatbin(b []byte, cc uint32) ([]byte, error) {
	images, _, err := Images(b)
	if err != nil {
		return nil, err
	}
	return suitable(images, cc)
}

// suitable returns the PTX of a fatbin's images that a device of compute capability cc (× 10) takes:
// one of those that are PTX, else what machine code was made from.
func suitable(images []Image, cc uint32) ([]byte, error) {
	best, other := Choose(images, cc)
	if best == nil {
		best = Debug(images, cc)
	}
	switch {
	case best != nil:
		return best.Contents()
	case other > 0:
		return nil, errOther(other, cc)
	}
	return nil, errCubin
}

func errOther(other, cc uint32) error {
	return fmt.Errorf("the PTX in the image is for compute capability %d.%d, the device has %d.%d (compile for that, or give the software GPU --sm %d.%d): %w", other/10, other%10, cc/10, cc%10, other/10, other%10, noBinaryForGPU)
}

// Choose returns the PTX that a device of compute capability cc (× 10) takes, nil where it has none,
// and the lowest capability that PTX for other devices is for, 0 where there is none.
func Choose(images []Image, cc uint32) (best *Image, other uint32) {
	for i := range images {
		switch m := &images[i]; {
		case !m.PTX:
		case !m.suits(cc):
			if other == 0 || m.Arch < other {
				other = m.Arch
			}
		case best == nil || m.Arch > best.Arch || m.Arch == best.Arch && m.own():
			best = m
		}
	}
	return best, other
}

// own reports whether the image is for one capability alone, such as compute_90a.
func (m *Image) own() bool { return m.entry != nil && m.flags()&entryOwn != 0 }

// suits reports whether a device of compute capability cc (× 10) takes the image's PTX.
func (m *Image) suits(cc uint32) bool { return m.Arch == cc || m.Arch < cc && !m.own() }

// Size is how many bytes Contents returns at most.
func (m *Image) Size() uint64 {
	if m.text != nil {
		return uint64(len(m.text))
	}
	if m.flags()&(entryLZ4|entryZstd) == 0 {
		return uint64(len(m.entry))
	}
	return min(binary.LittleEndian.Uint64(m.entry[56:]), drm.MaxSource)
}

func (m *Image) flags() uint64 { return binary.LittleEndian.Uint64(m.entry[40:]) }

// Contents is the text of PTX, or the ELF file of machine code.
func (m *Image) Contents() ([]byte, error) {
	if m.text != nil {
		return m.text, nil
	}
	data, err := m.data()
	if m.PTX {
		data = bytes.TrimRight(data, "\x00")
	}
	return data, err
}

func (m *Image) data() ([]byte, error) {
	data := m.entry[binary.LittleEndian.Uint32(m.entry[4:]):]
	if m.flags()&(entryLZ4|entryZstd) == 0 {
		return data, nil
	}
	if n := uint64(binary.LittleEndian.Uint32(m.entry[16:])); n > 0 && n < uint64(len(data)) {
		data = data[:n] // the rest is padding
	}
	size := binary.LittleEndian.Uint64(m.entry[56:])
	if size > drm.MaxSource {
		return nil, fmt.Errorf("a compressed image of %d bytes; %d are possible: %w", size, drm.MaxSource, invalidImage)
	}
	text, err := decompress(data, int(size), m.flags()&entryZstd != 0)
	if err != nil {
		return nil, fmt.Errorf("damaged fatbin: a compressed image: %w", errors.Join(err, invalidImage))
	}
	return text, nil
}

// decompress returns at most size bytes.
func decompress(b []byte, size int, isZstd bool) ([]byte, error) {
	if !isZstd {
		text := make([]byte, size)
		n, err := lz4.UncompressBlock(b, text)
		if err != nil {
			return nil, err
		}
		return text[:n], nil
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(drm.MaxSource))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(b, make([]byte, 0, size))
}
