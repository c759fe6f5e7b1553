package softgpu

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// The contexts of a device have a number of mappings together. What cuts one in two needs
// one more; what takes one away frees it.
func TestMappingsAreBounded(t *testing.T) {
	d, err := New(Config{})
	require.NoError(t, err)
	defer d.Close()
	window := d.Properties().VRAM
	a, err := d.NewContext("a")
	require.NoError(t, err)
	b, err := d.NewContext("b")
	require.NoError(t, err)
	m, err := a.NewVRAM(3 * hw.SmallPage)
	require.NoError(t, err)
	other, err := b.NewVRAM(hw.SmallPage)
	require.NoError(t, err)
	require.NoError(t, a.Map(window.Base, m, 0, 3*hw.SmallPage, gpu.ProtRead))
	va := window.Base + 3*hw.SmallPage
	for range maxMappings - 1 {
		require.NoError(t, a.Map(va, m, 0, hw.SmallPage, gpu.ProtRead))
		va += hw.SmallPage
	}
	require.ErrorIs(t, b.Map(window.Base, other, 0, hw.SmallPage, gpu.ProtRead), gpu.ErrNoMemory)
	require.ErrorIs(t, a.Unmap(window.Base+hw.SmallPage, hw.SmallPage), gpu.ErrNoMemory, "it would be two")
	require.NoError(t, a.Unmap(window.Base, hw.SmallPage), "it is still one")
	require.NoError(t, a.Unmap(va-hw.SmallPage, hw.SmallPage))
	require.NoError(t, b.Map(window.Base, other, 0, hw.SmallPage, gpu.ProtRead))
	require.NoError(t, a.Close())
	require.EqualValues(t, 1, d.(*device).mappings.n.Load())
	require.NoError(t, other.Close())
	require.Zero(t, d.(*device).mappings.n.Load())
}

// What contexts keep of their output is bounded for all of them together.
func TestOutputIsBounded(t *testing.T) {
	var all atomic.Int64
	n := 256
	if testing.Short() {
		n = 64
	}
	outputs := make([]output, n)
	line := strings.Repeat("x", 1000) + "\n"
	for i := range outputs {
		outputs[i].all = &all
		for range 3000 {
			outputs[i].print(line)
		}
		outputs[i].print("last")
		require.True(t, strings.HasSuffix(string(outputs[i].text), "last"))
	}
	require.Less(t, all.Load(), int64(10<<20), "see file.PrivateBytes")
	require.GreaterOrEqual(t, len(outputs[0].text), outputBytes, "who was first keeps all of it")
	for i := range outputs {
		outputs[i].close()
	}
	require.Zero(t, all.Load())
}
