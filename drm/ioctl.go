package drm

import "fmt"

// Request is an ioctl request number as Linux encodes it on x86-64
// (include/uapi/asm-generic/ioctl.h): direction in bits 31:30, size of the
// argument in bits 29:16, type in bits 15:8, number in bits 7:0.
type Request uint32

// Directions of a Request, seen from the program.
const (
	dirWrite = 1
	dirRead  = 2
)

// typeDRM is the ioctl type of all DRM drivers (DRM_IOCTL_BASE).
const typeDRM = 'd'

// commandBase is the first ioctl number of a driver's own (DRM_COMMAND_BASE).
const commandBase = 0x40

// MaxArgument bounds the argument struct of any ioctl in this package, in bytes.
const MaxArgument = 256

func ioc(dir, nr, size uint32) Request {
	return Request(dir<<30 | size<<16 | typeDRM<<8 | nr)
}

func iow(nr, size uint32) Request  { return ioc(dirWrite, nr, size) }
func iowr(nr, size uint32) Request { return ioc(dirRead|dirWrite, nr, size) }

// Number is the ioctl number within the DRM type.
func (r Request) Number() uint32 { return uint32(r) & 0xff }

// Size is the size of the argument struct in bytes.
func (r Request) Size() int { return int(uint32(r) >> 16 & 0x3fff) }

// IsDRM reports whether the request is of type 'd'.
func (r Request) IsDRM() bool { return uint32(r)>>8&0xff == typeDRM }

// Reads reports whether the kernel reads the argument from the program.
func (r Request) Reads() bool { return uint32(r)>>30&dirWrite != 0 }

// Writes reports whether the kernel writes the argument back to the program.
func (r Request) Writes() bool { return uint32(r)>>30&dirRead != 0 }

func (r Request) String() string {
	if e, ok := Lookup(r); ok {
		return e.Name
	}
	return fmt.Sprintf("ioctl %d (0x%08x)", r.Number(), uint32(r))
}
