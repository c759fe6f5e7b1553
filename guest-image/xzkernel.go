package guestimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// Linux packs its kernel as an .xz file of one block that goes through two filters, x86 and LZMA2,
// with a CRC-32 (scripts/xz_wrap.sh). The xz package has no x86 filter, so the little of the format
// that matters is read here. Section numbers are those of "The .xz File Format", version 1.1.0.
const (
	xzStreamHeader = 12        // section 2.1.1
	xzCheckCRC32   = 0x01      // section 2.1.1.2
	xzTwoFilters   = 0x01      // section 3.1.2: flags of a block with two filters and no sizes
	xzSizesMask    = 0xc0      // section 3.1.2: compressed and uncompressed size are present
	xzFilterX86    = 0x04      // section 5.3.2
	xzFilterLZMA2  = 0x21      // section 5.3.1
	xzMaxDict      = 128 << 20 // bytes; Linux uses 32 MiB at most
	xzMagic        = "\xfd7zXZ\x00"
)

// errNotXZ says that a kernel is packed in another way than Debian 12 packs it. It still boots.
var errNotXZ = errors.New("the kernel's payload is not an .xz file as Linux makes them")

// unpackXZ returns the content of a packed kernel, at most limit bytes. What follows the block (the
// index, Linux's size field) is not looked at: the check guards the content.
func unpackXZ(b []byte, limit int64) ([]byte, error) {
	if len(b) < xzStreamHeader+8 || !bytes.HasPrefix(b, []byte(xzMagic)) || b[7] != xzCheckCRC32 {
		return nil, errNotXZ
	}
	b = b[xzStreamHeader:]
	size := (int(b[0]) + 1) * 4 // of the block header, section 3.1.1
	if b[0] == 0 {              // an index: a file without blocks
		return nil, fmt.Errorf("%w: it is empty", errNotXZ)
	}
	if len(b) < size || binary.LittleEndian.Uint32(b[size-4:]) != crc32.ChecksumIEEE(b[:size-4]) {
		return nil, fmt.Errorf("%w: damaged block header", errNotXZ)
	}
	dict, err := blockDictionary(b[1 : size-4])
	if err != nil {
		return nil, err
	}
	in := bytes.NewReader(b[size:])
	lz, err := lzma.Reader2Config{DictCap: dict}.NewReader2(in)
	if err != nil {
		return nil, fmt.Errorf("unpack kernel: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(lz, limit+1))
	if err != nil {
		return nil, fmt.Errorf("unpack kernel: %w", err)
	}
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("unpack kernel: more than %d bytes", limit)
	}
	x86Decode(out)
	// Padding to four bytes, then the check (sections 3.3 and 3.4).
	at := (int64(len(b)-size) - int64(in.Len()) + 3) &^ 3
	if at+4 > int64(len(b)-size) || binary.LittleEndian.Uint32(b[int64(size)+at:]) != crc32.ChecksumIEEE(out) {
		return nil, errors.New("unpack kernel: its CRC-32 is wrong")
	}
	return out, nil
}

// blockDictionary checks that a block's filters are x86 (without properties) and LZMA2, and returns
// the dictionary size of the latter in bytes. b begins at the block flags.
func blockDictionary(b []byte) (int, error) {
	r := bytes.NewReader(b)
	flags, _ := r.ReadByte() // a block header is never empty
	if flags&^xzSizesMask != xzTwoFilters {
		return 0, fmt.Errorf("%w: block flags %#x", errNotXZ, flags)
	}
	for f := flags & xzSizesMask; f != 0; f &= f - 1 {
		if _, err := binary.ReadUvarint(r); err != nil {
			return 0, fmt.Errorf("%w: block header cut short", errNotXZ)
		}
	}
	// The ID and the size of the properties of x86, then those of LZMA2 and its only property.
	var p [5]byte
	if _, err := io.ReadFull(r, p[:]); err != nil || p[0] != xzFilterX86 || p[1] != 0 || p[2] != xzFilterLZMA2 || p[3] != 1 {
		return 0, fmt.Errorf("%w: other filters than x86 and LZMA2", errNotXZ)
	}
	if p[4] > 40 {
		return 0, fmt.Errorf("%w: dictionary size %d", errNotXZ, p[4])
	}
	size := (2 | uint64(p[4]&1)) << (p[4]/2 + 11)
	if size > xzMaxDict {
		return 0, fmt.Errorf("%w: a dictionary of %d bytes", errNotXZ, size)
	}
	return int(size), nil
}

// x86Decode undoes the x86 filter in place. The filter made the targets of CALL (e8) and JMP (e9)
// absolute, because equal targets compress better than equal distances. An opcode byte that is itself
// part of a target is ambiguous: both ends keep the same history of such bytes and agree by it which
// targets were converted.
func x86Decode(b []byte) {
	const length = 5 // of the instruction
	history := uint32(0)
	last := -length // where the last opcode byte was
	for pos := 0; pos+length <= len(b); {
		if b[pos]&0xfe != 0xe8 {
			pos++
			continue
		}
		if distance := pos - last; distance > length {
			history = 0
		} else {
			for range distance {
				history = history & 0x77 << 1
			}
		}
		last = pos
		operand := b[pos+1 : pos+length]
		if !x86Converted(operand[3], history) {
			history |= 1
			if x86Sign(operand[3]) {
				history |= 0x10
			}
			pos++
			continue
		}
		target := binary.LittleEndian.Uint32(operand)
		distance := target - uint32(pos+length)
		if history != 0 {
			// A candidate a few bytes back ends within this operand. Its top byte must not look
			// converted, so where it does now, it was flipped. Once is enough: the encoded byte was
			// no sign, or x86Converted had refused.
			shift := 8 * [8]uint32{0, 1, 2, 2, 3, 3, 3, 3}[history>>1&7]
			if x86Sign(byte(distance >> (24 - shift))) {
				target = distance ^ (1<<(32-shift) - 1)
				distance = target - uint32(pos+length)
			}
		}
		// The top byte is the sign of 25 bits.
		distance = uint32(int32(distance<<7) >> 7)
		binary.LittleEndian.PutUint32(operand, distance)
		pos += length
		history = 0
	}
}

// x86Sign says whether a byte can be the top one of a near target.
func x86Sign(b byte) bool { return b == 0 || b == 0xff }

// x86Converted says whether the target with this top byte was made absolute.
func x86Converted(top byte, history uint32) bool {
	earlier := history >> 1
	return x86Sign(top) && earlier < 0x10 && [8]bool{true, true, true, false, true}[earlier&7]
}
