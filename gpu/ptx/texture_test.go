package ptx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTexel(t *testing.T) {
	f := load(t, `
		tex.a2d.v4.f32.f32 {%f1, %f2, _, %f3}, [%rd1, {%r1, %f4, %f5, %f5}];
		.reg .v2 .f32 at;
		tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, at];
		tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%rd1, %r5];
		suld.b.2d.b8.trap {%r1}, [%rd1, /* ; */ {%r2, %r3}];
		sust.b.3d.v2.b32.zero [%rd1, {%r1, %r2, %r3, %r3}], {%r4, %r5};
		tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], 0f3F800000;
		tex.grad.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2, %f3, %f3}], {%f1, %f2, %f3, %f3}, {%f1, %f2, %f3};
		tex.base.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, at];
		tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, at], at, {%f1, %f2};
		txq.level.width.b32 %r1, [%rd1], %r2;
		sust.p.2d.v4.b32.trap [%rd1, {%r1, %r2}], {%r1, %r2, %r3, %r4};
		sured.b.add.2d.u32.trap [%rd1, {%r1, %r2}], %r3;
		tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5, %r5, %r5, %r6}];
		tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2, %f3, %f3}], {%r1, -2, %r3, %r3};
		tld4.g.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}] , /* here */ {%r1, %r2};
		tex.level.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}], %r2, {%r3};`)
	list := instrs(f)
	for _, i := range list {
		require.NotEqual(t, OpRaw, i.Op, i.Raw)
	}
	for n, coordinates := range []int{4, 2, 1, 2} {
		require.Equal(t, OperandTexel, list[n].Args[1].Kind)
		require.Len(t, list[n].Args[1].Coordinates(), coordinates)
	}
	require.Equal(t, OperandTexel, list[4].Args[0].Kind)
	require.Len(t, list[3].Args[0].Elems, 1)
	require.Equal(t, GeometryArray2D, list[0].Mods.Geometry)
	for _, i := range list[len(list)-3:] {
		require.Equal(t, OperandVector, i.Offset().Kind, i.Name())
	}
	require.Nil(t, list[0].Offset())
	require.Equal(t, "at", list[1].Args[1].Coordinates()[1].Name)
	require.EqualValues(t, 2, list[1].Args[1].Coordinates()[1].Comp)
}

// TestOtherTextures are instructions that the table does not describe; their text is kept.
func TestOtherTextures(t *testing.T) {
	for _, text := range []string{
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f1, %f2}]",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%r1, %r2}, %f5",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], %f5",
		"tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], %f5, %f5",
		"tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f5, %f5}, {%f5, %f5}, {%r1, %r2}",
		"tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2, %r2, %r2}]",
		"suq.memory_layout.b32 %r1, [%rd1]",
		"sured.p.add.2d.b32.trap [%rd1, {%r1, %r2}], %r3",
	} {
		i := instrs(load(t, text+";"))[0]
		require.Equal(t, OpRaw, i.Op, text)
		require.Equal(t, text, i.Raw)
	}
}

// The directive .tex declares a texture reference.
func TestTexDirective(t *testing.T) {
	m, err := Load("k.ptx", []byte(".version 1.4\n.target sm_10\n.tex .u64 old;\n.entry k() { .reg .f32 %f<5>; tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [old, {%f1, %f2, %f3, %f4}]; }"))
	require.NoError(t, err)
	v := m.Directives[0].(*Var)
	require.Equal(t, TexRef, v.Type)
	require.Equal(t, SpaceGlobal, v.Space)
}

func TestBadTexels(t *testing.T) {
	for text, want := range map[string]string{
		"tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f1}, {%f1, %f2};":    "has 1 numbers, expected 2",
		"tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f1, _}, {%f1, %f2};": "cannot be _",
		"tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f1, %f2};":           "3 operands",
		"tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f1, %f2};":          "cannot be a vector",
		"tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];":                      "2 operands",
		"sured.b.add.2d.u32.trap [%rd1, {%r1, %r2}], %rd3;":                                      "expected .u32",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%r1};":                     "has 1 numbers, expected 2",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f1, %r1};":                "expected .s32",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1}];":                                 "has 1 coordinates, expected 2",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%rd1, %r2}];":                           "expected .f32",
		"tex.a1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];":                           "expected .u32",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%r1, {%f1, %f2}];":                             "is no handle of 64 bits",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, _}];":                              "cannot be _",
		"tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, _];":                                     "cannot be _",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3}, [%rd1, {%f1, %f2}];":                                 "vector of 4 elements",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [nothing, {%f1, %f2}];":                         "unknown symbol",
		"tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1];":                                        "with coordinates",
		"ld.global.u32 %r1, [%rd1, [%rd1, [%rd1]]];":                                             "near", "ld.global.u32 %r1, [%rd1, {[%rd1, {%r1}]}];": "near",
		"txq.width.b32 %r1, [%rd1+8];":                                                 "in brackets",
		"ld.global.u32 %r1, [%rd1, {%r1}];":                                            "address in brackets",
		"suld.b.2d.v2.b16.trap {%r1, %r2}, [%rd1, {%f1, %r2}];":                        "expected .s32",
		"tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [k, {%f1}];":                          "unknown symbol",
		"tex.1d.v4.f32.f32 {%rd1, %f2, %f3, %f4}, [%rd1, {%f1}];":                      "expected .f32",
		"suld.b.1d.v4.b64.trap {%rd1, %rd2, %rd3, %rd4}, [%rd1, {%r1}];":               "wider than 16 bytes",
		"sust.b.1d.b32.trap [%rd1, {%r1}], _;":                                         "cannot be _",
		"tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2, %f3, %f3, %f3}];": "expected 3",
	} {
		_, err := Load("f", []byte(kernel(text)))
		require.ErrorContains(t, err, want, text)
	}
}
