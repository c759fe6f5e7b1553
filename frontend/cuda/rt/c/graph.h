// What libcudart uses of the driver API for graphs and stream capture. See driver.h.
#ifndef PVDRM_CUDART_GRAPH_H
#define PVDRM_CUDART_GRAPH_H

#include "cudart.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

// cudaKernelNodeParams, and CUDA_KERNEL_NODE_PARAMS of version 2 with a CUkernel and a context.
struct kernel_node {
	const void *function;
	struct dim3 grid, block;
	unsigned shared;
	void **arguments, **extra;
};

struct driver_kernel_node {
	struct kernel_node all;
	CUfunction kernel;
	CUcontext context;
};

_Static_assert(sizeof(struct kernel_node) == 56 && sizeof(struct driver_kernel_node) == 72, "as the manual has them");

// CUgraphNodeParams and cudaGraphNodeParams: what it says of a kernel, a copy and a fill differs.
enum { NODE_KERNEL, NODE_MEMCPY, NODE_MEMSET, NODE_MEM_ALLOC = 10, NODE_CONDITIONAL = 13 };
enum { ALLOC_ADDRESS = 128 }; // where a node that allocates has the address

struct node_params {
	int type;
	int reserved[3];
	union {
		char room[232];
		struct kernel_node kernel;
		struct driver_kernel_node driver_kernel;
		struct {
			int flags, reserved;
			CUcontext context;
			struct copy copy;
		} copy;
		struct {
			int flags, reserved;
			CUcontext context;
			struct copy3d copy;
		} driver_copy;
		struct {
			char fill[40];
			CUcontext context;
		} fill;
		struct {
			uint64_t handle;
			unsigned kind, size;
			CUgraph *bodies;
			CUcontext context; // from CUDA 13 on the program's, as an execution context
		} conditional;
	};
	long long last;
};

_Static_assert(sizeof(struct node_params) == 256, "CUgraphNodeParams has 256 bytes");

CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphClone(CUgraph *clone, CUgraph graph);
CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n);
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n);
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n);
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, void *data, size_t *n);
CUresult cuGraphNodeGetType(CUgraphNode node, int *type);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *n);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, void *data, size_t *n);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *n);
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, void *data, size_t *n);
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n);
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const void *data, size_t n);
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n);
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const void *data, size_t n);

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, struct node_params *params);
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const void *data, size_t n, struct node_params *params);
CUresult cuGraphNodeSetParams(CUgraphNode node, struct node_params *params);
CUresult cuGraphConditionalHandleCreate(uint64_t *handle, CUgraph graph, CUcontext context, unsigned value, unsigned flags);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const struct driver_kernel_node *params);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, struct driver_kernel_node *params);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const struct driver_kernel_node *params);
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, unsigned attribute, void *value);
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, unsigned attribute, const void *value);
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from);
CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const struct copy3d *copy, CUcontext context);
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, struct copy3d *copy);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const struct copy3d *copy);
CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const void *params, CUcontext context);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, void *params);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const void *params);
CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, const void *params);
CUresult cuGraphHostNodeGetParams(CUgraphNode node, void *params);
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const void *params);
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, CUgraph child);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child);
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, void *params);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, void *params);
CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, CUdeviceptr address);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *address);
CUresult cuUserObjectCreate(void **object, void *value, void *destroy, unsigned refs, unsigned flags);
CUresult cuUserObjectRetain(void *object, unsigned count);
CUresult cuUserObjectRelease(void *object, unsigned count);
CUresult cuGraphRetainUserObject(CUgraph graph, void *object, unsigned count, unsigned flags);
CUresult cuGraphReleaseUserObject(CUgraph graph, void *object, unsigned count);
CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n);
CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, CUevent event);
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event);
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, CUevent event);
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event);
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event);

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t bytes);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params);
CUresult cuGraphExecGetFlags(CUgraphExec exec, uint64_t *flags);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node, int *result);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *result);
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, struct node_params *params);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const struct driver_kernel_node *params);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const struct copy3d *copy, CUcontext context);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const void *params, CUcontext context);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const void *params);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child);
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled);
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled);

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *before, const void *data, size_t n, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *id);
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **before, size_t *n);
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **before, const void **data, size_t *n);
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *before, size_t n, unsigned flags);
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *before, const void *data, size_t n, unsigned flags);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);

#endif
