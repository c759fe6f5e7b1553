package softgpu

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
	smallPage = 4 << 10
	largePage = 2 << 20

	addressBits = 40 // virtual, VRAM and bus addresses
	addressMax  = 1 << addressBits

	entryBytes     = 8
	directorySpan  = 128 << 20 // bytes covered by one entry of the directory
	directoryBytes = addressMax / directorySpan * entryBytes
	smallTable     = directorySpan / smallPage * entryBytes // bytes
	largeTable     = smallPage                              // bytes; 512 used
	tableBytes     = smallTable + largeTable                // allocated together
)

// pte is a page table entry.
type pte uint64

const (
	pteValid    pte = 1 << 0
	pteReadOnly pte = 1 << 2
	pteAddress  pte = 0xfffffff << 4
	pteTarget   pte = 3 << 33

	pteReserved = ^(pteValid | pteReadOnly | pteAddress | pteTarget)
)

// target says in which memory a page lies.
type target uint64

const (
	targetVRAM    target = 0
	targetSystem  target = 2
	targetNoSnoop target = 3
)

func makePTE(t target, addr uint64, readOnly bool) pte {
	e := pteValid | pte(addr>>8) | pte(t)<<33
	if readOnly {
		e |= pteReadOnly
	}
	return e
}

// ok reports whether the entry maps a page of the given size.
func (e pte) ok(size uint64) bool {
	return e&pteValid != 0 && e&pteReserved == 0 && e.target() != 1 && e.addr()%size == 0
}

func (e pte) target() target { return target(e & pteTarget >> 33) }
func (e pte) addr() uint64   { return uint64(e&pteAddress) << 8 }
func (e pte) readOnly() bool { return e&pteReadOnly != 0 }

// pde is an entry of the page directory.
type pde uint64

const (
	pdeLarge    pde = 1 << 0
	pdeSmall    pde = 1 << 32
	pdeAddrs    pde = 0xfffffff<<4 | 0xfffffff<<36
	pdeReserved     = ^(pdeLarge | pdeSmall | pdeAddrs)
)

func makePDE(large, small uint64) pde {
	return pdeLarge | pde(large>>8) | pdeSmall | pde(small<<24)
}

// large returns the VRAM address of the large page table.
func (e pde) large() (addr uint64, ok bool) {
	return uint64(e&(0xfffffff<<4)) << 8, e&pdeLarge != 0 && e&pdeReserved == 0
}

// small returns the VRAM address of the small page table.
func (e pde) small() (addr uint64, ok bool) {
	return uint64(e&(0xfffffff<<36)) >> 24, e&pdeSmall != 0 && e&pdeReserved == 0
}

// Channel descriptor: 4 KiB, one for each channel that the device has, from
// VRAM address 0 in order of their numbers.
//
//	0x00  u64  state: 0 free, 1 open, 2 halted by a fault
//	0x08  u64  number of the channel
//	0x10  u64  VRAM address of the page directory, 4 KiB aligned
//	0x18  u64  batches submitted since it was opened
//	0x20  u64  batches completed since it was opened
//
// The rest is zero. The device reads the page directory from here for each
// command; the counters are for whoever watches.
const (
	descBytes     = smallPage
	descState     = 0x00
	descNumber    = 0x08
	descDirectory = 0x10
	descSubmitted = 0x18
	descCompleted = 0x20

	stateFree   = 0
	stateOpen   = 1
	stateHalted = 2
)
