package gpuvm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
	"pvdrm/gpu/softgpu/hw"
	"pvdrm/internal/hostmem"
)

// newMapped makes a VM whose BAR3 is a file.
func newMapped(t *testing.T, a *Aggregator, name string) (*VM, []byte) {
	mode, err := ModeOf(name)
	require.NoError(t, err)
	file, err := hostmem.New(a.bar3.window)
	require.NoError(t, err)
	t.Cleanup(file.Release)
	vm, err := a.NewGuest(mode, Memory{BAR3: file.Bytes()})
	require.NoError(t, err)
	t.Cleanup(vm.Close)
	return vm, file.Bytes()
}

// entryOf writes the entry of a page of BAR3.
func entryOf(vm *VM, page, addr uint64) {
	put(vm, entryAt(atBARTables, page*hw.SmallPage, hw.SmallPage), uint64(hw.MakePTE(hw.TargetVRAM, addr, false)))
}

// What the aperture shows is the file, with what was there, on either side; what it shows no more keeps
// what was written.
func TestBARIsAFile(t *testing.T) {
	a := newAggregator(t, 1, softgpu.Config{VRAMBytes: 128 << 20})
	vm, file := newMapped(t, a, "fv-opt")
	const first, second = 0x400000, 0x500000
	put(vm, first, 11)
	put(vm, second+8, 22)
	mapBARs(vm, first, 4)
	require.Equal(t, byte(11), file[0])
	file[0] = 33
	require.Equal(t, uint64(33), vm.word(first))
	require.Equal(t, uint32(33), func() uint32 { // the other ways lead there, too
		set(vm, hw.RegWindow, first>>hw.WindowShift)
		return vm.Read(hw.BAR0, hw.WindowBase)
	}())
	put(vm, first+hw.SmallPage, 44)
	require.Equal(t, byte(44), file[hw.SmallPage])

	entryOf(vm, 0, second)
	entryOf(vm, 7, second) // once more
	flushTable(vm, atBARTop)
	require.Equal(t, uint64(33), vm.word(first), "it is memory of the card again")
	require.Equal(t, byte(22), file[8])
	require.Zero(t, file[0])
	file[0] = 55
	require.Equal(t, uint64(33), vm.word(first))
	require.Equal(t, uint64(55), vm.word(second))
	require.Zero(t, file[7*hw.SmallPage], "a page is seen at the first offset only")
	set(vm, hw.RegBAR3, 0)
	require.Equal(t, uint64(55), vm.word(second))
	require.Zero(t, file[0])
	require.Zero(t, vm.Counters().TrapsBAR3+vm.Counters().Refused)
	vm.Close()
	require.Equal(t, 8<<20, bytes.Count(a.vram.Bytes(vm.base, 8<<20), []byte{0}))
	_, err := a.NewGuest(Mode{Name: "fv"}, Memory{BAR3: file})
	require.Error(t, err, "the mode does not map it")
	_, err = a.NewGuest(vm.mode, Memory{BAR3: file[:4096]})
	require.Error(t, err)
}

// A descriptor that was written without a trap takes effect at the next activation, and at the next flush.
func TestDescriptorInAFile(t *testing.T) {
	for _, name := range []string{"fv-remap", "fv-opt", "nested"} {
		a := newAggregator(t, 1, softgpu.Config{VRAMBytes: 128 << 20})
		vm, file := newMapped(t, a, name)
		mapBARs(vm, atDescriptor, 4)
		bindChannel(vm, 2, atDirectory)
		limit := 2*hw.DescBytes + hw.DescLimit
		shadow := func() uint64 { return a.vram.Word(vm.channels[2].descriptor + hw.DescLimit) }
		require.Equal(t, uint64(hw.AddressMax-1), shadow())
		file[limit] = 7
		require.Equal(t, uint64(hw.AddressMax-1), shadow(), "nobody has seen it")
		activate(vm, 2)
		require.Equal(t, uint64(hw.AddressMax-0xff-1+7), shadow())
		file[limit] = 9
		flushTable(vm, atDirectory)
		require.Equal(t, uint64(hw.AddressMax-0xff-1+9), shadow())
	}
}

// Memory that a machine takes back is reached no more, also by a channel that has reached it before.
func TestMemoryIsWithdrawn(t *testing.T) {
	a := newAggregator(t, 1, softgpu.Config{VRAMBytes: 128 << 20})
	vm, _ := newMapped(t, a, "fv-opt")
	ram := make([]byte, 2*hw.SmallPage)
	const at, va = 5 << 30, channelVA + hw.DirectorySpan
	require.NoError(t, vm.Place(at, ram[:hw.SmallPage:hw.SmallPage]))
	require.Error(t, vm.Place(at, ram), "there is memory")
	require.Error(t, vm.Place(hw.AddressMax, ram))
	mapAll(vm)
	put(vm, atDirectory+va/hw.DirectorySpan*hw.EntryBytes, uint64(hw.MakePDE(atSecond+hw.SmallTable, atSecond)))
	put(vm, entryAt(atSecond, va, hw.SmallPage), uint64(hw.MakePTE(hw.TargetSystem, at, false)))
	bindChannel(vm, 0, atDirectory)
	idle := func() uint32 {
		for {
			if s := vm.Read(hw.BAR0, hw.RegState); s&hw.StateBusy == 0 {
				return s
			}
		}
	}
	fetch(vm, hw.OpRelease|4<<16, va&(1<<32-1), va>>32, 77, 0)
	vm.Write(hw.BAR1, hw.ControlPut, 1)
	require.Zero(t, idle()&hw.StateFaulty)
	require.Equal(t, byte(77), ram[0])
	vm.Withdraw(at)
	ram[0] = 0
	put(vm, atIndirect+8, vm.word(atIndirect))
	vm.Write(hw.BAR1, hw.ControlPut, 2)
	require.NotZero(t, idle()&hw.StateFaulty)
	require.Zero(t, ram[0])
}
