package nvidia

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The driver reads these structs; their sizes are those of cuda.h on x86-64.
func TestLayouts(t *testing.T) {
	require.EqualValues(t, 32, unsafe.Sizeof(allocationProp{}))
	require.EqualValues(t, 8, unsafe.Offsetof(allocationProp{}.locationKind))
	require.EqualValues(t, 12, unsafe.Sizeof(accessDesc{}))
	require.EqualValues(t, 8, unsafe.Offsetof(accessDesc{}.access))
}
