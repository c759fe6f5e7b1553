package x86

import "encoding/binary"

// Constants of the area, by their number: 32 bytes each.
const (
	cBits32 = iota // 1, 2, 4 and so on, a bit for each lane; two of them
	_
	cBits64
	_
	cSign32
	cSign64
	cTwo52        // as float64; its lower bits take a whole number below 2^32
	cTwo52Bias    // and 1023
	cUpperSigned  // 2^84+2^63: its bits from the 32nd on take a whole number
	cUpper        // 2^84
	cBothSigned   // 2^84+2^63+2^52
	cBoth         // 2^84+2^52
	cTwo32        // as float64
	cTwo31Single  // as float32
	cTwo32Single  // as float32
	cMinus1Single // as float32
	c63
	cFraction // of a float64
	cHalf     // the exponent of a half
	cBytes    // the lowest byte of each of four lanes, for vpshufb
	cWords    // the lowest 16 bits of each of four lanes
	cQuads    // lanes 0 and 4, for vpermd
	cPatterns // what vldmxcsr takes: as set, nearest, down, up, towards zero
	cTiny     // 0x00ffffff
	constants
)

func constant(number int) Mem { return Mem{Base: area, Disp: areaConsts + 32*int32(number)} }

// rounding is what vldmxcsr takes for a mode.
func rounding(mode Round) Mem {
	m := constant(cPatterns)
	m.Disp += 4 * int32(mode)
	return m
}

// FillArea writes the constants that code for pairs reads to an area, of AreaBytes.
func FillArea(area []byte) {
	put32 := func(number, i int, x uint32) {
		binary.LittleEndian.PutUint32(area[areaConsts+32*number+4*i:], x)
	}
	put64 := func(number, i int, x uint64) {
		put32(number, 2*i, uint32(x))
		put32(number, 2*i+1, uint32(x>>32))
	}
	for i := range 16 {
		put32(cBits32, i, 1<<i)
	}
	for i := range 8 {
		put64(cBits64, i, 1<<i)
		for number, x := range map[int]uint32{cSign32: 1 << 31, cTwo31Single: 0x4f000000, cTwo32Single: 0x4f800000, cMinus1Single: 0xbf800000, cTiny: 0xffffff} {
			put32(number, i, x)
		}
	}
	for i := range 4 {
		for number, x := range map[int]uint64{cSign64: 1 << 63, cTwo52: 0x433 << 52, cTwo52Bias: 0x433<<52 | 1023, cUpperSigned: 0x45300000_80000000,
			cUpper: 0x453 << 52, cBothSigned: 0x45300000_80100000, cBoth: 0x45300000_00100000, cTwo32: 0x41f << 52, c63: 63, cFraction: 1<<52 - 1, cHalf: 0x3fe << 52} {
			put64(number, i, x)
		}
	}
	for lane := range 2 {
		put32(cBytes, 4*lane, 0x0c080400)
		put32(cWords, 4*lane, 0x05040100)
		put32(cWords, 4*lane+1, 0x0d0c0908)
		for i := range 3 {
			put32(cBytes, 4*lane+1+i, 0x80808080)
		}
		for i := range 2 {
			put32(cWords, 4*lane+2+i, 0x80808080)
		}
	}
	put32(cQuads, 1, 4)
	for mode, bits := range []uint32{AsSet: 0, Nearest: 0, Down: 1, Up: 2, Truncate: 3} {
		put32(cPatterns, mode, 0x1f80|bits<<13)
	}
}
