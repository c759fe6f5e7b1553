package abi

import (
	"structs"
	"sync/atomic"
)

// Constants of gloop_abi.h.
const (
	Version       = 1
	Slots         = 64  // callbacks that a block can have pending
	CallbackBytes = 512 // a callback with what it captures
	FlagAll       = 1   // OpReceive: wait for all bytes
)

// Op is an operation of a request.
type Op uint32

// Operations, as gloop_abi.h describes them.
const (
	OpOpen Op = 1 + iota
	OpClose
	OpStat
	OpTruncate
	OpRead
	OpWrite
	OpConnect
	OpBind
	OpUnbind
	OpAccept
	OpDisconnect
	OpReceive
	OpSend

	opEnd
)

// State says how a loop has left the kernel.
type State uint32

// States of loops.
const (
	StateRunning   State = iota
	StateDone            // no logical block is left
	StateSuspended       // it can go on at once
	StateWaiting         // it can go on when a request has ended
	StateFailed          // see Fault
)

// Fault is what ends a program.
type Fault uint32

// Faults.
const (
	FaultNone      Fault = iota
	FaultSlots           // more callbacks than slots
	FaultCoalesced       // threads of a block made different calls
	FaultVersion         // the header is of another version
)

// Launch is the first parameter of every kernel. Times are nanoseconds, the first five fields
// addresses of the GPU.
type Launch struct {
	_                                         structs.HostLayout
	Signal, Queue, Contexts, Blocks, Texts    uint64
	Look, Spin                                uint64
	Grid                                      [3]uint32
	Every, TextBytes, Sequence, Ver, Reserved uint32
}

// Queue is what all blocks of a program share, in device memory.
type Queue struct {
	_           structs.HostLayout
	Next, Total uint64
	Busy        uint32
	Reserved    [11]uint32
}

// Slot holds a callback.
type Slot struct {
	_              structs.HostLayout
	Call, Reserved uint64
	Data           [CallbackBytes]byte
}

// Control is the state of one event loop.
type Control struct {
	_                         structs.HostLayout
	Launch                    Launch
	Free, Ready, Wait, Remote uint64
	Posted, Seen, Due         uint64
	Logical, Callbacks, Looks uint64
	Value                     int64
	Run, Fast, Last           uint32
	Left, Quota, Turn, Posts  uint32
	State                     State
	Error                     Fault
	Block                     [3]uint32
}

// Context is what remains of a loop while no kernel runs, in device memory.
type Context struct {
	_       structs.HostLayout
	Control Control
	Slots   [Slots]Slot
	Saved   Slot
}

// Report is written by a block before it ends.
type Report struct {
	_                structs.HostLayout
	Sequence         uint32
	State            State
	Error            Fault
	Slot             uint32
	Callbacks, Looks uint64
	Seen, Logical    uint64
	Reserved         [2]uint64
}

// Request asks the host for an operation.
type Request struct {
	_                              structs.HostLayout
	Op                             Op
	Flags, Handle, Text            uint32
	Address, Size, Offset, Timeout uint64
	IP, Port                       uint32
	Reserved                       uint64
}

// Block is the memory that a block shares with the host.
type Block struct {
	_          structs.HostLayout
	Posted     uint64
	PostedLine [7]uint64
	Done       uint64
	DoneLine   [7]uint64
	Report     Report
	Results    [Slots]int64
	Requests   [Slots]Request
}

// Reset prepares a block of shared memory for a new table. Requests and results are written before they
// are read.
func (b *Block) Reset() {
	atomic.StoreUint64(&b.Posted, 0)
	atomic.StoreUint64(&b.Done, 0)
	for i := range b.Report.words() {
		atomic.StoreUint64(&b.Report.words()[i], 0)
	}
}

// Sizes in bytes.
const (
	LaunchBytes  = 88
	QueueBytes   = 64
	SlotBytes    = 16 + CallbackBytes
	ContextBytes = 224 + (Slots+1)*SlotBytes
	BlockBytes   = 192 + Slots*8 + Slots*64
)
