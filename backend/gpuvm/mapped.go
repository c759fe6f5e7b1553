package gpuvm

import (
	"maps"
	"runtime"
	"time"

	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/hostmem"
)

// barFile is a BAR3 that a machine maps as a file: accesses of it reach no one. Each page of VRAM that the
// aperture shows is a page of the file, at the offset at which it is shown, instead of memory of the card;
// one that is shown at several offsets is seen at the first. Pages change places at the flush that shows
// them, while no channel of the VM runs.
//
// A descriptor in such a page is written without a trap. So descriptors are compared with what was seen of
// them at each activation and at each flush.
type barFile struct {
	file   []byte
	placed map[uint64]uint64 // by page of the VM's VRAM: the offset in the file
}

// watchedWords are what a descriptor's shadow depends on.
var watchedWords = [...]uint64{hw.DescControl, hw.DescIndirect, hw.DescNotifier, hw.DescLimit, hw.DescDirectory}

// words reads the guest's descriptor.
func (vm *VM) words(c *channel) (w [len(watchedWords)]uint64) {
	for i, at := range watchedWords {
		w[i] = vm.word(c.guest + at)
	}
	return w
}

// catchUp renews the shadows of descriptors that were written without a trap.
func (vm *VM) catchUp() {
	if vm.mapped == nil {
		return
	}
	for i := range vm.channels {
		if c := &vm.channels[i]; c.bound && vm.words(c) != c.seen {
			vm.renew(c)
		}
	}
}

// place puts the pages that BAR3 shows now into the file, and takes the others out of it.
func (vm *VM) place() error {
	m := vm.mapped
	shown := map[uint64]uint64{}
	for off := uint64(0); off < uint64(len(m.file)); off += hw.SmallPage {
		if addr, ok := vm.shown(&vm.bar3, off); ok {
			page := addr &^ (hw.SmallPage - 1)
			if _, twice := shown[page]; !twice {
				shown[page] = off
			}
		}
	}
	if maps.Equal(shown, m.placed) {
		return nil
	}
	var err error
	vm.quiet(func() {
		for page, off := range m.placed {
			if at, ok := shown[page]; err == nil && (!ok || at != off) {
				err = m.out(vm, page, off)
			}
		}
		for page, off := range shown {
			if _, ok := m.placed[page]; err == nil && !ok {
				err = m.in(vm, page, off)
			}
		}
	})
	return err
}

func (m *barFile) in(vm *VM, page, off uint64) error {
	memory, file := vm.page(page), m.file[off:][:hw.SmallPage:hw.SmallPage]
	copy(file, memory)
	if err := hostmem.Over(memory, [][]byte{file}); err != nil {
		return err
	}
	m.placed[page] = off
	return nil
}

func (m *barFile) out(vm *VM, page, off uint64) error {
	memory := vm.page(page)
	kept := make([]byte, hw.SmallPage)
	copy(kept, memory)
	if err := hostmem.Plain(memory); err != nil {
		return err
	}
	copy(memory, kept)
	clear(m.file[off:][:hw.SmallPage])
	delete(m.placed, page)
	return nil
}

// page is the memory of a page that an aperture shows, and so has a frame.
func (vm *VM) page(addr uint64) []byte {
	at, _ := vm.lookup(addr)
	return vm.agg.vram.Bytes(at, hw.SmallPage)
}

// empty gives all pages back to the card. Preconditions: no channel is bound.
func (m *barFile) empty(vm *VM) (err error) {
	for page, off := range maps.Clone(m.placed) {
		if err == nil {
			err = m.out(vm, page, off)
		}
	}
	return err
}

// quiet calls f while no channel of the VM runs. Each ends the entry of its indirect buffer first.
func (vm *VM) quiet(f func()) {
	none := make([]bool, len(vm.channels))
	resume := func() { vm.agg.schedule(vm.numbers, vm.runs) }
	if q := vm.queue; q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		resume = func() { q.list(q.listed) }
	}
	vm.agg.schedule(vm.numbers, none)
	for i := range vm.channels {
		for looks := 0; vm.busy(i); looks++ {
			if looks < stateLooks {
				runtime.Gosched()
				continue
			}
			time.Sleep(lastPause)
		}
	}
	f()
	resume()
}
