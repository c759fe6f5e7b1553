package rt

import "slices"

// Notes that several rows share.
const (
	notePriority    = "it is kept, and changes nothing"
	noteOneStream   = "the nodes run one after the other"
	noteNodes       = "kernels, copies, fills, host functions, children, empty nodes, events, memory, memory operations, conditions; no others"
	noteInstantiate = noteOneStream + "; what kernels launch runs when their graph has ended"
	noteUpdate      = "more may change than NVIDIA's allows"
)

// graphEntries are the entry points about graphs.
var graphEntries = slices.Concat([]entry{
	{name: "cudaGraphCreate"},
	{name: "cudaGraphDestroy"},
	{name: "cudaGraphClone"},
	{name: "cudaGraphNodeFindInClone"},
	{name: "cudaGraphDestroyNode"},
	{name: "cudaGraphDebugDotPrint", note: "the flags ask for more than it prints"},
	{name: "cudaGraphGetNodes"},
	{name: "cudaGraphGetRootNodes"},
	{name: "cudaGraphGetEdges"},
	{name: "cudaGraphGetEdges_v2"},
	{name: "cudaGraphNodeGetType"},
	{name: "cudaGraphNodeGetDependencies"},
	{name: "cudaGraphNodeGetDependencies_v2"},
	{name: "cudaGraphNodeGetDependentNodes"},
	{name: "cudaGraphNodeGetDependentNodes_v2"},
	{name: "cudaGraphAddDependencies"},
	{name: "cudaGraphAddDependencies_v2"},
	{name: "cudaGraphRemoveDependencies"},
	{name: "cudaGraphRemoveDependencies_v2"},
	{name: "cudaGraphAddNode", note: noteNodes},
	{name: "cudaGraphAddNode_v2", note: noteNodes},
	{name: "cudaGraphNodeSetParams", note: noteNodes},
	{name: "cudaGraphAddKernelNode"},
	{name: "cudaGraphKernelNodeGetParams"},
	{name: "cudaGraphKernelNodeSetParams"},
	{name: "cudaGraphKernelNodeGetAttribute", note: "cooperative and priority, and what was set"},
	{name: "cudaGraphKernelNodeSetAttribute", note: "as the attributes of cudaLaunchKernelExC"},
	{name: "cudaGraphKernelNodeCopyAttributes"},
	{name: "cudaGraphConditionalHandleCreate"},
	{name: "cudaGraphConditionalHandleCreate_v2", note: "of the current context only"},
	{name: "cudaGraphAddMemcpyNode"},
	{name: "cudaGraphAddMemcpyNode1D"},
	{name: "cudaGraphAddMemcpyNodeToSymbol"},
	{name: "cudaGraphAddMemcpyNodeFromSymbol"},
	{name: "cudaGraphMemcpyNodeGetParams"},
	{name: "cudaGraphMemcpyNodeSetParams"},
	{name: "cudaGraphMemcpyNodeSetParams1D"},
	{name: "cudaGraphMemcpyNodeSetParamsToSymbol"},
	{name: "cudaGraphMemcpyNodeSetParamsFromSymbol"},
	{name: "cudaGraphAddMemsetNode"},
	{name: "cudaGraphMemsetNodeGetParams"},
	{name: "cudaGraphMemsetNodeSetParams"},
	{name: "cudaGraphAddHostNode"},
	{name: "cudaGraphHostNodeGetParams"},
	{name: "cudaGraphHostNodeSetParams"},
	{name: "cudaGraphAddChildGraphNode"},
	{name: "cudaGraphChildGraphNodeGetGraph"},
	{name: "cudaGraphAddEmptyNode"},
	{name: "cudaGraphAddEventRecordNode"},
	{name: "cudaGraphEventRecordNodeGetEvent"},
	{name: "cudaGraphEventRecordNodeSetEvent"},
	{name: "cudaGraphAddEventWaitNode"},
	{name: "cudaGraphEventWaitNodeGetEvent"},
	{name: "cudaGraphEventWaitNodeSetEvent"},
	{name: "cudaGraphAddMemAllocNode", note: "of the device; NVIDIA's shares more memory"},
	{name: "cudaGraphMemAllocNodeGetParams"},
	{name: "cudaGraphAddMemFreeNode"},
	{name: "cudaGraphMemFreeNodeGetParams"},
	{name: "cudaUserObjectCreate"},
	{name: "cudaUserObjectRetain"},
	{name: "cudaUserObjectRelease"},
	{name: "cudaGraphRetainUserObject"},
	{name: "cudaGraphReleaseUserObject"},
	{name: "cudaGraphInstantiate", note: noteInstantiate},
	{name: "cudaGraphInstantiateWithFlags", note: noteInstantiate},
	{name: "cudaGraphInstantiateWithParams", perThread: ptsz, note: noteInstantiate},
	{name: "cudaGraphExecGetFlags"},
	{name: "cudaGraphExecDestroy"},
	{name: "cudaGraphUpload", perThread: ptsz},
	{name: "cudaGraphLaunch", perThread: ptsz, note: noteOneStream},
	{name: "cudaGraphExecUpdate", note: noteUpdate},
	{name: "cudaGraphExecNodeSetParams", note: noteNodes},
	{name: "cudaGraphExecKernelNodeSetParams"},
	{name: "cudaGraphExecMemcpyNodeSetParams", note: noteUpdate},
	{name: "cudaGraphExecMemcpyNodeSetParams1D", note: noteUpdate},
	{name: "cudaGraphExecMemcpyNodeSetParamsToSymbol", note: noteUpdate},
	{name: "cudaGraphExecMemcpyNodeSetParamsFromSymbol", note: noteUpdate},
	{name: "cudaGraphExecMemsetNodeSetParams", note: noteUpdate},
	{name: "cudaGraphExecHostNodeSetParams"},
	{name: "cudaGraphExecChildGraphNodeSetParams"},
	{name: "cudaGraphExecEventRecordNodeSetEvent"},
	{name: "cudaGraphExecEventWaitNodeSetEvent"},
	{name: "cudaGraphNodeSetEnabled"},
	{name: "cudaGraphNodeGetEnabled"},
}, missing(`
	cudaGraphAddExternalSemaphoresSignalNode cudaGraphAddExternalSemaphoresWaitNode cudaGraphExternalSemaphoresSignalNodeGetParams
	cudaGraphExternalSemaphoresSignalNodeSetParams cudaGraphExternalSemaphoresWaitNodeGetParams cudaGraphExternalSemaphoresWaitNodeSetParams
	cudaGraphExecExternalSemaphoresSignalNodeSetParams cudaGraphExecExternalSemaphoresWaitNodeSetParams
	cudaGraphGetId cudaGraphExecGetId cudaGraphNodeGetContainingGraph cudaGraphNodeGetLocalId cudaGraphNodeGetToolsId`))
