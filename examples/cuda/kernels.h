// Kernels of the examples, as PTX text.
#ifndef EXAMPLES_KERNELS_H
#define EXAMPLES_KERNELS_H

// vector_add(float *a, float *b, float *c, int n): c[i] = a[i] + b[i]
// scale(float *x, float by, int n): x[i] *= by, and counts its threads in `threads`
static const char vector_ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .global .align 4 .u32 threads = 0;\n"
	".visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
	"	.reg .pred %p<2>;\n	.reg .b32 %r<6>;\n	.reg .f32 %f<4>;\n	.reg .b64 %rd<8>;\n"
	"	mov.u32 %r1, %ctaid.x;\n	mov.u32 %r2, %ntid.x;\n	mov.u32 %r3, %tid.x;\n	mad.lo.s32 %r4, %r1, %r2, %r3;\n"
	"	ld.param.u32 %r5, [n];\n	setp.ge.s32 %p1, %r4, %r5;\n	@%p1 bra DONE;\n"
	"	ld.param.u64 %rd1, [a];\n	ld.param.u64 %rd2, [b];\n	ld.param.u64 %rd3, [c];\n	mul.wide.s32 %rd4, %r4, 4;\n"
	"	add.s64 %rd5, %rd1, %rd4;\n	add.s64 %rd6, %rd2, %rd4;\n	add.s64 %rd7, %rd3, %rd4;\n"
	"	ld.global.f32 %f1, [%rd5];\n	ld.global.f32 %f2, [%rd6];\n	add.f32 %f3, %f1, %f2;\n	st.global.f32 [%rd7], %f3;\n"
	"DONE:\n	ret;\n}\n"
	".visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 n)\n{\n"
	"	.reg .pred %p<2>;\n	.reg .b32 %r<7>;\n	.reg .f32 %f<4>;\n	.reg .b64 %rd<5>;\n"
	"	mov.u32 %r1, %ctaid.x;\n	mov.u32 %r2, %ntid.x;\n	mov.u32 %r3, %tid.x;\n	mad.lo.s32 %r4, %r1, %r2, %r3;\n"
	"	ld.param.u32 %r5, [n];\n	setp.ge.s32 %p1, %r4, %r5;\n	@%p1 bra DONE;\n"
	"	mov.u64 %rd4, threads;\n	atom.global.add.u32 %r6, [%rd4], 1;\n"
	"	ld.param.u64 %rd1, [x];\n	ld.param.f32 %f1, [by];\n	mul.wide.s32 %rd2, %r4, 4;\n	add.s64 %rd3, %rd1, %rd2;\n"
	"	ld.global.f32 %f2, [%rd3];\n	mul.f32 %f3, %f2, %f1;\n	st.global.f32 [%rd3], %f3;\n"
	"DONE:\n	ret;\n}\n";

// matrix_mul(float *a, float *b, float *c, int n): c = a × b, n a multiple of 16,
// in tiles of 16 × 16 that go through shared memory
static const char matrix_ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry matrix_mul(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
	"	.reg .pred %p<3>;\n	.reg .b32 %r<32>;\n	.reg .f32 %f<8>;\n	.reg .b64 %rd<16>;\n"
	"	.shared .align 4 .b8 ta[1024];\n	.shared .align 4 .b8 tb[1024];\n"
	"	ld.param.u64 %rd1, [a];\n	ld.param.u64 %rd2, [b];\n	ld.param.u64 %rd3, [c];\n	ld.param.u32 %r1, [n];\n"
	"	mov.u32 %r2, %tid.x;\n	mov.u32 %r3, %tid.y;\n	mov.u32 %r4, %ctaid.x;\n	mov.u32 %r5, %ctaid.y;\n"
	"	shl.b32 %r6, %r5, 4;\n	add.s32 %r6, %r6, %r3;\n" // row
	"	shl.b32 %r7, %r4, 4;\n	add.s32 %r7, %r7, %r2;\n" // column
	"	mov.f32 %f1, 0f00000000;\n	mov.u32 %r8, 0;\n"
	"	shl.b32 %r9, %r3, 6;\n	shl.b32 %r10, %r2, 2;\n	add.s32 %r11, %r9, %r10;\n" // place in a tile
	"	mov.u32 %r12, ta;\n	mov.u32 %r13, tb;\n	add.s32 %r14, %r12, %r11;\n	add.s32 %r15, %r13, %r11;\n"
	"	add.s32 %r16, %r12, %r9;\n	add.s32 %r17, %r13, %r10;\n"
	"TILE:\n"
	"	add.s32 %r18, %r8, %r2;\n	mad.lo.s32 %r19, %r6, %r1, %r18;\n	mul.wide.s32 %rd4, %r19, 4;\n	add.s64 %rd5, %rd1, %rd4;\n"
	"	ld.global.f32 %f2, [%rd5];\n	st.shared.f32 [%r14], %f2;\n"
	"	add.s32 %r20, %r8, %r3;\n	mad.lo.s32 %r21, %r20, %r1, %r7;\n	mul.wide.s32 %rd6, %r21, 4;\n	add.s64 %rd7, %rd2, %rd6;\n"
	"	ld.global.f32 %f3, [%rd7];\n	st.shared.f32 [%r15], %f3;\n"
	"	bar.sync 0;\n	mov.u32 %r22, 0;\n	mov.u32 %r23, %r16;\n	mov.u32 %r24, %r17;\n"
	"STEP:\n"
	"	ld.shared.f32 %f4, [%r23];\n	ld.shared.f32 %f5, [%r24];\n	fma.rn.f32 %f1, %f4, %f5, %f1;\n"
	"	add.s32 %r23, %r23, 4;\n	add.s32 %r24, %r24, 64;\n	add.s32 %r22, %r22, 1;\n"
	"	setp.lt.s32 %p1, %r22, 16;\n	@%p1 bra STEP;\n"
	"	bar.sync 0;\n	add.s32 %r8, %r8, 16;\n	setp.lt.s32 %p2, %r8, %r1;\n	@%p2 bra TILE;\n"
	"	mad.lo.s32 %r25, %r6, %r1, %r7;\n	mul.wide.s32 %rd8, %r25, 4;\n	add.s64 %rd9, %rd3, %rd8;\n	st.global.f32 [%rd9], %f1;\n"
	"	ret;\n}\n";

#endif
