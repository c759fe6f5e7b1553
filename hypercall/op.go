package hypercall

import (
	"encoding/binary"
	"fmt"
)

// Op is the operation of a message.
type Op uint16

// Operations. Ids of objects, channels, modules and functions are chosen by
// the frontend, so that a request can name what an earlier one in the same
// multicall makes.
const (
	OpNop            Op = 1
	OpProperties     Op = 2
	OpMemoryInfo     Op = 3
	OpGemNew         Op = 4
	OpGemGrant       Op = 5
	OpGemClose       Op = 6
	OpVMBind         Op = 7
	OpChannelAlloc   Op = 8
	OpChannelFree    Op = 9
	OpExec           Op = 10
	OpModuleLoad     Op = 11
	OpModuleUnload   Op = 12
	OpModuleFunction Op = 13
	OpModuleGlobal   Op = 14
	OpStatus         Op = 15
	OpCounters       Op = 16
	OpGemUnmap       Op = 17
	OpReadOutput     Op = 18
)

// OpInfo describes an operation.
type OpInfo struct {
	Op   Op
	Name string
	// Async operations are answered only when they fail, unless the request has FlagAnswer.
	Async bool
	// Request and Answer name the payload types, for the documentation.
	Request, Answer string
	Doc             string
}

// Ops lists every operation. The backend's handlers, traces, the documentation
// and the fuzz seeds are made from it.
var Ops = []OpInfo{
	{OpNop, "nop", false, "", "", "does nothing; measures the ring"},
	{OpProperties, "properties", false, "", "Properties", "name and parameters of the device"},
	{OpMemoryInfo, "memory-info", false, "", "MemoryInfo", "VRAM in use now"},
	{OpGemNew, "gem-new", false, "GemNew", "", "makes an object in VRAM"},
	{OpGemGrant, "gem-grant", false, "GemGrant", "", "makes an object of a granted resource of the carrier"},
	{OpGemClose, "gem-close", true, "ID", "", "frees an object and its mappings"},
	{OpVMBind, "vm-bind", true, "VMBind", "BindResult", "changes mappings"},
	{OpChannelAlloc, "channel-alloc", false, "ID", "", "opens a channel"},
	{OpChannelFree, "channel-free", false, "ID", "", "closes a channel: drops what is queued, waits for what runs"},
	{OpExec, "exec", true, "Exec", "", "queues a command stream; the channel record tells how it ended"},
	{OpModuleLoad, "module-load", false, "ModuleLoad", "text", "a part of a PTX source; the last one loads it"},
	{OpModuleUnload, "module-unload", true, "ID", "", "frees a module"},
	{OpModuleFunction, "module-function", false, "Symbol", "Function", "finds a kernel"},
	{OpModuleGlobal, "module-global", false, "Symbol", "Global", "finds a variable"},
	{OpStatus, "status", false, "", "Status", "why the GPU context was lost"},
	{OpCounters, "counters", false, "", "Counters", "what the backend counted"},
	{OpGemUnmap, "gem-unmap", true, "ID", "", "drops all mappings of an object of granted memory, which stays granted"},
	{OpReadOutput, "read-output", false, "", "text", "takes the oldest part of what kernels printed; empty when there is none"},
}

// unknown describes the operations that there are not.
var unknown OpInfo

// Info returns the description of an operation, for reading.
func (o Op) Info() (*OpInfo, bool) {
	if o == 0 || int(o) > len(Ops) {
		return &unknown, false
	}
	return &Ops[o-1], true
}

func (o Op) String() string {
	if i, ok := o.Info(); ok {
		return i.Name
	}
	return fmt.Sprintf("operation %d", uint16(o))
}

// HeaderBytes is the size of an encoded Header.
const HeaderBytes = 16

// FlagAnswer asks for a completion of an asynchronous operation.
const FlagAnswer = 1

// Header starts each message.
//
//	offset  size  field
//	0       2     operation
//	2       2     flags
//	4       4     bytes of the message, this header included
//	8       4     id, chosen by the frontend; a completion has that of its request
//	12      4     completion: errno, 0 for success
type Header struct {
	Op    Op
	Flags uint16
	Bytes uint32
	ID    uint32
	Errno uint32
}

func (h Header) encode(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(h.Op)|uint64(h.Flags)<<16|uint64(h.Bytes)<<32)
	binary.LittleEndian.PutUint64(b[8:], uint64(h.ID)|uint64(h.Errno)<<32)
}

// decodeHeader decodes a header from its two words.
func decodeHeader(lo, hi uint64) Header {
	return Header{Op: Op(lo), Flags: uint16(lo >> 16), Bytes: uint32(messageBytes(lo)), ID: uint32(hi), Errno: uint32(hi >> 32)}
}

// messageBytes is Header.Bytes in the first word of a header.
func messageBytes(lo uint64) int { return int(lo >> 32) }
