package virtgpu

import (
	"encoding/binary"
	"fmt"
)

// edidSize is the size of an EDID without extensions, in bytes.
const edidSize = 128

// edid describes a monitor whose preferred mode is w by h pixels, and which has the usual smaller
// ones, in the format of VESA's E-EDID 1.4. Precondition: w and h are 1 to MaxDisplay.
func edid(w, h uint32) [edidSize]byte {
	var e [edidSize]byte
	copy(e[:], []byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0})
	// Manufacturer "PVD", five bits a letter, big-endian.
	binary.BigEndian.PutUint16(e[8:], ('P'-'@')<<10|('V'-'@')<<5|('D'-'@'))
	binary.LittleEndian.PutUint16(e[10:], 1) // product
	binary.LittleEndian.PutUint32(e[12:], 1) // serial number
	e[16], e[17] = 1, 2026-1990              // week and year
	e[18], e[19] = 1, 4                      // version 1.4
	e[20] = 0xa0                             // digital, 8 bits a colour
	mmW, mmH := millimetres(w), millimetres(h)
	e[21], e[22] = byte(min(255, max(1, mmW/10))), byte(min(255, max(1, mmH/10)))
	e[23] = 120  // gamma 2.2
	e[24] = 0x06 // sRGB, the first detailed timing is the preferred mode
	// The chromaticity coordinates of sRGB.
	copy(e[25:], []byte{0xee, 0x91, 0xa3, 0x54, 0x4c, 0x99, 0x26, 0x0f, 0x50, 0x54})
	smallerModes(&e, w, h)
	detailedTiming(e[54:72], w, h, mmW, mmH)
	descriptor(e[72:90], 0xfc, "PVDRM")
	descriptor(e[90:108], 0xff, fmt.Sprintf("%dx%d", w, h))
	e[108+3] = 0x10 // an unused descriptor
	var sum byte
	for _, b := range e[:edidSize-1] {
		sum += b
	}
	e[edidSize-1] = -sum
	return e
}

// Established timings of 60 pictures a second (E-EDID 1.4, section 3.8), with their byte and bit.
var established = []struct {
	w, h uint32
	at   int
	bit  byte
}{
	{w: 640, h: 480, at: 35, bit: 1 << 5},
	{w: 800, h: 600, at: 35, bit: 1 << 0},
	{w: 1024, h: 768, at: 36, bit: 1 << 3},
}

// standard are standard timings (section 3.9), with their ratio of width and height: 16:10, 4:3, 5:4, 16:9.
// There is room for eight.
var standard = [8]struct {
	w, h  uint32
	ratio byte
}{
	{w: 1280, h: 720, ratio: 3},
	{w: 1280, h: 800, ratio: 0},
	{w: 1280, h: 1024, ratio: 2},
	{w: 1440, h: 900, ratio: 0},
	{w: 1600, h: 900, ratio: 3},
	{w: 1680, h: 1050, ratio: 0},
	{w: 1920, h: 1080, ratio: 3},
	{w: 1920, h: 1200, ratio: 0},
}

// smallerModes says which other modes there are: those that fit into the preferred one, which is
// how much of the screen there is.
func smallerModes(e *[edidSize]byte, w, h uint32) {
	fits := func(mw, mh uint32) bool { return mw <= w && mh <= h && (mw != w || mh != h) }
	for _, m := range established {
		if fits(m.w, m.h) {
			e[m.at] |= m.bit
		}
	}
	for i, m := range standard {
		d := e[38+2*i:]
		d[0], d[1] = 1, 1 // unused
		if fits(m.w, m.h) {
			d[0], d[1] = byte(m.w/8-31), m.ratio<<6 // and 60 pictures a second
		}
	}
}

// millimetres is the size of px pixels at 96 dots an inch.
func millimetres(px uint32) uint32 { return px * 254 / 960 }

// detailedTiming writes a timing with reduced blanking and about 60 pictures a
// second, fewer where the pixel clock would not fit.
func detailedTiming(d []byte, w, h, mmW, mmH uint32) {
	const (
		hBlank, hFront, hSync = 160, 48, 32
		vBlank, vFront, vSync = 30, 3, 5
	)
	clock := min((w+hBlank)*(h+vBlank)*60/10000, 0xffff) // in units of 10 kHz
	binary.LittleEndian.PutUint16(d, uint16(max(1, clock)))
	d[2], d[3], d[4] = byte(w), hBlank, byte(w>>8<<4)
	d[5], d[6], d[7] = byte(h), vBlank, byte(h>>8<<4)
	d[8], d[9] = hFront, hSync
	d[10] = vFront<<4 | vSync
	d[12], d[13], d[14] = byte(mmW), byte(mmH), byte(mmW>>8<<4|mmH>>8)
	d[17] = 0x1e // separate sync, both positive
}

// descriptor writes a text descriptor: up to 13 bytes, ended by a line feed if
// there is room, then spaces.
func descriptor(d []byte, tag byte, text string) {
	d[3] = tag
	n := copy(d[5:18], text+"\n")
	for i := 5 + n; i < 18; i++ {
		d[i] = ' '
	}
}
