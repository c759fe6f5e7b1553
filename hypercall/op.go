package hypercall

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"pvdrm/gem/quota"
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
	OpUsage          Op = 19
	OpGemShare       Op = 20
	OpGemOpen        Op = 21
	OpEventNew       Op = 22
	OpEventOpen      Op = 23
	OpEventClose     Op = 24
	OpEventRecord    Op = 25
	OpEventWait      Op = 26
	OpEventReached   Op = 27
	OpAsk            Op = 28
)

// Ops has one row for each operation, in the order of their numbers. Everything else follows from
// it: how a request is decoded, served, answered and counted, the documentation, and the seeds of
// fuzzing.
var Ops = [...]OpInfo{
	{Op: OpNop, Name: "nop", call: plain(Server.Nop), Doc: "does nothing; measures the ring"},
	{Op: OpProperties, Name: "properties", call: asks(DecodeOwner, Server.Properties, DecodeProperties),
		Doc: "name and parameters of the device; says which process of the guest has the file"},
	{Op: OpMemoryInfo, Name: "memory-info", call: gives(Server.MemoryInfo, DecodeMemoryInfo), Doc: "VRAM in use now"},
	{Op: OpGemNew, Name: "gem-new", call: takes(DecodeGemNew, Server.GemNew), Doc: "makes an object in VRAM",
		Charges: []quota.Resource{quota.VRAM, quota.Objects}},
	{Op: OpGemGrant, Name: "gem-grant", call: takes(DecodeGemGrant, Server.GemGrant),
		Doc:     "makes an object of a granted resource of the carrier",
		Charges: []quota.Resource{quota.Granted, quota.Objects, quota.Runs}},
	{Op: OpGemClose, Name: "gem-close", Async: true, call: takes(DecodeID, Server.GemClose),
		Doc: "frees an object and its mappings"},
	{Op: OpVMBind, Name: "vm-bind", Async: true, call: explains(DecodeVMBind, Server.VMBind, DecodeBindResult),
		Doc: "changes mappings"},
	{Op: OpChannelAlloc, Name: "channel-alloc", call: takes(DecodeID, Server.ChannelAlloc), Doc: "opens a channel",
		Charges: []quota.Resource{quota.Channels}},
	{Op: OpChannelFree, Name: "channel-free", call: takes(DecodeID, Server.ChannelFree),
		Doc: "closes a channel: drops what is queued, waits for what runs"},
	{Op: OpExec, Name: "exec", Async: true, call: execCall,
		Doc:     "queues a command stream; the channel record tells how it ended",
		Charges: []quota.Resource{quota.Queued, quota.QueuedBytes}},
	{Op: OpModuleLoad, Name: "module-load", call: explains(DecodeModuleLoad, Server.ModuleLoad, DecodeText),
		Doc:     "a part of a PTX source; the last one loads it",
		Charges: []quota.Resource{quota.Modules, quota.ModuleText, quota.ModuleImage, quota.ModuleMemory, quota.VRAM}},
	{Op: OpModuleUnload, Name: "module-unload", Async: true, call: takes(DecodeID, Server.ModuleUnload),
		Doc: "frees a module"},
	{Op: OpModuleFunction, Name: "module-function", call: asks(DecodeSymbol, Server.ModuleFunction, DecodeFunction),
		Doc: "finds a kernel", Charges: []quota.Resource{quota.Functions}},
	{Op: OpModuleGlobal, Name: "module-global", call: asks(DecodeSymbol, Server.ModuleGlobal, DecodeGlobal),
		Doc: "finds a variable"},
	{Op: OpStatus, Name: "status", call: gives(Server.Status, DecodeStatus), Doc: "why the GPU context was lost"},
	{Op: OpCounters, Name: "counters", call: gives(Server.Counters, DecodeCounters), Doc: "what the backend counted"},
	{Op: OpGemUnmap, Name: "gem-unmap", Async: true, call: takes(DecodeID, Server.GemUnmap),
		Doc: "drops all mappings of an object of granted memory, which stays granted"},
	{Op: OpReadOutput, Name: "read-output", call: gives(Server.ReadOutput, DecodeText),
		Doc: "takes the oldest part of what kernels printed; empty when there is none"},
	{Op: OpUsage, Name: "usage", call: gives(Server.Usage, DecodeUsage),
		Doc: "what this guest and its processes use of the device"},
	{Op: OpGemShare, Name: "gem-share", call: asks(DecodeID, Server.GemShare, DecodeKey),
		Doc: "the key of an object in VRAM for other sessions of the guest, the same each time", Charges: []quota.Resource{quota.Objects}},
	{Op: OpGemOpen, Name: "gem-open", call: asks(DecodeOpen, Server.GemOpen, DecodeOpened),
		Doc: "makes an object of the memory of another session's", Charges: []quota.Resource{quota.Objects}},
	{Op: OpEventNew, Name: "event-new", call: asks(DecodeID, Server.EventNew, DecodeKey),
		Doc: "makes an event that other sessions of the guest can open", Charges: []quota.Resource{quota.Objects}},
	{Op: OpEventOpen, Name: "event-open", call: takes(DecodeOpen, Server.EventOpen),
		Doc: "gives an event of another session a number in this one", Charges: []quota.Resource{quota.Objects}},
	{Op: OpEventClose, Name: "event-close", Async: true, call: takes(DecodeID, Server.EventClose),
		Doc: "gives an event up; batches that wait for it still do"},
	{Op: OpEventRecord, Name: "event-record", call: takes(DecodeEventPoint, Server.EventRecord),
		Doc: "makes an event stand for a point of a channel"},
	{Op: OpEventWait, Name: "event-wait", call: takes(DecodeEventPoint, Server.EventWait),
		Doc:     "queues a batch that ends when what the event stands for now is reached",
		Charges: []quota.Resource{quota.Queued, quota.QueuedBytes}},
	{Op: OpEventReached, Name: "event-reached", call: asks(DecodeID, Server.EventReached, DecodeReached),
		Doc: "whether what the event stands for now is reached"},
	{Op: OpAsk, Name: "ask", call: asks(DecodeAsk, Server.Ask, DecodeAnswers),
		Doc: "asks the GPU's driver what only it can answer: tensor maps, clusters that run at the same time"},
}

// Rows is the length of arrays with an element for each operation, which Op.Row finds.
const Rows = len(Ops) + 1

// Row returns the place of the operation in such an array: 0 for all that are unknown.
func (o Op) Row() int {
	if int(o) >= Rows {
		return 0
	}
	return int(o)
}

// RowName names the operation at a place of such an array.
func RowName(row int) string {
	if row == 0 {
		return "unknown"
	}
	return Ops[row-1].Name
}

// Server serves the operations of one session, a method each.
type Server interface {
	Nop() error
	Properties(Owner) (Properties, error)
	MemoryInfo() (MemoryInfo, error)
	GemNew(GemNew) error
	GemGrant(GemGrant) error
	GemClose(ID) error
	VMBind(VMBind) (BindResult, error)
	ChannelAlloc(ID) error
	ChannelFree(ID) error
	Exec(Exec) error
	ModuleLoad(ModuleLoad) (Text, error)
	ModuleUnload(ID) error
	ModuleFunction(Symbol) (Function, error)
	ModuleGlobal(Symbol) (Global, error)
	Status() (Status, error)
	Counters() (Counters, error)
	GemUnmap(ID) error
	ReadOutput() (Text, error)
	Usage() (Usage, error)
	GemShare(ID) (Key, error)
	GemOpen(Open) (Opened, error)
	EventNew(ID) (Key, error)
	EventOpen(Open) error
	EventClose(ID) error
	EventRecord(EventPoint) error
	EventWait(EventPoint) error
	EventReached(ID) (Reached, error)
	Ask(Ask) (Answers, error)
}

// OpInfo is the row of an operation.
type OpInfo struct {
	Op   Op
	Name string
	// Async operations are answered only when they fail, unless the request has FlagAnswer.
	Async bool
	call
	// Charges lists the quotas that the operation is charged to.
	Charges []quota.Resource
	Doc     string
}

// unknown is the row of all other operations.
var unknown OpInfo

// Info returns the row of an operation, for reading.
func (o Op) Info() (*OpInfo, bool) {
	row := o.Row()
	if row == 0 {
		return &unknown, false
	}
	return &Ops[row-1], true
}

// Serve decodes the payload of a request, has it served and encodes the answer. The payload need
// only be valid during the call. It is ENOSYS for an unknown operation, and ErrLater where the
// server completes the request itself.
func (o Op) Serve(s Server, payload []byte) (answer []byte, err error) {
	row := o.Row()
	if row == 0 {
		return nil, syscall.ENOSYS
	}
	return Ops[row-1].serve(s, payload)
}

// maxDescription bounds what Describe returns, in bytes.
const maxDescription = 256

// Describe returns a request for logs: the operation's name and the fields of the payload.
func (o Op) Describe(payload []byte) string {
	info, ok := o.Info()
	if !ok || info.Request.Type == nil {
		return o.String()
	}
	m, err := info.Request.Decode(payload[:min(len(payload), MaxMessage)])
	if err != nil {
		return fmt.Sprintf("%s, %d bytes that are not its payload", o, len(payload))
	}
	text := fmt.Sprintf("%s %+v", o, m)
	if len(text) > maxDescription {
		text = text[:maxDescription] + "..."
	}
	return text
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
