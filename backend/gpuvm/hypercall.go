package gpuvm

import (
	"errors"
	"fmt"

	"pvdrm/gpu/softgpu/hw"
	"pvdrm/hypercall/paging"
)

// Hypercall runs the operations of a para-virtualized guest, up to the first that fails.
func (vm *VM) Hypercall(ops []byte) error {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	vm.n.Hypercalls++
	if !vm.mode.PV || vm.closed {
		return errors.New("gpuvm: the mode of the VM has no hypercalls")
	}
	calls, err := paging.Decode(ops)
	if err != nil {
		return fmt.Errorf("gpuvm: %w", err)
	}
	for i, c := range calls {
		vm.n.Operations++
		if err := vm.operate(c); err != nil {
			vm.n.Refused++
			return fmt.Errorf("gpuvm: operation %d of %d (%d on directory %d): %w", i+1, len(calls), c.Op, c.Directory, err)
		}
	}
	return nil
}

// operate runs one operation.
func (vm *VM) operate(c paging.Call) error {
	if c.Directory == paging.BAR1 || c.Directory == paging.BAR3 {
		return vm.operateBAR(c)
	}
	s := vm.directories[c.Directory]
	if c.Op == paging.NewDirectory {
		return vm.newDirectory(c.Directory)
	}
	if s == nil {
		return errors.New("there is no such directory")
	}
	switch c.Op {
	case paging.FreeDirectory:
		return vm.freeUnused(c.Directory, s)
	case paging.NewTable:
		if c.A >= hw.DirectoryBytes/hw.EntryBytes || s.tables[c.A] != 0 {
			return errors.New("there is no such entry, or it has tables")
		}
		if _, ok := vm.newTable(s, c.A); !ok {
			return errors.New("no memory for more tables")
		}
		return nil
	case paging.Map:
		pair, ok := s.tables[c.A/hw.DirectorySpan]
		if !ok {
			return errors.New("there are no tables for the address")
		}
		return vm.mapPage(c, false, func(va, size uint64) uint64 { return entryAt(pair, va, size) })
	case paging.Flush:
		vm.n.Flushes++
		vm.agg.flush(s.directory)
		return nil
	case paging.SetChannel:
		return vm.setChannel(c.A, s)
	}
	return errors.New("there is no such operation")
}

// operateBAR runs an operation on the tables of an aperture.
func (vm *VM) operateBAR(c paging.Call) error {
	b := &vm.bar1
	if c.Directory == paging.BAR3 {
		b = &vm.bar3
	}
	switch c.Op {
	case paging.Map:
		if c.A >= b.host.window {
			return errors.New("the aperture is smaller")
		}
		return vm.mapPage(c, true, func(va, size uint64) uint64 { return b.host.entry(b.at+va, size) })
	case paging.Flush:
		vm.n.Flushes++
		vm.agg.flush(b.host.directory)
		vm.remap()
		return nil
	}
	return errors.New("apertures have no such operation")
}

// newDirectory makes a directory of the number that the guest chose.
func (vm *VM) newDirectory(id uint32) error {
	if id < paging.First || id > paging.Last || vm.directories[id] != nil || len(vm.directories) == len(vm.channels) {
		return errors.New("there is no such number, or it is in use, or the VM has a directory for each channel")
	}
	s := vm.newShadow(0)
	if s == nil {
		return errors.New("no memory for more directories")
	}
	s.dirty = false
	vm.directories[id] = s
	return nil
}

// freeDirectory frees a directory. Preconditions: no channel uses it.
func (vm *VM) freeDirectory(id uint32) {
	s := vm.directories[id]
	delete(vm.directories, id)
	vm.release(s)
}

// freeUnused frees a directory, unless a bound channel uses it.
func (vm *VM) freeUnused(id uint32, s *shadow) error {
	for i := range vm.channels {
		if c := &vm.channels[i]; c.granted == s && c.bound {
			return errors.New("a channel uses the directory")
		}
	}
	for i := range vm.channels {
		if c := &vm.channels[i]; c.granted == s {
			c.granted = nil
			vm.release(s)
		}
	}
	vm.freeDirectory(id)
	return nil
}

// mapPage validates an entry and writes it where the card reads it. An entry of zero unmaps.
func (vm *VM) mapPage(c paging.Call, aperture bool, at func(va, size uint64) uint64) error {
	size := uint64(hw.SmallPage)
	if c.A&paging.Large != 0 {
		size = hw.LargePage
	}
	va := c.A &^ paging.Large
	if va%size != 0 {
		return fmt.Errorf("the address 0x%x is not that of a page", va)
	}
	e := vm.translate(hw.PTE(c.B), size, aperture)
	if e == 0 && c.B != 0 {
		return fmt.Errorf("the entry 0x%x maps what is not the VM's, or nothing", c.B)
	}
	vm.set(at(va, size), e)
	return nil
}

// setChannel gives a channel a directory.
func (vm *VM) setChannel(number uint64, s *shadow) error {
	if number >= uint64(len(vm.channels)) {
		return errors.New("there is no such channel")
	}
	c := &vm.channels[number]
	old := c.granted
	c.granted = vm.hold(s)
	if c.bound {
		vm.renew(c)
	}
	vm.release(old)
	return nil
}
