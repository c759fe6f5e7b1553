package link

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The device runtime: what kernels call to launch kernels and to use streams and memory. NVIDIA
// has it in libcudadevrt, which drives NVIDIA's hardware; this one stands on functions of
// PVDRM's software GPU. All launches of a kernel run in order, so streams and events have nothing
// to do.
//
// Each source begins with what its functions have in common; what the first has is common to all but
// those of cooperative groups.
var (
	//go:embed runtime.ptx
	runtimeSource string
	//go:embed runtime_box.ptx
	boxSource string
	//go:embed runtime_kernel.ptx
	kernelSource string
	//go:embed runtime_graph.ptx
	graphSource string
	//go:embed runtime_node.ptx
	nodeSource string
	//go:embed runtime_group.ptx
	groupSource string
)

// runtimeSources are all of them, and groupIndex the one that needs nothing of the first.
var runtimeSources = []string{runtimeSource, boxSource, kernelSource, graphSource, groupSource, nodeSource}

const groupIndex = 4

// runtimeHeader are the directives that the first begins with.
const runtimeHeader = ".version 6.3\n.target sm_50\n.address_size 64\n"

// SetConditional is the function by which kernels set the values of conditional handles, and
// ConditionsVariable the variable that leads it to them: the address of the values and their number.
// NVIDIA's compiler has the function for all sources, not only for those with the device runtime.
const (
	SetConditional     = "cudaGraphSetConditional"
	ConditionsVariable = "__pvdrm_conditions"
)

// GraphsVariable is the variable that leads kernels to where they ask for launches of graphs. The source of
// cudaGraphLaunch has its layout.
const GraphsVariable = "__pvdrm_graphs"

// ofGraphs reports whether a function is one that sources call although nvcc leaves no trace of the library: what
// kernels do with graphs.
func ofGraphs(name string) bool {
	return name == "cudaGraphLaunch" || strings.HasPrefix(name, "cudaGraphKernelNode")
}

// currentGraph is how cudaGetCurrentGraphExec asks for the graph that runs.
var currentGraph = regexp.MustCompile(`mov\.[bu]64\s+(%\w+)\s*,\s*%current_graph_exec\s*;`)

// withCurrentGraph lets a source read the graph that runs where its launches are asked for: devices do not know it.
// What follows .address_size is in one line with it, so that lines keep their numbers.
func withCurrentGraph(source []byte) []byte {
	if !currentGraph.Match(source) {
		return source
	}
	source = currentGraph.ReplaceAll(source, []byte("{ .reg .b64 %pvdrm; ld.global.u64 %pvdrm, ["+GraphsVariable+"]; ld.volatile.u64 $1, [%pvdrm+8]; }"))
	return addressSize.ReplaceAll(source, []byte("$0 .weak .global .align 8 .u64 "+GraphsVariable+"[1];"))
}

var addressSize = regexp.MustCompile(`(?m)^\s*\.address_size\s+64`)

// DeviceVariable is the variable of the device runtime with what the device answers: DeviceWords of 8
// bytes, from DeviceOrdinal on its attributes by number, the compute capabilities that the module is compiled from
// and for, and from DeviceLimits on its limits. DeviceLacks marks one that it does not have. The word DeviceOthers
// is how many other devices there are.
const (
	DeviceVariable = "__pvdrm_device"
	DeviceOrdinal  = 0 // no attribute: the number of the device
	DevicePTX      = 157
	DeviceBinary   = 158
	DeviceOthers   = 159
	DeviceLimits   = 160
	DeviceWords    = 176
	DeviceLacks    = ^uint64(0)
)

//go:embed conditional.ptx
var conditionalSource string

// runtimePart begins a part of a source: the function of that name, without prefix.
const runtimePart = "// part "

// part is a function, and the number of the source that it is from.
type part struct {
	text   string
	source int
}

// runtimeCommons is what the functions of each source have in common, and runtimeParts are the functions by name.
var runtimeCommons, runtimeParts = func() (commons []string, parts map[string]part) {
	parts = map[string]part{}
	for i, source := range runtimeSources {
		common, rest, _ := strings.Cut(strings.TrimPrefix(source, runtimeHeader), runtimePart)
		commons = append(commons, common)
		for function := range strings.SplitSeq(rest, "\n"+runtimePart) {
			name, text, _ := strings.Cut(function, "\n")
			parts[name] = part{text: text, source: i}
		}
	}
	return commons, parts
}()

// The names of the functions in code for CUDA 12 and later, and before; and those in code that
// has a default stream for each thread. The second one has it for a single function.
var runtimePrefixes = []string{"__cudaCDP2", "__cuda", "cuda"}

// runtimeVersions are what cudaRuntimeGetVersion writes, by prefix. That of CUDA 13 still answers 6000.
var runtimeVersions = map[string]string{"__cudaCDP2": "6000", "cuda": "11080"}

const perThread = "_ptsz"

// runtimeErrors are the errors that the functions return.
var runtimeErrors = []struct {
	code       int
	name, text string
}{
	{code: 0, name: "cudaSuccess", text: "no error"},
	{code: 1, name: "cudaErrorInvalidValue", text: "invalid argument"},
	{code: 2, name: "cudaErrorMemoryAllocation", text: "out of memory"},
	{code: 9, name: "cudaErrorInvalidConfiguration", text: "invalid configuration argument"},
	{code: 12, name: "cudaErrorInvalidPitchValue", text: "invalid pitch argument"},
	{code: 21, name: "cudaErrorInvalidMemcpyDirection", text: "invalid copy direction for memcpy"},
	{code: 68, name: "cudaErrorSyncDepthExceeded", text: "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth"},
	{code: 69, name: "cudaErrorLaunchPendingCountExceeded", text: "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"},
	{code: 101, name: "cudaErrorInvalidDevice", text: "invalid device ordinal"},
	{code: 215, name: "cudaErrorUnsupportedLimit", text: "limit is not supported on this architecture"},
	{code: 98, name: "cudaErrorInvalidDeviceFunction", text: "invalid device function"},
	{code: 400, name: "cudaErrorInvalidResourceHandle", text: "invalid resource handle"},
	{code: 801, name: "cudaErrorNotSupported", text: "operation not supported"},
}

// WithConditional returns a source as it is, or with SetConditional if it calls that and lacks it.
// Name stands for the source in messages.
func WithConditional(name string, source []byte) ([]byte, error) {
	if !bytes.Contains(source, []byte(SetConditional)) || bytes.Contains(source, []byte(ConditionsVariable)) {
		return source, nil
	}
	l := New()
	if err := l.Add(name, source); err != nil {
		return nil, err
	}
	return l.Complete()
}

// UseRuntime says that the sources may call the device runtime: what they leave open of it is
// added.
func (l *Linker) UseRuntime() { l.runtime = true }

// runtimeUnit returns the part of the device runtime that has the names, and false if it has none
// of them.
func runtimeUnit(names []string) (string, bool) {
	var b strings.Builder
	uses := make([]bool, len(runtimeCommons))
	for _, name := range names {
		for _, prefix := range runtimePrefixes {
			base, ok := strings.CutPrefix(name, prefix)
			part, has := runtimeParts[strings.TrimSuffix(base, perThread)]
			if !ok || !has {
				continue
			}
			text := part.text
			if text == "" { // of the functions that give the text of an error
				text = errorTable(strings.HasPrefix(base, "GetErrorName"))
			}
			b.WriteString(strings.NewReplacer("NAME", name, "VERSION", runtimeVersions[prefix]).Replace(text))
			uses[0], uses[part.source] = uses[0] || part.source != groupIndex, true
			break
		}
	}
	var common strings.Builder
	common.WriteString(runtimeHeader)
	for i, text := range runtimeCommons {
		if uses[i] {
			common.WriteString(text)
		}
	}
	return common.String() + b.String(), slices.Contains(uses, true)
}

// errorTable is the body of a function that returns the text of an error: it tries each.
func errorTable(byName bool) string {
	var body, texts strings.Builder
	write := func(n int, text string) {
		bytes := strings.Trim(fmt.Sprint([]byte(text)), "[]")
		fmt.Fprintf(&texts, ".global .align 1 .b8 NAME$%d[%d] = {%s, 0};\n", n, len(text)+1, strings.ReplaceAll(bytes, " ", ", "))
	}
	write(len(runtimeErrors), "unrecognized error code")
	fmt.Fprintf(&body, "mov.u64 %%d0, NAME$%d;\n", len(runtimeErrors))
	for n, e := range slices.All(runtimeErrors) {
		text := e.text
		if byName {
			text = e.name
		}
		write(n, text)
		fmt.Fprintf(&body, "setp.eq.u32 %%p0, %%r0, %d;\nmov.u64 %%d1, NAME$%d;\nselp.b64 %%d0, %%d1, %%d0, %%p0;\n", e.code, n)
	}
	return texts.String() + ".weak .func (.param .b64 r) NAME(.param .b32 code)\n{\n" +
		".reg .pred %p<1>; .reg .b32 %r<1>; .reg .b64 %d<2>;\nld.param.u32 %r0, [code];\n" + body.String() +
		"cvta.global.u64 %d0, %d0;\nst.param.b64 [r], %d0;\nret;\n}\n"
}
