package gpuvm

import "pvdrm/gpu/softgpu/hw"

// channel is a channel of a VM.
type channel struct {
	descriptor uint64 // the shadow descriptor, VRAM address in the reserved area
	bound      bool
	value      uint32 // RegChannel, as the guest wrote it
	guest      uint64 // the guest's descriptor
	shadow     *shadow
	granted    *shadow // with PV: the directory that a hypercall set
	seen       [len(watchedWords)]uint64
}

// bind serves a write of RegChannel.
func (vm *VM) bind(i int, v uint32) {
	vm.unbind(i)
	c := &vm.channels[i]
	guest := uint64(v&hw.AddressField) << 12
	if v&hw.Valid == 0 {
		return
	}
	if !vm.inVRAM(guest, hw.DescBytes) {
		vm.n.Refused++
		return
	}
	if !vm.takeChannel(i) {
		vm.n.Refused++
		return
	}
	vm.agg.card.SetDomain(vm.numbers[i], vm.domain)
	c.bound, c.value, c.guest = true, v&(hw.Valid|hw.AddressField), guest
	vm.watch(guest, 1)
	vm.renew(c)
	vm.agg.card.Write(hw.BAR0, vm.onCard(i), hw.Valid|uint32(c.descriptor>>12))
	if vm.frames != nil {
		vm.schedule(vm.runs) // the channel may be in the guest's run list
	}
}

// onCard is RegChannel of a channel on the card.
func (vm *VM) onCard(i int) uint64 { return hw.RegChannel + hw.ChannelBytes*uint64(vm.numbers[i]) }

// unbind ends a channel.
func (vm *VM) unbind(i int) {
	c := &vm.channels[i]
	if !c.bound {
		return
	}
	if vm.queue != nil {
		vm.queue.forget(i)
	}
	vm.agg.card.Write(hw.BAR0, vm.onCard(i), 0)
	c.bound, c.value = false, 0
	if vm.frames != nil {
		vm.agg.card.SetDomain(vm.numbers[i], nil)
		vm.giveChannel(i)
	}
	vm.watch(c.guest, -1)
	vm.release(c.shadow)
	c.shadow = nil
}

// renew makes the shadow descriptor of what the guest's says.
func (vm *VM) renew(c *channel) {
	v := vm.agg.vram
	c.seen = vm.words(c)
	control := vm.word(c.guest + hw.DescControl)
	page, ok := uint64(0), control%hw.ControlBytes == 0 && vm.inVRAM(control, hw.ControlBytes)
	if ok {
		page, ok = vm.claim(control)
	}
	if !ok {
		vm.n.Refused++
		page = 1 // none: it is not aligned
	}
	v.SetWord(c.descriptor+hw.DescControl, page)
	for _, word := range []uint64{hw.DescIndirect, hw.DescNotifier, hw.DescLimit} { // virtual addresses
		v.SetWord(c.descriptor+word, vm.word(c.guest+word))
	}
	if vm.mode.Nested {
		directory := vm.word(c.guest + hw.DescDirectory) // the second level translates it
		v.SetWord(c.descriptor+hw.DescDirectory, directory)
		vm.agg.flush(directory) // the channel may have translations of another
		return
	}
	old := c.shadow
	if vm.mode.PV {
		c.shadow = vm.hold(c.granted)
	} else {
		c.shadow = vm.shadowOf(vm.word(c.guest + hw.DescDirectory))
	}
	directory := vm.agg.empty
	if c.shadow != nil {
		directory = c.shadow.directory
	}
	v.SetWord(c.descriptor+hw.DescDirectory, directory)
	if old != nil && old != c.shadow {
		vm.agg.flush(old.directory) // the channel may have translations of it
		vm.agg.flush(directory)
	}
	vm.release(old)
}

// controlAt returns where the control page that BAR1 shows at an offset lies in the card's BAR1, and
// of which channel it is; i is -1 where it shows none.
func (vm *VM) controlAt(b *bar, off uint64) (at uint64, i int) {
	if b != &vm.bar1 || vm.control&hw.ControlValid == 0 {
		return 0, -1
	}
	n := off/hw.ControlBytes - uint64(vm.control&^hw.ControlValid)
	if n >= uint64(len(vm.channels)) {
		return 0, -1
	}
	if vm.numbers[n] < 0 {
		return nowhereAt, int(n) // no channel is bound
	}
	return uint64(vm.numbers[n])*hw.ControlBytes + off%hw.ControlBytes, int(n)
}

// nowhereAt is behind the end of BAR1.
const nowhereAt = hw.BAR1Bytes

// setControl serves a write to a control page: the doorbell activates the channel.
func (vm *VM) setControl(i int, at uint64, v uint32) {
	c := &vm.channels[i]
	if at%hw.ControlBytes == hw.ControlPut && c.bound {
		vm.n.Activations++
		vm.catchUp()
		if c.shadow != nil && c.shadow.dirty {
			vm.scan(c.shadow)
		}
	}
	queued := at%hw.ControlBytes == hw.ControlPut && c.bound && vm.queue != nil
	if queued {
		vm.queue.part(i)
	}
	vm.agg.card.Write(hw.BAR1, at, v)
	if queued {
		vm.queue.rung(i)
	}
}
