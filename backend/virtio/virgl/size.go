package virgl

import (
	"fmt"

	"pvdrm/backend/virtio/virtgpu"
)

// targetBuffer is the target of resources that are bytes (PIPE_BUFFER).
const targetBuffer = 0

// texelBytes has the formats that programs use most, by their numbers in
// virgl_hw.h, which are the same as those of Gallium. The others have at most
// maxTexel bytes.
var texelBytes = map[uint32]uint64{
	1: 4, 2: 4, 3: 4, 4: 4, // B8G8R8A8, B8G8R8X8, A8R8G8B8, X8R8G8B8
	5: 2, 6: 2, 7: 2, 8: 4, // B5G5R5A1, B4G4R4A4, B5G6R5, R10G10B10A2
	9: 1, 10: 1, 11: 1, 12: 2, // L8, A8, I8, L8A8
	16: 2, 17: 4, 18: 4, 19: 4, 20: 4, 21: 4, 22: 4, 23: 1, // Z16, Z32, Z24S8 and the like, S8
	28: 4, 29: 8, 48: 2, 49: 4, 51: 8, // R32F, R32G32F, R16, R16G16, R16G16B16A16
	64: 1, 65: 2, 67: 4, 68: 4, 74: 1, 75: 2, 77: 4, // R8, R8G8, R8G8B8A8, X8B8G8R8; signed
	91: 2, 92: 4, 94: 8, // R16F, R16G16F, R16G16B16A16F
	95: 1, 98: 4, 99: 4, 100: 4, 101: 4, 104: 4, // sRGB
	105: 1, 106: 1, 107: 1, 108: 1, // DXT, in blocks
	124: 4, 125: 4, 126: 8, 134: 4, // R11G11B10F, R9G9B9E5, Z32FS8X24, R8G8B8X8
}

const maxTexel = 16 // bytes

// maxResource bounds the memory of one resource, in bytes.
const maxResource = 1 << 34

// sizeOf is about how much memory a resource takes on the host, in bytes.
func sizeOf(a virtgpu.Args) (uint64, error) {
	n := uint64(1)
	factors := []uint32{a.Width, a.Height, a.Depth, a.ArraySize, a.Samples}
	if a.Target == targetBuffer {
		factors = factors[:1]
	} else if b, ok := texelBytes[a.Format]; ok {
		n = b
	} else {
		n = maxTexel
	}
	for _, f := range factors {
		// Both are below 2^35, so the product does not overflow.
		if n *= uint64(max(f, 1)); n > maxResource {
			return 0, fmt.Errorf("more than %d bytes, which is too large for a resource", maxResource)
		}
	}
	if a.LastLevel > 0 {
		n += (n + 2) / 3 // each level has a quarter of the one before it
	}
	return n, nil
}
