package rt

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Calls that have a stream mean the thread's own by their second name, and hand the rest over.
func TestCapture(t *testing.T) {
	p := started(t, 12)
	for _, c := range []struct{ name, before, after, driver, driverAfter string }{
		{name: "cudaStreamBeginCapture", after: " 1", driver: "cuStreamBeginCapture_v2", driverAfter: " 1"},
		{name: "cudaStreamBeginCaptureToGraph", after: " 3 4 0 5 2", driver: "cuStreamBeginCaptureToGraph", driverAfter: " 3 4 0 5 2"},
		{name: "cudaStreamEndCapture", after: " @8", driver: "cuStreamEndCapture", driverAfter: " *"},
		{name: "cudaStreamIsCapturing", after: " @8", driver: "cuStreamIsCapturing", driverAfter: " *"},
		{name: "cudaStreamUpdateCaptureDependencies", after: " 0 5 1", driver: "cuStreamUpdateCaptureDependencies", driverAfter: " * 5 1"},
		{name: "cudaStreamGetAttribute", after: " 3 @8", driver: "cuStreamGetAttribute", driverAfter: " 3 @8"},
		{name: "cudaStreamSetAttribute", after: " 3 @8", driver: "cuStreamSetAttribute", driverAfter: " 3 @8"},
		{name: "cudaGraphLaunch", before: " 9", driver: "cuGraphLaunch 9"},
		{name: "cudaGraphUpload", before: " 9", driver: "cuGraphUpload 9"},
	} {
		for call, stream := range map[string]int{" 7": 7, " 0": 0, "_ptsz 7": 7, "_ptsz 0": 2} {
			parts := regexp.MustCompile(`^(.*) (\d)$`).FindStringSubmatch(call)
			p.gives(0, c.name+parts[1]+c.before+" "+parts[2]+c.after, fmt.Sprintf("%s %d%s", c.driver, stream, c.driverAfter))
		}
	}
	p.gives(0, "cudaStreamCopyAttributes 7 8", "cuStreamCopyAttributes 7 8")
	p.tell("fail cuStreamEndCapture 904")
	p.gives(904, "cudaStreamEndCapture 7 @8", "cuStreamEndCapture 7 *")
	p.gives(904, "cudaGetLastError")
	p.gives(0, "cudaThreadExchangeStreamCaptureMode @8", "cuThreadExchangeStreamCaptureMode *")
}

// Names without a version have the signature of the header of their CUDA.
func TestSignaturesOfGraphs(t *testing.T) {
	forEachMajor(t, func(t *testing.T, version int) {
		p := started(t, version)
		if version == 13 {
			p.gives(0, "cudaGraphGetEdges 1 @8 @16 0 @24", "cuGraphGetEdges_v2 1 * * 0 *")
			p.gives(0, "cudaGraphNodeGetDependencies 1 @8 0 @24", "cuGraphNodeGetDependencies_v2 1 * 0 *")
			p.gives(0, "cudaGraphAddDependencies 1 @8 @16 0 3", "cuGraphAddDependencies_v2 1 @8 @16 0 3")
			p.gives(0, "cudaGraphRemoveDependencies 1 @8 @16 0 3", "cuGraphRemoveDependencies_v2 1 @8 @16 0 3")
			p.gives(0, "cudaStreamGetCaptureInfo 7 @0 @8 @16 @24 @32 @40", "cuStreamGetCaptureInfo_v3 7 * * * @24 @32 *")
			p.gives(0, "cudaStreamUpdateCaptureDependencies 7 0 0 5 1", "cuStreamUpdateCaptureDependencies_v2 7 * 0 5 1")
		} else {
			p.gives(0, "cudaGraphGetEdges 1 @8 @16 @24", "cuGraphGetEdges 1 * * *")
			p.gives(0, "cudaGraphNodeGetDependencies 1 @8 @24", "cuGraphNodeGetDependencies 1 * *")
			p.gives(0, "cudaGraphAddDependencies 1 @8 @16 3", "cuGraphAddDependencies 1 @8 @16 3")
			p.gives(0, "cudaGraphRemoveDependencies 1 @8 @16 3", "cuGraphRemoveDependencies 1 @8 @16 3")
			p.gives(0, "cudaStreamGetCaptureInfo 7 @0 @8", "cuStreamGetCaptureInfo 7 * *")
			p.gives(0, "cudaStreamUpdateCaptureDependencies 7 0 5 1", "cuStreamUpdateCaptureDependencies 7 * 5 1")
		}
		if version == 11 {
			p.gives(0, "cudaGraphInstantiate @0 5 @8 0 0", "cuGraphInstantiate_v2 * 5 * 0 0")
			p.gives(0, "cudaGraphExecUpdate 5 6 @8 @16", "cuGraphExecUpdate 5 6 * *")
		} else {
			p.gives(0, "cudaGraphInstantiate @0 5 8", "cuGraphInstantiateWithFlags * 5 8")
			p.gives(0, "cudaGraphExecUpdate 5 6 @8", "cuGraphExecUpdate_v2 5 6 @8")
		}
	})
}

// Copies say where they begin and end by their kind, and go to the node that is meant.
func TestCopiesOfGraphs(t *testing.T) {
	p := started(t, 12)
	p.gives(0, "cudaGraphAddMemcpyNode1D @0 5 @8 3 10 20 64 1", "cuGraphAddMemcpyNode * 5 @8 3 * 0")
	p.gives(0, "cudaGraphMemcpyNodeSetParams1D 6 10 20 64 2", "cuGraphMemcpyNodeSetParams 6 *")
	p.gives(0, "cudaGraphExecMemcpyNodeSetParams1D 9 6 10 20 64 3", "cuGraphExecMemcpyNodeSetParams 9 6 * 0")
	p.gives(0, "cudaGraphExecMemcpyNodeSetParams1D 0 6 10 20 64 3", "cuGraphExecMemcpyNodeSetParams 0 6 * 0")
	p.gives(21, "cudaGraphAddMemcpyNode1D @0 5 @8 3 10 20 64 7")
	p.gives(13, "cudaGraphAddMemcpyNodeToSymbol @0 5 @8 3 10 20 64 0 1")
	p.gives(1, "cudaGraphAddMemcpyNode @0 5 @8 3 16")
	p.gives(0, "cudaGraphMemcpyNodeGetParams 6 @64", "cuGraphMemcpyNodeGetParams 6 *")
	require.NotEqual(t, uint64(0x5a5a5a5a5a5a5a5a), binary.LittleEndian.Uint64(p.bytes(64, 8)))
	require.Equal(t, uint64(0x5a5a5a5a5a5a5a5a), p.word(64+160))
	p.gives(0, "cudaGraphAddChildGraphNode @0 5 @8 3 4", "cuGraphAddChildGraphNode * 5 @8 3 4")
	p.gives(0, "cudaGraphAddMemsetNode @0 5 @8 3 @16", "cuGraphAddMemsetNode * 5 @8 3 @16 0")

	const asked = "cuFuncGetAttribute * 0 6510615555426900570" // about the function in the structure
	p.gives(0, "cudaGraphAddKernelNode @0 5 @8 3 @256", asked, "cuGraphAddKernelNode_v2 * 5 @8 3 *")
	p.tell("fail cuFuncGetAttribute 400")
	p.gives(98, "cudaGraphAddKernelNode @0 5 @8 3 @256", asked)
}

// Memory of graphs is handed over as it is: its structures are the driver's.
func TestMemoryOfGraphs(t *testing.T) {
	p := started(t, 12)
	p.gives(0, "cudaGraphAddMemAllocNode @0 5 @8 3 @64", "cuGraphAddMemAllocNode * 5 @8 3 @64")
	p.gives(0, "cudaGraphMemAllocNodeGetParams 6 @64", "cuGraphMemAllocNodeGetParams 6 @64")
	p.gives(0, "cudaGraphAddMemFreeNode @0 5 @8 3 4096", "cuGraphAddMemFreeNode * 5 @8 3 4096")
	p.gives(0, "cudaGraphMemFreeNodeGetParams 6 @64", "cuGraphMemFreeNodeGetParams 6 *")
	p.gives(0, "cudaUserObjectCreate @0 8 9 1 1", "cuUserObjectCreate @0 8 9 1 1")
	p.gives(0, "cudaUserObjectRetain 8 2", "cuUserObjectRetain 8 2")
	p.gives(0, "cudaUserObjectRelease 8 2", "cuUserObjectRelease 8 2")
	p.gives(0, "cudaGraphRetainUserObject 5 8 1 1", "cuGraphRetainUserObject 5 8 1 1")
	p.gives(0, "cudaGraphReleaseUserObject 5 8 1", "cuGraphReleaseUserObject 5 8 1")
	p.gives(0, "cudaDeviceGetGraphMemAttribute 0 1 @64", "cuInit 0", "cuDeviceGetGraphMemAttribute 0 1 @64")
	p.gives(0, "cudaDeviceSetGraphMemAttribute 0 1 @64", "cuInit 0", "cuDeviceSetGraphMemAttribute 0 1 @64")
	p.gives(0, "cudaDeviceGraphMemTrim 0", "cuInit 0", "cuDeviceGraphMemTrim 0")
	p.gives(0, "cudaDeviceGraphMemTrim 1", "cuInit 0", "cuDeviceGraphMemTrim 1")
}
