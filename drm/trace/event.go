package trace

import (
	"syscall"
	"time"
)

// Op is what an event tells of. The values are part of the format.
type Op uint8

// Operations.
const (
	OpOpen Op = iota + 1
	OpClose
	OpVersion
	OpGetParam
	OpGemNew
	OpMmap
	OpGemInfo
	OpGemClose
	OpVMBind
	OpChannelAlloc
	OpChannelFree
	OpExec
	OpWait
	OpModuleLoad
	OpModuleUnload
	OpModuleFunction
	OpModuleGlobal
	OpStatus
	OpWritten
	OpSeen
	// Since version 2.
	OpIoctl // of whose meaning nothing is recorded
	OpCPUPrep
	OpSyncobjCreate
	OpSyncobjDestroy
	OpSyncobjReset
	OpSyncobjSignal
	OpSyncobjWait
	OpExecSync
	OpPrimeExport
	OpPrimeImport

	lastOp = OpPrimeImport
)

// lastOps are the last operations of each version of the format.
var lastOps = map[byte]Op{1: OpSeen, Version: lastOp}

// Kind says what a number of an event is.
type Kind uint8

// Kinds. Those of symbols come first: a replay has other numbers for them.
const (
	KindHandle Kind = iota + 1 // GEM handle
	KindChannel
	KindModule
	KindFunction
	KindSyncobj
	KindSeqno   // of the channel before it
	KindBuffer  // memory that PRIME shares, whatever descriptor it has; counted from 1 in the whole trace
	KindAddress // GPU virtual address

	KindNumber
	KindBytes
	KindFlags
	KindTime // nanoseconds, two's complement
)

// Field is a number of an event.
type Field struct {
	Name string
	Kind Kind
	// Varies is a result that another device may give differently.
	Varies bool
}

// Info describes an operation: the meaning of its numbers and bytes.
type Info struct {
	Name     string
	In, Out  []Field
	InBytes  []string // names of Event.InBytes
	OutBytes []string // names of Event.OutBytes; those of another device may differ
}

var infos = [lastOp + 1]Info{
	OpOpen:         {Name: "OPEN"},
	OpClose:        {Name: "CLOSE"},
	OpVersion:      {Name: "VERSION", Out: []Field{{"major", KindNumber, false}, {"minor", KindNumber, false}, {"patch", KindNumber, false}}, OutBytes: []string{"name", "description"}},
	OpGetParam:     {Name: "GETPARAM", In: []Field{{"param", KindNumber, false}}, Out: []Field{{"value", KindNumber, true}}},
	OpGemNew:       {Name: "GEM_NEW", In: []Field{{"size", KindBytes, false}, {"domain", KindNumber, false}, {"flags", KindFlags, false}}, Out: []Field{{"handle", KindHandle, false}}},
	OpMmap:         {Name: "MMAP", In: []Field{{"handle", KindHandle, false}}, Out: []Field{{"size", KindBytes, true}}},
	OpGemInfo:      {Name: "GEM_INFO", In: []Field{{"handle", KindHandle, false}}, Out: []Field{{"size", KindBytes, true}}},
	OpGemClose:     {Name: "GEM_CLOSE", In: []Field{{"handle", KindHandle, false}}},
	OpVMBind:       {Name: "VM_BIND", In: []Field{{"async", KindFlags, false}}, InBytes: []string{"operations"}},
	OpChannelAlloc: {Name: "CHANNEL_ALLOC", Out: []Field{{"channel", KindChannel, false}}},
	OpChannelFree:  {Name: "CHANNEL_FREE", In: []Field{{"channel", KindChannel, false}}},
	OpExec:         {Name: "EXEC", In: []Field{{"channel", KindChannel, false}}, InBytes: []string{"commands", "waits"}, Out: []Field{{"seqno", KindSeqno, false}}},
	OpWait:         {Name: "WAIT", In: []Field{{"channel", KindChannel, false}, {"seqno", KindSeqno, false}, {"timeout", KindTime, false}}},
	OpModuleLoad:   {Name: "MODULE_LOAD", InBytes: []string{"name", "source"}, Out: []Field{{"module", KindModule, false}}, OutBytes: []string{"log"}},
	OpModuleUnload: {Name: "MODULE_UNLOAD", In: []Field{{"module", KindModule, false}}},
	OpModuleFunction: {Name: "MODULE_FUNCTION", In: []Field{{"module", KindModule, false}}, InBytes: []string{"name"},
		Out: []Field{{"function", KindFunction, false}, {"param_bytes", KindBytes, false}, {"shared_bytes", KindBytes, false},
			{"local_bytes", KindBytes, true}, {"const_bytes", KindBytes, false}, {"regs", KindNumber, true}, {"max_threads", KindNumber, true}},
		OutBytes: []string{"params"}},
	OpModuleGlobal: {Name: "MODULE_GLOBAL", In: []Field{{"module", KindModule, false}}, InBytes: []string{"name"}, Out: []Field{{"addr", KindAddress, false}, {"size", KindBytes, false}}},
	OpStatus:       {Name: "STATUS", Out: []Field{{"cause", KindNumber, false}}, OutBytes: []string{"text"}},
	OpWritten:      {Name: "WRITTEN", In: []Field{{"handle", KindHandle, false}, {"offset", KindBytes, false}}, InBytes: []string{"content"}},
	OpIoctl:        {Name: "IOCTL", In: []Field{{"request", KindFlags, false}}, InBytes: []string{"argument"}, OutBytes: []string{"argument"}},
	OpCPUPrep:      {Name: "GEM_CPU_PREP", In: []Field{{"handle", KindHandle, false}, {"timeout", KindTime, false}}},

	OpSyncobjCreate:  {Name: "SYNCOBJ_CREATE", In: []Field{{"signaled", KindNumber, false}}, Out: []Field{{"syncobj", KindSyncobj, false}}},
	OpSyncobjDestroy: {Name: "SYNCOBJ_DESTROY", In: []Field{{"syncobj", KindSyncobj, false}}},
	OpSyncobjReset:   {Name: "SYNCOBJ_RESET", InBytes: []string{"syncobjs"}},
	OpSyncobjSignal:  {Name: "SYNCOBJ_SIGNAL", InBytes: []string{"syncobjs"}},
	OpSyncobjWait: {Name: "SYNCOBJ_WAIT", In: []Field{{"flags", KindFlags, false}, {"timeout", KindTime, false}}, InBytes: []string{"syncobjs"},
		Out: []Field{{"first", KindNumber, true}}},
	OpExecSync: {Name: "EXEC", In: []Field{{"channel", KindChannel, false}}, InBytes: []string{"commands", "after", "signals"}, Out: []Field{{"seqno", KindSeqno, false}}},

	OpPrimeExport: {Name: "PRIME_HANDLE_TO_FD", In: []Field{{"handle", KindHandle, false}}, Out: []Field{{"buffer", KindBuffer, false}}},
	OpPrimeImport: {Name: "PRIME_FD_TO_HANDLE", In: []Field{{"buffer", KindBuffer, false}}, Out: []Field{{"handle", KindHandle, false}}},

	OpSeen: {Name: "SEEN", In: []Field{{"handle", KindHandle, false}, {"offset", KindBytes, false}}, OutBytes: []string{"hashes"}},
}

// Info describes the operation; ok is false for an unknown one.
func (o Op) Info() (info Info, ok bool) {
	if o == 0 || o > lastOp {
		return Info{}, false
	}
	return infos[o], true
}

func (o Op) String() string {
	if info, ok := o.Info(); ok {
		return info.Name
	}
	return "unknown"
}

// Event is one thing that happened. How many numbers and byte strings it has is
// in its Op's Info.
type Event struct {
	Op       Op
	File     uint32        // which DRM file, counted from 0 in order of OPEN
	Thread   uint32        // of the program
	Start    time.Duration // since the trace began
	Took     time.Duration
	Errno    syscall.Errno
	In, Out  []uint64
	InBytes  [][]byte
	OutBytes [][]byte
}

// PageBytes is the granularity in which memory is looked at.
const PageBytes = 4096
