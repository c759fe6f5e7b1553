// Package scalar computes one lane of the operations of PTX, with the results that
// NVIDIA's hardware gives.
package scalar

import "math/bits"

// Bit is 1 for true; it compiles to one instruction without a branch.
func Bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// Pick32 is a where c is not 0, else b.
func Pick32(a, b, c uint32) uint32 {
	if c&1 != 0 {
		return a
	}
	return b
}

// Pick64 is a where c is not 0, else b.
func Pick64(a, b uint64, c uint32) uint64 {
	if c&1 != 0 {
		return a
	}
	return b
}

func AbsInt[T int32 | int64](x T) T {
	if x < 0 {
		return -x
	}
	return x
}

func SatS32(x int64) uint32 { return uint32(int32(max(min(x, 1<<31-1), -1<<31))) }

func Ext24U(x uint32) uint64 { return uint64(x & 0xffffff) }

func Ext24S(x uint32) int64 { return int64(int32(x<<8) >> 8) }

// Division by zero gives what the hardware gives: all ones, also as remainder.
func DivU32(a, b uint32) uint32 {
	if b == 0 {
		return 1<<32 - 1
	}
	return a / b
}

func DivS32(a, b uint32) uint32 {
	if b == 0 {
		return 1<<32 - 1
	}
	return uint32(int32(a) / int32(b))
}

func RemU32(a, b uint32) uint32 {
	if b == 0 {
		return 1<<32 - 1
	}
	return a % b
}

func RemS32(a, b uint32) uint32 {
	if b == 0 {
		return 1<<32 - 1
	}
	return uint32(int32(a) % int32(b))
}

func DivU64(a, b uint64) uint64 {
	if b == 0 {
		return 1<<64 - 1
	}
	return a / b
}

func DivS64(a, b uint64) uint64 {
	if b == 0 {
		return 1<<64 - 1
	}
	return uint64(int64(a) / int64(b))
}

func RemU64(a, b uint64) uint64 {
	if b == 0 {
		return 1<<64 - 1
	}
	return a % b
}

func RemS64(a, b uint64) uint64 {
	if b == 0 {
		return 1<<64 - 1
	}
	return uint64(int64(a) % int64(b))
}

func sign16(x uint32) uint32 { return uint32(int32(int16(x))) }

func DivU16(a, b uint32) uint32 { return DivU32(a, b) & 0xffff }

func RemU16(a, b uint32) uint32 { return RemU32(a, b) & 0xffff }

func DivS16(a, b uint32) uint32 { return DivS32(sign16(a), sign16(b)) & 0xffff }

func RemS16(a, b uint32) uint32 { return RemS32(sign16(a), sign16(b)) & 0xffff }

func MulHiU16(a, b uint32) uint32 { return a * b >> 16 }

func MulHiS16(a, b uint32) uint32 { return uint32(int32(int16(a))*int32(int16(b))) >> 16 }

func MulHiU32(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }

func MulHiS32(a, b uint32) uint32 { return uint32(uint64(int64(int32(a))*int64(int32(b))) >> 32) }

func MulHiU64(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	return hi
}

func MulHiS64(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
}

// ShiftAmount turns a bit position, or all ones for none, into the left shift
// that brings the bit to the top of n bits.
func ShiftAmount(pos, n uint32) uint32 {
	if pos == 1<<32-1 {
		return pos
	}
	return n - 1 - pos
}

func BfeU32(a, pos, n uint32) uint32 {
	return a >> (pos & 0xff) & (1<<(n&0xff) - 1)
}

// The 64-bit forms look at all bits of position and length, the 32-bit ones at
// eight.
func BfeU64(a uint64, pos, n uint32) uint64 { return a >> pos & (1<<n - 1) }

// BfeS64 fills the field with the sign bit, which is the field's last bit or
// the last bit of a, whichever is lower.
func BfeS64(a uint64, pos, n uint32) uint64 {
	if n == 0 {
		return 0
	}
	x := uint64(int64(a) >> min(pos, 63))
	if n < 64 && pos < 64-n {
		return uint64(int64(x<<(64-n)) >> (64 - n))
	}
	return x
}

func BfeS32(a, pos, n uint32) uint32 {
	pos, n = pos&0xff, n&0xff
	if n == 0 {
		return 0
	}
	x := uint32(int32(a) >> min(pos, 31))
	if keep := 32 - int(pos); int(n) < keep {
		return uint32(int32(x<<(32-n)) >> (32 - n))
	}
	return x
}

func Bfi32(a, b, pos, n uint32) uint32 {
	mask := uint32(1<<(n&0xff)-1) << (pos & 0xff)
	return b&^mask | a<<(pos&0xff)&mask
}

func Bfi64(a, b uint64, pos, n uint32) uint64 {
	mask := uint64(1<<n-1) << pos
	return b&^mask | a<<pos&mask
}

func Fns(mask, base uint32, offset int32) uint32 {
	if base > 31 {
		return 1<<32 - 1
	}
	if offset == 0 {
		if mask>>base&1 != 0 {
			return base
		}
		return 1<<32 - 1
	}
	step, count := int32(1), int64(offset)
	if offset < 0 {
		step, count = -1, -count
	}
	for pos := int32(base); pos >= 0 && pos < 32; pos += step {
		if mask>>uint(pos)&1 != 0 {
			if count--; count == 0 {
				return uint32(pos)
			}
		}
	}
	return 1<<32 - 1
}

func BmskClamp(pos, width uint32) uint32 {
	return uint32(1<<min(uint64(width), 32)-1) << pos
}

func Zext(a, n uint32) uint32 { return a & (1<<n - 1) }

func Sext(a, n uint32) uint32 {
	if n == 0 {
		return 0
	}
	if n >= 32 {
		return a
	}
	return uint32(int32(a<<(32-n)) >> (32 - n))
}

// Lop3 looks each bit up in the table lut: bit 4a+2b+c.
func Lop3(a, b, c uint32, lut uint64) (r uint32) {
	for i := range uint(8) {
		if lut>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^x
		}
		if i&2 == 0 {
			y = ^y
		}
		if i&1 == 0 {
			z = ^z
		}
		r |= x & y & z
	}
	return r
}

// Prmt picks four bytes of b:a. Each nibble of sel names one; its top bit asks
// for the sign of that byte instead.
func Prmt(a, b, sel uint32) (r uint32) {
	all := uint64(b)<<32 | uint64(a)
	for i := range uint(4) {
		n := sel >> (4 * i)
		x := uint32(all>>(8*(n&7))) & 0xff
		if n&8 != 0 {
			x = uint32(int32(x<<24)>>31) & 0xff
		}
		r |= x << (8 * i)
	}
	return r
}

// The modes of prmt are fixed selectors, chosen by the low two bits of c.
func PrmtF4E(c uint32) uint32 { return [4]uint32{0x3210, 0x4321, 0x5432, 0x6543}[c&3] }

func PrmtB4E(c uint32) uint32 { return [4]uint32{0x5670, 0x6701, 0x7012, 0x0123}[c&3] }

func PrmtRC8(c uint32) uint32 { return [4]uint32{0x0000, 0x1111, 0x2222, 0x3333}[c&3] }

func PrmtECL(c uint32) uint32 { return [4]uint32{0x3210, 0x3211, 0x3222, 0x3333}[c&3] }

func PrmtECR(c uint32) uint32 { return [4]uint32{0x0000, 0x1110, 0x2210, 0x3210}[c&3] }

func PrmtRC16(c uint32) uint32 { return [4]uint32{0x1010, 0x3232, 0x1010, 0x3232}[c&3] }

// Pack16 is the register of two 16-bit numbers.
func Pack16(lo, hi int16) uint32 { return uint32(uint16(lo)) | uint32(hi)<<16 }

func extend(x uint32, n uint, signed bool) int64 {
	if signed {
		return int64(int32(x<<(32-n)) >> (32 - n))
	}
	return int64(x & (1<<n - 1))
}

func Dp4a(a, b, c uint32, signA, signB bool) uint32 {
	for i := range uint(4) {
		c += uint32(extend(a>>(8*i), 8, signA) * extend(b>>(8*i), 8, signB))
	}
	return c
}

func Dp2a(a, b, c uint32, signA, signB bool) uint32 {
	for i := range uint(2) {
		c += uint32(extend(a>>(16*i), 16, signA) * extend(b>>(8*i), 8, signB))
	}
	return c
}

// ClampS and ClampU bring x into the range of an integer type of n bits.
func ClampS(x int64, n uint, signed bool) uint64 {
	if !signed {
		if x < 0 {
			return 0
		}
		return ClampU(uint64(x), n, false)
	}
	return uint64(max(min(x, 1<<(n-1)-1), -1<<(n-1)))
}

func ClampU(x uint64, n uint, signed bool) uint64 {
	if signed {
		n--
	}
	return min(x, 1<<n-1)
}

// magnitude is an integer as sign and absolute value.
type magnitude struct {
	neg bool
	abs uint64
}

func MagU(x uint64) magnitude { return magnitude{abs: x} }

func MagS(x int64) magnitude {
	if x < 0 {
		return magnitude{neg: true, abs: -uint64(x)}
	}
	return magnitude{abs: uint64(x)}
}
