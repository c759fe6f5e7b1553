package nvml

import (
	"encoding/binary"
	"strings"

	"pvdrm/internal/progmem"
)

// deviceHandle is the nvmlDevice_t of the first device, and those of the others follow. They look
// like pointers and are none.
const (
	deviceHandle = 0x5056_4d4c_0010
	handleStep   = 16
)

// call is one call of an entry point.
type call struct {
	lib     *Library
	args    *[MaxArgs]uint64
	devices []*device // nil before nvmlInit
	*device           // the first that an argument names, or else the first there is
	peer    *device   // the second that an argument names; nil if none does
	driver  string
}

// The ABI leaves the upper half of a 32-bit argument undefined, so it is cut off.
func (c *call) u32(i int) uint32 { return uint32(c.args[i]) }

// write copies b to the address in argument i.
func (c *call) write(i int, b []byte) error { return c.lib.cfg.Memory.Write(c.args[i], b) }

// read copies n bytes from the address in argument i.
func (c *call) read(i, n int) ([]byte, error) {
	b := make([]byte, n)
	return b, c.lib.cfg.Memory.Read(b, c.args[i])
}

// set32 writes a number to the address in argument i.
func (c *call) set32(i int, v uint32) error {
	return c.write(i, binary.LittleEndian.AppendUint32(nil, v))
}

// set64 is set32 for a number of 64 bits.
func (c *call) set64(i int, v uint64) error {
	return c.write(i, binary.LittleEndian.AppendUint64(nil, v))
}

// read32 reads a number at the address in argument i.
func (c *call) read32(i int) (uint32, error) {
	b, err := c.read(i, 4)
	return binary.LittleEndian.Uint32(b), err
}

// setText writes a text with its zero byte to the buffer in argument i, whose size is argument i+1.
func (c *call) setText(i int, s string) error {
	if room := c.u32(i + 1); uint64(room) < uint64(len(s))+1 {
		return fail(ErrInsufficientSize, "room for %d bytes; %q has %d and a zero byte", room, s, len(s))
	}
	return c.write(i, append([]byte(s), 0))
}

// maxText bounds the ids of devices that programs give.
const maxText = 4096

// text reads the string in argument i.
func (c *call) text(i int) (string, error) {
	b, err := progmem.ReadString(c.lib.cfg.Memory, c.args[i], maxText)
	return string(b), err
}

// version checks the version of the struct in argument i, which begins with it: the size of the
// struct, and the number of the version in the upper eight bits.
func (c *call) version(i, size int, number uint32) error {
	got, err := c.read32(i)
	if err != nil {
		return err
	}
	if want := uint32(size) | number<<24; got != want {
		return fail(ErrVersionMismatch, "the struct has version 0x%x, not 0x%x", got, want)
	}
	return nil
}

// fixedText is a text in a field of n bytes.
func fixedText(s string, n int) []byte {
	return append([]byte(s), strings.Repeat("\x00", n-len(s))...)
}

// put32 and put64 append numbers to a struct.
func put32(b []byte, v ...uint32) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

func put64(b []byte, v ...uint64) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}
