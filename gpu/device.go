// Package gpu declares the device that a backend drives: address spaces,
// memory, modules, channels and the commands that run on them.
//
// A Device is one GPU. A Context is what one guest process gets of it: one GPU
// address space, its modules and its channels. Contexts are isolated from each
// other: a fault, an endless kernel or a closed context ends that context only.
//
// Implementations must be safe for concurrent use by several goroutines; the
// conformance suite in package gputest (gpu/gputest) runs against each of them.
package gpu

import (
	"context"
	"time"

	"pvdrm/gpu/fatbin"
)

// Window is a range of GPU virtual addresses inside which the owner of an
// address space may map memory of one kind, at addresses of its own choice.
type Window struct {
	Base uint64 // first address; a multiple of Page
	Size uint64 // bytes; a multiple of Page
	Page uint64 // granularity of mappings in bytes; a power of two
}

// Contains reports whether [va, va+n) lies inside the window. It is false for
// ranges that wrap around.
func (w Window) Contains(va, n uint64) bool {
	return va >= w.Base && n <= w.Size && va-w.Base <= w.Size-n
}

// Properties describes a device. They do not change while it is open.
type Properties struct {
	Name           string // such as "PVDRM softgpu"
	Driver         string // the implementation: "softgpu" or "cuda"
	Number         int    // among the devices of its implementation, counted from 0
	ComputeMajor   int    // compute capability
	ComputeMinor   int
	Multiprocs     int // streaming multiprocessors
	WarpSize       int
	MaxThreads     int // threads per block
	MaxBlockDim    [3]int
	MaxGridDim     [3]int
	SharedPerBlock int // bytes of .shared per block, static and dynamic together
	RegsPerBlock   int // 32-bit registers
	MaxThreadsSM   int
	MaxBlocksSM    int // blocks that run together on a multiprocessor, however small
	ConstBytes     int // bytes of .const per module
	ClockKHz       int
	MemClockKHz    int
	MemBusBits     int
	L2Bytes        int
	VRAMBytes      uint64
	MaxChannels    int    // channels of the whole device
	MaxParamBytes  int    // bytes of kernel parameters
	FilePages      bool   // NewSystem takes parts of a hostmem.Region only
	Textures       bool   // kernels may use the textures and surfaces of package gpu/texture
	Cooperative    bool   // launches may be cooperative
	MaxCluster     int    // blocks of a cluster; 0 where launches name none
	Words          bool   // channels run Word
	Shares         bool   // contexts are Sharers
	SharesMapped   bool   // they are of VRAM that has been mapped as a whole
	Peers          uint64 // a bit for each of the guest's devices, by its place among them, whose VRAM contexts can have (PeerSharer)
	Libraries      uint64 // a bit for each library whose functions channels Call
	Images         bool   // modules may be machine code: ELF files (cubins), and fatbins of them
	OnHost         bool   // kernels run on the host's processors, which whoever polls takes from them

	VRAM   Window // where VRAM is mapped
	System Window // where granted pages are mapped
}

// Device is one GPU.
type Device interface {
	Properties() Properties
	// NewContext makes an empty context. The label names its owner in errors
	// and logs; it carries no authority.
	NewContext(label string) (Context, error)
	Stats() Stats
	// VRAMUsed returns Stats' VRAMUsed alone. Programs ask for it often, and collecting all costs more.
	VRAMUsed() uint64
	// Close ends all contexts, waits until no engine touches memory that was
	// given to the device, and frees everything. NewContext is ErrClosed then.
	Close() error
}

// Stats are counters of a device since it was opened.
type Stats struct {
	ComputeBusy time.Duration // time in which the compute engine had a kernel running, or compiled some
	// ComputeAsleep is the part of ComputeBusy for which multiprocessors slept, because every thread on them
	// waited (nanosleep): the mean of all of them. Devices that do not know it leave it 0.
	ComputeAsleep time.Duration
	CopyBusy      time.Duration // time in which the copy engine worked
	Launches      uint64
	LaunchTimes   Histogram     // of kernels that have ended
	LaunchTime    time.Duration // of all of them together
	CopyBytes     uint64
	Preemptions   uint64 // times that a command was stopped to go on later
	Faults        uint64 // contexts lost to a fault
	Graphs        uint64 // times that work which came again was launched as one graph of the driver
	GraphsApart   uint64 // times that the driver refused such a graph, so that its commands were started one by one
	Replays       uint64 // times that work was run again which was taken off the device without its state
	VRAMUsed      uint64 // bytes
	VRAMOccupied  uint64 // bytes, with what the driver takes for itself; 0 on devices without such a driver
	Channels      int    // channels open now
}

// VRAM returns the bytes of device memory in use, with what the driver takes for itself.
func (s *Stats) VRAM() uint64 { return max(s.VRAMUsed, s.VRAMOccupied) }

// Prot says what a mapping allows: reading, or reading and writing. Page tables
// have no other rights.
type Prot uint32

// Rights of a mapping.
const (
	ProtRead  Prot = 1 << 0
	ProtWrite Prot = 1 << 1
)

// Context is one address space with its modules and channels.
//
// After a fault everything but Unmap and the Close methods fails with the
// *LostError, after Close everything with ErrClosed. Close methods, here and of
// the other types, may be called again and from several goroutines: each call
// returns when all is done. What belongs to a context is closed with it.
type Context interface {
	// NewVRAM allocates device memory. Size must be a multiple of the VRAM
	// window's page. The memory reads as zero. ErrNoMemory when it is used up.
	NewVRAM(size uint64) (Memory, error)

	// NewSystem makes memory of pages that the caller owns: each run is page
	// aligned and a multiple of 4096 bytes long, and together they are the
	// object in order; otherwise ErrInvalid, as for pages that are not of a
	// hostmem.Region where Properties.FilePages asks for that. The caller keeps the runs mapped
	// until Memory.Close has returned; the device never accesses them after that.
	NewSystem(runs [][]byte) (Memory, error)

	// Map makes [off, off+n) of m visible at va. va, off and n must be
	// multiples of the page of the window that belongs to m's kind, and
	// [va, va+n) must lie in that window and be free; n is not 0, and m is of
	// this context. Otherwise it is ErrInvalid or ErrExists, and nothing is
	// mapped, as with ErrNoMemory (page tables lie in VRAM) and with ErrClosed
	// (m is). It takes effect for commands that are submitted later.
	Map(va uint64, m Memory, off, n uint64, prot Prot) error

	// Unmap removes all mappings in [va, va+n), which lies in one window and is
	// not empty; its ends must not cut a page of that window. Otherwise it is
	// ErrInvalid, and ErrNotFound when nothing in the range is mapped. A mapping
	// may be cut in two, which is ErrNoMemory when the device has no room for one more.
	// When Unmap returns, no translation of the range is used
	// any more; commands that still use the range fault.
	Unmap(va, n uint64) error

	// LoadModule parses, verifies and loads PTX, or machine code where Properties.Images says so; the
	// first bytes tell (IsImage). Name names the source in messages.
	// Errors are *BuildError for faults of the source. When ctx is canceled, or the
	// context is closed, LoadModule returns within milliseconds, with an error that wraps
	// context.Cause(ctx) or ErrClosed, and leaves nothing behind. Other calls of the
	// context do not wait while a module is compiled.
	//
	// Before LoadModule allocates memory for the variables of the module it calls reserve
	// with their size and that of a heap, if the module is the first that needs one, once,
	// unless that is 0; an error of reserve becomes
	// LoadModule's. Reserve may be nil. Who reserves frees it when LoadModule fails later
	// and when the module is closed, but for what the module, if it is a Retainer, leaves to
	// the context. The source must not change until LoadModule returns.
	LoadModule(ctx context.Context, name string, source []byte, reserve Reserve) (Module, error)

	// NewChannel makes a channel. ErrBusy when the device has none left.
	NewChannel() (Channel, error)

	// Err is nil while the context lives, *LostError after a fault (for good),
	// and ErrClosed after Close.
	Err() error

	// Close ends the context: it aborts what runs, completes that and what is
	// queued with ErrClosed, and frees its memory, modules and channels.
	Close() error
}

// Reserve asks the owner of a context whether the device may allocate so many bytes of
// VRAM that the owner did not ask for by size: the variables of a module, and the heap of the
// context with the first module that needs one.
type Reserve func(bytes uint64) error

// Retainer is a Module or Context that keeps memory for longer than the module lives for which it
// was reserved: the heap from which kernels allocate.
type Retainer interface {
	// Retained returns how many of the bytes that were reserved for the module stay in use
	// when it is closed, until its context is; of a context, how many it keeps so.
	Retained() uint64
}

// StderrMark stands before each line that a Printer keeps and that belongs on a program's standard
// error: what assertions of kernels print. It is as unlikely as it can be in what programs print.
const StderrMark = "\x00pvdrm-stderr\x00"

// Printer is a Context that keeps what kernels print. Where a context is none,
// printf of kernels is lost.
type Printer interface {
	// ReadOutput takes the oldest bytes of the printf output of kernels that have
	// ended, as many as p has room for, and returns their number. Too much of it
	// loses the oldest.
	ReadOutput(p []byte) int
}

// Question is what only the driver of a GPU can answer, about a kernel or none. Drm.Question has the values of each
// and those of its answer.
type Question uint32

// Questions.
const (
	AskTensorMap Question = iota + 1
	AskClusters
	AskClusterSize
	AskFree
)

// Asker is a Context that has its driver answer questions: those of other devices have nothing that a frontend
// does not know.
type Asker interface {
	// Ask returns the answer, or ErrInvalid for a question that makes no sense or that the driver refuses.
	Ask(q Question, f Function, values []uint64) ([]uint64, error)
}

// Meter is a Context that knows for how long the engines have worked for it.
type Meter interface {
	// Busy returns the parts of Stats' ComputeBusy and CopyBusy that are the context's. Any
	// goroutine may call it, also after Close.
	Busy() (compute, copies time.Duration)
}

// Occupier is a Context whose driver takes device memory besides what was allocated: for itself, machine code
// and libraries.
type Occupier interface {
	// Occupied returns the bytes of device memory that the context has, with these; 0 after Close. Any
	// goroutine may call it.
	Occupied() uint64
}

// Memory is an allocation: VRAM, or granted system pages.
type Memory interface {
	Size() uint64
	// Close removes what is mapped of it and frees it.
	Close() error
}

// Module is a loaded module.
type Module interface {
	// Function finds a kernel (.entry) by name; ErrNotFound if there is none.
	Function(name string) (Function, error)
	// Global finds a module-scope variable in .global or .const; its address
	// lies outside both windows. ErrNotFound if there is none.
	Global(name string) (addr, size uint64, err error)
	// HostBytes bounds the host's private memory that the module keeps, its source
	// and machine code included. It does not change.
	HostBytes() uint64
	// Close unloads the module. Launches of its functions that have not begun
	// are ErrInvalid; a kernel that runs faults if it touches its variables.
	Close() error
}

// Function is a kernel of a module.
type Function interface {
	Attributes() FunctionAttributes
}

// Param is the place of one kernel parameter in the parameter block.
type Param struct {
	Offset int // bytes
	Size   int // bytes
}

// FunctionAttributes describes a kernel.
type FunctionAttributes struct {
	Name        string
	Params      []Param
	ParamBytes  int
	SharedBytes int // static .shared
	LocalBytes  int // .local of one thread
	ConstBytes  int // .const of its module
	Regs        int // 32-bit registers of one thread
	MaxThreads  int // largest block

	// Of machine code, zero where PTX says it.
	PTXVersion   int       // virtual architecture that it was compiled for, compute capability × 10
	Binary       int       // architecture of the machine code, × 10
	Cluster      [3]uint32 // blocks of a cluster that it requires
	NeedsCluster bool      // each launch must name the size of its clusters
}

// IsImage reports whether the source of a module is machine code, by its first bytes.
func IsImage(source []byte) bool { return fatbin.Is(source) }

// Channel is a queue of commands that run in order. Channels of one context
// run side by side where the engines allow it.
type Channel interface {
	// Submit queues a batch. The device keeps cmds until done was called. done
	// is called exactly once for each successful Submit, in submission order,
	// from a goroutine of the device, from Poll of a Poller, or by Submit before it returns; it must not block and
	// must not call the device. When a command fails, the rest of the batch is not run, and all
	// later batches of the channel end with ErrCanceled without being run. A
	// batch without commands is allowed: it marks a place in the order.
	//
	// Submit itself fails with ErrClosed after Close, and with ErrInvalid when
	// done is nil; all else is reported to done. A malformed command is
	// ErrInvalid and leaves the context and its other channels alive. A fault
	// ends the context: batches that are queued then or submitted later, to any
	// of its channels, end with the *LostError.
	Submit(cmds []Command, done func(Result)) error
	// Close drops the commands that do not run yet (done gets ErrClosed), waits
	// for the one that does, however long, and gives the channel back.
	Close() error
}

// Poller is a Channel that its user may help: a user that waits anyway sees sooner than
// another goroutine that a command has ended, and without waking it.
type Poller interface {
	// Poll ends what there is to be seen to have ended, and begins what may follow. It
	// does not wait, and takes some nanoseconds if there is nothing to do. The
	// goroutine that submits to the channel calls it, again and again for as long as it
	// has nothing else to do; the device does without it as well.
	Poll()
}

// Result tells how a batch ended.
type Result struct {
	Err   error // nil, or the error of command Index
	Index int   // the command that failed or was not begun; 0 if Err is nil
}

// Command is one operation of a channel: Copy, Fill, Launch, Timestamp, Word or Call; or Task.
type Command interface{ command() }

// Task says, as the first command of a batch, that the batch is a task: it may be
// run again from its start, in a context whose VRAM and variables are as new, and
// then leaves the same in granted memory. So it brings its input with it, by
// copies or kernels that read granted memory, which it does not overwrite, and takes
// its results away. A device that loses a context without a fault of the guest,
// all of whose work so far were tasks, runs it again.
type Task struct{}

// Copy copies bytes between GPU addresses on the copy engine. With Height > 1
// it copies that many rows of Width bytes, DstPitch and SrcPitch bytes apart,
// neither of which is less than Width. Where source and destination overlap, it
// is undefined what the destination holds. A Width of 0 copies nothing.
type Copy struct {
	Dst, Src           uint64
	Width, Height      uint64 // bytes, rows (at least 1)
	DstPitch, SrcPitch uint64 // bytes; ignored when Height is 1
}

// Fill writes a pattern of Size bytes (1, 2 or 4, the low ones of Pattern) over
// rows of Width bytes. Dst, Width and Pitch are multiples of Size.
type Fill struct {
	Dst           uint64
	Pattern       uint32
	Size          uint32
	Width, Height uint64 // bytes, rows (at least 1)
	Pitch         uint64 // bytes, at least Width; ignored when Height is 1
}

// Launch runs a kernel on the compute engine. It is ErrInvalid when it exceeds
// what the device (Properties) or the kernel (FunctionAttributes) allows.
type Launch struct {
	Func        Function
	Grid, Block [3]uint32
	SharedBytes uint32    // dynamic .shared, bytes
	Params      []byte    // ParamBytes long, laid out as FunctionAttributes.Params says
	Cluster     [3]uint32 // blocks of a cluster, which divide the grid; zero: as the kernel says. Only where Properties say so
	Cooperative bool      // all blocks run at the same time, else ErrGridTooLarge; only where Properties say so

	// Signal, if it is not 0, says that the kernel gives the device away on its own, and is the address of
	// a 32-bit word in a writable mapping of system memory; otherwise the launch is ErrInvalid. While
	// the kernel runs the device stores 1 there when it is to end soon: because others want the
	// device and its time is over, or because half of the limit of launches is. The device stores
	// nothing once done was called, nor where the word is not mapped any more, and never clears the
	// word. A kernel that goes on is stopped like any other, SignalGrace later.
	Signal uint64
}

// SignalGrace is for how long a kernel with a Signal may go on after that was stored before it is
// preempted: it looks at the signal every quarter of its slice, and has to save its state.
const SignalGrace = 3 * time.Millisecond

// SignalPeriod is how often a device looks whether it has to store a Signal.
const SignalPeriod = 250 * time.Microsecond

// Timestamp writes the time in nanoseconds (monotonic, the device's clock) as a
// 64-bit little-endian number to VA, a multiple of 8, after what precedes it.
type Timestamp struct{ VA uint64 }

// WordOp is what a Word does.
type WordOp uint32

// Operations on words. The values are those of drm.WordOp.
const (
	WordWrite        WordOp = iota
	WaitGreaterEqual        // word - Value >= 0, as signed numbers that wrap
	WaitEqual               // word == Value
	WaitAnd                 // word & Value != 0
	WaitNor                 // ^(word | Value) != 0
)

// Word writes a word of memory, or waits until one satisfies a condition, for as long as that
// takes: the channel does not use an engine meanwhile. It runs only where Properties say so.
type Word struct {
	VA    uint64 // a multiple of Size
	Value uint64
	Size  uint32 // bytes: 4 or 8
	Op    WordOp
}

// Holds reports whether a word satisfies the condition of a wait.
func (w *Word) Holds(word uint64) bool {
	mask, sign := uint64(1)<<(8*w.Size)-1, uint64(1)<<(8*w.Size-1)
	switch w.Op {
	case WaitGreaterEqual:
		return (word-w.Value)&sign == 0
	case WaitEqual:
		return (word^w.Value)&mask == 0
	case WaitAnd:
		return word&w.Value&mask != 0
	case WaitNor:
		return ^(word|w.Value)&mask != 0
	}
	return true
}

// Call has the host's own CUDA libraries called: a batch of calls of package internal/cudalibs, of
// which the device passes on the bytes. What the functions queue is behind what the channel ran
// before; they run when the command does. Results are written when the last function returned, and
// the command completes when the work that it queued has.
type Call struct {
	Function  uint32 // the last of the batch, for messages
	Args      []byte // the batch, unless it lies at ArgsVA
	ArgsVA    uint64
	ArgsBytes uint32
	Results   uint64 // where results go; 0: nowhere
	Bytes     uint32 // of results
}

func (*Call) command()      {}
func (*Copy) command()      {}
func (*Fill) command()      {}
func (*Launch) command()    {}
func (*Timestamp) command() {}
func (*Word) command()      {}
func (*Task) command()      {}
