package capi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/gpu/fatbin"
	"pvdrm/internal/progmem"
)

// What nvcc and fatbinary embed in programs, and what of it suits a device. Package gpu/fatbin knows the
// layout of fatbins.
const (
	wrapperMagic = 0x466243b1 // struct __fatBinC_Wrapper_t: magic, version, pointer to the fatbin
	wrapperBytes = 24

	maxImage = fatbin.MaxBytes
)

// takes says which images a device takes.
type takes struct {
	cc      uint32 // its compute capability × 10
	machine bool   // machine code, too
}

// takenBy returns which images a device takes.
func takenBy(dev *cuda.Device) takes { return takes{cc: capability(dev), machine: dev.Images()} }

// readImage finds what suits a device in what cuModuleLoadData gets: PTX
// text, a fatbin or the wrapper of one, or machine code with the PTX that it was made from. Where
// there is only machine code, and the device takes none, it is CUDA_ERROR_NO_BINARY_FOR_GPU.
func readImage(mem Memory, addr uint64, t takes) ([]byte, error) {
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
			return readLinked(mem, le.Uint64(w[8:]), le.Uint64(w[16:]), t)
		}
		return readFatbinAt(mem, le.Uint64(w[8:]), t)
	case fatbin.Magic:
		return readFatbinAt(mem, addr, t)
	case fatbin.ELFMagic:
		return ofELF(inProgram(mem, addr), t)
	}
	return progmem.ReadString(mem, addr, drm.MaxSource)
}

var errCubin = fmt.Errorf("the image has machine code of NVIDIA's only; compile with PTX in it (nvcc -gencode arch=compute_XX,code=compute_XX, or -lineinfo): %w", noBinaryForGPU)

func readFatbinAt(mem Memory, addr uint64, t takes) ([]byte, error) {
	b, err := readFatbin(mem, addr)
	if err != nil {
		return nil, err
	}
	return ofFatbin(b, t)
}

// readFatbin reads all of a fatbin.
func readFatbin(mem Memory, addr uint64) ([]byte, error) {
	h := make([]byte, fatbin.HeaderBytes)
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
func parseImage(b []byte, t takes) ([]byte, error) {
	switch {
	case !fatbin.Is(b):
		return b, nil
	case binary.LittleEndian.Uint32(b) == fatbin.Magic:
		return ofFatbin(b, t)
	}
	return ofELF(inFile(b), t)
}

// ofELF returns a file of machine code for a device that takes it, else the PTX that it was made from.
func ofELF(at bytesAt, t takes) ([]byte, error) {
	if !t.machine {
		return debugPTX(at, t.cc)
	}
	n, err := fatbin.ELFBytes(fatbin.ReadAt(at))
	if err != nil {
		return nil, imageError(err)
	}
	return at(0, n)
}

// ofFatbin returns the images of a fatbin that a device takes: its machine code, in a fatbin, or PTX.
func ofFatbin(b []byte, t takes) ([]byte, error) {
	images, _, err := Images(b)
	if err != nil {
		return nil, err
	}
	if t.machine {
		if code := fatbin.Machine(b, images, t.cc); code != nil {
			return code, nil
		}
	}
	return suitable(images, t.cc)
}

// Image is one of the images of a fatbin.
type Image = fatbin.Image

// Images lists the images of the fatbin that b begins with, and returns how many bytes it takes.
func Images(b []byte) (images []Image, size int, err error) {
	images, size, err = fatbin.Images(b)
	return images, size, imageError(err)
}

// imageError gives errors of images their result.
func imageError(err error) error {
	if errors.Is(err, fatbin.ErrDamaged) {
		return errors.Join(err, invalidImage)
	}
	return err
}

// contents returns the text of PTX, or the ELF file of machine code.
func contents(m *Image) ([]byte, error) {
	b, err := m.Contents()
	return b, imageError(err)
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
		return contents(best)
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
		case !m.PTX():
		case !m.Suits(cc):
			if other == 0 || m.Arch < other {
				other = m.Arch
			}
		case best == nil || m.Arch > best.Arch || m.Arch == best.Arch && m.Own():
			best = m
		}
	}
	return best, other
}
