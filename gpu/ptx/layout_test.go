package ptx

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	m, err := Load("f", []byte(head+`
		.global .v2 .s16 a[2][2] = {{{1, 2}, {3}}, {{4, 5}}};
		.global .u8 b[] = {1, 2, 3};
		.global .align 16 .f32 c = 0d3FF0000000000000;
		.extern .shared .b8 d[];
		.global .u64 e[3] = {c, generic(c)+8};`))
	require.NoError(t, err)
	v := func(n int) *Var { return m.Directives[n].(*Var) }
	places := func(v *Var) (offsets []uint64, values []uint64) {
		v.EachInit(func(offset uint64, n *Init) {
			offsets, values = append(offsets, offset), append(values, n.Imm(v.Type))
		})
		return
	}
	require.EqualValues(t, 16, v(0).Size())
	require.EqualValues(t, 4, v(0).Alignment())
	offsets, values := places(v(0))
	require.Equal(t, []uint64{0, 2, 4, 8, 10}, offsets)
	require.Equal(t, []uint64{1, 2, 3, 4, 5}, values)
	require.EqualValues(t, 3, v(1).Size())
	require.EqualValues(t, 16, v(2).Alignment())
	_, values = places(v(2))
	require.Equal(t, []uint64{0x3f800000}, values)
	require.Zero(t, v(3).Size())
	offsets, values = places(v(4))
	require.Equal(t, []uint64{0, 8}, offsets)
	require.Equal(t, []uint64{0, 8}, values)
}

func TestImm(t *testing.T) {
	for _, c := range []struct {
		kind  ImmKind
		value uint64
		typ   Type
		want  uint64
	}{
		{ImmInt, math.MaxUint64, U16, 0xffff},
		{ImmInt, math.MaxUint64, S8, 0xff},
		{ImmInt, math.MaxUint64, B64, math.MaxUint64},
		{ImmInt, 6, Pred, 1},
		{ImmInt, 0, Pred, 0},
		{ImmF32, 0x3fc00000, F32, 0x3fc00000},
		{ImmF32, 0x3fc00000, B32, 0x3fc00000},
		{ImmF32, 0x3fc00000, F64, 0x3ff8000000000000},
		{ImmF64, 0x3ff8000000000000, F64, 0x3ff8000000000000},
		{ImmF64, 0x3ff8000000000000, F32, 0x3fc00000},
		{ImmF64, math.Float64bits(0.1), F32, uint64(math.Float32bits(0.1))},
		{ImmF64, math.Float64bits(1e300), F32, 0x7f800000},
	} {
		o := Operand{Kind: OperandImm, ImmKind: c.kind, Value: c.value}
		require.Equal(t, c.want, o.Imm(c.typ), "%+v", c)
	}
}
