package gpuvm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/card"
	"pvdrm/gpu/softgpu/hw"
)

// newAggregator shares a card among so many VMs.
func newAggregator(t testing.TB, vms int, config softgpu.Config) *Aggregator {
	c, err := card.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	a, err := New(c, vms)
	require.NoError(t, err)
	return a
}

// newVM makes a VM with so much memory.
func newVM(t testing.TB, a *Aggregator, name string, n int) (*VM, []byte) {
	mode, err := ModeOf(name)
	require.NoError(t, err)
	ram, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	require.NoError(t, err)
	vm, err := a.NewVM(mode, ram)
	require.NoError(t, err)
	t.Cleanup(func() {
		vm.Close()
		require.NoError(t, unix.Munmap(ram))
	})
	return vm, ram
}

// Where tests of registers put things in a guest's VRAM.
const (
	atDescriptor = 0x10000 // and 4 KiB for each channel
	atBAR        = 0x18000 // descriptor of BAR3, and of BAR1 behind it
	atControl    = 0x20000 // and 4 KiB for each channel
	atRunList    = 0x30000
	atIndirect   = 0x40000
	atCommands   = 0x50000
	atDirectory  = 0x100000
	atTables     = 0x200000 // a pair
	atSecond     = 0x280000 // another
	atBARTop     = 0x300000 // directory of BAR3 and BAR1
	atBARTables  = 0x340000

	channelVA = hw.DirectorySpan // of VRAM as channels see it, by large pages
)

// newDynamic shares a card without parts, of which each VM sees a half.
func newDynamic(t testing.TB, config softgpu.Config) *Aggregator {
	c, err := card.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	a, err := NewDynamic(c, 2, 0)
	require.NoError(t, err)
	a.part = a.part / 2 &^ (frameBytes - 1)
	return a
}

// shareCard is newAggregator of two VMs, or newDynamic.
func shareCard(t testing.TB, dynamic bool, config softgpu.Config) *Aggregator {
	if dynamic {
		return newDynamic(t, config)
	}
	return newAggregator(t, 2, config)
}

// dump is a VM's VRAM as its guest sees it.
func dump(vm *VM) []byte {
	if vm.frames == nil {
		return bytes.Clone(vm.agg.vram.Bytes(vm.base, vm.size))
	}
	b := make([]byte, vm.size)
	for page, frame := range vm.frames {
		if frame != 0 {
			copy(b[page*frameBytes:], vm.agg.vram.Bytes(frame, frameBytes))
		}
	}
	return b
}

// owns reports whether a range of the card's VRAM is the VM's.
func owns(vm *VM, addr, size uint64) bool {
	if vm.frames == nil {
		return addr >= vm.base && addr+size <= vm.base+vm.size
	}
	_, ok := vm.pages[addr&^(frameBytes-1)]
	return ok && addr%frameBytes+size <= frameBytes
}

// put writes a word of a guest's VRAM without an access.
func put(vm *VM, addr, v uint64) {
	at, ok := vm.claim(addr)
	if !ok {
		panic("no frame is left")
	}
	vm.agg.vram.SetWord(at, v)
}

func set(vm *VM, r uint64, v uint32) { vm.Write(hw.BAR0, r, v) }

// flushTable flushes a directory as a guest does.
func flushTable(vm *VM, directory uint64) {
	set(vm, hw.RegFlushTable, uint32(directory>>hw.DirectoryUnit))
	set(vm, hw.RegFlush, hw.Valid)
}

// bindChannel makes a channel of a directory and lets it run.
func bindChannel(vm *VM, number, directory uint64) {
	d := atDescriptor + number*hw.DescBytes
	put(vm, d+hw.DescControl, atControl+number*hw.ControlBytes)
	put(vm, d+hw.DescIndirect, channelVA+atIndirect|3<<hw.IndirectLog)
	put(vm, d+hw.DescDirectory, directory)
	put(vm, d+hw.DescLimit, hw.AddressMax-1)
	put(vm, atRunList, number)
	set(vm, hw.RegControl, hw.ControlValid)
	set(vm, hw.RegRunList, atRunList>>12)
	set(vm, hw.RegRunListUpdate, 1)
	set(vm, hw.RegChannel+hw.ChannelBytes*number, hw.Valid|uint32(d>>12))
}

// activate rings the doorbell of a channel for nothing.
func activate(vm *VM, number uint64) { vm.Write(hw.BAR1, number*hw.ControlBytes+hw.ControlPut, 0) }

// mapAll maps all of the VM's VRAM for channels.
func mapAll(vm *VM) {
	put(vm, atDirectory+channelVA/hw.DirectorySpan*hw.EntryBytes, uint64(hw.MakePDE(atTables+hw.SmallTable, atTables)))
	for at := uint64(0); at < vm.size; at += hw.LargePage {
		put(vm, entryAt(atTables, at, hw.LargePage), uint64(hw.MakePTE(hw.TargetVRAM, at, false)))
	}
}

// mapBARs shows the VRAM from an address on in BAR3, and in BAR1 behind the control area.
func mapBARs(vm *VM, from, pages uint64) {
	for i, r := range []uint64{hw.RegBAR3, hw.RegBAR1} {
		top, pair := atBARTop+uint64(i)*hw.DirectoryBytes, atBARTables+uint64(i)*hw.TableBytes
		descriptor := atBAR + uint64(i)*hw.DescBytes
		put(vm, descriptor+hw.DescDirectory, top)
		put(vm, descriptor+hw.DescLimit, hw.DirectorySpan-1)
		put(vm, top, uint64(hw.MakePDE(pair+hw.SmallTable, pair)))
		for n := range pages {
			va := n * hw.SmallPage
			if r == hw.RegBAR1 {
				va += 1 << 20
			}
			put(vm, entryAt(pair, va, hw.SmallPage), uint64(hw.MakePTE(hw.TargetVRAM, from+n*hw.SmallPage, false)))
		}
		set(vm, r, hw.Valid|uint32(descriptor>>12))
	}
}
