package gpuvm

import "pvdrm/gpu/softgpu/hw"

// perChannel returns the channel that a register belongs to, and that register on the card; i is
// -1 for others, and for channels that the VM has not.
func (vm *VM) perChannel(off uint64) (i int, register, onCard uint64) {
	for _, block := range []struct{ base, bytes uint64 }{{hw.RegFault, hw.FaultBytes}, {hw.RegChannel, hw.ChannelBytes}} {
		if n := (off - block.base) / block.bytes; off >= block.base && n < uint64(len(vm.channels)) {
			at := (off - block.base) % block.bytes
			return int(n), block.base + at, block.base + at + uint64(max(vm.numbers[n], 0))*block.bytes
		}
	}
	return -1, off, 0
}

// register reads a register.
func (vm *VM) register(off uint64) uint32 {
	i, off, onCard := vm.perChannel(off)
	if i >= 0 {
		if off == hw.RegChannel {
			return vm.channels[i].value
		}
		if vm.numbers[i] < 0 {
			return 0 // as an unbound channel's
		}
		return vm.agg.card.Read(hw.BAR0, onCard)
	}
	switch off {
	case hw.RegID:
		return hw.CardID
	case hw.RegCount:
		return uint32(len(vm.channels))
	case hw.RegVRAM:
		return uint32(vm.size >> 20)
	case hw.RegWindow:
		return vm.window
	case hw.RegBAR1:
		return vm.bar1.register
	case hw.RegBAR3:
		return vm.bar3.register
	case hw.RegControl:
		return vm.control
	case hw.RegRunList:
		return vm.runList
	case hw.RegFlushTable:
		return vm.flushed
	}
	return 0
}

// setRegister writes a register. What is not listed here has no effect.
func (vm *VM) setRegister(off uint64, v uint32) {
	i, off, _ := vm.perChannel(off)
	if i >= 0 {
		if off == hw.RegChannel {
			vm.bind(i, v)
		}
		return
	}
	switch off {
	case hw.RegWindow:
		vm.window = v & hw.AddressField
	case hw.RegBAR1:
		vm.setBAR(&vm.bar1, v)
	case hw.RegBAR3:
		vm.setBAR(&vm.bar3, v)
	case hw.RegControl:
		vm.control = v & (hw.ControlValid | (hw.ControlValid - 1))
		vm.remap()
	case hw.RegRunList:
		vm.runList = v & hw.AddressField
	case hw.RegRunListUpdate:
		vm.updateRunList(v)
	case hw.RegKill:
		if v >= uint32(len(vm.channels)) {
			vm.n.Refused++
			return
		}
		vm.unbind(int(v))
	case hw.RegFlushTable:
		vm.flushed = v
	case hw.RegFlush:
		if v&hw.Valid != 0 {
			vm.flush(uint64(vm.flushed) << hw.DirectoryUnit)
		}
	}
}

// updateRunList reads the guest's run list, once, and takes the channels that the VM has.
func (vm *VM) updateRunList(n uint32) {
	runs := make([]bool, len(vm.channels))
	for i := range uint64(min(n, hw.MaxChannels)) {
		number := vm.word(uint64(vm.runList)<<12 + hw.RunListEntry*i)
		if number >= uint64(len(runs)) {
			vm.n.Refused++
			continue
		}
		runs[number] = true
	}
	vm.schedule(runs)
}

// flush serves a TLB flush of a guest directory.
func (vm *VM) flush(guest uint64) {
	vm.n.Flushes++
	vm.catchUp()
	if vm.mode.PV {
		return // the card uses no table that the guest writes
	}
	for _, b := range []*bar{&vm.bar1, &vm.bar3} {
		if at, ok := b.descriptor(); ok && vm.word(at+hw.DescDirectory) == guest {
			vm.scanBAR(b)
		}
	}
	if vm.mode.Nested {
		vm.agg.flush(guest)
		return
	}
	s := vm.shadows[guest]
	switch {
	case s == nil:
	case vm.mode.Lazy:
		s.dirty = true
	default:
		vm.scan(s)
	}
}
