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
		{kind: ImmInt, value: math.MaxUint64, typ: U16, want: 0xffff},
		{kind: ImmInt, value: math.MaxUint64, typ: S8, want: 0xff},
		{kind: ImmInt, value: math.MaxUint64, typ: B64, want: math.MaxUint64},
		{kind: ImmInt, value: 6, typ: Pred, want: 1},
		{kind: ImmInt, value: 0, typ: Pred, want: 0},
		{kind: ImmF32, value: 0x3fc00000, typ: F32, want: 0x3fc00000},
		{kind: ImmF32, value: 0x3fc00000, typ: B32, want: 0x3fc00000},
		{kind: ImmF32, value: 0x3fc00000, typ: F64, want: 0x3ff8000000000000},
		{kind: ImmF64, value: 0x3ff8000000000000, typ: F64, want: 0x3ff8000000000000},
		{kind: ImmF64, value: 0x3ff8000000000000, typ: F32, want: 0x3fc00000},
		{kind: ImmF64, value: math.Float64bits(0.1), typ: F32, want: uint64(math.Float32bits(0.1))},
		{kind: ImmF64, value: math.Float64bits(1e300), typ: F32, want: 0x7f800000},
	} {
		o := Operand{Kind: OperandImm, ImmKind: c.kind, Value: c.value}
		require.Equal(t, c.want, o.Imm(c.typ), "%+v", c)
	}
}
