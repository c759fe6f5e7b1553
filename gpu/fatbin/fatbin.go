// Package fatbin reads what nvcc and fatbinary embed in programs: fatbins, which hold PTX and
// machine code for several GPUs, and the ELF files of machine code (cubins). Both sides use it: the
// frontend chooses what suits its device, and a device checks what it gets before NVIDIA's driver
// does, which is told no size. NVIDIA does not document the layout; it is known from cuobjdump's output and
// from free tools.
package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Layout of a fatbin: a header, then entries with a header each.
const (
	Magic       = 0xba55ed50
	HeaderBytes = 16
	EntryBytes  = 64

	KindPTX = 1
	KindELF = 2

	FlagLZ4  = 1 << 13
	FlagZstd = 1 << 15
	FlagOwn  = 1 << 20 // for that compute capability alone
)

// Bounds of an image.
const (
	MaxBytes   = 1 << 30  // of a fatbin or a cubin, and of all machine code in one when unpacked
	MaxPTX     = 64 << 20 // of PTX, unpacked
	MaxEntries = 4096
)

// ErrDamaged is the error for images that contradict themselves.
var ErrDamaged = errors.New("damaged image")

var le = binary.LittleEndian

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// Is reports whether b begins as a fatbin or an ELF file does, and not as PTX.
func Is(b []byte) bool { return len(b) >= 4 && (le.Uint32(b) == Magic || le.Uint32(b) == ELFMagic) }

// Image is one of the images of a fatbin.
type Image struct {
	Kind uint16 // KindPTX, KindELF, or another
	Arch uint32 // the virtual architecture of PTX or the GPU of machine code, compute capability × 10

	entry []byte // with its header
	text  []byte // of Text
}

// Text makes an image of PTX that comes from no entry.
func Text(arch uint32, ptx []byte) *Image { return &Image{Kind: KindPTX, Arch: arch, text: ptx} }

// PTX reports whether the image is PTX.
func (m *Image) PTX() bool { return m.Kind == KindPTX }

// Images lists the images of the fatbin that b begins with, and returns how many bytes it takes.
func Images(b []byte) (images []Image, size int, err error) {
	if len(b) < HeaderBytes || le.Uint32(b) != Magic {
		return nil, 0, damaged("a fatbin without a header")
	}
	hdr := int(le.Uint16(b[6:]))
	if hdr < HeaderBytes || hdr > len(b) {
		return nil, 0, damaged("the size of a fatbin's header")
	}
	if n := le.Uint64(b[8:]); n < uint64(len(b)-hdr) {
		b = b[:hdr+int(n)]
	}
	size = len(b)
	for b = b[hdr:]; len(b) >= EntryBytes; { // what is shorter is padding
		if len(images) == MaxEntries {
			return nil, size, damaged("too many entries of a fatbin")
		}
		head, n := uint64(le.Uint32(b[4:])), le.Uint64(b[8:])
		if head < EntryBytes || head > uint64(len(b)) || n > uint64(len(b))-head {
			return nil, size, damaged("entry %d of a fatbin is larger than what is there", len(images))
		}
		images = append(images, Image{Kind: le.Uint16(b), Arch: le.Uint32(b[28:]), entry: b[:head+n]})
		b = b[head+n:]
	}
	return images, size, nil
}

// Own reports whether the image is for one capability alone, such as compute_90a.
func (m *Image) Own() bool { return m.entry != nil && m.flags()&FlagOwn != 0 }

// Suits reports whether a device of compute capability cc (× 10) takes the image: PTX for it or an older one,
// machine code for its own generation.
func (m *Image) Suits(cc uint32) bool {
	return m.Arch == cc || m.Arch < cc && !m.Own() && (m.PTX() || m.Arch/10 == cc/10)
}

// Size returns how many bytes Contents returns at most.
func (m *Image) Size() uint64 {
	switch {
	case m.text != nil:
		return uint64(len(m.text))
	case !m.packed():
		return uint64(len(m.entry))
	}
	return min(m.unpacked(), m.most())
}

func (m *Image) flags() uint64    { return le.Uint64(m.entry[40:]) }
func (m *Image) unpacked() uint64 { return le.Uint64(m.entry[56:]) }
func (m *Image) packed() bool     { return m.flags()&(FlagLZ4|FlagZstd) != 0 }

// most returns how many bytes the image may have.
func (m *Image) most() uint64 {
	if m.PTX() {
		return MaxPTX
	}
	return MaxBytes
}

// Contents returns the text of PTX, or the ELF file of machine code.
func (m *Image) Contents() ([]byte, error) {
	if m.text != nil {
		return m.text, nil
	}
	data, err := m.data()
	if m.PTX() {
		data = bytes.TrimRight(data, "\x00")
	}
	return data, err
}

func (m *Image) data() ([]byte, error) {
	data := m.entry[le.Uint32(m.entry[4:]):]
	if !m.packed() {
		return data, nil
	}
	if n := uint64(le.Uint32(m.entry[16:])); n > 0 && n < uint64(len(data)) {
		data = data[:n] // the rest is padding
	}
	size := m.unpacked()
	if size > m.most() {
		return nil, damaged("a compressed image of %d bytes; %d are possible", size, m.most())
	}
	text, err := unpack(data, int(size), m.flags()&FlagZstd != 0)
	if err != nil {
		return nil, errors.Join(damaged("a compressed image"), err)
	}
	return text, nil
}

// unpack returns at most size bytes, or MaxPTX where that is more.
func unpack(b []byte, size int, isZstd bool) ([]byte, error) {
	// Nothing is packed to less than a part of its size that the formats allow.
	const zstdRatio, lz4Ratio = 1 << 15, 256
	if isZstd {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(size, MaxPTX))))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(b, make([]byte, 0, min(size, zstdRatio*len(b))))
	}
	text := make([]byte, min(size, lz4Ratio*len(b)))
	n, err := lz4.UncompressBlock(b, text)
	if err != nil {
		return nil, err
	}
	return text[:n], nil
}

// Machine returns a fatbin with the machine code of images, those of the fatbin b, that a device of compute capability
// cc (× 10) runs; nil where there is none.
func Machine(b []byte, images []Image, cc uint32) []byte {
	n := 0
	suits := func(m *Image) bool { return m.Kind == KindELF && m.Suits(cc) }
	for i := range images {
		if suits(&images[i]) {
			n += len(images[i].entry)
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]byte, 0, HeaderBytes+n)
	out = append(out, b[:HeaderBytes]...)
	le.PutUint16(out[6:], HeaderBytes)
	le.PutUint64(out[8:], uint64(n))
	for i := range images {
		if suits(&images[i]) {
			out = append(out, images[i].entry...)
		}
	}
	return out
}

// Check refuses what NVIDIA's driver, which is told no size, would read beyond the end of b, and what is not machine
// code alone: PTX in a fatbin would be compiled where it is loaded.
func Check(b []byte) error {
	if len(b) >= 4 && le.Uint32(b) == ELFMagic {
		_, err := ELFBytes(inside(b))
		return err
	}
	images, size, err := Images(b)
	switch {
	case err != nil:
		return err
	case le.Uint64(b[8:]) > uint64(len(b)):
		return damaged("a fatbin of %d bytes, of which %d are there", le.Uint64(b[8:]), len(b))
	case size != len(b):
		return damaged("%d bytes behind a fatbin", len(b)-size)
	case len(images) == 0:
		return damaged("a fatbin without images")
	}
	left := uint64(MaxBytes)
	for i := range images {
		if err := images[i].check(&left); err != nil {
			return fmt.Errorf("image %d of the fatbin: %w", i, err)
		}
	}
	return nil
}

// check checks an entry; left is how many bytes it may have unpacked.
func (m *Image) check(left *uint64) error {
	if m.Kind != KindELF {
		return damaged("it is no machine code (kind %d)", m.Kind)
	}
	data := m.entry[le.Uint32(m.entry[4:]):]
	if !m.packed() {
		_, err := ELFBytes(inside(data))
		return err
	}
	if n := uint64(le.Uint32(m.entry[16:])); n > uint64(len(data)) {
		return damaged("%d compressed bytes of %d", n, len(data))
	}
	n := m.unpacked()
	if n > *left {
		return damaged("more than %d bytes of machine code", uint64(MaxBytes))
	}
	*left -= n
	return nil
}
