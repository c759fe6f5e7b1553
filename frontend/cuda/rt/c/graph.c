// Graphs: structures of the runtime API become those of the driver, and functions of the program
// kernels. Nodes and graphs are the driver's. From CUDA 13 on the names without a version have the
// newest signature.
#include "graph.h"

#define NEW_NODE CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n
#define THE_NODE node, graph, before, n

// kernel_node reads what the program says of a kernel.
static int kernel_node(struct driver_kernel_node *to, const struct kernel_node *from)
{
	CUfunction kernel;
	*to = (struct driver_kernel_node){.kernel = NULL};
	int r = fetch(&to->all, from, sizeof to->all);
	if (!r)
		r = kernel_of(to->all.function, &kernel);
	to->all.function = kernel;
	return r;
}

static int add_kernel(NEW_NODE, const struct kernel_node *params)
{
	struct driver_kernel_node p;
	int r = kernel_node(&p, params);
	return r ? r : cuGraphAddKernelNode_v2(THE_NODE, &p);
}

static int set_kernel(CUgraphNode node, const struct kernel_node *params)
{
	struct driver_kernel_node p;
	int r = kernel_node(&p, params);
	return r ? r : cuGraphKernelNodeSetParams_v2(node, &p);
}

static int set_exec_kernel(CUgraphExec exec, CUgraphNode node, const struct kernel_node *params)
{
	struct driver_kernel_node p;
	int r = kernel_node(&p, params);
	return r ? r : cuGraphExecKernelNodeSetParams_v2(exec, node, &p);
}

static int get_kernel(CUgraphNode node, struct kernel_node *params)
{
	struct driver_kernel_node p;
	int r = cuGraphKernelNodeGetParams_v2(node, &p);
	if (r)
		return r;
	p.all.function = function_of(p.kernel ? p.kernel : (CUfunction)p.all.function);
	return store(params, &p.all, sizeof p.all);
}

// A copy goes to a new node, to a node, or to a node of an executable graph.
struct target {
	enum { NEW, OLD, EXEC } where;
	CUgraphExec exec;
	CUgraphNode old;
	CUgraphNode *node;
	CUgraph graph;
	const CUgraphNode *before;
	size_t n;
};

#define TO_NEW ((struct target){.where = NEW, .node = node, .graph = graph, .before = before, .n = n})
#define TO_OLD ((struct target){.where = OLD, .old = node})
#define TO_EXEC ((struct target){.where = EXEC, .exec = exec, .old = node})

static int set_copy(struct target t, const struct copy3d *c)
{
	if (t.where == EXEC)
		return cuGraphExecMemcpyNodeSetParams(t.exec, t.old, c, NULL);
	if (t.where == OLD)
		return cuGraphMemcpyNodeSetParams(t.old, c);
	return cuGraphAddMemcpyNode(t.node, t.graph, t.before, t.n, c, NULL);
}

static int copy_3d(struct target t, const struct copy *copy)
{
	struct copy3d c;
	int r = as_copy3d(&c, copy);
	return r ? r : set_copy(t, &c);
}

static int copy_1d(struct target t, void *to, const void *from, size_t bytes, int kind)
{
	struct copy3d c = {.src_host = from, .src_device = from, .dst_host = to, .dst_device = to, .width = bytes, .height = 1, .depth = 1};
	int r = kinds(kind, &c.dst_kind, &c.src_kind);
	return r ? r : set_copy(t, &c);
}

static int copy_to(struct target t, const void *symbol, const void *from, size_t bytes, size_t offset, int kind)
{
	void *at = NULL;
	int r = place_in(symbol, bytes, offset, &at);
	return r ? r : copy_1d(t, at, from, bytes, kind);
}

static int copy_from(struct target t, void *to, const void *symbol, size_t bytes, size_t offset, int kind)
{
	void *at = NULL;
	int r = place_in(symbol, bytes, offset, &at);
	return r ? r : copy_1d(t, to, at, bytes, kind);
}

// get_copy turns CUDA_MEMCPY3D back into cudaMemcpy3DParms.
static int get_copy(CUgraphNode node, struct copy *copy)
{
	struct copy3d c;
	int r = cuGraphMemcpyNodeGetParams(node, &c);
	if (r)
		return r;
	size_t from_unit = 1, to_unit = 1; // bytes of what extent and positions count
	if (c.dst_kind == MEMORY_ARRAY && (r = element_bytes(c.dst_array, &to_unit)))
		return r;
	if (c.src_kind == MEMORY_ARRAY && (r = element_bytes(c.src_array, &from_unit)))
		return r;
	size_t unit = c.src_kind == MEMORY_ARRAY ? from_unit : to_unit;
	int from_host = c.src_kind == MEMORY_HOST, to_host = c.dst_kind == MEMORY_HOST;
	int known = c.src_kind != MEMORY_UNIFIED && c.dst_kind != MEMORY_UNIFIED;
	struct copy p = {
		.from_array = c.src_kind == MEMORY_ARRAY ? c.src_array : NULL,
		.from_pos = {c.src_x / from_unit, c.src_y, c.src_z},
		.from = {(void *)(from_host ? c.src_host : c.src_device), c.src_pitch, c.width, c.src_height},
		.to_array = c.dst_kind == MEMORY_ARRAY ? c.dst_array : NULL,
		.to_pos = {c.dst_x / to_unit, c.dst_y, c.dst_z},
		.to = {to_host ? c.dst_host : c.dst_device, c.dst_pitch, c.width, c.dst_height},
		.extent = {c.width / unit, c.height, c.depth},
		.kind = !known ? BY_ADDRESS : from_host ? to_host ? HOST_TO_HOST : HOST_TO_DEVICE : to_host ? DEVICE_TO_HOST : DEVICE_TO_DEVICE,
	};
	if (p.from_array)
		p.from = (struct pitched){0};
	if (p.to_array)
		p.to = (struct pitched){0};
	return store(copy, &p, sizeof p);
}

// any_node reads cudaGraphNodeParams as CUgraphNodeParams.
static int any_node(struct node_params *to, const struct node_params *from)
{
	int r = fetch(to, from, sizeof *to);
	if (r)
		return r;
	struct node_params p = *to;
	switch (to->type) {
	case NODE_KERNEL: return kernel_node(&to->driver_kernel, &from->kernel);
	case NODE_MEMCPY:
		p.driver_copy.context = NULL;
		r = as_copy3d(&p.driver_copy.copy, &from->copy.copy);
		break;
	case NODE_MEMSET: p.fill.context = NULL; break;
	case NODE_CONDITIONAL:
		if (MAJOR == 13 && p.conditional.context)
			return NOT_SUPPORTED; // there are no execution contexts
		r = cuCtxGetCurrent(&p.conditional.context);
		break;
	}
	*to = p;
	return r;
}

static int add_any(NEW_NODE, const struct node_params *params, const void *data)
{
	struct node_params p;
	int r = any_node(&p, params);
	if (!r)
		r = cuGraphAddNode_v2(node, graph, before, data, n, &p);
	if (!r && p.type == NODE_MEM_ALLOC) // the program reads the address there
		r = store((char *)params + ALLOC_ADDRESS, (char *)&p + ALLOC_ADDRESS, sizeof(CUdeviceptr));
	if (!r && p.type == NODE_CONDITIONAL) // and the bodies there
		r = store((void *)&params->conditional.bodies, &p.conditional.bodies, sizeof p.conditional.bodies);
	return r;
}

static int set_any(CUgraphNode node, const struct node_params *params)
{
	struct node_params p;
	int r = any_node(&p, params);
	return r ? r : cuGraphNodeSetParams(node, &p);
}

static int set_exec_any(CUgraphExec exec, CUgraphNode node, const struct node_params *params)
{
	struct node_params p;
	int r = any_node(&p, params);
	return r ? r : cuGraphExecNodeSetParams(exec, node, &p);
}

// create_condition makes a handle of the current context.
static int create_condition(uint64_t *handle, CUgraph graph, unsigned value, unsigned flags)
{
	CUcontext context = NULL;
	int r = cuCtxGetCurrent(&context);
	return r ? r : cuGraphConditionalHandleCreate(handle, graph, context, value, flags);
}

API(cudaGraphCreate, (CUgraph *graph, unsigned flags), cuGraphCreate(graph, flags))
API(cudaGraphDestroy, (CUgraph graph), cuGraphDestroy(graph))
API(cudaGraphClone, (CUgraph *clone, CUgraph graph), cuGraphClone(clone, graph))
API(cudaGraphNodeFindInClone, (CUgraphNode *node, CUgraphNode original, CUgraph clone), cuGraphNodeFindInClone(node, original, clone))
API(cudaGraphDestroyNode, (CUgraphNode node), cuGraphDestroyNode(node))
API(cudaGraphDebugDotPrint, (CUgraph graph, const char *path, unsigned flags), cuGraphDebugDotPrint(graph, path, flags))
API(cudaGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *n), cuGraphGetNodes(graph, nodes, n))
API(cudaGraphGetRootNodes, (CUgraph graph, CUgraphNode *nodes, size_t *n), cuGraphGetRootNodes(graph, nodes, n))
API(cudaGraphNodeGetType, (CUgraphNode node, int *type), cuGraphNodeGetType(node, type))

#define EDGES_V2(name)                                                                            \
	API(name, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, void *data, size_t *n), \
	    cuGraphGetEdges_v2(graph, from, to, data, n))
#define BEFORE_V2(name) \
	API(name, (CUgraphNode node, CUgraphNode *nodes, void *data, size_t *n), cuGraphNodeGetDependencies_v2(node, nodes, data, n))
#define AFTER_V2(name) \
	API(name, (CUgraphNode node, CUgraphNode *nodes, void *data, size_t *n), cuGraphNodeGetDependentNodes_v2(node, nodes, data, n))
#define LINK_V2(name)                                                                                               \
	API(name, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const void *data, size_t n), \
	    cuGraphAddDependencies_v2(graph, from, to, data, n))
#define UNLINK_V2(name)                                                                                             \
	API(name, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const void *data, size_t n), \
	    cuGraphRemoveDependencies_v2(graph, from, to, data, n))
#define ADD_V2(name)                                                                                                                        \
	API(name, (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const void *data, size_t n, const struct node_params *params), \
	    add_any(THE_NODE, params, data))

EDGES_V2(cudaGraphGetEdges_v2)
BEFORE_V2(cudaGraphNodeGetDependencies_v2)
AFTER_V2(cudaGraphNodeGetDependentNodes_v2)
LINK_V2(cudaGraphAddDependencies_v2)
UNLINK_V2(cudaGraphRemoveDependencies_v2)
ADD_V2(cudaGraphAddNode_v2)

#if MAJOR == 13
EDGES_V2(cudaGraphGetEdges)
BEFORE_V2(cudaGraphNodeGetDependencies)
AFTER_V2(cudaGraphNodeGetDependentNodes)
LINK_V2(cudaGraphAddDependencies)
UNLINK_V2(cudaGraphRemoveDependencies)
ADD_V2(cudaGraphAddNode)
#else
API(cudaGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n), cuGraphGetEdges(graph, from, to, n))
API(cudaGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *nodes, size_t *n), cuGraphNodeGetDependencies(node, nodes, n))
API(cudaGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode *nodes, size_t *n), cuGraphNodeGetDependentNodes(node, nodes, n))
API(cudaGraphAddDependencies, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n), cuGraphAddDependencies(graph, from, to, n))
API(cudaGraphRemoveDependencies, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n),
    cuGraphRemoveDependencies(graph, from, to, n))
API(cudaGraphAddNode, (NEW_NODE, const struct node_params *params), add_any(THE_NODE, params, NULL))
#endif

API(cudaGraphNodeSetParams, (CUgraphNode node, const struct node_params *params), set_any(node, params))
API(cudaGraphAddKernelNode, (NEW_NODE, const struct kernel_node *params), add_kernel(THE_NODE, params))
API(cudaGraphKernelNodeGetParams, (CUgraphNode node, struct kernel_node *params), get_kernel(node, params))
API(cudaGraphKernelNodeSetParams, (CUgraphNode node, const struct kernel_node *params), set_kernel(node, params))
API(cudaGraphKernelNodeGetAttribute, (CUgraphNode node, unsigned attribute, void *value), cuGraphKernelNodeGetAttribute(node, attribute, value))
API(cudaGraphKernelNodeSetAttribute, (CUgraphNode node, unsigned attribute, const void *value), cuGraphKernelNodeSetAttribute(node, attribute, value))
API(cudaGraphKernelNodeCopyAttributes, (CUgraphNode to, CUgraphNode from), cuGraphKernelNodeCopyAttributes(to, from))
API(cudaGraphConditionalHandleCreate, (uint64_t *handle, CUgraph graph, unsigned value, unsigned flags), create_condition(handle, graph, value, flags))
API(cudaGraphConditionalHandleCreate_v2, (uint64_t *handle, CUgraph graph, void *context, unsigned value, unsigned flags),
    context ? NOT_SUPPORTED : create_condition(handle, graph, value, flags))
API(cudaGraphAddMemcpyNode, (NEW_NODE, const struct copy *copy), copy_3d(TO_NEW, copy))
API(cudaGraphAddMemcpyNode1D, (NEW_NODE, void *to, const void *from, size_t bytes, int kind), copy_1d(TO_NEW, to, from, bytes, kind))
API(cudaGraphAddMemcpyNodeToSymbol, (NEW_NODE, const void *symbol, const void *from, size_t bytes, size_t offset, int kind),
    copy_to(TO_NEW, symbol, from, bytes, offset, kind))
API(cudaGraphAddMemcpyNodeFromSymbol, (NEW_NODE, void *to, const void *symbol, size_t bytes, size_t offset, int kind),
    copy_from(TO_NEW, to, symbol, bytes, offset, kind))
API(cudaGraphMemcpyNodeGetParams, (CUgraphNode node, struct copy *copy), get_copy(node, copy))
API(cudaGraphMemcpyNodeSetParams, (CUgraphNode node, const struct copy *copy), copy_3d(TO_OLD, copy))
API(cudaGraphMemcpyNodeSetParams1D, (CUgraphNode node, void *to, const void *from, size_t bytes, int kind), copy_1d(TO_OLD, to, from, bytes, kind))
API(cudaGraphMemcpyNodeSetParamsToSymbol, (CUgraphNode node, const void *symbol, const void *from, size_t bytes, size_t offset, int kind),
    copy_to(TO_OLD, symbol, from, bytes, offset, kind))
API(cudaGraphMemcpyNodeSetParamsFromSymbol, (CUgraphNode node, void *to, const void *symbol, size_t bytes, size_t offset, int kind),
    copy_from(TO_OLD, to, symbol, bytes, offset, kind))
API(cudaGraphAddMemsetNode, (NEW_NODE, const void *params), cuGraphAddMemsetNode(THE_NODE, params, NULL))
API(cudaGraphMemsetNodeGetParams, (CUgraphNode node, void *params), cuGraphMemsetNodeGetParams(node, params))
API(cudaGraphMemsetNodeSetParams, (CUgraphNode node, const void *params), cuGraphMemsetNodeSetParams(node, params))
API(cudaGraphAddHostNode, (NEW_NODE, const void *params), cuGraphAddHostNode(THE_NODE, params))
API(cudaGraphHostNodeGetParams, (CUgraphNode node, void *params), cuGraphHostNodeGetParams(node, params))
API(cudaGraphHostNodeSetParams, (CUgraphNode node, const void *params), cuGraphHostNodeSetParams(node, params))
API(cudaGraphAddChildGraphNode, (NEW_NODE, CUgraph child), cuGraphAddChildGraphNode(THE_NODE, child))
API(cudaGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *child), cuGraphChildGraphNodeGetGraph(node, child))
API(cudaGraphAddMemAllocNode, (NEW_NODE, void *params), cuGraphAddMemAllocNode(THE_NODE, params))
API(cudaGraphMemAllocNodeGetParams, (CUgraphNode node, void *params), cuGraphMemAllocNodeGetParams(node, params))
API(cudaGraphAddMemFreeNode, (NEW_NODE, void *address), cuGraphAddMemFreeNode(THE_NODE, (CUdeviceptr)address))
API(cudaGraphMemFreeNodeGetParams, (CUgraphNode node, void *address), cuGraphMemFreeNodeGetParams(node, address))
API(cudaUserObjectCreate, (void **object, void *value, void *destroy, unsigned refs, unsigned flags),
    cuUserObjectCreate(object, value, destroy, refs, flags))
API(cudaUserObjectRetain, (void *object, unsigned count), cuUserObjectRetain(object, count))
API(cudaUserObjectRelease, (void *object, unsigned count), cuUserObjectRelease(object, count))
API(cudaGraphRetainUserObject, (CUgraph graph, void *object, unsigned count, unsigned flags), cuGraphRetainUserObject(graph, object, count, flags))
API(cudaGraphReleaseUserObject, (CUgraph graph, void *object, unsigned count), cuGraphReleaseUserObject(graph, object, count))
API(cudaGraphAddEmptyNode, (NEW_NODE), cuGraphAddEmptyNode(THE_NODE))
API(cudaGraphAddEventRecordNode, (NEW_NODE, CUevent event), cuGraphAddEventRecordNode(THE_NODE, event))
API(cudaGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *event), cuGraphEventRecordNodeGetEvent(node, event))
API(cudaGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event), cuGraphEventRecordNodeSetEvent(node, event))
API(cudaGraphAddEventWaitNode, (NEW_NODE, CUevent event), cuGraphAddEventWaitNode(THE_NODE, event))
API(cudaGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *event), cuGraphEventWaitNodeGetEvent(node, event))
API(cudaGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event), cuGraphEventWaitNodeSetEvent(node, event))

#if MAJOR == 11
API(cudaGraphInstantiate, (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t bytes),
    cuGraphInstantiate_v2(exec, graph, node, log, bytes))
API(cudaGraphExecUpdate, (CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result), cuGraphExecUpdate(exec, graph, node, result))
#else
API(cudaGraphInstantiate, (CUgraphExec *exec, CUgraph graph, uint64_t flags), cuGraphInstantiateWithFlags(exec, graph, flags))
API(cudaGraphExecUpdate, (CUgraphExec exec, CUgraph graph, void *result), cuGraphExecUpdate_v2(exec, graph, result))
#endif
API(cudaGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, uint64_t flags), cuGraphInstantiateWithFlags(exec, graph, flags))
BOTH(cudaGraphInstantiateWithParams, _ptsz, (CUgraphExec *exec, CUgraph graph, void *params),
     ((void)per_thread, cuGraphInstantiateWithParams(exec, graph, params)))
API(cudaGraphExecGetFlags, (CUgraphExec exec, uint64_t *flags), cuGraphExecGetFlags(exec, flags))
API(cudaGraphExecDestroy, (CUgraphExec exec), cuGraphExecDestroy(exec))
BOTH(cudaGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), cuGraphUpload(exec, ON(stream)))
BOTH(cudaGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), cuGraphLaunch(exec, ON(stream)))
API(cudaGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, const struct node_params *params), set_exec_any(exec, node, params))
API(cudaGraphExecKernelNodeSetParams, (CUgraphExec exec, CUgraphNode node, const struct kernel_node *params), set_exec_kernel(exec, node, params))
API(cudaGraphExecMemcpyNodeSetParams, (CUgraphExec exec, CUgraphNode node, const struct copy *copy), copy_3d(TO_EXEC, copy))
API(cudaGraphExecMemcpyNodeSetParams1D, (CUgraphExec exec, CUgraphNode node, void *to, const void *from, size_t bytes, int kind),
    copy_1d(TO_EXEC, to, from, bytes, kind))
API(cudaGraphExecMemcpyNodeSetParamsToSymbol,
    (CUgraphExec exec, CUgraphNode node, const void *symbol, const void *from, size_t bytes, size_t offset, int kind),
    copy_to(TO_EXEC, symbol, from, bytes, offset, kind))
API(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
    (CUgraphExec exec, CUgraphNode node, void *to, const void *symbol, size_t bytes, size_t offset, int kind),
    copy_from(TO_EXEC, to, symbol, bytes, offset, kind))
API(cudaGraphExecMemsetNodeSetParams, (CUgraphExec exec, CUgraphNode node, const void *params), cuGraphExecMemsetNodeSetParams(exec, node, params, NULL))
API(cudaGraphExecHostNodeSetParams, (CUgraphExec exec, CUgraphNode node, const void *params), cuGraphExecHostNodeSetParams(exec, node, params))
API(cudaGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child), cuGraphExecChildGraphNodeSetParams(exec, node, child))
API(cudaGraphExecEventRecordNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), cuGraphExecEventRecordNodeSetEvent(exec, node, event))
API(cudaGraphExecEventWaitNodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event), cuGraphExecEventWaitNodeSetEvent(exec, node, event))
API(cudaGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned enabled), cuGraphNodeSetEnabled(exec, node, enabled))
API(cudaGraphNodeGetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned *enabled), cuGraphNodeGetEnabled(exec, node, enabled))
