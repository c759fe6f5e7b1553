package ptx_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec"
	"pvdrm/tests/ptx/internal/fixture"
)

// placesKernel makes a module of the body of a kernel, behind what precedes it.
func placesKernel(before, body string) string {
	return ".version 8.3\n.target sm_90\n.address_size 64\n" + before + `
.visible .entry k(.param .u64 p)
{
	.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %d<8>;
	ld.param.u64 %d0, [p];
` + body + "\nret;\n}\n"
}

// placeIndex computes the number of the block in its grid, x fastest, in %r9.
const placeIndex = `
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y; mov.u32 %r6, %nctaid.z;
mad.lo.u32 %r9, %r3, %r5, %r2; mad.lo.u32 %r9, %r9, %r4, %r1;
`

// placeStore writes six registers to the block's record.
const placeStore = `
mul.lo.u32 %r10, %r9, 32; cvt.u64.u32 %d1, %r10; add.u64 %d1, %d1, %d0;
st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%d1+16], {%r5, %r6};
`

// Sources whose blocks write where they are, each in another way.
var places = map[string]string{
	"registers": placesKernel("", placeIndex+placeStore),
	"16 bits": placesKernel("", placeIndex+`
mov.u16 %h1, %ctaid.x; cvt.u32.u16 %r1, %h1; cvt.u32.u16 %r2, %ctaid.y; cvt.u32.u32 %r3, %ctaid.z; mov.b16 %h2, %nctaid.x; cvt.u32.u16 %r4, %h2;`+placeStore),
	"clusters of one": placesKernel("", placeIndex+`
mov.u32 %r1, %clusterid.x; mov.u32 %r2, %clusterid.y; mov.u32 %r3, %clusterid.z;
mov.u32 %r4, %nclusterid.x; mov.u32 %r5, %nclusterid.y; mov.u32 %r6, %nclusterid.z;`+placeStore),
	"functions": placesKernel(`
.func (.reg .b32 o) inner(.param .b32 which);
.func (.reg .b32 o) outer(.reg .b32 which, .reg .b32 depth)
{
	.reg .pred %q; .reg .b32 %n;
	setp.eq.u32 %q, depth, 0;
	@%q bra last;
	sub.u32 %n, depth, 1;
	call.uni (o), outer, (which, %n);
	ret;
last:
	.param .b32 w;
	st.param.b32 [w], which;
	call.uni (o), inner, (w);
	ret;
}
.func (.reg .b32 o) plain(.reg .b32 a) { mov.b32 o, a; ret; }
.func (.reg .b32 o) inner(.param .b32 which)
{
	.reg .pred %q; .reg .b32 %w;
	ld.param.b32 %w, [which];
	mov.u32 o, %ctaid.x;
	setp.eq.u32 %q, %w, 1; @%q mov.u32 o, %ctaid.y;
	setp.eq.u32 %q, %w, 2; @%q mov.u32 o, %ctaid.z;
	setp.eq.u32 %q, %w, 3; @%q mov.u32 o, %nctaid.x;
	call.uni (o), plain, (o);
	ret;
}`, placeIndex+`
call.uni (%r1), outer, (0, 2); call.uni (%r2), outer, (1, 1); call.uni (%r3), outer, (2, 0); call.uni (%r4), outer, (3, 3);`+placeStore),
}

// A kernel in parts of any size sees the blocks of the whole grid, once each.
func TestDividedPlaces(t *testing.T) {
	for name, source := range places {
		for _, grid := range []string{"1", "7", "1,5,3", "3,4,5"} {
			f, err := fixture.Parse(name, []byte("//! out p 60 u32 u32 u32 u32 u32 u32 u32 u32\n//! run k grid "+grid+" block 32 args p\n"+source))
			require.NoError(t, err)
			want, err := runExec(f, exec.NativeNever, 1)
			require.NoError(t, err)
			for most := uint64(1); most <= 60; most += 1 + most/4 {
				got, divided, err := runDivided(f, most)
				require.NoError(t, err)
				require.Equal(t, grid != "1", divided, "%s: %v", name, split(t, f.Source))
				require.Equal(t, want, got, "%s, grid %s in parts of %d", name, grid, most)
			}
		}
	}
}
