// Questions about texture and surface references of the driver API.
#pragma once
#include "ask.h"

static const char referring[] = HEADER ".global .texref t;\n.global .surfref s;\n"
	".visible .entry k(.param .u64 o)\n{\n\t.reg .u64 %o;\n\t.reg .f32 %f<4>;\n\tld.param.u64 %o, [o];\n"
	"\ttex.1d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [t, {1}];\n\tst.global.f32 [%o], %f0;\n\tret;\n}\n";

static struct { void *module, *t, *s, *k; u64 out; } of_ref;

// state_of_reference asks all that a reference can be asked.
static void state_of_reference(const char *when)
{
	void *x;
	u64 p;
	int r, a = 9, b = 9;
	unsigned flags = 9;
	float low = 9, high = 9, border[4] = {9, 9, 9, 9};
	r = CALL(cuTexRefGetFormat, &a, &b, of_ref.t);
	printf("ref-format-%s %d %d %d\n", when, r, a, b);
	r = CALL(cuTexRefGetFlags, &flags, of_ref.t);
	printf("ref-flags-%s %d %u\n", when, r, flags);
	for (int dim = 0; dim < 4; dim++) {
		a = 9;
		r = CALL(cuTexRefGetAddressMode, &a, of_ref.t, dim);
		printf("ref-address-mode-%d-%s %d %d\n", dim, when, r, a);
	}
	r = CALL(cuTexRefGetFilterMode, &a, of_ref.t);
	printf("ref-filter-%s %d %d\n", when, r, a);
	r = CALL(cuTexRefGetMipmapFilterMode, &a, of_ref.t);
	printf("ref-mip-filter-%s %d %d\n", when, r, a);
	r = CALL(cuTexRefGetMipmapLevelBias, &low, of_ref.t);
	printf("ref-bias-%s %d %g\n", when, r, low);
	printf("ref-clamp-%s %d", when, CALL(cuTexRefGetMipmapLevelClamp, &low, &high, of_ref.t));
	printf(" %g %g\n", low, high);
	r = CALL(cuTexRefGetMaxAnisotropy, &a, of_ref.t);
	printf("ref-anisotropy-%s %d %d\n", when, r, a);
	printf("ref-border-%s %d", when, CALL(cuTexRefGetBorderColor, border, of_ref.t));
	printf(" %g %g %g %g\n", border[0], border[1], border[2], border[3]);
	printf("ref-address-%s %d\n", when, CALL(cuTexRefGetAddress_v2, &p, of_ref.t));
	printf("ref-array-%s %d\n", when, CALL(cuTexRefGetArray, &x, of_ref.t));
	printf("ref-mipmapped-%s %d\n", when, CALL(cuTexRefGetMipmappedArray, &x, of_ref.t));
}

static void fetched(const char *when)
{
	float got = -1;
	void *params[] = {&of_ref.out};
	int launched = CALL(cuLaunchKernel, of_ref.k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), done = CALL(cuCtxSynchronize);
	MUST(cuMemcpyDtoH_v2, &got, of_ref.out, (u64)4);
	printf("ref-fetch-%s %d %d %g\n", when, launched, done, got);
}

static void set_reference(void)
{
	float border[4] = {1, 2, 3, 4};
	void *t = of_ref.t;
	ASK("ref-set-format-9", CALL(cuTexRefSetFormat, t, 9, 1));
	ASK("ref-set-format-3-channels", CALL(cuTexRefSetFormat, t, 0x20, 3));
	ASK("ref-set-format-0-channels", CALL(cuTexRefSetFormat, t, 0x20, 0));
	ASK("ref-set-format", CALL(cuTexRefSetFormat, t, 0x20, 2));
	ASK("ref-set-flags-ff", CALL(cuTexRefSetFlags, t, 0xff));
	ASK("ref-set-flags", CALL(cuTexRefSetFlags, t, 3));
	ASK("ref-set-address-mode-5", CALL(cuTexRefSetAddressMode, t, 0, 5));
	ASK("ref-set-address-mode", CALL(cuTexRefSetAddressMode, t, 0, 1));
	ASK("ref-set-address-mode-dim-3", CALL(cuTexRefSetAddressMode, t, 3, 1));
	ASK("ref-set-address-mode-dim-minus-1", CALL(cuTexRefSetAddressMode, t, -1, 1));
	ASK("ref-set-filter-2", CALL(cuTexRefSetFilterMode, t, 2));
	ASK("ref-set-filter", CALL(cuTexRefSetFilterMode, t, 1));
	ASK("ref-set-mip-filter", CALL(cuTexRefSetMipmapFilterMode, t, 1));
	ASK("ref-set-anisotropy", CALL(cuTexRefSetMaxAnisotropy, t, 17));
	ASK("ref-set-border", CALL(cuTexRefSetBorderColor, t, border));
	ASK("ref-set-border-null", CALL(cuTexRefSetBorderColor, t, NULL));
	ASK("ref-get-format-null", CALL(cuTexRefGetFormat, NULL, NULL, t));
}

// fetches asks what kernels fetch through a reference.
static void fetches(void)
{
	u64 p, got = 0, off = 9;
	float data[1024];
	void *t = of_ref.t, *array, *surface, *x;
	int a = 9, b = 9;
	struct { u64 w, h; int format; unsigned channels; } d = {8, 0, 0x20, 1};
	struct { u64 w, h, d; int format; unsigned channels, flags; } d3 = {8, 0, 0, 0x20, 1, 2};
	for (int i = 0; i < 1024; i++)
		data[i] = (float)i;
	MUST(cuMemAlloc_v2, &p, (u64)4096);
	MUST(cuMemcpyHtoD_v2, p, data, (u64)4096);
	MUST(cuTexRefSetFilterMode, t, 0);
	MUST(cuTexRefSetFlags, t, 0);
	MUST(cuTexRefSetFormat, t, 0x20, 1);
	MUST(cuTexRefSetAddressMode, t, 0, 1);
	ANSWER("ref-set-address", CALL(cuTexRefSetAddress_v2, &off, t, p, (u64)4096), off);
	fetched("address");
	off = 9;
	ANSWER("ref-set-address-16", CALL(cuTexRefSetAddress_v2, &off, t, p + 16, (u64)1024), off);
	fetched("address-16");
	ANSWER("ref-get-address", CALL(cuTexRefGetAddress_v2, &got, t), (long long)(got - p));
	ASK("ref-set-address-16-no-offset", CALL(cuTexRefSetAddress_v2, NULL, t, p + 16, (u64)1024));
	ASK("ref-set-address-beyond", CALL(cuTexRefSetAddress_v2, &off, t, p, (u64)1 << 40));
	ASK("ref-set-address-zero-bytes", CALL(cuTexRefSetAddress_v2, &off, t, p, (u64)0));
	ASK("ref-set-address-2d", CALL(cuTexRefSetAddress2D_v3, t, &d, p, (u64)512));
	MUST(cuArrayCreate_v2, &array, &d);
	MUST(cuMemcpyHtoA_v2, array, (u64)0, data + 100, (u64)32);
	ASK("ref-set-array-flags-0", CALL(cuTexRefSetArray, t, array, 0));
	ASK("ref-set-array-flags-1", CALL(cuTexRefSetArray, t, array, 1));
	ANSWER("ref-get-array", CALL(cuTexRefGetArray, &x, t), x == array);
	ANSWER("ref-format-of-array", CALL(cuTexRefGetFormat, &a, &b, t), a * 16 + b);
	ASK("ref-get-address-of-array", CALL(cuTexRefGetAddress_v2, &got, t));
	ASK("ref-set-surface-of-texture-array", CALL(cuSurfRefSetArray, of_ref.s, array, 0));
	ASK("ref-get-surface-unbound", CALL(cuSurfRefGetArray, &x, of_ref.s));
	MUST(cuArray3DCreate_v2, &surface, &d3);
	ASK("ref-set-surface-flags-1", CALL(cuSurfRefSetArray, of_ref.s, surface, 1));
	ASK("ref-set-surface", CALL(cuSurfRefSetArray, of_ref.s, surface, 0));
	ANSWER("ref-get-surface", CALL(cuSurfRefGetArray, &x, of_ref.s), x == surface);
	ASK("ref-param-set", CALL(cuParamSetTexRef, of_ref.k, -1, t));
	ASK("ref-param-set-0", CALL(cuParamSetTexRef, of_ref.k, 0, t));
	ASK("ref-destroy-array-in-use", CALL(cuArrayDestroy, array));
}

static void references(const char *unused)
{
	(void)unused;
	void *own, *x;
	ASK("ref-create-before-init", CALL(cuTexRefCreate, &own));
	MUST(cuInit, 0);
	ASK("ref-create-without-context", CALL(cuTexRefCreate, &own));
	a_context();
	MUST(cuModuleLoadData, &of_ref.module, referring);
	MUST(cuModuleGetFunction, &of_ref.k, of_ref.module, "k");
	MUST(cuMemAlloc_v2, &of_ref.out, (u64)4);
	ASK("ref-get-missing", CALL(cuModuleGetTexRef, &x, of_ref.module, "nothing"));
	ASK("ref-get-surface-as-texture", CALL(cuModuleGetTexRef, &x, of_ref.module, "s"));
	ASK("ref-get-texture-as-surface", CALL(cuModuleGetSurfRef, &x, of_ref.module, "t"));
	ASK("ref-get-kernel-as-texture", CALL(cuModuleGetTexRef, &x, of_ref.module, "k"));
	ASK("ref-get", CALL(cuModuleGetTexRef, &of_ref.t, of_ref.module, "t"));
	ANSWER("ref-get-again", CALL(cuModuleGetTexRef, &x, of_ref.module, "t"), x == of_ref.t);
	ASK("ref-get-surface", CALL(cuModuleGetSurfRef, &of_ref.s, of_ref.module, "s"));
	ASK("ref-create", CALL(cuTexRefCreate, &own));
	ASK("ref-destroy", CALL(cuTexRefDestroy, own));
	if (!of_ref.t)
		return; // a library without references
	state_of_reference("first");
	set_reference();
	state_of_reference("set");
	fetches();
}
