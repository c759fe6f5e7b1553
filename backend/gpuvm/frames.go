package gpuvm

import (
	"errors"
	"fmt"

	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/extent"
	"pvdrm/internal/hostmem"
)

// frameBytes is the size of the frames in which VRAM is allocated dynamically: with the largest page an entry
// of 2 MiB needs not be split where frames are not consecutive.
const frameBytes = hw.LargePage

// NewDynamic shares a card among at most so many VMs, none of which has a part of it. Each sees the quota of
// VRAM, or with 0 all that the card has, and all channels. A frame is allocated where an entry of the
// guest's, a control page or a write through the window meets a page of VRAM that has none, and a channel
// when the guest binds one. What is left when a VM ends goes back, zeroed. Where no frame is left, an
// entry maps nothing; where no channel is, none is bound.
func NewDynamic(c *card.Card, vms int, quota uint64) (*Aggregator, error) {
	a, err := newAggregatorOf(c, vms, true)
	if err != nil {
		return nil, err
	}
	if quota > a.part {
		return nil, fmt.Errorf("gpuvm: a quota of %d MiB; the card has %d", quota>>20, a.part>>20)
	}
	if quota > 0 {
		a.part = max(quota&^(frameBytes-1), frameBytes)
	}
	return a, nil
}

// errNested reports a mode that cannot allocate when it is to.
var errNested = errors.New("gpuvm: a second level of page tables maps all of a VM's VRAM when it begins, and so takes a static part of the card: choose another mode, or static parts")

// lookup is the card's address of a byte of the VM's VRAM; ok is false where it has no frame, and so
// reads as zero. Preconditions: it is in the VM's VRAM.
func (vm *VM) lookup(addr uint64) (machine uint64, ok bool) {
	if vm.frames == nil {
		return vm.base + addr, true
	}
	frame := vm.frames[addr/frameBytes]
	return frame + addr%frameBytes, frame != 0
}

// claim is lookup that allocates a frame where there is none; ok is false where none is left.
func (vm *VM) claim(addr uint64) (machine uint64, ok bool) {
	if machine, ok = vm.lookup(addr); ok {
		return machine, true
	}
	page := addr / frameBytes
	frame, ok := vm.agg.takeFrame()
	if !ok {
		return 0, false
	}
	if at := page * frameBytes; at < vm.backed { // the guest's own memory takes its place
		n := min(frameBytes, vm.backed-at)
		if err := hostmem.Over(vm.agg.vram.Bytes(frame, n), cut(vm.granted, at, n)); err != nil {
			vm.agg.giveFrame(frame, hostmem.Plain(vm.agg.vram.Bytes(frame, n)) == nil)
			return 0, false
		}
	}
	vm.frames[page] = frame
	vm.pages[frame] = page
	return frame + addr%frameBytes, true
}

// cut returns n bytes of runs from an offset on.
func cut(runs [][]byte, off, n uint64) (part [][]byte) {
	for _, r := range runs {
		size := uint64(len(r))
		if off >= size {
			off -= size
			continue
		}
		end := min(size, off+n)
		part = append(part, r[off:end:end])
		if n -= end - off; n == 0 {
			break
		}
		off = 0
	}
	return part
}

// guestOf is the inverse of lookup.
func (vm *VM) guestOf(machine uint64) (addr uint64, ok bool) {
	if vm.frames == nil {
		return machine - vm.base, true
	}
	page, ok := vm.pages[machine&^(frameBytes-1)]
	return page*frameBytes + machine%frameBytes, ok
}

// takeFrame takes a frame, which is zero.
func (a *Aggregator) takeFrame() (uint64, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pool.Take(frameBytes, frameBytes)
}

// giveFrame zeroes a frame and gives it back; one that is not sound is lost.
func (a *Aggregator) giveFrame(frame uint64, sound bool) {
	if !sound {
		return
	}
	a.vram.Zero(frame, frameBytes)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pool.Give(frame, frameBytes)
}

// giveFrames gives all frames of a VM back. Preconditions: nothing uses them.
func (vm *VM) giveFrames() error {
	var first error
	for page, frame := range vm.frames {
		if frame == 0 {
			continue
		}
		var err error
		if at := uint64(page) * frameBytes; at < vm.backed {
			err = hostmem.Plain(vm.agg.vram.Bytes(frame, min(frameBytes, vm.backed-at)))
		}
		vm.agg.giveFrame(frame, err == nil)
		vm.frames[page] = 0
		first = errors.Join(first, err)
	}
	clear(vm.pages)
	return first
}

// newPool is the memory behind the reserved area.
func (a *Aggregator) newPool() {
	a.pool = extent.New(a.start, a.start+a.part)
	a.free = make([]int, 0, hw.MaxChannels)
	for i := range a.channels {
		a.free = append(a.free, i)
	}
}

// takeChannel takes a channel of the card for channel i of the VM; ok is false where none is left.
func (vm *VM) takeChannel(i int) bool {
	if vm.frames == nil {
		return true
	}
	a := vm.agg
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.free) == 0 {
		return false
	}
	vm.numbers[i] = a.free[0]
	a.free = a.free[1:]
	return true
}

// giveChannel gives it back. Preconditions: it is not bound.
func (vm *VM) giveChannel(i int) {
	if vm.frames == nil || vm.numbers[i] < 0 {
		return
	}
	a := vm.agg
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[vm.numbers[i]] = false
	a.free = append(a.free, vm.numbers[i])
	vm.numbers[i] = -1
}

// number is the card's channel of channel i of a VM; -1 if it has none. Unlike numbers it is for any
// goroutine.
func (a *Aggregator) number(vm *VM, i int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return vm.numbers[i]
}

// beginDynamic has a VM begin without VRAM and channels.
func (vm *VM) beginDynamic(memory Memory) {
	vm.frames, vm.pages, vm.granted = make([]uint64, vm.size/frameBytes), map[uint64]uint64{}, memory.VRAM
	for i := range vm.numbers {
		vm.numbers[i] = -1
	}
}
