package gpuvm

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/trap"
	"pvdrm/internal/hostmem"
)

// VM is a card as a virtual machine sees it.
type VM struct {
	agg     *Aggregator
	mode    Mode
	index   int // of its part
	base    uint64
	size    uint64 // of VRAM
	numbers []int  // of the card's channels; -1 for one that has none
	domain  *softgpu.Domain
	ram     uint64

	// flight is held for reading during an access that does not trap, and by Close while it clears
	// what such an access may have found before. It is taken after mu.
	flight sync.RWMutex

	mu          sync.Mutex
	closed      bool
	n           Counters
	window      uint32 // registers, as the guest wrote them
	control     uint32
	runList     uint32
	flushed     uint32
	bar1, bar3  bar
	channels    []channel
	shadows     map[uint64]*shadow // by guest directory
	directories map[uint32]*shadow // with PV, by number; their guest directory has no meaning
	barrier     map[uint64]int     // guest pages with descriptors in use, and how many
	tables      int                // pairs in use
	backed      uint64             // bytes of VRAM, from 0 on, that are the guest's memory
	view        *trap.View         // nil: the guest is a caller of Read and Write
	second      *shadow            // with Nested: the VM's VRAM
	queue       *queue             // nil: submissions run at once
	runs        []bool             // channels in the guest's run list
	mapped      *barFile           // nil: BAR3 is no file
	frames      []uint64           // dynamic: the card's address of each frame, 0 for none; else nil
	pages       map[uint64]uint64  // dynamic: the inverse, the guest's page by the frame's address
	granted     [][]byte           // dynamic: what backed is
}

// bar is an aperture of a VM.
type bar struct {
	host     *hostBAR
	at       uint64 // the window in the card's BAR
	register uint32
	traps    []atomic.Bool // by page; nil where all do
}

// NewVM gives a VM a part of the card. The memory is the VM's system memory, and must stay mapped
// until Close.
func (a *Aggregator) NewVM(mode Mode, ram []byte) (*VM, error) {
	return a.NewGuest(mode, Memory{RAM: [][]byte{ram}})
}

// Memory is what a VM of another process has granted. It must stay mapped until Close.
type Memory struct {
	RAM [][]byte // system memory, in runs of pages; none: see Place

	// VRAM takes the place of the first of the VM's VRAM, in runs of package hostmem, so that the
	// guest reaches it without a trap where View allows it; see trap.View. Both or none are given.
	VRAM [][]byte
	View []byte

	// BAR3 is a file that the guest maps as its BAR3, where the mode lets it; it has the bytes of the
	// aperture, all zero. Then there are no VRAM and no View.
	BAR3 []byte
}

// pages adds up runs, and reports whether they all consist of pages.
func pages(runs [][]byte) (bytes uint64, ok bool) {
	for _, r := range runs {
		if len(r) == 0 || len(r)%hw.SmallPage != 0 {
			return 0, false
		}
		bytes += uint64(len(r))
	}
	return bytes, true
}

// Terms returns what a VM would get.
func (a *Aggregator) Terms(mode Mode) trap.Terms {
	return trap.Terms{PV: mode.PV, Multi: mode.Multi, Direct: mode.Remap || mode.BAR1, VRAM: a.part, BAR1: a.bar1.window, BAR3: a.bar3.window}
}

// NewGuest is NewVM with memory that a guest has granted.
func (a *Aggregator) NewGuest(mode Mode, memory Memory) (*VM, error) {
	return a.NewGuestIn(AnyPart, mode, memory)
}

// AnyPart is the first part of the card that is free; parts are numbered from 1 on.
const AnyPart = 0

// takePart takes a part; ok is false if it is in use.
func (a *Aggregator) takePart(part int) (index int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if part == AnyPart {
		part = slices.Index(a.used, false) + 1
	}
	if part < 1 || part > len(a.used) || a.used[part-1] {
		return 0, false
	}
	a.used[part-1] = true
	return part - 1, true
}

// NewGuestIn is NewGuest with a part of the card that is this guest's alone. The error is ErrFull if the
// part, or with AnyPart all parts, are in use.
func (a *Aggregator) NewGuestIn(part int, mode Mode, memory Memory) (*VM, error) {
	ram, ok := pages(memory.RAM)
	vram, also := pages(memory.VRAM)
	if !ok || !also || vram > a.part {
		return nil, fmt.Errorf("gpuvm: a VM's memory consists of pages, and its VRAM has %d bytes; %d and %d do not do", a.part, ram, vram)
	}
	if memory.BAR3 != nil && (!mode.Remap || vram > 0 || uint64(len(memory.BAR3)) != a.bar3.window) {
		return nil, fmt.Errorf("gpuvm: a file of %d bytes for BAR3; in a mode that maps it, it has %d", len(memory.BAR3), a.bar3.window)
	}
	if mode.Nested && a.dynamic {
		return nil, errNested
	}
	if vram > 0 && uint64(len(memory.View)) < trap.ViewBytes(a.Terms(mode)) {
		return nil, fmt.Errorf("gpuvm: a view of %d bytes; it takes %d", len(memory.View), trap.ViewBytes(a.Terms(mode)))
	}
	index, ok := a.takePart(part)
	if !ok {
		return nil, ErrFull
	}
	vm := &VM{agg: a, mode: mode, index: index, base: a.start + uint64(index)*a.part, size: a.part,
		domain: a.card.NewDomain(), channels: make([]channel, a.channels), shadows: map[uint64]*shadow{},
		directories: map[uint32]*shadow{}, barrier: map[uint64]int{}, runs: make([]bool, a.channels)}
	for i := range a.channels {
		vm.numbers = append(vm.numbers, index*a.channels+i)
	}
	if a.dynamic {
		vm.beginDynamic(memory)
	}
	if memory.BAR3 != nil {
		vm.mapped = &barFile{file: memory.BAR3, placed: map[uint64]uint64{}}
	}
	vm.bar1 = bar{host: &a.bar1, at: a.bar1.first + uint64(index)*a.bar1.window}
	vm.bar3 = bar{host: &a.bar3, at: a.bar3.first + uint64(index)*a.bar3.window}
	if mode.Remap {
		vm.bar3.traps = make([]atomic.Bool, a.bar3.window/hw.SmallPage)
	}
	if mode.BAR1 {
		vm.bar1.traps = make([]atomic.Bool, a.bar1.window/hw.SmallPage)
	}
	var err error
	if vram > 0 {
		view := trap.NewView(memory.View)
		vm.view, vm.backed = &view, vram
		vm.mu.Lock()
		if vm.frames == nil {
			err = hostmem.Over(a.vram.Bytes(vm.base, vram), memory.VRAM)
		}
		vm.remap()
		vm.mu.Unlock()
	}
	if err == nil && ram > 0 {
		vm.ram, err = vm.domain.Add(memory.RAM...)
	}
	if err != nil {
		vm.Close()
		return nil, fmt.Errorf("gpuvm: %w", err)
	}
	if mode.Nested {
		if err := vm.nest(); err != nil {
			vm.Close()
			return nil, err
		}
	}
	for i := range vm.channels {
		if vm.frames == nil {
			a.card.SetDomain(vm.numbers[i], vm.domain)
		}
		if vm.channels[i].descriptor, err = a.take(hw.DescBytes); err != nil {
			vm.Close()
			return nil, err
		}
	}
	return vm, nil
}

// Part returns the number of the part of the card that the VM has, from 1 on.
func (vm *VM) Part() int { return vm.index + 1 }

// Base returns the guest-physical address of the VM's system memory.
func (vm *VM) Base() uint64 { return vm.ram }

// Place gives the VM system memory at a guest-physical address. It must stay mapped until Withdraw or
// Close.
func (vm *VM) Place(addr uint64, mem []byte) error { return vm.domain.Place(addr, mem) }

// Withdraw takes back what Place has put at an address: when it returns no channel reaches it.
func (vm *VM) Withdraw(addr uint64) {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	vm.domain.Remove(addr)
	for i := range vm.channels {
		if c := &vm.channels[i]; c.bound {
			vm.agg.flush(vm.agg.vram.Word(c.descriptor + hw.DescDirectory))
		}
	}
}

// Counters returns what has been counted.
func (vm *VM) Counters() Counters {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	return vm.n
}

// Size returns the bytes of a BAR.
func (vm *VM) Size(number int) uint64 {
	switch number {
	case hw.BAR0:
		return hw.BAR0Bytes
	case hw.BAR1:
		return vm.bar1.host.window
	case hw.BAR3:
		return vm.bar3.host.window
	}
	return 0
}

// direct reports whether an access goes to the card without a trap, and where.
func (vm *VM) direct(number int, off uint64) (at uint64, ok bool) {
	b := &vm.bar3
	switch number {
	case hw.BAR1:
		b = &vm.bar1
	case hw.BAR3:
	default:
		return 0, false
	}
	if b.traps == nil || off%4 != 0 || off >= b.host.window || b.traps[off/hw.SmallPage].Load() {
		return 0, false
	}
	return b.at + off, true
}

// Traps reports whether an access would trap.
func (vm *VM) Traps(number int, off uint64) bool {
	_, ok := vm.direct(number, off)
	return !ok
}

// untrapped makes an access that does not trap; it reports whether it was one.
func (vm *VM) untrapped(number int, off uint64, access func(at uint64)) bool {
	vm.flight.RLock()
	defer vm.flight.RUnlock()
	at, ok := vm.direct(number, off)
	if ok {
		access(at)
	}
	return ok
}

// Read reads 4 bytes of a BAR.
func (vm *VM) Read(number int, off uint64) (v uint32) {
	if vm.untrapped(number, off, func(at uint64) { v = vm.agg.card.Read(number, at) }) {
		return v
	}
	vm.mu.Lock()
	defer vm.mu.Unlock()
	p := vm.trap(number, off)
	switch p.kind {
	case registers:
		return vm.register(off)
	case windowed:
		if at, ok := vm.lookup(p.at); ok {
			vm.agg.throughWindow(at, func(off uint64) { v = vm.agg.card.Read(hw.BAR0, off) })
		}
		return v
	case controls, memory:
		return vm.agg.card.Read(number, p.at)
	}
	return ^uint32(0)
}

// Write writes 4 bytes of a BAR.
func (vm *VM) Write(number int, off uint64, v uint32) {
	if vm.untrapped(number, off, func(at uint64) { vm.agg.card.Write(number, at, v) }) {
		return
	}
	vm.mu.Lock()
	defer vm.mu.Unlock()
	p := vm.trap(number, off)
	switch p.kind {
	case registers:
		vm.setRegister(off, v)
	case windowed:
		at, ok := vm.claim(p.at)
		if !ok {
			vm.n.Refused++
			return
		}
		vm.agg.throughWindow(at, func(off uint64) { vm.agg.card.Write(hw.BAR0, off, v) })
		vm.touched(p.at)
	case controls:
		vm.setControl(p.channel, p.at, v)
	case memory:
		vm.agg.card.Write(number, p.at, v)
		if addr, ok := vm.shown(p.bar, off); ok {
			vm.touched(addr)
		}
	}
}

// place is what an access that trapped is for.
type place struct {
	kind    kind
	at      uint64 // windowed: the guest's VRAM address; controls and memory: the offset in the card's BAR
	channel int    // of controls
	bar     *bar   // of memory
}

type kind int

const (
	nowhere kind = iota
	registers
	windowed
	controls
	memory
)

// trap counts an access and finds out what it is for.
func (vm *VM) trap(number int, off uint64) place {
	b := &vm.bar3
	switch number {
	case hw.BAR1:
		vm.n.TrapsBAR1++
		b = &vm.bar1
	case hw.BAR3:
		vm.n.TrapsBAR3++
	default:
		vm.n.TrapsBAR0++
		b = nil
	}
	switch {
	case vm.closed || off%4 != 0 || off >= vm.Size(number):
		vm.n.Refused++
		return place{}
	case b != nil:
		if at, i := vm.controlAt(b, off); i >= 0 {
			return place{kind: controls, at: at, channel: i}
		}
		return place{kind: memory, at: b.at + off, bar: b}
	case off < hw.WindowBase || off >= hw.WindowBase+hw.WindowBytes:
		return place{kind: registers}
	}
	addr := uint64(vm.window)<<hw.WindowShift + off - hw.WindowBase
	if !vm.inVRAM(addr, 4) {
		vm.n.Refused++
		return place{}
	}
	return place{kind: windowed, at: addr}
}

// inVRAM reports whether a range lies in the VM's VRAM.
func (vm *VM) inVRAM(addr, n uint64) bool { return addr <= vm.size && n <= vm.size-addr }

// word reads a word of a structure in the guest's VRAM, once. What is not aligned or not there
// reads as zero, as it does for the card.
func (vm *VM) word(addr uint64) uint64 {
	if !vm.inVRAM(addr, 8) {
		return 0
	}
	at, ok := vm.lookup(addr)
	if !ok {
		return 0
	}
	return vm.agg.vram.Word(at)
}

// Close ends all that the VM runs, zeroes its part of VRAM and gives it to the next.
func (vm *VM) Close() {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	if vm.closed {
		return
	}
	vm.closed = true
	vm.schedule(make([]bool, len(vm.channels)))
	for i := range vm.channels {
		c := &vm.channels[i]
		vm.unbind(i)
		vm.release(c.granted)
		c.granted = nil
		if vm.frames == nil {
			vm.agg.card.SetDomain(vm.numbers[i], nil)
		}
		if c.descriptor != 0 {
			vm.agg.give(c.descriptor, hw.DescBytes)
		}
	}
	if vm.queue != nil {
		vm.queue.end()
	}
	for id := range vm.directories {
		vm.freeDirectory(id)
	}
	vm.release(vm.second)
	vm.flight.Lock() // an access that was under way has ended, and the next one traps
	for _, b := range []*bar{&vm.bar1, &vm.bar3} {
		vm.clearBAR(b)
		for i := range b.traps {
			b.traps[i].Store(true)
		}
	}
	err := vm.zero()
	vm.flight.Unlock()
	vm.agg.mu.Lock()
	defer vm.agg.mu.Unlock()
	vm.agg.used[vm.index] = err != nil && vm.frames == nil // who had the part next would have this guest's memory
}

// zero gives the VM's VRAM back.
func (vm *VM) zero() error {
	if vm.mapped != nil {
		if err := vm.mapped.empty(vm); err != nil {
			return err
		}
	}
	if vm.frames != nil {
		return vm.giveFrames()
	}
	if vm.backed > 0 {
		if err := hostmem.Plain(vm.agg.vram.Bytes(vm.base, vm.backed)); err != nil {
			return err
		}
	}
	vm.agg.vram.Zero(vm.base, vm.size)
	return nil
}
