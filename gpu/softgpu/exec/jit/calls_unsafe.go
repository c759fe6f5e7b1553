package jit

import (
	"unsafe"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Calls is what a warp has of the calls that native code has made, see calls.go.
type Calls struct {
	depth int64          // of open, in bytes
	left  int64          // what is left of a thread's stack, in bytes; below 0: native code makes no calls
	grace int64          // as of the warp
	table unsafe.Pointer // *[]*Code, by number of a function
	// Where the warp's registers and its local memory end, which it keeps alive.
	end32, end64, endPreds uintptr
	endLocal               uint64
	open                   [maxCalls]openCall

	codes  []*Code
	base   *ir.Frame  // that native code was entered in
	frames []ir.Frame // see InCalled
}

// openCall is a call that has not returned.
type openCall struct {
	ret          uintptr // of the code that called
	full, masked variantAt
	count        int64  // Frame.count where no fragment of the function waits
	turn         uint64 // 1 + that in which lanes began to wait for others to return; 0: none do
	mask         uint32 // lanes that called
	fn           uint32 // the function's number
	pc           int32  // of the call
}

// Places in Calls, openCall, Code and machineCode.
const (
	offCalls    = int32(unsafe.Offsetof(Frame{}.calls))
	callsDepth  = int32(unsafe.Offsetof(Calls{}.depth))
	callsLeft   = int32(unsafe.Offsetof(Calls{}.left))
	callsGrace  = int32(unsafe.Offsetof(Calls{}.grace))
	callsTable  = int32(unsafe.Offsetof(Calls{}.table))
	callsEnd32  = int32(unsafe.Offsetof(Calls{}.end32))
	callsEnd64  = int32(unsafe.Offsetof(Calls{}.end64))
	callsPreds  = int32(unsafe.Offsetof(Calls{}.endPreds))
	callsLocal  = int32(unsafe.Offsetof(Calls{}.endLocal))
	callsOpen   = int32(unsafe.Offsetof(Calls{}.open))
	callBytes   = int32(unsafe.Sizeof(openCall{}))
	callRet     = callsOpen + int32(unsafe.Offsetof(openCall{}.ret)) // of an open call, from Calls and its offset in open on
	callFull    = callsOpen + int32(unsafe.Offsetof(openCall{}.full))
	callMasked  = callsOpen + int32(unsafe.Offsetof(openCall{}.masked))
	callCount   = callsOpen + int32(unsafe.Offsetof(openCall{}.count))
	callTurn    = callsOpen + int32(unsafe.Offsetof(openCall{}.turn))
	callMask    = callsOpen + int32(unsafe.Offsetof(openCall{}.mask))
	callFn      = callsOpen + int32(unsafe.Offsetof(openCall{}.fn))
	callPC      = callsOpen + int32(unsafe.Offsetof(openCall{}.pc))
	codeFull    = int32(unsafe.Offsetof(Code{}.full) + unsafe.Offsetof(variant{}.code)) // an atomic.Pointer has nothing but the pointer
	codeMasked  = int32(unsafe.Offsetof(Code{}.masked) + unsafe.Offsetof(variant{}.code))
	codeEntry   = int32(unsafe.Offsetof(machineCode{}.entry))
	codeEntries = int32(unsafe.Offsetof(machineCode{}.at)) // the first word of a slice
	codeCalled  = int32(unsafe.Offsetof(machineCode{}.called))
)

// prepare sets what does not change in a launch.
func (c *Calls) prepare() {
	c.table = unsafe.Pointer(unsafe.SliceData(c.codes)) // read by numbers of the program's functions, of which it has all
}

// ends sets where registers and local memory end. They stay where they are until Go makes room for more.
func (c *Calls) ends(w *ir.Warp) {
	c.end32, c.end64, c.endPreds = baseOf(w.Store32, len(w.Store32)), baseOf(w.Store64, len(w.Store64)), baseOf(w.StorePr, len(w.StorePr))
	c.endLocal = 4 * uint64(len(w.Local))
}

// takeOver sets what native code knows of a warp that enters it. May says whether it may make calls.
func (c *Calls) takeOver(w *ir.Warp, may bool) {
	if c == nil {
		return
	}
	c.depth, c.base, c.grace, c.left = 0, w.Frame, int64(w.Grace), -1
	if may {
		c.left = int64(w.Block.StackBytes - w.Frame.StackBytes())
	}
}
