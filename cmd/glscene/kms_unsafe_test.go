package main

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestLayout compares the structs with the sizes that are part of the kernel's
// request numbers.
func TestLayout(t *testing.T) {
	for request, size := range map[uintptr]uintptr{
		ioctlGetResources: unsafe.Sizeof(modeResources{}), // sizes only, no pointers
		ioctlSetCRTC:      unsafe.Sizeof(modeCRTC{}),
		ioctlGetEncoder:   unsafe.Sizeof(modeEncoder{}),
		ioctlGetConnector: unsafe.Sizeof(modeConnector{}),
		ioctlAddFB:        unsafe.Sizeof(modeFB{}),
		ioctlPageFlip:     unsafe.Sizeof(modeFlip{}),
		ioctlCursor:       unsafe.Sizeof(modeCursor{}),
		ioctlCreateDumb:   unsafe.Sizeof(modeDumb{}),
		ioctlMapDumb:      unsafe.Sizeof(modeMap{}),
	} {
		require.Equal(t, request>>16&0x3fff, size, "%#x", request)
	}
	require.Equal(t, uintptr(68), unsafe.Sizeof(modeInfo{}))
}
