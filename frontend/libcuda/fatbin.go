package libcuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"pvdrm/frontend/cuda"
	"pvdrm/hypercall"
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
)

// Bounds of an image.
const (
	maxImage   = 1 << 30 // bytes of a fatbin
	maxEntries = 4096
)

// readImage finds the PTX that suits a device in what cuModuleLoadData gets: PTX
// text, a fatbin or the wrapper of one. Where there is only machine code, it is
// CUDA_ERROR_NO_BINARY_FOR_GPU.
func readImage(mem Memory, addr uint64, cc uint32) ([]byte, error) {
	if addr == 0 {
		return nil, fmt.Errorf("the image is a null pointer: %w", cuda.ErrInvalidValue)
	}
	head := make([]byte, 4)
	if err := mem.Read(head, addr); err != nil {
		// PTX may be shorter than that.
		return readString(mem, addr, hypercall.MaxSource)
	}
	switch binary.LittleEndian.Uint32(head) {
	case wrapperMagic:
		w := make([]byte, wrapperBytes)
		if err := mem.Read(w, addr); err != nil {
			return nil, err
		}
		return readFatbinAt(mem, binary.LittleEndian.Uint64(w[8:]), cc)
	case fatbinMagic:
		return readFatbinAt(mem, addr, cc)
	case elfMagic:
		return nil, errCubin
	}
	return readString(mem, addr, hypercall.MaxSource)
}

var errCubin = fmt.Errorf("the image has machine code of NVIDIA's only; compile with PTX in it (nvcc -gencode arch=compute_XX,code=compute_XX): %w", noBinaryForGPU)

func readFatbinAt(mem Memory, addr uint64, cc uint32) ([]byte, error) {
	h := make([]byte, fatbinHeader)
	if err := mem.Read(h, addr); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(h[8:])
	if n > maxImage {
		return nil, fmt.Errorf("a fatbin of %d bytes; %d are possible: %w", n, uint64(maxImage), invalidImage)
	}
	b := make([]byte, uint64(binary.LittleEndian.Uint16(h[6:]))+n)
	if err := mem.Read(b, addr); err != nil {
		return nil, err
	}
	return ptxOfFatbin(b, cc)
}

// parseImage is readImage for a file in memory.
func parseImage(b []byte, cc uint32) ([]byte, error) {
	if len(b) >= 4 {
		switch binary.LittleEndian.Uint32(b) {
		case fatbinMagic:
			return ptxOfFatbin(b, cc)
		case elfMagic:
			return nil, errCubin
		}
	}
	return b, nil
}

// ptxOfFatbin returns the PTX for the highest architecture that a device of
// compute capability cc (× 10) can run.
func ptxOfFatbin(b []byte, cc uint32) ([]byte, error) {
	damaged := func(what string) error { return fmt.Errorf("damaged fatbin: %s: %w", what, invalidImage) }
	if len(b) < fatbinHeader || binary.LittleEndian.Uint32(b) != fatbinMagic {
		return nil, damaged("no header")
	}
	hdr := int(binary.LittleEndian.Uint16(b[6:]))
	if hdr < fatbinHeader || hdr > len(b) {
		return nil, damaged("its header's size")
	}
	if n := binary.LittleEndian.Uint64(b[8:]); n < uint64(len(b)-hdr) {
		b = b[:hdr+int(n)]
	}
	b = b[hdr:]
	var best []byte // an entry with its header
	var arch uint32
	seen, newer := 0, uint32(0)
	for ; len(b) > 0; seen++ {
		if seen == maxEntries {
			return nil, damaged("too many entries")
		}
		if len(b) < entryHeader {
			break // padding
		}
		head, size := uint64(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint64(b[8:])
		if head < entryHeader || head > uint64(len(b)) || size > uint64(len(b))-head {
			return nil, damaged(fmt.Sprintf("entry %d is larger than what is there", seen))
		}
		if binary.LittleEndian.Uint16(b) == entryPTX {
			a := binary.LittleEndian.Uint32(b[28:])
			if a > cc {
				newer = a
			} else if best == nil || a > arch {
				best, arch = b[:head+size], a
			}
		}
		b = b[head+size:]
	}
	switch {
	case best != nil:
		return entryText(best)
	case newer > 0:
		return nil, fmt.Errorf("the PTX in the image is for compute capability %d.%d, the device has %d.%d: %w", newer/10, newer%10, cc/10, cc%10, noBinaryForGPU)
	}
	return nil, errCubin
}

// entryText takes the PTX out of an entry.
func entryText(e []byte) ([]byte, error) {
	head := binary.LittleEndian.Uint32(e[4:])
	flags := binary.LittleEndian.Uint64(e[40:])
	data := e[head:]
	if flags&(entryLZ4|entryZstd) == 0 {
		return bytes.TrimRight(data, "\x00"), nil
	}
	if n := uint64(binary.LittleEndian.Uint32(e[16:])); n > 0 && n < uint64(len(data)) {
		data = data[:n] // the rest is padding
	}
	size := binary.LittleEndian.Uint64(e[56:])
	if size > hypercall.MaxSource {
		return nil, fmt.Errorf("compressed PTX of %d bytes; %d are possible: %w", size, hypercall.MaxSource, invalidImage)
	}
	text, err := decompress(data, int(size), flags&entryZstd != 0)
	if err != nil {
		return nil, fmt.Errorf("damaged fatbin: compressed PTX: %w", errors.Join(err, invalidImage))
	}
	return bytes.TrimRight(text, "\x00"), nil
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
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(hypercall.MaxSource))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(b, make([]byte, 0, size))
}
