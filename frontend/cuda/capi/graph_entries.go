package capi

import "slices"

// Notes that several rows share.
const (
	notePriority    = "it is kept, and changes nothing"
	noteNodes       = "kernels, copies, fills, host functions, children, empty nodes, events, memory, memory operations, conditions; no others"
	noteInstantiate = noteOneStream + "; what kernels launch runs when their graph has ended"
	noteUpdate      = "more may change than NVIDIA's allows"
	noteOneStream   = "the nodes run one after the other"
	noteGraphMem    = "of the device; NVIDIA's shares more memory"
)

// graphEntries are the entry points about graphs.
var graphEntries = slices.Concat([]entry{
	{name: "cuGraphCreate", args: 2, do: graphCreate},
	{name: "cuGraphDestroy", args: 1, do: graphDestroy},
	{name: "cuGraphClone", args: 2, do: graphClone},
	{name: "cuGraphNodeFindInClone", args: 3, do: nodeFindInClone},
	{name: "cuGraphDestroyNode", args: 1, do: graphDestroyNode},
	{name: "cuGraphDebugDotPrint", args: 3, do: graphDebugDotPrint, note: "the flags ask for more than it prints"},
	{name: "cuGraphGetNodes", args: 3, do: graphGetNodes},
	{name: "cuGraphGetRootNodes", args: 3, do: graphGetRootNodes},
	{name: "cuGraphGetEdges", args: 4, do: graphGetEdges},
	{name: "cuGraphGetEdges_v2", args: 5, do: graphGetEdgesV2},
	{name: "cuGraphNodeGetType", args: 2, do: nodeGetType},
	{name: "cuGraphNodeGetDependencies", args: 3, do: nodeGetDependencies},
	{name: "cuGraphNodeGetDependencies_v2", args: 4, do: nodeGetDependenciesV2},
	{name: "cuGraphNodeGetDependentNodes", args: 3, do: nodeGetDependents},
	{name: "cuGraphNodeGetDependentNodes_v2", args: 4, do: nodeGetDependentsV2},
	{name: "cuGraphAddDependencies", args: 4, do: graphAddDependencies},
	{name: "cuGraphAddDependencies_v2", args: 5, do: graphAddDependenciesV2},
	{name: "cuGraphRemoveDependencies", args: 4, do: graphRemoveDependencies},
	{name: "cuGraphRemoveDependencies_v2", args: 5, do: graphRemoveDependenciesV2},
	{name: "cuGraphAddNode", args: 5, do: graphAddNode, note: noteNodes},
	{name: "cuGraphAddNode_v2", args: 6, do: graphAddNodeV2, note: noteNodes},
	{name: "cuGraphNodeSetParams", args: 2, do: nodeSetParams, note: noteNodes},
	{name: "cuGraphConditionalHandleCreate", args: 5, do: graphConditionalHandleCreate},
	{name: "cuGraphAddKernelNode", args: 5, do: graphAddKernelNode},
	{name: "cuGraphAddKernelNode_v2", args: 5, do: graphAddKernelNodeV2},
	{name: "cuGraphKernelNodeGetParams", args: 2, do: kernelNodeGetParams},
	{name: "cuGraphKernelNodeGetParams_v2", args: 2, do: kernelNodeGetParamsV2},
	{name: "cuGraphKernelNodeSetParams", args: 2, do: kernelNodeSetParams},
	{name: "cuGraphKernelNodeSetParams_v2", args: 2, do: kernelNodeSetParamsV2},
	{name: "cuGraphKernelNodeGetAttribute", args: 3, do: kernelNodeGetAttribute, note: "cooperative and priority, and what was set"},
	{name: "cuGraphKernelNodeSetAttribute", args: 3, do: kernelNodeSetAttribute, note: "as the attributes of cuLaunchKernelEx"},
	{name: "cuGraphKernelNodeCopyAttributes", args: 2, do: kernelNodeCopyAttributes},
	{name: "cuGraphAddMemcpyNode", args: 6, do: graphAddMemcpyNode},
	{name: "cuGraphMemcpyNodeGetParams", args: 2, do: memcpyNodeGetParams},
	{name: "cuGraphMemcpyNodeSetParams", args: 2, do: memcpyNodeSetParams},
	{name: "cuGraphAddMemsetNode", args: 6, do: graphAddMemsetNode},
	{name: "cuGraphMemsetNodeGetParams", args: 2, do: memsetNodeGetParams},
	{name: "cuGraphMemsetNodeSetParams", args: 2, do: memsetNodeSetParams},
	{name: "cuGraphAddHostNode", args: 5, do: graphAddHostNode},
	{name: "cuGraphHostNodeGetParams", args: 2, do: hostNodeGetParams},
	{name: "cuGraphHostNodeSetParams", args: 2, do: hostNodeSetParams},
	{name: "cuGraphAddChildGraphNode", args: 5, do: graphAddChildGraphNode},
	{name: "cuGraphChildGraphNodeGetGraph", args: 2, do: childNodeGetGraph},
	{name: "cuGraphAddEmptyNode", args: 4, do: graphAddEmptyNode},
	{name: "cuGraphAddEventRecordNode", args: 5, do: graphAddEventRecordNode},
	{name: "cuGraphEventRecordNodeGetEvent", args: 2, do: eventRecordNodeGetEvent},
	{name: "cuGraphEventRecordNodeSetEvent", args: 2, do: eventRecordNodeSetEvent},
	{name: "cuGraphAddEventWaitNode", args: 5, do: graphAddEventWaitNode},
	{name: "cuGraphEventWaitNodeGetEvent", args: 2, do: eventWaitNodeGetEvent},
	{name: "cuGraphEventWaitNodeSetEvent", args: 2, do: eventWaitNodeSetEvent},
	{name: "cuGraphAddMemAllocNode", args: 5, do: graphAddMemAllocNode, note: noteGraphMem},
	{name: "cuGraphMemAllocNodeGetParams", args: 2, do: memAllocNodeGetParams},
	{name: "cuGraphAddMemFreeNode", args: 5, do: graphAddMemFreeNode},
	{name: "cuGraphMemFreeNodeGetParams", args: 2, do: memFreeNodeGetParams},
	{name: "cuGraphAddBatchMemOpNode", args: 5, do: graphAddBatchMemOpNode, note: noteMemOps},
	{name: "cuGraphBatchMemOpNodeGetParams", args: 2, do: batchMemOpNodeGetParams},
	{name: "cuGraphBatchMemOpNodeSetParams", args: 2, do: batchMemOpNodeSetParams},
	{name: "cuGraphExecBatchMemOpNodeSetParams", args: 3, do: graphExecBatchMemOpNodeSetParams},
	{name: "cuUserObjectCreate", args: 5, do: userObjectCreate},
	{name: "cuUserObjectRetain", args: 2, do: userObjectRetain},
	{name: "cuUserObjectRelease", args: 2, do: userObjectRelease},
	{name: "cuGraphRetainUserObject", args: 4, do: graphRetainUserObject},
	{name: "cuGraphReleaseUserObject", args: 3, do: graphReleaseUserObject},
	{name: "cuGraphInstantiate_v2", args: 5, do: graphInstantiate, others: "cuGraphInstantiate", note: noteOneStream},
	{name: "cuGraphInstantiateWithFlags", args: 3, do: graphInstantiateWithFlags, note: noteInstantiate},
	{name: "cuGraphInstantiateWithParams", args: 3, do: graphInstantiateWithParams, perThread: "_ptsz", note: noteInstantiate},
	{name: "cuGraphExecGetFlags", args: 2, do: graphExecGetFlags},
	{name: "cuGraphExecDestroy", args: 1, do: graphExecDestroy},
	{name: "cuGraphUpload", args: 2, do: graphUpload, perThread: "_ptsz"},
	{name: "cuGraphLaunch", args: 2, do: graphLaunch, perThread: "_ptsz", note: noteOneStream},
	{name: "cuGraphExecUpdate", args: 4, do: graphExecUpdate, note: noteUpdate},
	{name: "cuGraphExecUpdate_v2", args: 3, do: graphExecUpdateV2, note: noteUpdate},
	{name: "cuGraphExecNodeSetParams", args: 3, do: graphExecNodeSetParams, note: noteNodes},
	{name: "cuGraphExecKernelNodeSetParams", args: 3, do: graphExecKernelNodeSetParams},
	{name: "cuGraphExecKernelNodeSetParams_v2", args: 3, do: graphExecKernelNodeSetParamsV2},
	{name: "cuGraphExecMemcpyNodeSetParams", args: 4, do: graphExecMemcpyNodeSetParams, note: noteUpdate},
	{name: "cuGraphExecMemsetNodeSetParams", args: 4, do: graphExecMemsetNodeSetParams, note: noteUpdate},
	{name: "cuGraphExecHostNodeSetParams", args: 3, do: graphExecHostNodeSetParams},
	{name: "cuGraphExecChildGraphNodeSetParams", args: 3, do: graphExecChildGraphNodeSetParams},
	{name: "cuGraphExecEventRecordNodeSetEvent", args: 3, do: graphExecEventRecordNodeSetEvent},
	{name: "cuGraphExecEventWaitNodeSetEvent", args: 3, do: graphExecEventWaitNodeSetEvent},
	{name: "cuGraphNodeSetEnabled", args: 3, do: graphNodeSetEnabled},
	{name: "cuGraphNodeGetEnabled", args: 3, do: graphNodeGetEnabled},
}, unsupported(`
	cuGraphAddExternalSemaphoresSignalNode/5 cuGraphAddExternalSemaphoresWaitNode/5
	cuGraphExternalSemaphoresSignalNodeGetParams/2 cuGraphExternalSemaphoresSignalNodeSetParams/2 cuGraphExternalSemaphoresWaitNodeGetParams/2
	cuGraphExternalSemaphoresWaitNodeSetParams/2 cuGraphExecExternalSemaphoresSignalNodeSetParams/3 cuGraphExecExternalSemaphoresWaitNodeSetParams/3`))
