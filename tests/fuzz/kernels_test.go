package fuzz

// kernelNames are the kernels of the modules below, and one that there is not.
var kernelNames = []string{"forever", "walk", "wild", "atoms", "share", "shout", "deep", "copy", "chase", "missing"}

// modules are sources that load. Their kernels do to memory what they are told, so the
// addresses may be hostile.
var modules = []string{
	preamble + entry("forever", `
	mul.wide.u32 %d2, %r0, 4; add.u64 %d0, %d0, %d2;
L:	st.global.u32 [%d0], %r1; ld.global.u32 %r1, [%d0]; add.u32 %r1, %r1, 1;
	bra L;`) + entry("walk", `
	mul.wide.u32 %d2, %r0, 4; add.u64 %d0, %d0, %d2; and.b64 %d1, %d1, 0xfff;
L:	st.global.u32 [%d0], %r0; add.u64 %d0, %d0, 1024; sub.u64 %d1, %d1, 1;
	setp.gt.s64 %p0, %d1, 0; @%p0 bra L;`) + entry("wild", `
	cvt.u64.u32 %d2, %r0; mul.lo.u64 %d2, %d2, %d1; add.u64 %d0, %d0, %d2;
	ld.v2.u32 {%r1, %r2}, [%d0+-8]; st.v4.u32 [%d0], {%r1, %r2, %r0, %r0};`),
	preamble + entry("atoms", `
	mov.u32 %r3, 100;
L:	atom.global.add.u32 %r1, [%d0], 1; red.global.max.u64 [%d0+8], %d1; atom.cas.b32 %r2, [%d0+16], %r1, %r0;
	sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra L;`) + `.shared .align 16 .b8 own[512];` + entry("share", `
	shl.b32 %r1, %r0, 2; mov.u32 %r2, own; add.u32 %r2, %r2, %r1; cvt.u32.u64 %r3, %d1; add.u32 %r2, %r2, %r3;
	st.shared.u32 [%r2], %r0; bar.sync 0; ld.shared.u32 %r1, [%r2]; st.global.u32 [%d0], %r1;`) + entry("copy", `
	mul.wide.u32 %d2, %r0, 8; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
	ld.global.u64 %d3, [%d1]; st.global.u64 [%d0], %d3;`),
	preamble + `.global .align 8 .u64 variable[64] = {1, 2, 3};
.const .align 4 .u32 fixed = 7;
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[8] = {104, 105, 32, 37, 100, 10, 0};` + entry("shout", `
	.local .align 8 .b8 values[8]; .param .b64 a; .param .b64 b; .param .b32 c;
	st.local.u32 [values], %r0; mov.u64 %d2, text; cvta.global.u64 %d2, %d2; mov.u64 %d3, values; cvta.local.u64 %d3, %d3;
	st.param.b64 [a], %d2; st.param.b64 [b], %d3; call (c), vprintf, (a, b);
	st.global.u64 [variable], %d0;`) + `
.func down(.reg .u64 %n) { .reg .pred %p; setp.eq.u64 %p, %n, 0; @%p ret; sub.u64 %n, %n, 1; call down, (%n); }` + entry("deep", `
	call down, (%d1);`) + entry("chase", `
L:	ld.u64 %d0, [%d0]; setp.ne.u64 %p0, %d0, 0; @%p0 bra L;`),
}

const preamble = ".version 7.0\n.target sm_70\n.address_size 64\n"

// entry is a kernel that has its parameters in %d0 and %d1 and its thread in %r0.
func entry(name, body string) string {
	return "\n.visible .entry " + name + `(.param .u64 p, .param .u64 n)
{
	.reg .pred %p<2>; .reg .u32 %r<4>; .reg .u64 %d<4>;
	ld.param.u64 %d0, [p]; ld.param.u64 %d1, [n]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0; mov.u32 %r2, 0;` + body + "\n\tret;\n}\n"
}
