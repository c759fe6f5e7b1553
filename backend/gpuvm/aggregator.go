package gpuvm

import (
	"errors"
	"fmt"
	"sync"

	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/extent"
)

// Bounds of an Aggregator and of a VM.
const (
	MaxVMs = 16

	// maxTables is how many pairs of page tables, of 128 MiB of addresses each, a VM may have in
	// use: it bounds how long a scan takes and what lies in the reserved area.
	maxTables = 48

	maxBAR1 = 64 << 20 // of a VM
	maxBAR3 = 16 << 20
)

// ErrFull reports that a card has no part left for one more VM.
var ErrFull = errors.New("gpuvm: all parts of the card are in use")

// Aggregator owns a card and shares it.
type Aggregator struct {
	card     *card.Card
	vram     *hw.VRAM
	vms      int    // parts
	start    uint64 // of the first part
	part     uint64 // bytes of VRAM of each
	channels int    // of each
	bar1     hostBAR
	bar3     hostBAR

	dynamic bool

	mu       sync.Mutex
	reserved *extent.Space
	pool     *extent.Space // dynamic: frames
	free     []int         // dynamic: channels
	used     []bool        // parts
	runs     [hw.MaxChannels]bool
	runList  uint64 // VRAM address
	empty    uint64 // of a page directory without entries
	window   uint32 // RegWindow
}

// hostBAR is an aperture of the card: each VM has a window in it.
type hostBAR struct {
	number    int
	directory uint64
	tables    []uint64 // of each 128 MiB: the small table and the large one behind it
	first     uint64   // where the first VM's window is
	window    uint64   // bytes of each
}

// New shares a card among at most so many VMs. The card is the Aggregator's until Close.
func New(c *card.Card, vms int) (*Aggregator, error) { return newAggregatorOf(c, vms, false) }

func newAggregatorOf(c *card.Card, vms int, dynamic bool) (*Aggregator, error) {
	if vms < 1 || vms > MaxVMs {
		return nil, fmt.Errorf("gpuvm: %d VMs; choose 1 to %d", vms, MaxVMs)
	}
	a := &Aggregator{card: c, vram: c.VRAM(), vms: vms, used: make([]bool, vms), dynamic: dynamic}
	a.channels = int(c.Read(hw.BAR0, hw.RegCount))
	if !dynamic {
		a.channels /= vms
	}
	directories := uint64(a.channels) * (hw.DirectoryBytes + hw.DescBytes)
	own := uint64(3*hw.DirectoryBytes + (hw.BAR1Bytes+hw.BAR3Bytes)/hw.DirectorySpan*hw.TableBytes + 3*hw.SmallPage)
	a.start = align(own+uint64(vms)*(directories+maxTables*hw.TableBytes), hw.LargePage)
	if a.start >= a.vram.Size() {
		return nil, fmt.Errorf("gpuvm: %d MiB of VRAM do not suffice for %d VMs: the reserved area alone takes %d", a.vram.Size()>>20, vms, a.start>>20)
	}
	a.part = a.vram.Size() - a.start
	if !dynamic {
		a.part /= uint64(vms)
	}
	a.part &^= hw.LargePage - 1
	if a.part == 0 || a.channels == 0 {
		return nil, fmt.Errorf("gpuvm: the card is too small for %d VMs", vms)
	}
	a.reserved = extent.New(0, a.start)
	if dynamic {
		a.newPool()
	}
	if err := a.startCard(); err != nil {
		return nil, err
	}
	return a, nil
}

func align(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }

// startCard makes the tables of BAR1 and BAR3, the run list and the control area.
func (a *Aggregator) startCard() (err error) {
	control := align(uint64(hw.MaxChannels)*hw.ControlBytes, hw.LargePage)
	share := func(bytes, most uint64) uint64 {
		return min(bytes/uint64(a.vms)&^(hw.LargePage-1), most)
	}
	a.bar1 = hostBAR{number: hw.BAR1, first: control, window: share(hw.BAR1Bytes-control, maxBAR1)}
	a.bar3 = hostBAR{number: hw.BAR3, window: share(hw.BAR3Bytes, maxBAR3)}
	if a.runList, err = a.take(hw.SmallPage); err != nil {
		return err
	}
	if a.empty, err = a.take(hw.DirectoryBytes); err != nil {
		return err
	}
	for _, b := range []struct {
		*hostBAR
		register uint64
	}{{&a.bar1, hw.RegBAR1}, {&a.bar3, hw.RegBAR3}} {
		if err := a.startBAR(b.hostBAR, b.register); err != nil {
			return err
		}
	}
	a.card.Write(hw.BAR0, hw.RegControl, hw.ControlValid)
	a.card.Write(hw.BAR0, hw.RegRunList, uint32(a.runList>>12))
	return nil
}

// startBAR makes empty tables for all of a BAR.
func (a *Aggregator) startBAR(b *hostBAR, register uint64) (err error) {
	if b.directory, err = a.take(hw.DirectoryBytes); err != nil {
		return err
	}
	for i := range a.card.Size(b.number) / hw.DirectorySpan {
		t, err := a.take(hw.TableBytes)
		if err != nil {
			return err
		}
		b.tables = append(b.tables, t)
		a.vram.SetWord(b.directory+i*hw.EntryBytes, uint64(hw.MakePDE(t+hw.SmallTable, t)))
	}
	descriptor, err := a.take(hw.DescBytes)
	if err != nil {
		return err
	}
	a.vram.SetWord(descriptor+hw.DescDirectory, b.directory)
	a.vram.SetWord(descriptor+hw.DescLimit, hw.AddressMax-1)
	a.card.Write(hw.BAR0, register, hw.Valid|uint32(descriptor>>12))
	return nil
}

// entry returns the VRAM address of the entry for a page of a size at an offset of the BAR.
func (b *hostBAR) entry(off, size uint64) uint64 {
	return entryAt(b.tables[off/hw.DirectorySpan], off, size)
}

// entryAt is the address of an entry in a pair of tables.
func entryAt(pair, va, size uint64) uint64 {
	at := pair + va%hw.DirectorySpan/size*hw.EntryBytes
	if size == hw.LargePage {
		at += hw.SmallTable
	}
	return at
}

// take takes zeroed memory of the reserved area.
func (a *Aggregator) take(n uint64) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.reserved.Take(n, hw.SmallPage)
	if !ok {
		return 0, fmt.Errorf("gpuvm: no %d bytes of the reserved area left", n)
	}
	return at, nil
}

// give zeroes such memory and gives it back. Preconditions: the card does not use it any more.
func (a *Aggregator) give(at, n uint64) {
	a.vram.Zero(at, n)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reserved.Give(at, n)
}

// flush drops the card's translations through a directory.
func (a *Aggregator) flush(directory uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.card.Write(hw.BAR0, hw.RegFlushTable, uint32(directory>>hw.DirectoryUnit))
	a.card.Write(hw.BAR0, hw.RegFlush, hw.Valid)
}

// throughWindow accesses VRAM through the card's window, which one VM at a time has.
func (a *Aggregator) throughWindow(addr uint64, access func(off uint64)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if base := uint32(addr >> hw.WindowShift); base != a.window {
		a.window = base
		a.card.Write(hw.BAR0, hw.RegWindow, base)
	}
	access(hw.WindowBase + addr&(1<<hw.WindowShift-1))
}

// schedule makes channels of a VM that run known to the card.
func (a *Aggregator) schedule(numbers []int, runs []bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, number := range numbers {
		if number >= 0 {
			a.runs[number] = runs[i]
		}
	}
	n := uint64(0)
	for i, is := range a.runs {
		if is {
			a.vram.SetWord(a.runList+hw.RunListEntry*n, uint64(i))
			n++
		}
	}
	a.card.Write(hw.BAR0, hw.RegRunListUpdate, uint32(n))
}
