package capi

import (
	"strings"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// Where a call has the stream that it is for, if not in an argument.
const (
	noStream     = -1
	legacyStream = -2
	configStream = -3 // in the CUlaunchConfig of argument 0
)

// captureRule says what becomes of a call while streams are captured.
type captureRule struct {
	stream int
	// take makes the call part of the capture of its stream. Where it is nil the call is not
	// permitted for such a stream.
	take func(c *call, g *graphs, x *context, s *cuda.Stream) error
	// unsafe calls could disturb a capture that they have nothing to do with.
	unsafe bool
	// events are the arguments with events whose state the program asks for.
	events []int
	// instead decides about the call alone. It returns whether that was all.
	instead func(c *call, g *graphs) (bool, error)
}

// whileCapturing decides about a call while streams are captured. It returns whether that was all.
func (c *call) whileCapturing() (bool, error) {
	rule, ok := captureRules[c.entry.name]
	if !ok {
		return false, nil
	}
	g := &c.lib.graphs
	g.mu.Lock()
	defer g.mu.Unlock()
	if rule.instead != nil {
		done, err := rule.instead(c, g)
		g.watch()
		return done, c.graphError(err)
	}
	for _, i := range rule.events {
		e, err := c.event(i)
		if err != nil {
			return false, nil // the call itself fails
		}
		if err := g.captures.Ask(e); err != nil {
			return true, c.graphError(err)
		}
	}
	if rule.stream != noStream {
		if done, err := c.forCaptured(g, rule); done {
			return true, c.graphError(err)
		}
	}
	if rule.unsafe {
		if err := g.captures.Unsafe(c.thread.id, graph.Mode(c.thread.captureMode)); err != nil {
			return true, c.graphError(err)
		}
	}
	return false, nil
}

// forCaptured decides about a call for a stream.
func (c *call) forCaptured(g *graphs, rule captureRule) (bool, error) {
	x, s := c.ruleStream(rule.stream)
	if s == nil {
		return false, nil // the call says what is wrong
	}
	if k := g.captures.Of(s); k != nil {
		switch {
		case rule.take == nil:
			k.Invalidate()
			return true, graph.ErrUnsupported
		case k.Invalid():
			return true, graph.ErrInvalidated
		}
		return true, rule.take(c, g, x, s)
	}
	if s != x.DefaultStream() {
		return false, nil
	}
	disturbed := g.blocking(x)
	for _, k := range disturbed {
		k.Invalidate()
	}
	if len(disturbed) > 0 {
		return true, graph.ErrImplicit
	}
	return false, nil
}

// ruleStream finds the stream that a call is for, or nil.
func (c *call) ruleStream(at int) (*context, *cuda.Stream) {
	var v uint64
	switch at {
	case legacyStream:
		v = streamLegacy
	case configStream:
		b, err := c.read(c.u64(0)+32, 8)
		if err != nil {
			return nil, nil
		}
		v = le64(b)
	default:
		v = c.u64(at)
	}
	d := c.of(v)
	x, s, err := d.stream(0)
	if err != nil {
		return nil, nil
	}
	return x, s
}

// captureRules has a row for each entry point that depends on captures, by the name of the entry.
// What it lacks works as ever.
var captureRules = map[string]captureRule{
	"cuLaunchKernel":            {stream: 8, take: captureLaunch},
	"cuLaunchKernelEx":          {stream: configStream, take: captureLaunchEx},
	"cuLaunchCooperativeKernel": {stream: 8, take: captureCooperative},
	"cuLaunch":                  {stream: legacyStream},
	"cuLaunchGrid":              {stream: legacyStream},
	"cuLaunchGridAsync":         {stream: 3},
	"cuLaunchHostFunc":          {stream: 0, take: captureHost},
	"cuStreamAddCallback":       {stream: 0},
	"cuGraphLaunch":             {stream: 1, take: captureGraph},
	"cuGraphUpload":             {stream: 1},
	"cuMemcpyAsync":             {stream: 3, take: captureLine(memoryUnified, memoryUnified)},
	"cuMemcpyHtoDAsync_v2":      {stream: 3, take: captureLine(memoryDevice, memoryHost)},
	"cuMemcpyDtoHAsync_v2":      {stream: 3, take: captureLine(memoryHost, memoryDevice)},
	"cuMemcpyDtoDAsync_v2":      {stream: 3, take: captureLine(memoryDevice, memoryDevice)},
	"cuMemcpyPeerAsync":         {stream: 5, take: capturePeer},
	"cuMemcpy3DPeerAsync":       {stream: 1},
	"cuMemcpyBatchAsync":        {stream: 8},
	"cuMemcpyBatchAsync_v2":     {stream: 7},
	"cuMemcpy3DBatchAsync":      {stream: 4},
	"cuMemcpy3DBatchAsync_v2":   {stream: 3},
	"cuMemcpy2DAsync_v2":        {stream: 1, take: captureCopy2D},
	"cuMemcpy3DAsync_v2":        {stream: 1, take: captureCopy3D},
	"cuMemcpyHtoAAsync_v2":      {stream: 4, take: captureHtoA},
	"cuMemcpyAtoHAsync_v2":      {stream: 4, take: captureAtoH},
	"cuMemsetD8Async":           {stream: 3, take: captureFill(1)},
	"cuMemsetD16Async":          {stream: 3, take: captureFill(2)},
	"cuMemsetD32Async":          {stream: 3, take: captureFill(4)},
	"cuMemsetD2D8Async":         {stream: 5, take: captureFillRows(1)},
	"cuMemsetD2D16Async":        {stream: 5, take: captureFillRows(2)},
	"cuMemsetD2D32Async":        {stream: 5, take: captureFillRows(4)},
	"cuMemAllocAsync":           {stream: 2, take: captureAlloc},
	"cuMemAllocFromPoolAsync":   {stream: 3, take: captureAllocFromPool},
	"cuMemFreeAsync":            {stream: 1, take: captureFree},
	"cuMemPrefetchAsync":        {stream: 3},
	"cuMemPrefetchAsync_v2":     {stream: 4},
	"cuMemPrefetchBatchAsync":   {stream: 7},
	"cuMemDiscardBatchAsync":    {stream: 4},

	"cuMemDiscardAndPrefetchBatchAsync": {stream: 7},
	"cuStreamAttachMemAsync":            {stream: 0},
	"cuStreamWaitValue32_v2":            {stream: 0, take: captureMemOps(oneMemOp(memOpWait32))},
	"cuStreamWaitValue64_v2":            {stream: 0, take: captureMemOps(oneMemOp(memOpWait64))},
	"cuStreamWriteValue32_v2":           {stream: 0, take: captureMemOps(oneMemOp(memOpWrite32))},
	"cuStreamWriteValue64_v2":           {stream: 0, take: captureMemOps(oneMemOp(memOpWrite64))},
	"cuStreamBatchMemOp_v2":             {stream: 0, take: captureMemOps(batchMemOps)},
	"cuStreamWaitEvent":                 {instead: waitWhileCapturing},
	"cuEventRecord":                     {instead: recordWhileCapturing},
	"cuEventRecordWithFlags":            {instead: recordWhileCapturing},
	"cuEventDestroy_v2":                 {instead: forgetEvent},
	"cuStreamDestroy_v2":                {instead: dropStream},
	"cuStreamSynchronize":               {stream: 0, unsafe: true},
	"cuStreamQuery":                     {stream: 0, unsafe: true},
	"cuEventQuery":                      {stream: noStream, events: []int{0}, unsafe: true},
	"cuEventSynchronize":                {stream: noStream, events: []int{0}, unsafe: true},
	"cuEventElapsedTime":                {stream: noStream, events: []int{1, 2}},
	"cuCtxSynchronize":                  {stream: noStream, unsafe: true},
	"cuCtxSynchronize_v2":               {stream: noStream, unsafe: true},
	"cuMemAlloc_v2":                     {stream: noStream, unsafe: true},
	"cuMemAllocPitch_v2":                {stream: noStream, unsafe: true},
	"cuMemFree_v2":                      {stream: noStream, unsafe: true},
	"cuMemAllocHost_v2":                 {stream: noStream, unsafe: true},
	"cuMemHostAlloc":                    {stream: noStream, unsafe: true},
	"cuMemFreeHost":                     {stream: noStream, unsafe: true},
	"cuMemAllocManaged":                 {stream: noStream, unsafe: true},
	"cuMemHostRegister_v2":              {stream: noStream, unsafe: true},
	"cuMemHostUnregister":               {stream: noStream, unsafe: true},
}

// Synchronous copies and fills go to the legacy stream.
func init() {
	for _, name := range strings.Fields(`cuMemcpy cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2 cuMemcpy3D_v2 cuMemcpyPeer cuMemcpy3DPeer
		cuMemcpyDtoA_v2 cuMemcpyAtoD_v2 cuMemcpyHtoA_v2 cuMemcpyAtoH_v2 cuMemcpyAtoA_v2
		cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD32_v2 cuMemsetD2D8_v2 cuMemsetD2D16_v2 cuMemsetD2D32_v2`) {
		captureRules[name] = captureRule{stream: legacyStream}
	}
}
