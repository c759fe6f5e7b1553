package trace

import (
	"syscall"
	"time"

	"pvdrm/drm"
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

func field(name string, k Kind) Field { return Field{Name: name, Kind: k} }

func varying(name string, k Kind) Field { return Field{Name: name, Kind: k, Varies: true} }

// Info is the row of an operation: the meaning of its numbers and bytes, and how it is replayed
// and compared.
type Info struct {
	// Name names the ioctl as drm.Table does, without the driver's prefix, where it is one.
	Name    string
	Request drm.Request // 0 for what is no ioctl, and for OpIoctl

	In, Out  []Field
	InBytes  []string // names of Event.InBytes
	OutBytes []string // names of Event.OutBytes; those of another device may differ

	// call makes the call of an event; nil for events that are none.
	call   func(f *replayed, e *Event) result
	driver bool // it is one of drm.Driver, which drm.File has not
	// polls is set for waits: an event of one that ran out says nothing about the device or the
	// program, only how often the program asked.
	polls bool
	// private bytes are not compared: texts of a device, addresses of a program.
	privateIn, privateOut bool
}

// Info describes the operation; ok is false for an unknown one.
func (o Op) Info() (info Info, ok bool) {
	if o == 0 || o > lastOp {
		return Info{}, false
	}
	return rows[o], true
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
