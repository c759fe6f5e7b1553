package hw

// The card as the PCI bus shows it: three windows. Registers lie in BAR0, GPU memory appears in
// BAR1 and BAR3, each through page tables of its own. Registers have the numbers of NVIDIA's
// Fermi (envytools), as far as it has them.
const (
	BAR0 = 0
	BAR1 = 1
	BAR3 = 3

	BAR0Bytes = 16 << 20
	BAR1Bytes = 256 << 20
	BAR3Bytes = 128 << 20

	// WindowBase is where BAR0 shows 1 MiB of VRAM, from RegWindow << WindowShift on.
	WindowBase  = 0x700000
	WindowBytes = 1 << 20
	WindowShift = 16
)

// Registers have 32 bits. Those that are not listed read as zero and ignore what is written.
const (
	RegID      = 0x000000 // CardID
	RegWindow  = 0x001700 // VRAM address of the window >> WindowShift
	RegBAR1    = 0x001704 // Valid and VRAM address of the descriptor of BAR1's address space >> 12
	RegBAR3    = 0x001714 // likewise of BAR3's
	RegCount   = 0x002200 // number of channels
	RegControl = 0x002254 // ControlValid and offset of the control area in BAR1 >> 12

	RegRunList       = 0x002270 // VRAM address of the run list >> 12
	RegRunListUpdate = 0x002274 // number of its entries; writing it makes them the channels that run
	RegKill          = 0x002634 // number of a channel to end; the write returns when it has

	RegFault   = 0x002800 // and 16 bytes for each channel: address of its fault, low and high, and cause
	RegChannel = 0x003000 // and 8 bytes for each channel: Valid and VRAM address of its descriptor >> 12
	RegState   = 0x003004 // likewise: State* bits

	RegFlushStatus = 0x100c80 // 0: no flush is under way
	RegFlushTable  = 0x100cb8 // VRAM address of a page directory >> 8
	RegFlush       = 0x100cbc // writing Valid drops the translations through that directory
	RegVRAM        = 0x10f20c // MiB of VRAM

	CardID        = 0x5044_4701
	Valid         = 1 << 31
	ControlValid  = 1 << 28
	AddressField  = 1<<28 - 1 // of registers with an address >> 12
	FaultBytes    = 16
	ChannelBytes  = 8
	MaxChannels   = 128
	RunListEntry  = 8 // bytes: number of a channel, and zero
	ControlBytes  = SmallPage
	ControlGet    = 0x88 // in the control page: the next entry of the indirect buffer to fetch
	ControlPut    = 0x8c // the one behind the last; writing it through BAR1 is the doorbell
	DirectoryUnit = 8    // shift of RegFlushTable
)

// Bits of RegState.
const (
	StateBound  = 1 << 0  // a descriptor is set
	StateRuns   = 1 << 1  // it is in the run list
	StateBusy   = 1 << 8  // commands are fetched or run
	StateFaulty = 1 << 16 // halted; RegFault says why
)

// Causes of a halt.
const (
	CauseAddress = 1 // an access that the page tables do not allow
	CauseKernel  = 2 // another fault of a kernel
	CauseTime    = 3 // a kernel ran for too long
	CauseCommand = 4 // a command that is malformed or refused; the address is its IB entry's
	CauseOther   = 5
)

// Notifier is the record that a halt leaves: 16 bytes at DescNotifier.
//
//	0x0  u32  Valid and the cause
//	0x8  u64  the address, as in RegFault
const NotifierBytes = 16

// An entry of the indirect buffer, 64 bits, names command words in virtual memory.
const (
	IndirectAddress = 1<<40 - 4 // bits 2-39
	IndirectShift   = 42        // bits 42-62: how many words
	IndirectWords   = 1<<16 - 1 // at most
	IndirectLog     = 48        // in DescIndirect: log2 of the entries
	IndirectMaxLog  = 12        // at most
	IndirectVA      = 1<<40 - 8 // in DescIndirect
	MaxModule       = 4 << 20   // bytes of PTX
	MaxName         = 256       // bytes of a kernel's name
	MaxText         = 4096 - 24 // bytes of a reply's text
	ModuleSlots     = 8         // modules of a channel
	KernelSlots     = 64        // kernels found in a module
	ReplyBytes      = 24        // without the text
	ReplyOK         = 1
	ReplyRefused    = 2
)

// Commands. The first word has the operation in bits 0-15 and the number of words that follow in
// bits 16-31. Addresses and lengths take two words, low word first. Commands with a reply write
//
//	0x00  u32  ReplyOK or ReplyRefused
//	0x04  u32  bytes of text, which stand behind the record
//	0x08  u64  a size, by command
//	0x10  u64  an alignment, by command
const (
	OpNop     = 0 // any words
	OpCopy    = 1 // to, from, pitch to, pitch from, width, height
	OpFill    = 2 // to, pitch, width, height; word pattern, word size 1, 2 or 4
	OpRelease = 3 // address, value: writes 64 bits when all before has ended
	OpLoad    = 4 // word slot, word bytes of PTX, address of it, reply: size and alignment of variables
	OpLink    = 5 // word slot, word 0, address of the variables, reply
	OpFind    = 6 // word slot, word kernel, address of the name, word its bytes, word 0, reply: size of the parameters
	OpUnload  = 7 // word slot
	OpLaunch  = 8 // word slot, word kernel, 3 words grid, 3 words block, word dynamic .shared, word bytes of parameters, these
)
