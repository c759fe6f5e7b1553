package hypercall

import (
	"encoding/binary"

	"pvdrm/drm"
)

// Bounds of message fields; those of what drm defines stand there.
const (
	MaxBinds    = 256 // operations of one VMBind
	MaxProperty = 64  // values of Properties
	MaxClients  = 256 // of Usage
)

// ID is the payload of operations that name one object, channel or module.
type ID struct{ ID uint32 } // from 1; a channel's is below MaxChannels

// Append appends the encoded payload.
func (m ID) Append(b []byte) []byte { return put32(b, m.ID) }

// DecodeID decodes an ID.
func DecodeID(b []byte) (m ID, err error) {
	r := reader{b: b}
	m.ID = r.u32()
	return m, r.end()
}

// GemNew makes an object in VRAM.
type GemNew struct {
	Handle uint32 // the new object's
	Size   uint64 // bytes, a multiple of the VRAM window's page
}

// Append appends the encoded payload.
func (m GemNew) Append(b []byte) []byte { return put64(put32(b, m.Handle), m.Size) }

// DecodeGemNew decodes a GemNew.
func DecodeGemNew(b []byte) (m GemNew, err error) {
	r := reader{b: b}
	m.Handle, m.Size = r.u32(), r.u64()
	return m, r.end()
}

// GemGrant makes an object of a part of a resource of the carrier.
type GemGrant struct {
	Handle   uint32 // the new object's
	Resource uint32 // the carrier's id of the memory
	Offset   uint64 // where the part starts, bytes, a multiple of 4096
	Size     uint64 // bytes, a multiple of 4096
}

// Append appends the encoded payload.
func (m GemGrant) Append(b []byte) []byte {
	return put64(put32(b, m.Handle, m.Resource), m.Offset, m.Size)
}

// DecodeGemGrant decodes a GemGrant.
func DecodeGemGrant(b []byte) (m GemGrant, err error) {
	r := reader{b: b}
	m.Handle, m.Resource, m.Offset, m.Size = r.u32(), r.u32(), r.u64(), r.u64()
	return m, r.end()
}

// bindBytes is the encoded size of a drm.BindOp, whose padding stays behind.
const bindBytes = 3*4 + 3*8

// VMBind is a list of mapping changes, done in order until one fails: a batch of
// maps of contiguous runs, of the scattered runs of an object, of unmaps, or of
// all of them. The device uses large pages where address, offset and length
// allow it.
type VMBind struct{ Ops []drm.BindOp } // at most MaxBinds

// Append appends the encoded payload.
func (m VMBind) Append(b []byte) []byte {
	b = put32(b, uint32(len(m.Ops)))
	for _, o := range m.Ops {
		b = put64(put32(b, o.Op, o.Flags, o.Handle), o.Addr, o.BOOffset, o.Range)
	}
	return b
}

// DecodeVMBind decodes a VMBind.
func DecodeVMBind(b []byte) (m VMBind, err error) {
	r := reader{b: b}
	n := r.count(bindBytes)
	if n > MaxBinds {
		return m, ErrMessage
	}
	m.Ops = make([]drm.BindOp, n)
	for i := range m.Ops {
		m.Ops[i] = drm.BindOp{Op: r.u32(), Flags: r.u32(), Handle: r.u32(), Addr: r.u64(), BOOffset: r.u64(), Range: r.u64()}
	}
	return m, r.end()
}

// BindResult is the answer to a VMBind that failed: which operation it was.
type BindResult struct{ Index uint32 } // of the operation that failed, from 0

// Append appends the encoded payload.
func (m BindResult) Append(b []byte) []byte { return put32(b, m.Index) }

// DecodeBindResult decodes a BindResult.
func DecodeBindResult(b []byte) (m BindResult, err error) {
	r := reader{b: b}
	m.Index = r.u32()
	return m, r.end()
}

// Exec queues a command stream as batch Seqno of a channel; the batches of a
// channel are numbered 1, 2, 3 …
type Exec struct {
	Channel uint32
	Seqno   uint64
	Waits   []drm.Point // to be reached first; at most drm.MaxWaits
	Stream  []byte      // the command stream, at most drm.MaxExecBytes bytes; a part of the message when decoded
}

// Append appends the encoded payload.
func (m Exec) Append(b []byte) []byte {
	b = put64(put32(b, m.Channel), m.Seqno)
	b = put32(b, uint32(len(m.Waits)))
	for _, w := range m.Waits {
		b = put64(put32(b, w.Channel), w.Seqno)
	}
	return append(b, m.Stream...)
}

// DecodeExec decodes an Exec.
func DecodeExec(b []byte) (m Exec, err error) {
	r := reader{b: b}
	m.Channel, m.Seqno = r.u32(), r.u64()
	n := r.count(4 + 8)
	if n > drm.MaxWaits {
		return m, ErrMessage
	}
	if n > 0 {
		m.Waits = make([]drm.Point, n)
		for i := range m.Waits {
			m.Waits[i] = drm.Point{Channel: r.u32(), Seqno: r.u64()}
		}
	}
	if len(r.b) > drm.MaxExecBytes {
		return m, ErrMessage
	}
	m.Stream = r.take(len(r.b))
	return m, r.end()
}

// ModuleLoad carries a part of a PTX source, or of machine code, in the first Bytes bytes of the
// bulk area. Parts come in order; the part that ends at Total loads the module.
type ModuleLoad struct {
	Module uint32 // the new module's id
	Bytes  uint32 // of this part
	Offset uint64 // of this part in the source
	Total  uint64 // bytes of the source, at most drm.MostSource
	Name   string // file name for messages, at most drm.MaxName bytes
}

// Append appends the encoded payload.
func (m ModuleLoad) Append(b []byte) []byte {
	return putText(put64(put32(b, m.Module, m.Bytes), m.Offset, m.Total), m.Name)
}

// DecodeModuleLoad decodes a ModuleLoad.
func DecodeModuleLoad(b []byte) (m ModuleLoad, err error) {
	r := reader{b: b}
	m.Module, m.Bytes, m.Offset, m.Total = r.u32(), r.u32(), r.u64(), r.u64()
	m.Name = r.text(drm.MaxName)
	return m, r.end()
}

// Symbol names something in a module.
type Symbol struct {
	Module   uint32
	Function uint32 // the id that the kernel gets; unused for a variable
	Name     string // at most drm.MaxName bytes
}

// Append appends the encoded payload.
func (m Symbol) Append(b []byte) []byte { return putText(put32(b, m.Module, m.Function), m.Name) }

// DecodeSymbol decodes a Symbol.
func DecodeSymbol(b []byte) (m Symbol, err error) {
	r := reader{b: b}
	m.Module, m.Function = r.u32(), r.u32()
	m.Name = r.text(drm.MaxName)
	return m, r.end()
}

// Function is the answer to OpModuleFunction, a drm.FunctionAttributes. Sizes are in bytes.
type Function drm.FunctionAttributes

// Append appends the encoded payload.
func (m Function) Append(b []byte) []byte {
	b = put32(b, m.ParamBytes, m.SharedBytes, m.LocalBytes, m.ConstBytes, m.Regs, m.MaxThreads,
		m.PTXVersion, m.Binary, m.ClusterX, m.ClusterY, m.ClusterZ, m.NeedsSize, uint32(len(m.Params)))
	for _, p := range m.Params {
		b = put32(b, p.Offset, p.Size)
	}
	return b
}

// DecodeFunction decodes a Function.
func DecodeFunction(b []byte) (m Function, err error) {
	r := reader{b: b}
	m.ParamBytes, m.SharedBytes, m.LocalBytes, m.ConstBytes = r.u32(), r.u32(), r.u32(), r.u32()
	m.Regs, m.MaxThreads, m.PTXVersion, m.Binary = r.u32(), r.u32(), r.u32(), r.u32()
	m.ClusterX, m.ClusterY, m.ClusterZ, m.NeedsSize = r.u32(), r.u32(), r.u32(), r.u32()
	n := r.count(8)
	if n > drm.MaxParams {
		return m, ErrMessage
	}
	m.Params = make([]drm.FunctionParam, n)
	for i := range m.Params {
		m.Params[i] = drm.FunctionParam{Offset: r.u32(), Size: r.u32()}
	}
	return m, r.end()
}

// Global is the answer to OpModuleGlobal.
type Global struct {
	Addr uint64 // GPU virtual address
	Size uint64 // bytes
}

// Append appends the encoded payload.
func (m Global) Append(b []byte) []byte { return put64(b, m.Addr, m.Size) }

// DecodeGlobal decodes a Global.
func DecodeGlobal(b []byte) (m Global, err error) {
	r := reader{b: b}
	m.Addr, m.Size = r.u64(), r.u64()
	return m, r.end()
}

// Status is the answer to OpStatus: a gpu.LostCause and its text.
type Status struct {
	Cause uint32 // 0 while the context lives
	Text  string // at most drm.MaxText bytes
}

// Append appends the encoded payload.
func (m Status) Append(b []byte) []byte {
	return putText(put32(b, m.Cause), m.Text[:min(len(m.Text), drm.MaxText)])
}

// DecodeStatus decodes a Status.
func DecodeStatus(b []byte) (m Status, err error) {
	r := reader{b: b}
	m.Cause = r.u32()
	m.Text = r.text(drm.MaxText)
	return m, r.end()
}

// Properties is the answer to OpProperties. Value i belongs to parameter i+1 of
// the user API's GETPARAM; a later minor version may append values.
type Properties struct {
	Name   string   // of the device
	Values []uint64 // at most MaxProperty
}

// Append appends the encoded payload.
func (m Properties) Append(b []byte) []byte {
	return put64(put32(putText(b, m.Name), uint32(len(m.Values))), m.Values...)
}

// DecodeProperties decodes Properties.
func DecodeProperties(b []byte) (m Properties, err error) {
	r := reader{b: b}
	m.Name = r.text(drm.MaxName)
	n := r.count(8)
	if n > MaxProperty {
		return m, ErrMessage
	}
	m.Values = make([]uint64, n)
	for i := range m.Values {
		m.Values[i] = r.u64()
	}
	return m, r.end()
}

// MemoryInfo is the answer to OpMemoryInfo.
type MemoryInfo struct{ Used uint64 } // bytes of VRAM, of all users of the device

// Append appends the encoded payload.
func (m MemoryInfo) Append(b []byte) []byte { return put64(b, m.Used) }

// DecodeMemoryInfo decodes a MemoryInfo.
func DecodeMemoryInfo(b []byte) (MemoryInfo, error) {
	if len(b) != 8 { // by hand: the null ioctl is measured with it
		return MemoryInfo{}, ErrMessage
	}
	return MemoryInfo{Used: binary.LittleEndian.Uint64(b)}, nil
}

// Counters is the answer to OpCounters. The two numbers of exits are of the
// whole guest, the others of this session.
type Counters struct {
	Doorbells        uint64 `json:"doorbells,omitempty"`  // that the backend saw from this guest: every virtqueue kick, or wake-up of a local client
	Interrupts       uint64 `json:"interrupts,omitempty"` // that the backend sent to this guest
	Requests         uint64 `json:"requests"`             // ring entries
	Multicalls       uint64 `json:"multicalls"`           // runs of entries that were there at once
	LargestMulticall uint64 `json:"largest_multicall"`    // entries in the largest of them
	Grants           uint64 `json:"grants"`               // objects made of granted pages
	GrantedBytes     uint64 `json:"granted_bytes"`        // and their size
	PTEs             uint64 `json:"ptes"`                 // pages of 4096 bytes mapped
	Batches          uint64 `json:"batches"`              // command streams taken
	Sleeps           uint64 `json:"sleeps"`               // times the backend went to sleep
	PollingNS        uint64 `json:"polling_ns"`           // time it looked for work and found none
	SleepingNS       uint64 `json:"sleeping_ns"`          // time it slept
}

// Append appends the encoded payload.
func (m Counters) Append(b []byte) []byte {
	return put64(b, m.Doorbells, m.Interrupts, m.Requests, m.Multicalls, m.LargestMulticall, m.Grants,
		m.GrantedBytes, m.PTEs, m.Batches, m.Sleeps, m.PollingNS, m.SleepingNS)
}

// DecodeCounters decodes Counters.
func DecodeCounters(b []byte) (m Counters, err error) {
	r := reader{b: b}
	for _, v := range [...]*uint64{&m.Doorbells, &m.Interrupts, &m.Requests, &m.Multicalls, &m.LargestMulticall, &m.Grants,
		&m.GrantedBytes, &m.PTEs, &m.Batches, &m.Sleeps, &m.PollingNS, &m.SleepingNS} {
		*v = r.u64()
	}
	return m, r.end()
}

// Owner is the request of OpProperties. An empty one is the zero Owner.
type Owner struct {
	// Process is the guest's number of the process that holds the file, for other processes of the
	// same guest. 0: Usage does not list the file.
	Process uint32
}

// Append appends the encoded payload.
func (m Owner) Append(b []byte) []byte { return put32(b, m.Process) }

// DecodeOwner decodes an Owner.
func DecodeOwner(b []byte) (m Owner, err error) {
	if len(b) == 0 {
		return m, nil
	}
	r := reader{b: b}
	m.Process = r.u32()
	return m, r.end()
}

// Usage is the answer to OpUsage. Times are in nanoseconds, of the backend's monotonic clock.
type Usage struct {
	NowNS     uint64   // when this was read
	ComputeNS uint64   // for how long kernels of the guest have run so far
	CopyNS    uint64   // and copies
	VRAM      uint64   // bytes of device memory that the guest has, of the device or of its quota
	VRAMFree  uint64   // bytes of them that it can still allocate
	Clients   []Client // at most MaxClients
}

// Client is an open DRM file of the guest, as Usage lists it.
type Client struct {
	Process   uint32 // of Owner
	Timed     uint32 // 1: the times are known, 0: they are not, and 0
	VRAM      uint64 // bytes of device memory that are charged to the file
	ComputeNS uint64 // for how long kernels of the file have run
	CopyNS    uint64 // and copies
}

const clientBytes = 32 // of an encoded Client

// Append appends the encoded payload.
func (m Usage) Append(b []byte) []byte {
	b = put64(b, m.NowNS, m.ComputeNS, m.CopyNS, m.VRAM, m.VRAMFree)
	clients := m.Clients[:min(len(m.Clients), MaxClients)]
	b = put32(b, uint32(len(clients)))
	for _, c := range clients {
		b = put64(put32(b, c.Process, c.Timed), c.VRAM, c.ComputeNS, c.CopyNS)
	}
	return b
}

// DecodeUsage decodes a Usage.
func DecodeUsage(b []byte) (m Usage, err error) {
	r := reader{b: b}
	for _, v := range [...]*uint64{&m.NowNS, &m.ComputeNS, &m.CopyNS, &m.VRAM, &m.VRAMFree} {
		*v = r.u64()
	}
	n := r.count(clientBytes)
	if n > MaxClients {
		return m, ErrMessage
	}
	m.Clients = make([]Client, n)
	for i := range m.Clients {
		c := &m.Clients[i]
		c.Process, c.Timed = r.u32(), r.u32()
		c.VRAM, c.ComputeNS, c.CopyNS = r.u64(), r.u64(), r.u64()
	}
	return m, r.end()
}

// Text is an answer of bytes alone: a log, or what kernels printed. At most drm.MaxText bytes.
type Text []byte

// Append appends the encoded payload.
func (m Text) Append(b []byte) []byte { return append(b, m...) }

// DecodeText decodes a Text, a part of the message.
func DecodeText(b []byte) (Text, error) { return b, nil }
