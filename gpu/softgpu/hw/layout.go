package hw

// What lies in VRAM, in the format of which engines and walks read it. All
// numbers are little-endian. The page tables are those of NVIDIA's Fermi
// architecture (PVDRM thesis, figure 2.2; envytools, "GF100 virtual memory")
// with the features left out that this device has no use for.
//
// Page directory: 8192 entries of 64 bits (64 KiB, 4 KiB aligned). Entry i
// covers the 128 MiB of addresses from i<<27 and names up to two page tables:
//
//	bit 0       large page table present
//	bits 4-31   VRAM address >> 12 of the large page table: 64 entries, one for 2 MiB each
//	bit 32      small page table present
//	bits 36-63  VRAM address >> 12 of the small page table: 32768 entries, one for 4 KiB each
//
// Page table entry, 64 bits, in tables of both kinds:
//
//	bit 0       VALID
//	bit 2       READ_ONLY
//	bits 4-31   ADDRESS >> 12, in VRAM or on the bus; a multiple of the page size
//	bits 33-34  TARGET: 0 VRAM, 2 SYSRAM, 3 SYSRAM_NO_SNOOP (the same as SYSRAM here)
//
// All other bits must be zero; an entry in which one is set maps nothing. The
// large table goes first: where its entry is valid the small one is not read.
// A table that reaches beyond VRAM maps nothing where it does.
const (
	SmallPage = 4 << 10
	LargePage = 2 << 20

	AddressBits = 40 // virtual, VRAM and bus addresses
	AddressMax  = 1 << AddressBits

	EntryBytes     = 8
	DirectorySpan  = 128 << 20 // bytes covered by one entry of the directory
	DirectoryBytes = AddressMax / DirectorySpan * EntryBytes
	SmallTable     = DirectorySpan / SmallPage * EntryBytes // bytes
	LargeTable     = SmallPage                              // bytes; 512 used
	TableBytes     = SmallTable + LargeTable                // allocated together
)

// PTE is a page table entry.
type PTE uint64

const (
	pteValid    PTE = 1 << 0
	pteReadOnly PTE = 1 << 2
	pteAddress  PTE = 0xfffffff << 4
	pteTarget   PTE = 3 << 33

	pteReserved = ^(pteValid | pteReadOnly | pteAddress | pteTarget)
)

// Target says in which memory a page lies.
type Target uint64

const (
	TargetVRAM    Target = 0
	TargetSystem  Target = 2
	TargetNoSnoop Target = 3
)

// MakePTE makes the entry of a page.
func MakePTE(t Target, addr uint64, readOnly bool) PTE {
	e := pteValid | PTE(addr>>8) | PTE(t)<<33
	if readOnly {
		e |= pteReadOnly
	}
	return e
}

// OK reports whether the entry maps a page of the given size.
func (e PTE) OK(size uint64) bool {
	return e&pteValid != 0 && e&pteReserved == 0 && e.Target() != 1 && e.Addr()%size == 0
}

// Target returns the memory in which the page lies.
func (e PTE) Target() Target { return Target(e & pteTarget >> 33) }

// Addr returns where it begins there.
func (e PTE) Addr() uint64 { return uint64(e&pteAddress) << 8 }

// ReadOnly reports whether writes fault.
func (e PTE) ReadOnly() bool { return e&pteReadOnly != 0 }

// PDE is an entry of the page directory.
type PDE uint64

const (
	pdeLarge    PDE = 1 << 0
	pdeSmall    PDE = 1 << 32
	pdeAddrs    PDE = 0xfffffff<<4 | 0xfffffff<<36
	pdeReserved     = ^(pdeLarge | pdeSmall | pdeAddrs)
)

// MakePDE makes the entry of a pair of tables at VRAM addresses.
func MakePDE(large, small uint64) PDE {
	return pdeLarge | PDE(large>>8) | pdeSmall | PDE(small<<24)
}

// Large returns the VRAM address of the large page table.
func (e PDE) Large() (addr uint64, ok bool) {
	return uint64(e&(0xfffffff<<4)) << 8, e&pdeLarge != 0 && e&pdeReserved == 0
}

// Small returns the VRAM address of the small page table.
func (e PDE) Small() (addr uint64, ok bool) {
	return uint64(e&(0xfffffff<<36)) >> 24, e&pdeSmall != 0 && e&pdeReserved == 0
}

// Channel descriptor: 4 KiB in VRAM. The hardware reads
//
//	0x008  u64  VRAM address of the control page, 4 KiB aligned
//	0x048  u64  bits 0-39 virtual address of the indirect buffer, bits 48-52 log2 of its entries
//	0x050  u64  virtual address of the notifier, a multiple of 16; 0 for none
//	0x200  u64  VRAM address of the page directory, 4 KiB aligned
//	0x208  u64  last virtual address that is translated; its lowest 21 bits count as set
//
// when it needs them: directory and limit for each page that it looks up, so that who changes them and
// flushes changes what running commands see, too. The control page,
// the indirect buffer and the notifier belong to channels that fetch their commands (registers.go).
// The driver in package softgpu, which hands commands over itself, has the descriptors of all its
// channels from VRAM address 0 in order of their numbers, and keeps for statistics
//
//	0x100  u64  state: 0 free, 1 open, 2 halted by a fault
//	0x108  u64  number of the channel
//	0x110  u64  batches submitted since it was opened
//	0x118  u64  batches completed since it was opened
//
// The rest is zero.
const (
	DescBytes     = SmallPage
	DescControl   = 0x008
	DescIndirect  = 0x048
	DescNotifier  = 0x050
	DescDirectory = 0x200
	DescLimit     = 0x208

	DescState     = 0x100
	DescNumber    = 0x108
	DescSubmitted = 0x110
	DescCompleted = 0x118

	StateFree   = 0
	StateOpen   = 1
	StateHalted = 2
)

// Descriptor returns the VRAM address of a channel's descriptor.
func Descriptor(number int) uint64 { return uint64(number) * DescBytes }
