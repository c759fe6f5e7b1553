package ptx_test

import (
	"fmt"

	"pvdrm/gpu/tensormap"
	"pvdrm/tests/ptx/internal/fixture"
)

// tensorMap is the descriptor of a fixture's tensor map over a buffer at an address.
func tensorMap(t *fixture.Tensor, address uint64) ([]byte, error) {
	m := tensormap.Map{
		Im2col: t.Box == nil, Type: tensormap.Type(t.Type), Rank: len(t.Dim), Base: address + t.Offset,
		Channels: t.Channels, Pixels: t.Pixels, Interleave: tensormap.Interleave(t.Interleave), Swizzle: tensormap.Swizzle(t.Swizzle),
		Promotion: uint8(t.Promotion), NaN: t.Fill != 0,
	}
	copy(m.Dim[:], t.Dim)
	copy(m.Stride[1:], t.Stride)
	copy(m.Step[:], t.Step)
	copy(m.Box[:], t.Box)
	copy(m.Lower[:], t.Lower)
	copy(m.Upper[:], t.Upper)
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	var b [tensormap.Size]byte
	m.Encode(&b)
	return b[:], nil
}
