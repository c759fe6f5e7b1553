// Modules, launches, graphs and kernels that fail.
#pragma once
#include "ask.h"

static const char limited[] = HEADER ".visible .global .u32 g[4];\n.visible .const .u32 c[2] = {1, 2};\n"
	".func f()\n{\n\tret;\n}\n"
	".visible .entry most()\n.maxntid 32, 1, 1\n{\n\tret;\n}\n"
	".visible .entry exactly()\n.reqntid 32, 1, 1\n{\n\tret;\n}\n"
	".visible .entry k(.param .u32 n)\n{\n\tret;\n}\n";

static void loading(const char *unused)
{
	(void)unused;
	void *module, *x;
	u64 address;
	size_t bytes = 0;
	int value = 99;
	void *lib, *state = NULL;
	a_context();
	ASK("load-nonsense", CALL(cuModuleLoadData, &module, "nonsense, and no PTX at all"));
	ASK("load-empty", CALL(cuModuleLoadData, &module, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"));
	ASK("load-syntax-error", CALL(cuModuleLoadData, &module, HEADER ".visible .entry k()\n{\n\tadd.nonsense %r1;\n}\n"));
	ASK("load-ptx-99", CALL(cuModuleLoadData, &module, ".version 99.0\n.target sm_50\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"));
	ASK("load-sm-999", CALL(cuModuleLoadData, &module, ".version 6.0\n.target sm_999\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"));
	ASK("load-unresolved", CALL(cuModuleLoadData, &module, HEADER ".extern .func gone();\n.visible .entry k()\n{\n\tcall gone;\n\tret;\n}\n"));
	ASK("load-no-file", CALL(cuModuleLoad, &module, "/no/such/file.ptx"));
	MUST(cuModuleLoadData, &module, limited);
	ASK("function-missing", CALL(cuModuleGetFunction, &x, module, "nothing"));
	ASK("function-empty-name", CALL(cuModuleGetFunction, &x, module, ""));
	ASK("function-of-variable", CALL(cuModuleGetFunction, &x, module, "g"));
	ASK("function-not-a-kernel", CALL(cuModuleGetFunction, &x, module, "f"));
	ASK("global-missing", CALL(cuModuleGetGlobal_v2, &address, &bytes, module, "nothing"));
	ASK("global-of-kernel", CALL(cuModuleGetGlobal_v2, &address, &bytes, module, "k"));
	ANSWER("global", CALL(cuModuleGetGlobal_v2, NULL, &bytes, module, "g"), bytes);
	ANSWER("constant", CALL(cuModuleGetGlobal_v2, &address, &bytes, module, "c"), bytes);
	ASK("global-for-nothing", CALL(cuModuleGetGlobal_v2, NULL, NULL, module, "g"));
	ASK("global-null-name", CALL(cuModuleGetGlobal_v2, &address, &bytes, module, NULL));
	ASK("unload-null", CALL(cuModuleUnload, NULL));
	ANSWER("function-count", CALL(cuModuleGetFunctionCount, &value, module), value);
	ASK("link", CALL(cuLinkCreate_v2, 0, NULL, NULL, &state));
	ASK("link-nonsense", CALL(cuLinkAddData_v2, state, 1, "nonsense", (u64)9, "name", 0, NULL, NULL));
	ASK("link-kind-99", CALL(cuLinkAddData_v2, state, 99, ptx, (u64)sizeof ptx, "name", 0, NULL, NULL));
	ASK("link-no-file", CALL(cuLinkAddFile_v2, state, 1, "/no/such/file.ptx", 0, NULL, NULL));
	ASK("link-nothing", CALL(cuLinkComplete, state, &x, &bytes));
	ASK("library-nonsense", CALL(cuLibraryLoadData, &lib, "nonsense", NULL, NULL, 0, NULL, NULL, 0));
	MUST(cuLibraryLoadData, &lib, limited, NULL, NULL, 0, NULL, NULL, 0);
	ASK("library-kernel-missing", CALL(cuLibraryGetKernel, &x, lib, "nothing"));
	ASK("library-global-missing", CALL(cuLibraryGetGlobal, &address, &bytes, lib, "nothing"));
	ANSWER("library-kernel-count", CALL(cuLibraryGetKernelCount, &value, lib), value);
	ASK("library-unload-null", CALL(cuLibraryUnload, NULL));
}

static void launches(const char *unused)
{
	(void)unused;
	void *module, *k, *most, *exactly;
	int n = 0, value = 99, blocks = 0, size = 0;
	size_t bytes = 4;
	void *params[] = {&n};
	void *extra[] = {(void *)1, &n, (void *)2, &bytes, NULL};
	a_context();
	MUST(cuModuleLoadData, &module, limited);
	MUST(cuModuleGetFunction, &k, module, "k");
	MUST(cuModuleGetFunction, &most, module, "most");
	MUST(cuModuleGetFunction, &exactly, module, "exactly");
#define LAUNCH(question, kernel, gx, gy, bx, bz, shared, params, extra) \
	ASK(question, CALL(cuLaunchKernel, kernel, gx, gy, 1, bx, 1, bz, shared, NULL, params, extra))
	LAUNCH("launch-no-blocks", k, 0, 1, 1, 1, 0, params, NULL);
	LAUNCH("launch-no-threads", k, 1, 1, 0, 1, 0, params, NULL);
	LAUNCH("launch-1025-threads", k, 1, 1, 1025, 1, 0, params, NULL);
	LAUNCH("launch-65-deep", k, 1, 1, 1, 65, 0, params, NULL);
	LAUNCH("launch-65536-rows", k, 1, 65536, 1, 1, 0, params, NULL);
	LAUNCH("launch-48k-shared", k, 1, 1, 1, 1, 48 << 10, params, NULL);
	LAUNCH("launch-over-48k-shared", k, 1, 1, 1, 1, (48 << 10) + 1, params, NULL);
	LAUNCH("launch-1g-shared", k, 1, 1, 1, 1, 1 << 30, params, NULL);
	LAUNCH("launch-both-parameters", k, 1, 1, 1, 1, 0, params, extra);
	LAUNCH("launch-no-parameters", k, 1, 1, 1, 1, 0, NULL, NULL);
	LAUNCH("launch-packed", k, 1, 1, 1, 1, 0, NULL, extra);
	bytes = 2;
	LAUNCH("launch-packed-short", k, 1, 1, 1, 1, 0, NULL, extra);
	bytes = 8;
	LAUNCH("launch-packed-long", k, 1, 1, 1, 1, 0, NULL, extra);
	LAUNCH("launch-over-maxntid", most, 1, 1, 64, 1, 0, NULL, NULL);
	LAUNCH("launch-not-reqntid", exactly, 1, 1, 16, 1, 0, NULL, NULL);
	ASK("launch-cooperative", CALL(cuLaunchCooperativeKernel, k, 1, 1, 1, 1, 1, 1, 0, NULL, params));
	ASK("launch-cooperative-many", CALL(cuLaunchCooperativeKernel, k, 1 << 20, 1, 1, 1, 1, 1, 0, NULL, params));
	ASK("launch-null", CALL(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned n; } config = {{1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, 1};
	struct { unsigned id, pad, value[16]; } attribute = {3, 0, {1}};
	config.attributes = &attribute;
	ASK("launch-synchronization-policy", CALL(cuLaunchKernelEx, &config, k, params, NULL));
	attribute.value[0] = 5;
	ASK("launch-synchronization-policy-5", CALL(cuLaunchKernelEx, &config, k, params, NULL));
	ASK("launched", CALL(cuCtxSynchronize));
	ANSWER("ptx-version", CALL(cuFuncGetAttribute, &value, 5, k), value);
	ANSWER("maxntid", CALL(cuFuncGetAttribute, &value, 0, most), value);
	ANSWER("reqntid", CALL(cuFuncGetAttribute, &value, 0, exactly), value);
	ASK("attribute-99-of-kernel", CALL(cuFuncGetAttribute, &value, 99, k));
	ASK("set-attribute-0", CALL(cuFuncSetAttribute, k, 0, 1));
	ASK("set-dynamic-shared-negative", CALL(cuFuncSetAttribute, k, 8, -1));
	ASK("set-dynamic-shared-1g", CALL(cuFuncSetAttribute, k, 8, 1 << 30));
	ASK("parameter-1-of-1", CALL(cuFuncGetParamInfo, k, (u64)1, &bytes, &bytes));
	ASK("occupancy-of-0-threads", CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, k, 0, (u64)0));
	ANSWER("occupancy-over-maxntid", CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, most, 64, (u64)0), value);
	ANSWER("block-size-of-maxntid", CALL(cuOccupancyMaxPotentialBlockSize, &blocks, &size, most, NULL, (u64)0, 0), size);
	ASK("block-size-with-1g-shared", CALL(cuOccupancyMaxPotentialBlockSize, &blocks, &size, k, NULL, (u64)1 << 30, 0));
	ASK("shared-of-1000-blocks", CALL(cuOccupancyAvailableDynamicSMemPerBlock, &bytes, k, 1000, 1024));
}

static void graphs(const char *unused)
{
	(void)unused;
	void *graph = NULL, *exec = NULL, *a, *b, *stream, *event, *module, *k;
	int n = 0, status = 99;
	u64 p = 0;
	void *params[] = {&n};
	a_context();
	MUST(cuStreamCreate, &stream, 1);
	MUST(cuEventCreate, &event, 0);
	MUST(cuModuleLoadData, &module, ptx);
	MUST(cuModuleGetFunction, &k, module, "k");
	ASK("graph-flags-1", CALL(cuGraphCreate, &graph, 1));
	ASK("graph-create", CALL(cuGraphCreate, &graph, 0));
	if (!graph)
		return; // a library without graphs
	ASK("graph-flags-on-instantiation", CALL(cuGraphInstantiateWithFlags, &exec, graph, (u64)0xff00));
	ASK("graph-empty", CALL(cuGraphInstantiateWithFlags, &exec, graph, (u64)0));
	ASK("graph-launch-empty", CALL(cuGraphLaunch, exec, stream));
	MUST(cuGraphAddEmptyNode, &a, graph, NULL, (u64)0);
	MUST(cuGraphAddEmptyNode, &b, graph, &a, (u64)1);
	ASK("graph-edge-twice", CALL(cuGraphAddDependencies, graph, &a, &b, (u64)1));
	ASK("graph-edge-to-itself", CALL(cuGraphAddDependencies, graph, &a, &a, (u64)1));
	ASK("graph-cycle", CALL(cuGraphAddDependencies, graph, &b, &a, (u64)1));
	ASK("graph-of-cycle", CALL(cuGraphInstantiateWithFlags, &exec, graph, (u64)0));
	ASK("end-without-capture", CALL(cuStreamEndCapture, stream, &graph));
	ASK("begin-on-null-stream", CALL(cuStreamBeginCapture_v2, NULL, 0));
	ASK("begin-mode-3", CALL(cuStreamBeginCapture_v2, stream, 3));
	ASK("begin", CALL(cuStreamBeginCapture_v2, stream, 0));
	ASK("begin-twice", CALL(cuStreamBeginCapture_v2, stream, 0));
	ANSWER("is-capturing", CALL(cuStreamIsCapturing, stream, &status), status);
	ASK("capture-launch", CALL(cuLaunchKernel, k, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	ASK("capture-record", CALL(cuEventRecord, event, stream));
	ASK("end", CALL(cuStreamEndCapture, stream, &graph));
	ASK("captured-event-query", CALL(cuEventQuery, event));
	ASK("captured-event-wait", CALL(cuEventSynchronize, event));
	ASK("captured-graph", CALL(cuGraphInstantiateWithFlags, &exec, graph, (u64)0));
	ASK("captured-launch", CALL(cuGraphLaunch, exec, stream));
	ASK("captured-done", CALL(cuStreamSynchronize, stream));
	static const char *const questions[] = {"synchronize", "query", "allocate", "free", "null-stream", "context", "unmapped-copy"};
	MUST(cuMemAlloc_v2, &p, (u64)4096);
	for (int i = 0; i < 7; i++) {
		char question[64];
		int r = 0;
		MUST(cuStreamBeginCapture_v2, stream, 0);
		switch (i) {
		case 0: r = CALL(cuStreamSynchronize, stream); break;
		case 1: r = CALL(cuStreamQuery, stream); break;
		case 2: r = CALL(cuMemAlloc_v2, &p, (u64)4096); break;
		case 3: r = CALL(cuMemFree_v2, p); break;
		case 4: r = CALL(cuLaunchKernel, k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL); break;
		case 5: r = CALL(cuCtxSynchronize); break;
		case 6: r = CALL(cuMemcpyHtoD_v2, p, &n, (u64)4); break;
		}
		snprintf(question, sizeof question, "while-capturing-%s", questions[i]);
		ASK(question, r);
		snprintf(question, sizeof question, "capturing-after-%s", questions[i]);
		ANSWER(question, CALL(cuStreamIsCapturing, stream, &status), status);
		snprintf(question, sizeof question, "end-after-%s", questions[i]);
		graph = NULL;
		ASK(question, CALL(cuStreamEndCapture, stream, &graph));
	}
}

// failing runs a kernel that ends its context, and asks what the context still answers.
static void failing(const char *name, const char *body)
{
	char source[1024], question[64];
	void *module, *k, *event, *stream, *x;
	u64 p, q;
	int r[14], value;
	void *ctx = a_context(), *params[] = {&p};
	snprintf(source, sizeof source, HEADER ".visible .global .align 8 .b8 at[64];\n.visible .entry k(.param .u64 p)\n{\n\t.reg .u64 %%a, %%b;\n"
		".reg .u32 %%v;\n\tld.param.u64 %%a, [p];\n\t%s\n\tret;\n}\n", body);
	MUST(cuModuleLoadData, &module, source);
	MUST(cuModuleGetFunction, &k, module, "k");
	MUST(cuEventCreate, &event, 0);
	MUST(cuStreamCreate, &stream, 0);
	MUST(cuMemAlloc_v2, &p, (u64)4096);
	MUST(cuLaunchKernel, k, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	r[0] = CALL(cuStreamSynchronize, stream);
	r[1] = CALL(cuCtxSynchronize);
	r[2] = CALL(cuStreamQuery, NULL);
	r[3] = CALL(cuEventQuery, event);
	r[4] = CALL(cuMemAlloc_v2, &q, (u64)4096);
	r[5] = CALL(cuMemcpyDtoH_v2, source, p, (u64)4);
	r[6] = CALL(cuLaunchKernel, k, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
	r[7] = CALL(cuModuleGetFunction, &x, module, "k");
	r[8] = CALL(cuCtxGetDevice, &value);
	r[9] = CALL(cuEventCreate, &x, 0);
	r[10] = CALL(cuMemFree_v2, p);
	r[11] = CALL(cuStreamDestroy_v2, stream);
	r[12] = CALL(cuCtxDestroy_v2, ctx);
	r[13] = CALL(cuCtxCreate_v2, &ctx, 0, 0);
	static const char *const asked[] = {"", "-context", "-query", "-event", "-allocate", "-copy", "-launch", "-function", "-device", "-create", "-free",
		"-stream-destroy", "-destroy", "-create-again"};
	for (int i = 0; i < 14; i++) {
		snprintf(question, sizeof question, "after-%s%s", name, asked[i]);
		ASK(question, r[i]);
	}
}

static void trap(const char *unused) { (void)unused; failing("trap", "trap;"); }
static void wild(const char *unused) { (void)unused; failing("wild-store", "mov.u64 %a, 64;\n\tst.global.u32 [%a], 1;"); }
static void odd(const char *unused) { (void)unused; failing("odd-store", "add.u64 %a, %a, 2;\n\tst.global.u32 [%a], 1;"); }
static void far(const char *unused) { (void)unused; failing("far-shared-store", "mov.u64 %a, 16777216;\n\tst.shared.u32 [%a], 1;"); }
