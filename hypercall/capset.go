package hypercall

import (
	"encoding/binary"
	"fmt"
)

// CapsetID is the capset of the virtio-gpu device in which PVDRM announces
// itself. Linux takes ids below 64; 1 to 8 are taken by others (virtio-gpu
// specification 1.3, section 5.7.6.8, and Mesa).
const CapsetID = 48

// ResourceFlag is the flag of VIRTGPU_RESOURCE_CREATE by which a frontend marks
// pages that it grants to PVDRM, where the device also renders for the guest's
// OpenGL driver. That one uses bit 0 only.
const ResourceFlag = 1 << 31

// Version of the protocol in this package. A frontend works with a backend of
// the same major version and the same or a later minor one.
const (
	VersionMajor = 1
	VersionMinor = 0
)

// CapsetBytes is the size of an encoded Capset.
const CapsetBytes = 64

const capsetMagic = 0x4d524456505f5631 // "1V_PVDRM"

// Capset describes a backend before a session exists: the version handshake.
//
//	offset  size  field
//	0       8     magic
//	8       2     major version
//	10      2     minor version
//	12      4     reserved, 0
//	16      8     features: bit 0 FeatureCard, bit 1 FeatureWatch
//	24      4     largest ring object, bytes
//	28      4     channels of a session
//	32      4     number of the device among those of its implementation, from 0
//	36      28    reserved, 0
type Capset struct {
	Major, Minor uint16
	Features     uint64
	MaxRing      uint32 // bytes
	MaxChannels  uint32
	Device       uint32 // the number of the device that the backend serves
}

// FeatureCard says that the backend serves GPUvm's guests (hypercall/trap), and none of PVDRM.
const FeatureCard = 1 << 0

// FeatureWatch says that sessions without a context are served (DoorbellWatch).
const FeatureWatch = 1 << 1

// NewCapset returns what a backend of this tree announces for a device.
func NewCapset(device int) Capset {
	return Capset{Major: VersionMajor, Minor: VersionMinor, Features: FeatureWatch, MaxRing: MaxRingBytes, MaxChannels: MaxChannels, Device: uint32(device)}
}

// Encode returns the CapsetBytes bytes of c.
func (c Capset) Encode() []byte {
	b := make([]byte, CapsetBytes)
	binary.LittleEndian.PutUint64(b, capsetMagic)
	binary.LittleEndian.PutUint16(b[8:], c.Major)
	binary.LittleEndian.PutUint16(b[10:], c.Minor)
	binary.LittleEndian.PutUint64(b[16:], c.Features)
	binary.LittleEndian.PutUint32(b[24:], c.MaxRing)
	binary.LittleEndian.PutUint32(b[28:], c.MaxChannels)
	binary.LittleEndian.PutUint32(b[32:], c.Device)
	return b
}

// DecodeCapset decodes what a backend sent and checks that this frontend can
// work with it.
func DecodeCapset(b []byte) (Capset, error) {
	if len(b) < CapsetBytes || binary.LittleEndian.Uint64(b) != capsetMagic {
		return Capset{}, fmt.Errorf("the device has no PVDRM capset: is the backend `pvdrm backend`?")
	}
	c := Capset{
		Major:       binary.LittleEndian.Uint16(b[8:]),
		Minor:       binary.LittleEndian.Uint16(b[10:]),
		Features:    binary.LittleEndian.Uint64(b[16:]),
		MaxRing:     binary.LittleEndian.Uint32(b[24:]),
		MaxChannels: binary.LittleEndian.Uint32(b[28:]),
		Device:      binary.LittleEndian.Uint32(b[32:]),
	}
	if c.Major != VersionMajor || c.Minor < VersionMinor {
		return c, fmt.Errorf("the backend speaks protocol %d.%d, this program %d.%d: use the guest programs that came with the host's pvdrm",
			c.Major, c.Minor, VersionMajor, VersionMinor)
	}
	return c, nil
}
