package gpuvm

import (
	"errors"
	"fmt"

	"pvdrm/gpu/softgpu/hw"
)

// shadow is a page directory in the reserved area that the card uses: of a guest's directory, or,
// with PV, one that hypercalls change.
type shadow struct {
	guest     uint64            // the guest's directory
	directory uint64            // VRAM address
	tables    map[uint64]uint64 // VRAM address of a pair of tables by index in the directory: the small one first
	users     int               // channels, and with PV the number
	dirty     bool              // the guest's may have changed since the scan
}

// newShadow makes an empty one. It returns nil if there is no memory.
func (vm *VM) newShadow(guest uint64) *shadow {
	at, err := vm.agg.take(hw.DirectoryBytes)
	if err != nil {
		vm.n.Refused++
		return nil
	}
	return &shadow{guest: guest, directory: at, tables: map[uint64]uint64{}, users: 1, dirty: true}
}

// shadowOf returns the shadow of a guest directory, which the caller releases.
func (vm *VM) shadowOf(guest uint64) *shadow {
	if s := vm.shadows[guest]; s != nil {
		return vm.hold(s)
	}
	s := vm.newShadow(guest)
	if s != nil {
		vm.shadows[guest] = s
	}
	return s
}

// hold adds a user.
func (vm *VM) hold(s *shadow) *shadow {
	if s != nil {
		s.users++
	}
	return s
}

// release drops a user, and frees the shadow after the last. Preconditions: the card does not use
// it for that user any more.
func (vm *VM) release(s *shadow) {
	if s == nil {
		return
	}
	if s.users--; s.users > 0 {
		return
	}
	if vm.shadows[s.guest] == s {
		delete(vm.shadows, s.guest)
	}
	for _, pair := range s.tables {
		vm.agg.give(pair, hw.TableBytes)
		vm.tables--
	}
	vm.agg.give(s.directory, hw.DirectoryBytes)
}

// newTable makes the pair of tables of entry i, which it does not have.
func (vm *VM) newTable(s *shadow, i uint64) (pair uint64, ok bool) {
	if vm.tables == maxTables {
		vm.n.Refused++
		return 0, false
	}
	pair, err := vm.agg.take(hw.TableBytes)
	if err != nil {
		vm.n.Refused++
		return 0, false
	}
	vm.tables++
	s.tables[i] = pair
	vm.agg.vram.SetWord(s.directory+i*hw.EntryBytes, uint64(hw.MakePDE(pair+hw.SmallTable, pair)))
	return pair, true
}

// translate validates an entry of the guest and puts the card's addresses in place of the guest's.
// It returns 0 for what maps nothing, or maps what is not the VM's.
func (vm *VM) translate(e hw.PTE, size uint64, aperture bool) hw.PTE {
	if !e.OK(size) {
		return 0
	}
	switch {
	case e.Target() == hw.TargetVRAM && vm.inVRAM(e.Addr(), size):
		if at, ok := vm.claim(e.Addr()); ok {
			return hw.MakePTE(hw.TargetVRAM, at, e.ReadOnly())
		}
	case e.Target() != hw.TargetVRAM && !aperture && vm.domain.Has(e.Addr(), size):
		return e
	}
	vm.n.Refused++
	return 0
}

// set writes an entry that the card uses, if it changes.
func (vm *VM) set(at uint64, e hw.PTE) {
	if v := vm.agg.vram; hw.PTE(v.Word(at)) != e {
		v.SetWord(at, uint64(e))
		vm.n.Changed++
	}
}

// scan makes a shadow of all that the guest's directory maps.
func (vm *VM) scan(s *shadow) {
	vm.n.Scans++
	s.dirty = false
	var dead []uint64
	for i := range uint64(hw.DirectoryBytes / hw.EntryBytes) {
		vm.n.Entries++
		pde := hw.PDE(vm.word(s.guest + i*hw.EntryBytes))
		pair, have := s.tables[i]
		_, large := pde.Large()
		if _, small := pde.Small(); !large && !small {
			if have {
				vm.agg.vram.SetWord(s.directory+i*hw.EntryBytes, 0)
				delete(s.tables, i)
				dead = append(dead, pair)
			}
			continue
		}
		if !have {
			if pair, have = vm.newTable(s, i); !have {
				continue
			}
		}
		vm.scanTables(pde, 0, hw.DirectorySpan, false, func(off, size uint64) uint64 { return entryAt(pair, off, size) })
	}
	vm.agg.flush(s.directory)
	for _, pair := range dead { // nothing walks it any more
		vm.agg.give(pair, hw.TableBytes)
		vm.tables--
	}
}

// scanTables makes the entries of [from, end) of the tables that a guest's entry of a directory
// names. At says where the card's entry for a page of a size lies.
func (vm *VM) scanTables(pde hw.PDE, from, end uint64, aperture bool, at func(off, size uint64) uint64) {
	largeAt, hasLarge := pde.Large()
	smallAt, hasSmall := pde.Small()
	read := func(has bool, table, off, size uint64) hw.PTE {
		if !has {
			return 0
		}
		vm.n.Entries++
		return hw.PTE(vm.word(table + off/size*hw.EntryBytes))
	}
	for block := from; block < end; block += hw.LargePage {
		e := read(hasLarge, largeAt, block, hw.LargePage)
		covered := e.OK(hw.LargePage) // small entries are not read there, even if this one is refused
		vm.set(at(block, hw.LargePage), vm.translate(e, hw.LargePage, aperture))
		for off := block; off < block+hw.LargePage; off += hw.SmallPage {
			e := read(hasSmall, smallAt, off, hw.SmallPage)
			if covered {
				e = 0
			}
			vm.set(at(off, hw.SmallPage), vm.translate(e, hw.SmallPage, aperture))
		}
	}
}

// nest makes the second level: it maps the VM's part of VRAM, all of it, by large pages. Where the
// part is larger than a VM may have tables for, it fails.
func (vm *VM) nest() error {
	vm.second = vm.newShadow(0)
	for addr := uint64(0); vm.second != nil && addr < vm.size; addr += hw.LargePage {
		pair, ok := vm.second.tables[addr/hw.DirectorySpan]
		if !ok {
			if pair, ok = vm.newTable(vm.second, addr/hw.DirectorySpan); !ok {
				return fmt.Errorf("gpuvm: no memory for second-level tables of %d MiB of VRAM", vm.size>>20)
			}
		}
		vm.agg.vram.SetWord(entryAt(pair, addr, hw.LargePage), uint64(hw.MakePTE(hw.TargetVRAM, vm.base+addr, false)))
	}
	if vm.second == nil {
		return errors.New("gpuvm: no memory for a second-level directory")
	}
	vm.domain.Nest(vm.second.directory)
	return nil
}

// descriptor returns the guest's descriptor of the aperture.
func (b *bar) descriptor() (at uint64, ok bool) {
	return uint64(b.register&hw.AddressField) << 12, b.register&hw.Valid != 0
}

// setBAR serves a write of RegBAR1 or RegBAR3.
func (vm *VM) setBAR(b *bar, v uint32) {
	if vm.mode.PV {
		return // the aperture has the tables of paging.BAR1 or paging.BAR3
	}
	if at, ok := b.descriptor(); ok {
		vm.watch(at, -1)
	}
	b.register = v & (hw.Valid | hw.AddressField)
	if at, ok := b.descriptor(); ok {
		vm.watch(at, 1)
		vm.scanBAR(b)
		return
	}
	vm.clearBAR(b)
}

// scanBAR makes the VM's part of an aperture of what the guest's tables for it say.
func (vm *VM) scanBAR(b *bar) {
	vm.n.BARScans++
	descriptor, _ := b.descriptor()
	end := (vm.word(descriptor+hw.DescLimit) | (hw.LargePage - 1)) + 1
	pde := hw.PDE(vm.word(vm.word(descriptor + hw.DescDirectory))) // a part is smaller than what one entry covers
	vm.n.Entries++
	if end == 0 || end > b.host.window {
		end = b.host.window
	}
	at := func(off, size uint64) uint64 { return b.host.entry(b.at+off, size) }
	vm.scanTables(pde, 0, end, true, at)
	vm.scanTables(0, end, b.host.window, true, at)
	vm.agg.flush(b.host.directory)
	vm.remap()
}

// clearBAR has an aperture show nothing.
func (vm *VM) clearBAR(b *bar) {
	for off := uint64(0); off < b.host.window; off += hw.SmallPage {
		if off%hw.LargePage == 0 {
			vm.set(b.host.entry(b.at+off, hw.LargePage), 0)
		}
		vm.set(b.host.entry(b.at+off, hw.SmallPage), 0)
	}
	vm.agg.flush(b.host.directory)
	vm.remap()
}
