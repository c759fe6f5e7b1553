package gpuvm

import (
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/trap"
)

// shown returns the guest's VRAM address that an aperture shows, as the card's tables say.
func (vm *VM) shown(b *bar, off uint64) (addr uint64, ok bool) {
	e, size, _ := vm.agg.vram.Walk(b.host.directory, b.at+off)
	if size == 0 || e.Target() != hw.TargetVRAM {
		return 0, false
	}
	return vm.guestOf(e.Addr() + (b.at+off)%size)
}

// remap decides which pages trap of the apertures that are mapped: control pages, and those that
// show a page of the barrier.
func (vm *VM) remap() {
	if vm.mapped != nil {
		if err := vm.place(); err != nil {
			vm.n.Refused++ // what is shown there is not what it should be
		}
	}
	for _, b := range []*bar{&vm.bar1, &vm.bar3} {
		for i := range b.traps {
			off := uint64(i) * hw.SmallPage
			addr, ok := vm.shown(b, off)
			_, number := vm.controlAt(b, off)
			traps := number >= 0 || ok && vm.barrier[addr&^(hw.SmallPage-1)] > 0
			if vm.view != nil {
				traps = traps || ok && addr >= vm.backed
				vm.show(b, i, traps, addr, ok)
			}
			b.traps[i].Store(traps)
		}
	}
}

// show tells the guest what accesses of a page of an aperture do.
func (vm *VM) show(b *bar, page int, traps bool, addr uint64, mapped bool) {
	entry := page
	if b == &vm.bar3 {
		entry += int(vm.bar1.host.window / hw.SmallPage)
	}
	what := uint32(trap.Shown)
	switch e, _, _ := vm.agg.vram.Walk(b.host.directory, b.at+uint64(page)*hw.SmallPage); {
	case traps:
		what, addr = trap.Traps, 0
	case !mapped:
		what, addr = trap.Nothing, 0
	case e.ReadOnly():
		what = trap.ShownReadOnly
	}
	vm.view.Set(entry, what, addr/hw.SmallPage)
}

// watch adds a page to the barrier, or with by = -1 takes it away.
func (vm *VM) watch(page uint64, by int) {
	vm.barrier[page] += by
	if vm.barrier[page] == 0 {
		delete(vm.barrier, page)
	}
	vm.remap()
}

// touched renews what depends on a page that the guest has written.
func (vm *VM) touched(addr uint64) {
	page := addr &^ (hw.SmallPage - 1)
	if vm.barrier[page] == 0 {
		return
	}
	for i := range vm.channels {
		if c := &vm.channels[i]; c.bound && c.guest == page {
			vm.renew(c)
		}
	}
	for _, b := range []*bar{&vm.bar1, &vm.bar3} {
		if at, ok := b.descriptor(); ok && at == page {
			vm.scanBAR(b)
		}
	}
}
