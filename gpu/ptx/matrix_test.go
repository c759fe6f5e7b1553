package ptx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadFragments are matrices with registers that their shape does not have.
func TestBadFragments(t *testing.T) {
	for text, want := range map[string]string{
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4};":                                               "operand 1 has 3 registers, expected 4",
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, %r1, {%f1, %f2, %f3, %f4};":                                                 "operand 3 must be a vector of 2 registers",
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %rd2, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4};":                                         "expected .b32",
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, 0, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4};":                                            "must be a register",
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, _, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4};":                                            "must be a register",
		"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4}, %r1, 0;":                               "operand 2 has 4 registers, expected 2",
		"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r1, %r2}, {%f1, %f2, %f3, %f4}, 5, 0;":                                           "operand 5 must be a register",
		"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r1, %r2}, {%f1, %f2, %f3, %f4}, %r1, 4;":                                         "operand 6 must be from 0 to 3",
		"mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%f1, %f2, %f3, %f4}, %r1, 2;":                   "operand 6 must be from 0 to 1",
		"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%f1, %f2, %f3, %f4}, %r1, 1;": "operand 6 must be from 0 to 0",
		"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, %rd1, %p1, 1, 1, 0;":                                                             "operand 1 has 3 registers, expected 4",
		"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, {%r1, %r2, %r3}, %rd1, %p1, 1, 1, 0;":                                                                       "operand 2 has 3 registers, expected 4",
		"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %r1, %rd1, %p1, 1, 1, 0, 0;":                                                                                "expected .b64",
		"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %rd1, %rd1, %p1, 1, 1, 0;":                                                                                  "operand 2 is transposed by a constant of its own",
		"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, {%r1, %r2, %r3, %r4}, %rd1, %p1, 1, 1, 0, 0;":                                                               "operand 2 is transposed by a constant of its own",
		"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %rd1, %rd1, %p1, 1, 2, 0, 0;":                                                                               "operand 6 must be 1 or -1",
		"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %rd1, %rd1, %p1, 1, 1, 0, 2;":                                                                               "operand 8 must be from 0 to 1",
		"wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, %rd1, %rd1, %r1, 1, 1, 0, 0;":                                                                               "expected .pred",
		"wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {%r1, %r2}, %rd1, %rd1, %r1, 2, %p1, 1, 1, 0, 0;":                                                                    "operand 5 must be from 0 to 1",
		"wgmma.mma_async.sp.sync.aligned.m64n8k64.f16.e4m3.e4m3 {%r1, %r2}, %rd1, %rd1, %r1, 1, %p1, 1, 1;":                                                                        "operand 5 must be from 0 to 0",
		"wgmma.wait_group.sync.aligned -1;":                                             "must be from 0 to",
		"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];":                        "has 1 registers, expected 2",
		"wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%rd1], {%f1, %f2};":           "expected .f64",
		"wmma.load.a.sync.aligned.row.m16n16k8.global.tf32 {%r1, %r2, %r3, %r4}, %rd1;": "address in brackets",
	} {
		_, err := Load("f", []byte(kernel(text)))
		require.ErrorContains(t, err, want, text)
	}
}

// TestOtherMatrices are instructions that the table does not describe; their text is kept.
func TestOtherMatrices(t *testing.T) {
	for _, text := range []string{
		"mma.sp.sync.aligned.m16n8k64.row.col.f16.e4m3.e4m3.f16 {%r1, %r2}, {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, %r1, 0x0",
		"mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e3m2.e2m3.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f1, %f2, %f3, %f4}",
		"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r1, %r2}, {%f1, %f2, %f3, %f4, %f1, %f2, %f3, %f4}",
		"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 {%r1}, {%r1}, {%r1}, {%r1}",
		"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r1}, %rd1, %rd1, %p1",
		"wgmma.mma_async.sync.aligned.m64n264k16.f32.f16.f16 {%f1}, %rd1, %rd1, %p1, 1, 1, 0, 0",
		"wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.xor.popc {%r1, %r2, %r3, %r4}, %rd1, %rd1, %p1",
		"ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r3]",
	} {
		i := instrs(load(t, text+";"))[0]
		require.Equal(t, OpRaw, i.Op, text)
		require.Equal(t, text, i.Raw)
	}
}
